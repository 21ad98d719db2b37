"""What a regulariser is: a value, a prox and a distance to its subdifferential, for one block."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping, Sequence
from typing import ClassVar, Union

from cyclade._arrays import Array, as_block, as_diagonal, require_same_library, weighted_norm
from cyclade._checks import LARGEST_INDEX, listed, non_negative, require, whole_number


class Regulariser(abc.ABC):
    """A proper, closed function r of one block u, with an exact prox; convex unless it says not.

    The block is a NumPy or torch array of any shape; results keep its library, dtype and device,
    and never share memory with it in a way that writing to one could change the other. Lists and
    arrays of integers become float64 arrays. NaN in a block gives NaN (as the value of an
    indicator, +inf), not an error.

    To add a regulariser, subclass this and write `value`, `_prox` and `_distance`; where r is
    finite only on a set, write `_contains`; where it needs a certain shape, write `check`.
    The underscored methods receive blocks, steps and weights already checked: steps and weights
    are Python floats, or arrays of the shape, dtype and library of the block. `value` may call
    `_block` for the same check.

    Examples
    --------
    >>> import numpy as np
    >>> class Linear(Regulariser):
    ...     "r(u) = sum_i u_i."
    ...
    ...     def value(self, u):
    ...         return float(u.sum())
    ...
    ...     def _prox(self, u, t):
    ...         return u - t
    ...
    ...     def _distance(self, u, v, w):
    ...         return float((w * (v + 1.0) ** 2).sum()) ** 0.5
    >>> Linear().prox(np.array([1.0, 2.0]), 0.5)
    array([0.5, 1.5])
    >>> Linear().distance(np.array([1.0, 2.0]), np.array([-1.0, 2.0]))
    3.0
    """

    exact_distance: ClassVar[bool] = True
    """Whether `distance` is the exact distance to -∂r (only adapters may say no)."""

    convex: ClassVar[bool] = True
    """Whether r is convex. If not, ∂r is the limiting subdifferential, and `prox` returns a global
    minimiser. Operators of other libraries do not say, and are taken to be convex."""

    form: ClassVar[str] = ""
    """How `repr` shows the arguments, such as ``"{lam:g}"``."""

    @abc.abstractmethod
    def value(self, u: Array) -> float:
        """Return r(u), which is +inf outside the domain."""

    def prox(self, u: Array, t: float | Array) -> Array:
        """Return argmin_z r(z) + 1/2 sum_i (z_i - u_i)^2 / t_i.

        `t` is a positive number, or an array of positive numbers shaped like `u` (a diagonal).
        """
        u = as_block(u)
        return self._prox(u, as_diagonal(t, u, "the prox step t"))

    def distance(self, u: Array, v: Array, w: float | Array = 1.0) -> float:
        """Return min over s in ∂r(u) of sqrt(sum_i w_i (v_i + s_i)^2).

        This is the w-weighted distance from `v` to -∂r(u); zero certifies that u is stationary
        when v is the gradient of the smooth part. It is +inf where u is outside the domain.
        """
        u, v = self._block(u), as_block(v, "v")
        require_same_library("v", v, u)
        if v.shape != u.shape:
            raise ValueError(f"v must have the shape {tuple(u.shape)} of u, got {tuple(v.shape)}")
        weight = as_diagonal(w, u, "the weight w")
        return self._distance(u, v, weight) if self._contains(u) else math.inf

    def check(self, shape: tuple[int, ...], where: str = "reg") -> None:
        """Raise ValueError, naming `where`, if a block of this shape is not accepted."""
        return None

    def _block(self, u: Array) -> Array:
        """Return u as an array, after making sure that r accepts its shape."""
        u = as_block(u)
        self.check(tuple(u.shape), "u")
        return u

    def _contains(self, u: Array) -> bool:
        """Say whether u is in the domain of r, up to rounding."""
        return True

    @abc.abstractmethod
    def _prox(self, u: Array, t: float | Array) -> Array: ...

    @abc.abstractmethod
    def _distance(self, u: Array, v: Array, w: float | Array) -> float: ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.form.format(**vars(self))})"


class Weighted(Regulariser):
    """A regulariser with a weight lam ≥ 0."""

    form = "{lam:g}"

    def __init__(self, lam: float) -> None:
        self.lam = non_negative(f"{type(self).__name__}: lam", lam)


class Indicator(Regulariser):
    """The indicator of a set: 0 inside, +inf outside. Subclasses write `_contains`."""

    def value(self, u: Array) -> float:
        """Return 0 in the set (up to rounding), +inf outside."""
        return 0.0 if self._contains(self._block(u)) else math.inf


class Zero(Regulariser):
    """No regularisation, r(u) = 0; its prox is the identity.

    Examples
    --------
    >>> import numpy as np
    >>> Zero().prox(np.array([1.0, -2.0]), 0.5)
    array([ 1., -2.])
    """

    def value(self, u: Array) -> float:
        """Return 0."""
        self._block(u)
        return 0.0

    def _prox(self, u: Array, t: float | Array) -> Array:
        return u + 0.0  # a copy, by the one spelling that both libraries share

    def _distance(self, u: Array, v: Array, w: float | Array) -> float:
        return weighted_norm(v, w)


RegulariserLike = Union[
    None, Regulariser, "PerBlock", Sequence[Regulariser | None], Mapping[str, Regulariser | None]
]

_ACCEPTED = (
    "None, one Regulariser for all blocks, such as L1(0.1), a sequence with one Regulariser or "
    "None per block, or a dict from block names to Regularisers"
)


class PerBlock:
    """The block-separable r(x) = sum_j r_j(x^j).

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.regularisers import L1, NonNegative
    >>> r = PerBlock([L1(1.0), NonNegative()])
    >>> r.prox(1, np.array([-1.0, 2.0]), 0.5)
    array([0., 2.])
    >>> r
    PerBlock([L1(1), NonNegative()])
    """

    __slots__ = ("regs",)

    def __init__(self, regs: Sequence[Regulariser]) -> None:
        listing = listed("regs", regs, "a sequence of Regularisers, one per block")
        self.regs = tuple(_require_regulariser(reg, f"regs[{j}]") for j, reg in enumerate(listing))

    def __len__(self) -> int:
        return len(self.regs)

    def value(self, j: int, u: Array) -> float:
        """Return r_j(u)."""
        return self._at(j).value(u)

    def prox(self, j: int, u: Array, t: float | Array) -> Array:
        """Return the prox of r_j at u with step t."""
        return self._at(j).prox(u, t)

    def distance(self, j: int, u: Array, v: Array, w: float | Array = 1.0) -> float:
        """Return the w-weighted distance from v to -∂r_j(u)."""
        return self._at(j).distance(u, v, w)

    def _at(self, j: int) -> Regulariser:
        return self.regs[whole_number("j", j, 0, len(self.regs) - 1)]

    @property
    def exact_distance(self) -> bool:
        """Whether `distance` is exact for every block."""
        return all(reg.exact_distance for reg in self.regs)

    @property
    def convex(self) -> bool:
        """Whether every r_j is convex."""
        return all(reg.convex for reg in self.regs)

    def __repr__(self) -> str:
        return f"PerBlock([{', '.join(map(repr, self.regs))}])"


def per_block(
    reg: RegulariserLike,
    m: int,
    names: Sequence[str] | None = None,
    shapes: Sequence[tuple[int, ...]] | None = None,
) -> PerBlock:
    """Return the regularisers of m blocks.

    `reg` is None (no regularisation), one Regulariser for every block, a sequence of m (None for
    none), or a dict from block names to Regularisers (missing names mean none; needs `names`).
    With `shapes`, every regulariser is checked against the shape of its block.

    Examples
    --------
    >>> from cyclade.regularisers import L1
    >>> per_block({"bias": None, "weight": L1(0.1)}, 2, names=["weight", "bias"])
    PerBlock([L1(0.1), Zero()])
    """
    m = whole_number("m", m, 1, LARGEST_INDEX)
    _require_length("names", names, m)
    _require_length("shapes", shapes, m)
    labels = [f"reg[{j}]" if names is None else f"reg[{names[j]!r}]" for j in range(m)]
    chosen: Sequence[Regulariser | None]
    given: object = reg  # a text is a sequence too, of no regularisers
    if reg is None or isinstance(reg, Regulariser):
        chosen = [reg] * m
        labels = [f"reg (for block {j})" for j in range(m)]
    elif isinstance(reg, PerBlock):
        chosen = reg.regs
    elif isinstance(reg, Mapping):
        chosen = _by_name(reg, names)
    elif isinstance(reg, Sequence) and not isinstance(given, (str, bytes)):
        chosen = reg
    else:
        raise TypeError(
            f"reg must be {_ACCEPTED}, got {type(reg).__name__}{_hint_for_operators(reg)}"
        )
    if len(chosen) != m:
        raise ValueError(f"reg has {len(chosen)} entries for {m} blocks; give one per block")
    regs = []
    for label, entry in zip(labels, chosen, strict=True):
        regs.append(Zero() if entry is None else _require_regulariser(entry, label))
    if shapes is not None:
        for j, (one, shape, label) in enumerate(zip(regs, shapes, labels, strict=True)):
            sizes = listed(f"shapes[{j}]", shape, "the shape of a block")
            one.check(tuple(whole_number(f"shapes[{j}]", size) for size in sizes), label)
    return PerBlock(regs)


def _require_length(name: str, given: Sequence[object] | None, m: int) -> None:
    accepted = f"None or a sequence with one entry for each of the {m} blocks"
    if given is not None:
        require(len(listed(name, given, accepted)) == m, name, given, accepted)


def _by_name(
    reg: Mapping[str, Regulariser | None], names: Sequence[str] | None
) -> list[Regulariser | None]:
    if names is None:
        raise ValueError(
            "reg is a dict, but the blocks have no names; give a sequence, one entry per block"
        )
    unknown = [name for name in reg if name not in names]
    if unknown:
        raise ValueError(f"reg names unknown blocks {unknown!r}; the blocks are {list(names)!r}")
    return [reg.get(name) for name in names]


def _hint_for_operators(candidate: object) -> str:
    if type(candidate).__module__.startswith("cyclade.linear."):
        return " of cyclade.linear; take one of cyclade.regularisers"
    return "; wrap a PyProximal operator as PyProximal(op)" if hasattr(candidate, "prox") else ""


def _require_regulariser(candidate: object, label: str) -> Regulariser:
    if not isinstance(candidate, Regulariser):
        raise TypeError(
            f"{label} must be a Regulariser, got {type(candidate).__name__}"
            f"{_hint_for_operators(candidate)}"
        )
    return candidate
