"""Calls to try with good and bad arguments, and what their outcome must be.

A `Call` is a function with good values for each argument. `try_call` draws every argument from its
good values or, where it is to be broken, from a common pool of odd ones. The outcome must be a
result, or a ValueError or TypeError that names an argument in words of our own.
"""

from __future__ import annotations

import inspect
import math
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

# There are many calls, so each gets an eighth of what the profile says: 12, or 250 in `make fuzz`.
fuzzed = settings(
    max_examples=settings.default.max_examples // 8,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


class Fresh:
    """A value that is made anew for every call, because using it changes it."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


class Passed(Exception):
    """Raised by functions given to the call: they were called for long, or failed themselves."""


ODD: list[Any] = [
    None, True, False, np.True_, 0, -1, 3, 1.5, -0.5, 10**30, -(10**30), 10**400, 5e-324, 1e308,
    math.nan, math.inf, -math.inf, 1j, "", "a", "0.5", b"a", [], [[1], [1, 2]], [None], ["a"],
    [math.nan, 1.0], [-1.0, 2.0], (), (1, 2), {}, {"a": 1}, {1, 2}, range(3), slice(2), object(),
    np.float32(2), np.int8(100), np.datetime64("2020-01-01"), np.array(2.0), np.array(3),
    np.zeros(0), np.ones(3), np.ones((2, 3, 1)), np.full(3, np.nan), np.ones(3, dtype=np.float16),
    np.ones(3, dtype=np.longdouble), np.ones(3, dtype=bool), np.ones(3, dtype=np.int64),
    np.ones(3, dtype=complex), np.array(["a"]), np.array([None, 1], dtype=object),
    np.array(None, dtype=object), np.random.default_rng(0), torch.ones(3), torch.tensor(2.0),
    torch.ones(3, dtype=torch.bfloat16), torch.ones(3, dtype=torch.int64),
    torch.ones(3, dtype=torch.complex64), torch.ones(3, requires_grad=True), torch.zeros(0),
    torch.empty(3, device="meta"), lambda *_: None, lambda *_: math.nan, Fresh(lambda: iter([1.0])),
    Fresh(lambda: (x for x in ())),
]  # fmt: skip


@dataclass
class Call:
    """A function, good values for its arguments, and further names that its errors may use."""

    name: str
    function: Callable[..., Any]
    good: dict[str, list[Any]]
    also: tuple[str, ...] = field(default=())

    def names(self) -> set[str]:
        """What an error may name: the arguments, those of the object's class, and more."""
        names = set(self.good) | set(self.also)
        owner = getattr(self.function, "__self__", None)
        for source in (self.function, owner if inspect.isclass(owner) else type(owner)):
            try:
                names |= set(inspect.signature(source).parameters)
            except (TypeError, ValueError):
                continue
        return names - {"self", "args", "kwargs"} | ({"args"} & set(self.good))


OBSCURE = re.compile(
    "unsupported operand|not supported between|object is not|could not convert|only length-1|"
    "only 0-dimensional|truth value|inhomogeneous|has no attribute|has no len|cannot be interpreted"
    "|can't convert|cannot convert|must be real number|ufunc|broadcast|zero-size|too large to"
    "|positional argument|unhashable|not subscriptable|invalid literal|did not converge|dtype\\('"
)
"""How Python, NumPy and torch complain, but we should not."""


def plain(value: Any) -> Any:
    return value.make() if isinstance(value, Fresh) else value


def arguments(call: Call) -> st.SearchStrategy[dict[str, Any]]:
    """All good; one odd; or any of them odd."""
    names = sorted(call.good)
    subsets = st.one_of(
        st.sampled_from(names).map(lambda name: {name}), st.sets(st.sampled_from(names))
    )

    def values(odd: set[str]) -> st.SearchStrategy[dict[str, Any]]:
        pools = {name: ODD if name in odd else call.good[name] for name in names}
        return st.fixed_dictionaries({name: st.sampled_from(pools[name]) for name in names})

    return subsets.flatmap(values)


def try_every_odd_value(call: Call, name: str) -> None:
    """Every odd value of one argument, the others good: nothing is left to chance."""
    for odd in ODD:
        try_call(call, {**first_good(call), name: odd})


def try_call(call: Call, given: dict[str, Any]) -> str:
    """The outcome in a word; AssertionError if it is neither a result nor a clear error."""
    error = raised(call, given)
    if error is None:
        return "result"
    shown = f"{call.name}: {type(error).__name__}: {error}"
    assert isinstance(error, ValueError | TypeError), shown
    assert any(re.search(rf"(?<![\w'’]){name}(?![\w'’])", str(error)) for name in call.names()), (
        shown
    )
    assert not OBSCURE.search(str(error)), shown
    return "error"


def raised(call: Call, given: dict[str, Any]) -> Exception | None:
    """What the call raises, if anything."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # overflow at the edge of the floats is a result
            call.function(**{name: plain(value) for name, value in given.items()})
    except Passed:
        return None
    except Exception as error:
        return error
    return None


def first_good(call: Call) -> dict[str, Any]:
    """The first of the good values of every argument; together they must give a result."""
    return {name: values[0] for name, values in call.good.items()}
