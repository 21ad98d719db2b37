"""`Declared`: a dataclass of parameters whose docstring is completed from its annotations.

A parameter is `name: Annotated[type, text] = default`, an attribute that `fit` sets is the same
with `field(init=False)`. Where the type does not say enough, the docstring shows another:
`Annotated[type, "array of shape (n,)", text]`. `__init__` stores its arguments and does nothing
else, as scikit-learn asks; its signature is that of the dataclass, so type checkers know it.
"""

from __future__ import annotations

import inspect
import textwrap
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self, dataclass_transform

    class BaseEstimator:
        """As scikit-learn's, which has no types: a base of type Any would take any argument."""

        alpha: Any  # what some of the models here have
        l1_ratio: Any
        precompute: Any
        classes_: Any

        def get_params(self, deep: bool = True) -> dict[str, Any]: ...  # noqa: D102
        def set_params(self, **params: Any) -> Self: ...  # noqa: D102
        def __sklearn_tags__(self) -> Any: ...

    class RegressorMixin(BaseEstimator):
        """As scikit-learn's."""

    class ClassifierMixin(BaseEstimator):
        """As scikit-learn's."""
else:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin  # noqa: F401

    def dataclass_transform(**_: Any) -> Any:
        """Nothing at run time: only type checkers read it."""
        return lambda function: function


Entry = tuple[Any, str, str]  # type, how the docstring shows it, text


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
class Declared(BaseEstimator):
    """Subclasses are dataclasses with keyword parameters and a completed docstring."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclass(eq=False, repr=False, kw_only=True)(cls)
        entries = documented(cls)
        text, mark, examples = inspect.cleandoc(cls.__doc__ or "").partition("\n\nExamples\n")
        for title, init in (("Parameters", True), ("Attributes", False)):
            lines = [shown(f, *found) for f, found in entries if f.init is init]
            if lines:
                text += "\n\n" + "\n".join([title, "-" * len(title), *lines])
        cls.__doc__ = text + mark + examples + "\n"
        # Signatures show types, not texts.
        types = {f.name: kind for f, (kind, *_) in entries if f.init}
        cls.__init__.__annotations__.update(types)


def documented(cls: Any) -> list[tuple[Field[Any], Entry]]:
    """Fields with a text: positional ones first, then those of the most derived class."""
    entries: dict[str, Entry | None] = {}
    for base in cls.__mro__:
        for name, found in own_entries(base).items():
            entries.setdefault(name, found)
    by_name = {f.name: f for f in fields(cls)}
    pairs = [(by_name[name], entry) for name, entry in entries.items() if entry is not None]
    return sorted(pairs, key=lambda pair: bool(pair[0].kw_only))


@cache
def own_entries(cls: Any) -> dict[str, Entry | None]:
    """What this very class says of its fields; None for one without a text."""
    entries: dict[str, Entry | None] = {}
    if "__dataclass_fields__" in vars(cls):
        for name, hint in inspect.get_annotations(cls, eval_str=True).items():
            texts, entries[name] = getattr(hint, "__metadata__", ()), None
            if texts:
                kind = hint.__origin__
                entries[name] = kind, texts[0] if len(texts) == 2 else kind.__name__, texts[-1]
    return entries


def shown(f: Field[Any], _: Any, kind: str, text: str) -> str:
    """One parameter or attribute, as NumPy's docstrings have it."""
    if f.default is not MISSING:
        kind += ", default=" + (f'"{f.default}"' if isinstance(f.default, str) else repr(f.default))
    return f"{f.name} : {kind}\n" + paragraph(text)


@cache
def paragraph(text: str) -> str:
    """The text of a parameter in lines; most are those of many estimators."""
    return textwrap.indent(textwrap.fill(text, 92), " " * 4)
