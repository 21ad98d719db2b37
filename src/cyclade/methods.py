"""The six methods, as choices of arguments to `core.iterate`, with their options."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, NoReturn

from cyclade._checks import meant
from cyclade.sampling.orders import Order, OrderName
from cyclade.sampling.samplers import FiniteSum, Full, Minibatch, Page, Sampler, Source, batch_size
from cyclade.steps import Eta
from cyclade.steps.searched import small_batch

MethodName = Literal["P-CCD", "SCCD", "VR-CCD", "VRO-CCD", "PAGE", "SGD"]


@dataclass(frozen=True, kw_only=True)
class Method:
    """What a method is, in the terms of `core.iterate`, and the options that it takes.

    Each may be given to `minimize` as ``method=``, in place of its name and of the arguments of the
    same names; `steps` is what `minimize` calls `L`.

    Example
    -------
    >>> VROCCD(b=512, b_small=70, order="shuffled")
    VROCCD(order='shuffled', steps=None, eta=None, b=512, b_small=70, p=None)
    """

    name: ClassVar[str]
    draws: ClassVar[Literal["full", "minibatch", "page"]]
    resample: ClassVar[Literal["cycle", "block"]] = "cycle"
    one_block: ClassVar[bool] = False

    order: OrderName | Sequence[int] | list[str] | tuple[str, ...] | Order = "forward"
    steps: Any = None
    eta: Eta | Literal["theory"] | None = None

    @property
    def deterministic(self) -> bool:
        """Whether every cycle sees all of f."""
        return self.draws == "full"

    @property
    def accelerated(self) -> bool:
        """Whether cycles are extrapolated."""
        return bool(vars(self).get("accelerate"))

    @property
    def batches(self) -> dict[str, Any]:
        """b, b' and p; None for what it does not take."""
        return {name: vars(self).get(name) for name in ("b", "b_small", "p")}


@dataclass(frozen=True, kw_only=True)
class PCCD(Method):
    """Algorithm 1: every cycle sees all of f.

    `accelerate=None` extrapolates cycles where L is searched and the order is forward or backward.
    """

    name, draws = "P-CCD", "full"

    accelerate: bool | None = None


@dataclass(frozen=True, kw_only=True)
class SCCD(Method):
    """A minibatch for every cycle."""

    name, draws = "SCCD", "minibatch"

    b: int | None = None


@dataclass(frozen=True, kw_only=True)
class SGD(SCCD):
    """A minibatch for every step of all blocks at once."""

    name, one_block = "SGD", True


@dataclass(frozen=True, kw_only=True)
class VROCCD(Method):
    """Algorithm 2 with one sample for all blocks of a cycle."""

    name, draws = "VRO-CCD", "page"

    b: int | None = None
    b_small: int | None = None
    p: float | None = None


@dataclass(frozen=True, kw_only=True)
class VRCCD(VROCCD):
    """Algorithm 2 with a sample of its own for every block."""

    name, resample = "VR-CCD", "block"


@dataclass(frozen=True, kw_only=True)
class PAGE(VROCCD):
    """Algorithm 2 with all of x as one block."""

    name, one_block = "PAGE", True


METHODS: dict[str, type[Method]] = {
    one.__name__.lower(): one for one in (PCCD, SCCD, VRCCD, VROCCD, PAGE, SGD)
}


def as_method(method: Any, stochastic: bool, **given: Any) -> Method:
    """A `Method` by its name, in any spelling, with the options `given`; or one as it is."""
    given = {name: value for name, value in given.items() if value is not None}
    if isinstance(method, Method):
        for name in given:
            raise ValueError(f"{name} is an option of the method given as an object: set it there")
        return method
    if method is None:
        method = "VRO-CCD" if stochastic else "P-CCD"
    names = ", ".join(known.name for known in METHODS.values())
    if not isinstance(method, str):
        raise TypeError(
            f"method must be one of {names} or an object of cyclade.methods, "
            f"got {type(method).__name__}"
        )
    key = method.lower().replace("-", "").replace("_", "").replace(" ", "")
    if key not in METHODS:
        hint = meant(method, (known.name for known in METHODS.values()))
        raise ValueError(f"method={method!r} is unknown: use one of {names}{hint}")
    chosen = METHODS[key]
    if not issubclass(chosen, PCCD) and given.get("accelerate") is False:
        del given["accelerate"]
    if "L" in given:
        given["steps"] = given.pop("L")
    for name in given:
        if name not in {field.name for field in fields(chosen)}:
            _refuse(name, chosen)
    return chosen(**given)


def settled(method: Method, block_min: Any, returns: Any) -> Method:
    """The method with `accelerate` decided: exact blocks and iterates of the paper go without."""
    if not isinstance(method, PCCD) or method.accelerate is not None:
        return method
    alike = isinstance(method.order, str) and method.order in ("forward", "backward")
    searched = method.steps is None and not isinstance(method.eta, str)
    of_paper = isinstance(returns, str) and returns == "paper"
    return replace(method, accelerate=alike and searched and block_min is None and not of_paper)


def searches(method: Method) -> bool:
    """Whether steps are searched on the samples: the default of methods that sample."""
    if method.deterministic or isinstance(method.eta, str):
        return False
    return method.steps is None or (isinstance(method.steps, str) and method.steps == "search")


def make_sampler(
    method: Method,
    source: Source | None,
    b: int | None,
    b_small: int | None,
    p: float | None,
    searched: bool = False,
) -> Sampler:
    """The sampler of `method` over `source` (None: f is not a sum), with the paper's defaults.

    b is n for the recursive methods on a finite sum, 512 on a stream, and 128 for SGD and SCCD.
    """
    for name, value in {"b": b, "b_small": b_small, "p": p}.items():
        if value is not None and name not in {field.name for field in fields(method)}:
            _refuse(name, type(method))
    if method.draws == "full":
        if source is not None and not math.isfinite(source.n):
            raise ValueError("method='P-CCD' needs a finite f: for a stream use VRO-CCD or VR-CCD")
        return Full(1 if source is None else int(source.n))
    if source is None:
        raise ValueError(
            f"method={method.name!r} needs a sum: give n= and fun(x, idx), or stream= and "
            "fun(x, batch)"
        )
    if b is None:
        default: float = 128
        if method.draws == "page":
            default = source.n if isinstance(source, FiniteSum) else 512
        b = int(min(default, source.n))
    if method.draws == "minibatch":
        return Minibatch(source, b)
    if b_small is None and searched and isinstance(source, FiniteSum):
        b_small = small_batch(batch_size("b", b, source.n))
    return Page(source, b, b_small, p)


def _refuse(name: str, method: type[Method]) -> NoReturn:
    if name == "accelerate":
        raise ValueError(
            f"accelerate needs a method that sees all of f: use method='P-CCD', not {method.name}"
        )
    full = method.draws == "full"
    why = "it uses every term" if full else "it has only one batch size"
    raise ValueError(f"{name} means nothing to {method.name}: {why}")
