"""Checks of arguments: a failure names the argument, what is accepted and what was given.

Each check takes the name of the argument and its value, and returns the value as the plain type
that it stands for (float, int, Generator, float64 array), so that a check reads
``self.p = probability("p", p)``. A number may be Python's, NumPy's, or an array or tensor of
dimension zero; True and False are not numbers. What is not accepted raises ValueError; only
`function`, which asks for a kind of object rather than a value, raises TypeError.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

_short = reprlib.Repr()
_short.maxother = 200  # arrays are shown whole or cut in the middle

LARGEST_INDEX = int(np.iinfo(np.int64).max)
"""What NumPy can count up to."""


def shown(value: object) -> str:
    """`value` as an error message shows it: its repr, cut in the middle where it is long."""
    try:
        return _short.repr(value)
    except Exception:  # an error about a strange value must not be another error
        return f"a {type(value).__name__}"


def require(ok: bool, name: str, value: object, accepted: str) -> None:
    """Raise ``ValueError`` unless ``ok``.

    >>> require(False, "p", 2, "a number in (0, 1]")
    Traceback (most recent call last):
    ValueError: p must be a number in (0, 1], got 2
    """
    if not ok:
        raise ValueError(f"{name} must be {accepted}, got {shown(value)}")


def each(check: Callable[[str, Any], Any], **values: Any) -> None:
    """Apply one check to several arguments.

    >>> each(positive, L_hat=1.0, mu=0.0)
    Traceback (most recent call last):
    ValueError: mu must be a finite number > 0, got 0.0
    """
    for name, value in values.items():
        check(name, value)


def finite_number(name: str, value: Any) -> float:
    """`value` as a float, if it is a finite real number."""
    return _number(name, value, math.isfinite, "a finite number")


def positive(name: str, value: Any) -> float:
    """`value` as a float, if it is finite and > 0."""
    return _number(name, value, lambda x: 0 < x < math.inf, "a finite number > 0")


def non_negative(name: str, value: Any) -> float:
    """`value` as a float, if it is finite and ≥ 0."""
    return _number(name, value, lambda x: 0 <= x < math.inf, "a finite number >= 0")


def above(name: str, value: Any, bound: float) -> float:
    """`value` as a float, if it is finite and > `bound`."""
    return _number(name, value, lambda x: bound < x < math.inf, f"a finite number > {bound:g}")


def probability(name: str, value: Any) -> float:
    """`value` as a float, if it is in (0, 1]."""
    return _number(name, value, lambda x: 0 < x <= 1, "a number in (0, 1]")


def whole_number(name: str, value: Any, least: int = 0, most: float = math.inf) -> int:
    """`value` as an int, if it is an integer with `least` ≤ value ≤ `most`.

    >>> whole_number("j", np.int64(2), 1, 3)
    2
    >>> whole_number("j", 2.5, 1, 3)
    Traceback (most recent call last):
    ValueError: j must be an integer between 1 and 3, got 2.5
    """
    limits = f">= {least}" if most == math.inf else f"between {least} and {most}"
    plain = _plain(value)
    ok = isinstance(plain, Integral) and least <= int(plain) <= most
    require(ok, name, value, f"an integer {limits}")
    return int(plain)


def choice(name: str, value: Any, names: Sequence[str]) -> str:
    """`value`, if it is one of `names`."""
    require(isinstance(value, str) and value in names, name, value, f"one of {', '.join(names)}")
    return str(value)


def generator(name: str, seed: Any) -> np.random.Generator:
    """The random generator that `seed` stands for, as `numpy.random.default_rng` reads it."""
    accepted = "None, an integer >= 0, a sequence of them or a numpy.random.Generator"
    require(not isinstance(seed, bool | np.bool_), name, seed, accepted)
    try:
        return np.random.default_rng(seed)
    except Exception:  # the kinds of error are NumPy's business
        raise ValueError(f"{name} must be {accepted}, got {shown(seed)}") from None


def function(name: str, value: Any, form: str = "callable") -> Callable[..., Any]:
    """`value`, if it is callable; `form` says how it is called."""
    if not callable(value):
        raise TypeError(f"{name} must be {form}, got {shown(value)}")
    return value  # type: ignore[no-any-return]


def real_array(name: str, value: Any, accepted: str = "an array of real numbers") -> Any:
    """`value` (an array, a tensor, nested lists or a number) as a float64 NumPy array.

    >>> real_array("A", [[1, 2], [3]])
    Traceback (most recent call last):
    ValueError: A must be an array of real numbers, got [[1, 2], [3]]
    """
    try:
        array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
        real = array.dtype.kind in "fiu"
    except Exception:  # ragged lists, tensors that NumPy cannot read
        real = False
    require(real, name, value, accepted)
    return array.astype(np.float64, copy=False)


def sampling(n: Any, b: Any, b_small: Any = None, p: Any = None) -> None:
    """Check 1 ≤ b' ≤ b ≤ n, with n an integer or ``math.inf``, and p in (0, 1]."""
    size = _plain(n)
    infinite = isinstance(size, float) and size == math.inf
    ok = infinite or (isinstance(size, Integral) and int(size) >= 1)
    require(ok, "n", n, "an integer >= 1 or math.inf")
    large = whole_number("b", b, 1)
    require(infinite or large <= int(size), "b", b, f"at most n={size}")
    if b_small is not None:
        small = whole_number("b_small", b_small, 1)
        require(small <= large, "b_small", b_small, f"at most b={large}")
    if p is not None:
        probability("p", p)


def is_number(value: Any) -> bool:
    """Whether `value` is a real number, of Python, of NumPy or of dimension zero."""
    return isinstance(_plain(value), Real)


def as_float(value: Any) -> float:
    """The float that `value` stands for: NaN if it is no number, ±inf beyond the floats.

    >>> as_float(np.float32(0.5)), as_float("0.5"), as_float(-(10**400))
    (0.5, nan, -inf)
    """
    plain = _plain(value)
    if not isinstance(plain, Real):
        return math.nan
    try:
        return float(plain)
    except OverflowError:
        return math.inf if plain == abs(plain) else -math.inf


def _number(name: str, value: Any, accepts: Callable[[float], bool], accepted: str) -> float:
    number = as_float(value)
    require(accepts(number), name, value, accepted)
    return number


def _plain(value: Any) -> Any:
    """The scalar in an array or tensor of dimension zero; None for True and False."""
    if isinstance(value, float | int) and not isinstance(value, bool):
        return value
    if getattr(value, "shape", None) == ():
        try:
            value = value.item()
        except Exception:  # a tensor that holds no data
            return None
    return None if isinstance(value, bool | np.bool_) else value
