"""The two parts of a linear model, as `cyclade.core` takes them.

    f(x, c) = (1/Σ_i s_i) Σ_i s_i φ(y_i, z_i),   z = X x + c + offset;   and r(x)

The point is one vector: the coefficients (row by row where there are T outputs), then the
intercept, which is free. `Features` cuts it into blocks; `LinearOracle` makes sweeps over samples
of the rows; `by_blocks` gives a penalty of `cyclade.linear.penalties` by these blocks.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from cyclade._arrays import Array
from cyclade.blocks import Layout, Point
from cyclade.blocks.reading import cuts
from cyclade.linear.penalties import BlockPenalty, OverlappingGroups, Slope
from cyclade.rows.sweep import LinearSweep, Rows
from cyclade.sampling.samplers import ALL, Sample, StreamBatch


class Features:
    """How p features, and perhaps an intercept, with T outputs each, are cut into blocks.

    `blocks` is "coordinates", a number of blocks, a list of sizes, or a list of index lists, over
    the features; the intercept is a block of its own at the end. With `joined`, everything is one
    block (PAGE and SGD).
    """

    def __init__(
        self, p: int, blocks: Any = "coordinates", *, fit_intercept: bool = False,
        outputs: int | None = None, joined: bool = False, dtype: Any = np.float64,
    ) -> None:  # fmt: skip
        self.p, self.fit_intercept, self.outputs, self.dtype = p, fit_intercept, outputs, dtype
        self.width = 1 if outputs is None else outputs
        rows = p + fit_intercept
        self.members: list[Any] = [slice(0, rows)]
        if not joined:
            self.members = [index for index, _ in cuts(blocks, p)]
            self.members += [slice(p, rows)] * fit_intercept
        self.layout = Layout.of(np.zeros(rows * self.width, dtype), self._flat())
        self.shapes: list[tuple[int, ...]] = [
            (size,) if outputs is None else (size // outputs, outputs) for size in self.layout.sizes
        ]

    def point(self, coef: Any = None, intercept: Any = None) -> Point:
        """The point (x, c), zero where it is not given."""
        flat, body = np.zeros(self.layout.d, self.dtype), self.p * self.width
        if coef is not None:
            flat[:body] = np.reshape(coef, -1)
        if intercept is not None:
            flat[body:] = np.reshape(intercept, -1)
        return self.layout.point(flat)

    def read(self, x: Point) -> tuple[Array, Array | None]:
        """The coefficients, (p,) or (p, T), and the intercept, (1,) or (T,): views of the point."""
        flat, body = x.view(), self.p * self.width
        shape = (self.p,) if self.outputs is None else (self.p, self.outputs)
        return flat[:body].reshape(shape), flat[body:] if self.fit_intercept else None

    def fitted(self, x: Point, dtype: Any) -> tuple[Array, Any]:
        """Coefficients and intercept (a number, or (T,); 0 where none is fitted), as copies."""
        coef, c = self.read(x)
        if self.outputs is None:
            return coef.astype(dtype), 0.0 if c is None else float(c[0])
        return coef.astype(dtype), np.zeros(self.width) if c is None else c.astype(dtype)

    def sets(self) -> list[Array]:
        """The features of each block, as index arrays (p is the intercept)."""
        everything = np.arange(self.p + 1)
        return [everything[member] for member in self.members]

    def penalised(self) -> list[Array]:
        """The same without the intercept, each feature as often as there are outputs."""
        return [np.repeat(own[own < self.p], self.width) for own in self.sets()]

    def _flat(self) -> list[Any]:
        """The blocks of the flat point: sizes where all are runs, else index lists."""
        if all(isinstance(member, slice) for member in self.members):
            return [(m.stop - m.start) * self.width for m in self.members]
        across = np.arange(self.width)
        return [(index[:, None] * self.width + across).ravel() for index in self.sets()]


def as_rows(X: Any) -> Any:
    """X by rows, in floating point: an array, or a CSR matrix without duplicate entries."""
    sparse = callable(getattr(X, "tocsr", None))
    rows: Any = X.tocsr() if sparse else np.asarray(X)
    if rows.dtype not in (np.float32, np.float64):  # squares of small integers would overflow
        rows = rows.astype(np.float64)
    if sparse and not rows.has_canonical_format:
        rows = rows.copy()  # X is the caller's
        rows.sum_duplicates()
    return rows


class LinearOracle:
    """f over the rows of (X, y), X an array or a SciPy sparse matrix; sweeps hold z = Xx.

    A sample S of the rows stands for f_S = (n / |S|) Σ_{i∈S} (s_i / total) φ(y_i, z_i), whose
    expectation is f; `total` is Σ_i s_i unless given. A `StreamBatch` holds (X, y, weights,
    offsets) of its own rows, and f_S is their weighted mean.

    Dense X is never copied whole; sparse X is kept by rows (for sampling) and, once a sweep sees
    every row, by columns too.
    """

    def __init__(
        self, X: Any, y: Array, loss: Any, features: Features, *,
        sample_weight: Array | None = None, offset: Array | None = None, total: float | None = None,
    ) -> None:  # fmt: skip
        self.loss, self.features = loss, features
        self.X = as_rows(X)
        self.n = float(X.shape[0])
        weight = np.ones(len(y), features.dtype) if sample_weight is None else sample_weight
        self.weight = weight / (float(weight.sum()) if total is None else total)
        self.y, self.offset = y, offset
        self._last: tuple[Sample, Rows] | None = None

    def sweep(self, x: Any, sample: Sample) -> LinearSweep:
        """A sweep from `x` on the rows in `sample`."""
        rows = self.rows(sample)
        z = rows.predict(*self.features.read(x))
        return LinearSweep(x, rows, self.loss, self.features.shapes, z)

    def rows(self, sample: Sample) -> Rows:
        """The rows of a sample. The current and the lagged point ask for the same ones in turn."""
        if sample is ALL:
            return self._all
        if self._last is not None and self._last[0] is sample:
            return self._last[1]
        if isinstance(sample, StreamBatch):
            X, y, weight, offset = sample.data
            weight = weight / weight.sum()
        else:
            X, y, weight = self.X[sample], self.y[sample], self.weight[sample]
            weight = weight * (self.n / len(sample))
            offset = None if self.offset is None else self.offset[sample]
        rows = Rows(X, y, weight, offset, self.features.members)
        self._last = (sample, rows)
        return rows

    @cached_property
    def _all(self) -> Rows:
        return Rows(self.X, self.y, self.weight, self.offset, self.features.members, True)


class Separable:
    """r by blocks, one term after another in plain Python.

    A term is a coordinate of a scalar penalty, or a group, which must lie in one block; within a
    group the step is one number. `pieces` says of each term of a block which term of r it is, where
    its coordinates lie, and the first of them.
    """

    def __init__(self, penalty: Any, features: Features) -> None:
        self.penalty = penalty
        self.cols = features.penalised()
        self.pieces: list[list[tuple[int, Any, int]]]
        if isinstance(penalty, BlockPenalty):
            self.pieces = _groups(penalty, features)
        else:
            self.pieces = [[(k, i, i) for i, k in enumerate(own.tolist())] for own in self.cols]

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
        return math.sqrt(squares + float((g[len(self.cols[j]) :] ** 2).sum()))


class Compiled(Separable):
    """`Separable` for scalar penalties, with compiled loops."""

    def __init__(self, penalty: Any, features: Features) -> None:
        from cyclade.linear.penalty_bound import bind

        self.bound, self.cols = bind(penalty, features.p), features.penalised()

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
    refuse_joined(penalty)
    compiled = fast and not isinstance(penalty, BlockPenalty)
    return (Compiled if compiled else Separable)(penalty, features)


def refuse_joined(penalty: Any) -> None:
    """Raise TypeError for penalties that do not fall apart into blocks of columns of X."""
    if isinstance(penalty, Slope):
        raise TypeError("penalty: Slope joins all coordinates, so blocks cannot move one by one")
    if isinstance(penalty, OverlappingGroups):
        raise TypeError("penalty: OverlappingGroups needs copies of columns: use solve")


def _groups(penalty: BlockPenalty, features: Features) -> list[list[tuple[int, Any, int]]]:
    """Of each block its groups, all outputs of a feature together."""
    block_of, place = np.empty((2, features.p), dtype=np.int64)
    for j, own in enumerate(features.sets()):
        inside = own[own < features.p]
        block_of[inside], place[inside] = j, np.arange(len(inside))
    found: list[list[tuple[int, Any, int]]] = [[] for _ in features.members]
    for k, group in enumerate(penalty.blocks(features.p)):
        j = block_of[group[0]]
        if (block_of[group] != j).any():
            raise ValueError(f"blocks: group {k} of the penalty is cut by the blocks")
        at = (place[group][:, None] * features.width + np.arange(features.width)).ravel()
        found[j].append((k, at, int(at[0])))
    return found
