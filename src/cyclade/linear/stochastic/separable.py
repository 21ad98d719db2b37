"""A penalty of `cyclade.linear.penalties` by the blocks of `Features`, as `cyclade.core` takes it.

The intercept is free. A penalty on groups needs blocks that hold whole groups.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cyclade._arrays import Array
from cyclade.linear.penalties import BlockPenalty, Slope
from cyclade.linear.stochastic.oracle import Features

Piece = tuple[int, Any, int]  # of a block: which term of r, where its coordinates lie, the first


class Separable:
    """r by blocks, one term after another in plain Python.

    A term is a coordinate of a scalar penalty, or a group; within a group the step is one number.

    Example
    -------
    >>> import numpy as np
    >>> from cyclade.linear.penalties import L1
    >>> r = Separable(L1(1.0), Features(3, blocks=1, fit_intercept=True, joined=True))
    >>> r.prox(0, np.array([3.0, -0.5, -2.0, 9.0]), 1.0)  # the intercept stays
    array([ 2., 0., -1., 9.])
    """

    def __init__(self, penalty: Any, features: Features) -> None:
        self.penalty = penalty
        grouped = isinstance(penalty, BlockPenalty)
        self.pieces: list[list[Piece]] = (
            _groups(penalty, features) if grouped else _coordinates(features)
        )
        self.penalised = [features.width * int((own < features.p).sum()) for own in features.sets()]

    def prox(self, j: int, u: Array, t: Array | float) -> Array:
        """The minimiser over v of r^j(v) + ½ Σ_i (v_i − u_i)² / t_i."""
        out, steps = u.copy(), np.broadcast_to(t, u.shape)
        for k, at, first in self.pieces[j]:
            out[at] = self.penalty.prox(u[at], float(steps[first]), k)
        return out

    def value(self, j: int, u: Array) -> float:
        """r^j(u)."""
        return float(sum(self.penalty.value(u[at], k) for k, at, _ in self.pieces[j]))

    def distance(self, j: int, u: Array, g: Array) -> float:
        """The distance from −g to ∂r^j(u); on the intercept it is |g|."""
        squares = sum(self.penalty.distance(u[at], g[at], k) ** 2 for k, at, _ in self.pieces[j])
        return math.sqrt(squares + float((g[self.penalised[j] :] ** 2).sum()))


class Compiled(Separable):
    """`Separable` for scalar penalties, with compiled loops."""

    def __init__(self, penalty: Any, features: Features) -> None:
        from cyclade.linear.penalty_bound import bind

        self.bound = bind(penalty, features.p)
        self.cols = [np.repeat(own[own < features.p], features.width) for own in features.sets()]

    def prox(self, j: int, u: Array, t: Array | float) -> Array:
        out = u.copy()
        steps = np.full(1, t, u.dtype) if isinstance(t, float) else t
        self.bound.functions["proxes"](self.bound.parameters, self.cols[j], u, steps, out)
        return out

    def value(self, j: int, u: Array) -> float:
        return self.bound.total(self.cols[j], u)

    def distance(self, j: int, u: Array, g: Array) -> float:
        cols = self.cols[j]
        distances = self.bound.distances(cols, u, g)
        return math.hypot(np.linalg.norm(distances), np.linalg.norm(g[len(cols) :]))


def by_blocks(penalty: Any, features: Features, *, fast: bool = False) -> Separable:
    """The penalty by the blocks of `features`; `fast` compiles the loops of scalar penalties."""
    if isinstance(penalty, Slope):
        raise TypeError("penalty: Slope joins all coordinates, so blocks cannot move one by one")
    compiled = fast and not isinstance(penalty, BlockPenalty)
    return (Compiled if compiled else Separable)(penalty, features)


def _coordinates(features: Features) -> list[list[Piece]]:
    cols = [np.repeat(own[own < features.p], features.width) for own in features.sets()]
    return [[(k, i, i) for i, k in enumerate(own.tolist())] for own in cols]


def _groups(penalty: BlockPenalty, features: Features) -> list[list[Piece]]:
    """Of each block its groups, all outputs of a feature together."""
    order, starts = penalty.partition(features.p)
    block_of, place = np.empty((2, features.p), dtype=np.int64)
    for j, own in enumerate(features.sets()):
        inside = own[own < features.p]
        block_of[inside], place[inside] = j, np.arange(len(inside))
    found: list[list[Piece]] = [[] for _ in features.members]
    for k, group in enumerate(np.split(order, starts[1:-1])):
        j = block_of[group[0]]
        if (block_of[group] != j).any():
            raise ValueError(f"blocks: group {k} of the penalty is cut by the blocks")
        at = (place[group][:, None] * features.width + np.arange(features.width)).ravel()
        found[j].append((k, at, int(at[0])))
    return found
