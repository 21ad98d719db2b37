"""Validation shared by the theory: a failure names the argument, its value and what is accepted."""

from __future__ import annotations

import math
import reprlib
from numbers import Integral, Real

_short = reprlib.Repr()
_short.maxother = 200  # arrays are shown whole or cut in the middle


def require(ok: bool, name: str, value: object, accepted: str) -> None:
    """Raise ``ValueError`` unless ``ok``.

    >>> require(False, "p", 2, "a number in (0, 1]")
    Traceback (most recent call last):
    ValueError: p must be a number in (0, 1], got 2
    """
    if not ok:
        raise ValueError(f"{name} must be {accepted}, got {_short.repr(value)}")


def _finite(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)


def _whole(value: object, low: int, high: float) -> bool:
    return not isinstance(value, bool) and isinstance(value, Integral) and low <= int(value) <= high


def positive(**values: float) -> None:
    """Each value is a finite number > 0."""
    for name, value in values.items():
        require(_finite(value) and value > 0, name, value, "a finite number > 0")


def non_negative(**values: float) -> None:
    """Each value is a finite number ≥ 0."""
    for name, value in values.items():
        require(_finite(value) and value >= 0, name, value, "a finite number >= 0")


def finite(**values: float) -> None:
    """Each value is a finite number."""
    for name, value in values.items():
        require(_finite(value), name, value, "a finite number")


def integer(name: str, value: object, low: int, high: float = math.inf) -> None:
    """``value`` is an integer with ``low`` ≤ value ≤ ``high``."""
    limits = f">= {low}" if high == math.inf else f"between {low} and {high}"
    require(_whole(value, low, high), name, value, f"an integer {limits}")


def sampling(n: float, b: int, b_small: int | None = None, p: float | None = None) -> None:
    """Check 1 ≤ b' ≤ b ≤ n, with n an integer or ``math.inf``, and p in (0, 1]."""
    require(n == math.inf or _whole(n, 1, math.inf), "n", n, "an integer >= 1 or math.inf")
    integer("b", b, 1)
    require(b <= n, "b", b, f"at most n={n}")
    if b_small is not None:
        integer("b_small", b_small, 1)
        require(b_small <= b, "b_small", b_small, f"at most b={b}")
    if p is not None:
        require(_finite(p) and 0 < p <= 1, "p", p, "a number in (0, 1]")
