"""The six methods, as choices of arguments to `core.iterate`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from cyclade._checks import meant
from cyclade.samplers import FiniteSum, Full, Minibatch, Page, Sampler, Source


@dataclass(frozen=True)
class Method:
    """What a method is, in the terms of `core.iterate`."""

    name: str
    draws: Literal["full", "minibatch", "page"]
    resample: Literal["cycle", "block"]
    one_block: bool

    @property
    def deterministic(self) -> bool:
        """Whether every cycle sees all of f."""
        return self.draws == "full"


METHODS = {
    "pccd": Method("P-CCD", "full", "cycle", one_block=False),
    "sccd": Method("SCCD", "minibatch", "cycle", one_block=False),
    "vrccd": Method("VR-CCD", "page", "block", one_block=False),
    "vroccd": Method("VRO-CCD", "page", "cycle", one_block=False),
    "page": Method("PAGE", "page", "cycle", one_block=True),
    "sgd": Method("SGD", "minibatch", "cycle", one_block=True),
}


def as_method(method: Any, stochastic: bool) -> Method:
    """A `Method` by its name, in any spelling; the default fits the problem."""
    if method is None:
        method = "VRO-CCD" if stochastic else "P-CCD"
    names = ", ".join(known.name for known in METHODS.values())
    if not isinstance(method, str):
        raise TypeError(f"method must be one of {names}, got {type(method).__name__}")
    key = method.lower().replace("-", "").replace("_", "").replace(" ", "")
    if key not in METHODS:
        hint = meant(method, (known.name for known in METHODS.values()))
        raise ValueError(f"method={method!r} is unknown: use one of {names}{hint}")
    return METHODS[key]


def make_sampler(
    method: Method,
    source: Source | None,
    b: int | None,
    b_small: int | None,
    p: float | None,
) -> Sampler:
    """The sampler of `method` over `source` (None: f is not a sum), with the paper's defaults.

    b is n for the recursive methods on a finite sum (as the paper's finite-sum corollaries choose),
    512 on a stream (as in its experiments), and 128 for SGD and SCCD, but at most n.
    """
    given = {"b": b, "b_small": b_small, "p": p}
    if method.draws == "full":
        _refuse(given, method, "it uses every term")
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
        _refuse({"b_small": b_small, "p": p}, method, "it has only one batch size")
        return Minibatch(source, b)
    return Page(source, b, b_small, p)


def _refuse(given: dict[str, Any], method: Method, why: str) -> None:
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name} means nothing to {method.name}: {why}")
