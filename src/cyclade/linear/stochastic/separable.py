"""A penalty of `cyclade.linear.penalties` by the blocks of `Features`, as `cyclade.core` takes it.

The intercept is free. A penalty on groups needs blocks that hold whole groups.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from cyclade._arrays import Array
from cyclade.linear.penalties import BlockPenalty, Slope
from cyclade.linear.stochastic.oracle import Features


class Separable(Protocol):
    """r by blocks."""

    def prox(self, j: int, u: Array, t: Array | float) -> Array:
        """The minimiser over v of r^j(v) + ½ Σ_i (v_i − u_i)² / t_i."""

    def value(self, j: int, u: Array) -> float:
        """r^j(u)."""

    def distance(self, j: int, u: Array, g: Array) -> float:
        """The distance from −g to ∂r^j(u)."""


class Literal:
    """A scalar penalty, asked coordinate by coordinate in plain Python.

    Example
    -------
    >>> import numpy as np
    >>> from cyclade.linear.penalties import L1
    >>> r = Literal(L1(1.0), Features(3, blocks=1, fit_intercept=True, joined=True))
    >>> r.prox(0, np.array([3.0, -0.5, -2.0, 9.0]), 1.0)  # the intercept stays
    array([ 2., 0., -1., 9.])
    """

    def __init__(self, penalty: Any, features: Features) -> None:
        self.penalty = penalty
        self.features = [_penalised(s, features) for s in features.sets()]

    def prox(self, j: int, u: Array, t: Array | float) -> Array:
        """One coordinate after another."""
        out, steps = u.copy(), np.broadcast_to(t, u.shape)
        for i, feature in enumerate(self.features[j].tolist()):
            out[i] = self.penalty.prox(float(u[i]), float(steps[i]), feature)
        return out

    def value(self, j: int, u: Array) -> float:
        """Their sum."""
        pairs = zip(u.tolist(), self.features[j].tolist(), strict=False)  # the intercept is left
        return float(sum(self.penalty.value(ui, feature) for ui, feature in pairs))

    def distance(self, j: int, u: Array, g: Array) -> float:
        """The root of the sum of their squares; the intercept's is |g|."""
        own = self.features[j].tolist()
        triples = zip(u.tolist(), g.tolist(), own, strict=False)
        squares = sum(self.penalty.distance(ui, gi, f) ** 2 for ui, gi, f in triples)
        return math.sqrt(squares + float((g[len(own) :] ** 2).sum()))


class Fast(Literal):
    """`Literal` with a compiled prox."""

    def __init__(self, penalty: Any, features: Features) -> None:
        super().__init__(penalty, features)
        from cyclade.linear.kernels.proxes import of

        self._proxes, self._parameters = of(penalty, features.p)

    def prox(self, j: int, u: Array, t: Array | float) -> Array:
        """One coordinate after another, compiled."""
        out = u.copy()
        steps = np.full(1, t, u.dtype) if isinstance(t, float) else t
        self._proxes(self._parameters, self.features[j], u, steps, out)
        return out


class Grouped:
    """A penalty on groups. Within a group the step must be one number.

    Example
    -------
    >>> import numpy as np
    >>> from cyclade.linear.penalties import GroupL2
    >>> r = Grouped(GroupL2(1.0, groups=2, weights=[5.0, 5.0]), Features(4, blocks=2))
    >>> r.prox(0, np.array([6.0, 8.0]), 1.0)
    array([3., 4.])
    """

    def __init__(self, penalty: BlockPenalty, features: Features) -> None:
        self.penalty = penalty
        order, starts = penalty.partition(features.p)
        group_of = np.empty(features.p, dtype=np.int64)
        group_of[order] = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        place = np.empty(features.p, dtype=np.int64)  # within its group
        place[order] = np.arange(features.p) - np.repeat(starts[:-1], np.diff(starts))
        self.groups: list[list[tuple[int, Array]]] = []  # of each block: (k, where it lies)
        self.free: list[Array] = []
        for own in features.sets():
            groups = []
            inside = own[own < features.p]
            for k in np.unique(group_of[inside]).tolist():
                at = np.flatnonzero(group_of[inside] == k)
                if len(at) != starts[k + 1] - starts[k]:
                    raise ValueError(f"blocks: group {k} of the penalty is cut by the blocks")
                groups.append((k, _wide(at[np.argsort(place[inside[at]])], features.width)))
            self.groups.append(groups)
            self.free.append(_wide(np.flatnonzero(own == features.p), features.width))

    def prox(self, j: int, u: Array, t: Array | float) -> Array:
        """One group after another."""
        out, steps = u.copy(), np.broadcast_to(t, u.shape)
        for k, at in self.groups[j]:
            out[at] = self.penalty.prox(u[at], float(steps[at[0]]), k)
        return out

    def value(self, j: int, u: Array) -> float:
        """Their sum."""
        return float(sum(self.penalty.value(u[at], k) for k, at in self.groups[j]))

    def distance(self, j: int, u: Array, g: Array) -> float:
        """The root of the sum of their squares; the intercept's is |g|."""
        squares = sum(self.penalty.distance(u[at], g[at], k) ** 2 for k, at in self.groups[j])
        return math.sqrt(squares + float((g[self.free[j]] ** 2).sum()))


def by_blocks(penalty: Any, features: Features, *, fast: bool = False) -> Separable:
    """The penalty by the blocks of `features`; `fast` compiles the prox of scalar penalties."""
    if isinstance(penalty, BlockPenalty):
        return Grouped(penalty, features)
    if isinstance(penalty, Slope):
        raise TypeError("penalty: Slope joins all coordinates, so blocks cannot move one by one")
    return (Fast if fast else Literal)(penalty, features)


def _penalised(own: Array, features: Features) -> Array:
    """The feature of every penalised coordinate of a block; those of the intercept come last."""
    return np.repeat(own[own < features.p], features.width)


def _wide(at: Array, width: int) -> Array:
    """Positions of all outputs of the features at `at`."""
    return (at[:, None] * width + np.arange(width)).ravel()
