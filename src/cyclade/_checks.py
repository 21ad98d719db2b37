"""Checks of arguments: a failure names the argument, what is accepted and what was given.

Each check takes the name of the argument and its value, and returns the value as the plain type
that it stands for (float, int, Generator, float64 array), so that a check reads
``self.p = probability("p", p)``. A number may be Python's, NumPy's, or an array or tensor of
dimension zero; True and False are not numbers. What is not accepted raises ValueError; only
`function` and `takes`, which ask for a kind of object rather than a value, raise TypeError.
"""

from __future__ import annotations

import inspect
import math
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np

Plain = TypeVar("Plain")

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
    """Raise ``ValueError`` unless ``ok``."""
    if not ok:
        raise ValueError(f"{name} must be {accepted}, got {shown(value)}")


def each(check: Callable[[str, Any], Plain], **values: Any) -> list[Plain]:
    """Apply one check to several arguments, and return what it returns for each."""
    return [check(name, value) for name, value in values.items()]


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


def fraction(name: str, value: Any) -> float:
    """`value` as a float, if it lies between 0 and 1."""
    return _number(name, value, lambda x: 0 <= x <= 1, "between 0 and 1")


def whole_number(name: str, value: Any, least: float = 0, most: float = math.inf) -> int:
    """`value` as an int, if it is one with `least` ≤ value ≤ `most`, and within the floats."""
    if type(value) is int and least <= value <= min(most, LARGEST_INDEX):
        return value  # the ordinary case, in the innermost loop
    plain = _plain(value)
    whole = isinstance(plain, Integral)
    if whole and least <= int(plain) <= min(most, LARGEST_INDEX):
        return int(plain)
    limits = f" >= {least}" if least > -math.inf else ""
    if most < LARGEST_INDEX or (whole and int(plain) > most):  # a limit far away explains nothing
        limits = f" between {least} and {most}"
    require(whole and least <= int(plain) <= most, name, value, f"an integer{limits}")
    require(math.isfinite(as_float(plain)), name, value, f"an integer{limits} within the floats")
    return int(plain)


def choice(name: str, value: Any, names: Sequence[str]) -> str:
    """`value`, if it is one of `names`."""
    if not isinstance(value, str) or value not in names:
        accepted = f"one of {', '.join(names)}"
        raise ValueError(f"{name} must be {accepted}, got {shown(value)}{meant(value, names)}")
    return value


def meant(value: Any, names: Iterable[str]) -> str:
    """The end of a message about a name that is unknown: which one may have been meant."""
    by_key = {name.lower(): name for name in names}
    near = get_close_matches(str(value).lower(), by_key, n=1)
    return f" (did you mean {by_key[near[0]]!r}?)" if near else ""


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


def takes(name: str, call: Callable[..., Any], *given: str) -> None:
    """TypeError if `call` cannot be called with as many arguments as `given` names."""
    try:
        inspect.signature(call).bind(*given)
    except ValueError:  # a compiled function that does not say what it takes
        return
    except TypeError as error:
        how = f"{name} is called as {name}({', '.join(given)})"
        raise TypeError(f"{how}, which it does not take: {error}") from None


def listed(name: str, value: Any, accepted: str) -> list[Any]:
    """The entries of `value`, if it is a sequence (of any kind) or an array of them."""
    with suppress(TypeError):
        if not isinstance(value, str | bytes | Mapping | Set | Iterator):
            return list(value)
    raise ValueError(f"{name} must be {accepted}, got {shown(value)}")


def unmasked(name: str, value: Any) -> Any:
    """`value`, if it is no masked array, whose mask would be lost."""
    if isinstance(value, np.ma.MaskedArray):
        raise ValueError(
            f"{name} must be a plain array, such as that of filled(...), got a masked one"
        )
    return value


def real_array(name: str, value: Any, accepted: str = "an array of real numbers") -> Any:
    """`value` (an array, a tensor, nested lists or a number) as a float64 NumPy array."""
    try:
        array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
        real = array.dtype.kind in "fiu"
    except Exception:  # ragged lists, tensors that NumPy cannot read
        real = False
    require(real, name, value, accepted)
    return array.astype(np.float64, copy=False)


def number_of_terms(name: str, value: Any) -> float:
    """`value`, if it is an integer ≥ 1 (as an int) or infinity."""
    plain = _plain(value)
    if isinstance(plain, float) and plain == math.inf:
        return math.inf
    ok = isinstance(plain, Integral) and int(plain) >= 1
    require(ok, name, value, "an integer >= 1 or math.inf")
    return whole_number(name, value, 1)


def sampling(n: Any, b: Any, b_small: Any = 1, p: Any = 1.0) -> tuple[float, int, int, float]:
    """(n, b, b', p), if 1 ≤ b' ≤ b ≤ n, with n an integer or ``math.inf``, and p in (0, 1]."""
    terms = number_of_terms("n", n)
    large, small = whole_number("b", b, 1), whole_number("b_small", b_small, 1)
    require(large <= terms, "b", b, f"at most n={terms}")
    require(small <= large, "b_small", b_small, f"at most b={large}")
    return terms, large, small, probability("p", p)


def is_number(value: Any) -> bool:
    """Whether `value` is a real number, of Python, of NumPy or of dimension zero."""
    return isinstance(_plain(value), Real)


def as_float(value: Any) -> float:
    """The float that `value` stands for: NaN if it is no number, ±inf beyond the floats."""
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
