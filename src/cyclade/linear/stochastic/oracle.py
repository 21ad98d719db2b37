"""The smooth part of a linear model, as `cyclade.core` takes it.

    f(x, c) = (1/Σ_i s_i) Σ_i s_i φ(y_i, z_i),   z = X x + c + offset

The point is one vector: the coefficients (row by row where there are T outputs), then the
intercept. `Features` cuts it into blocks; `LinearOracle` makes sweeps over samples of the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cyclade._arrays import Array
from cyclade.blocks import Layout, Point
from cyclade.linear.stochastic.sweep import LinearSweep, Rows
from cyclade.partitions import cuts
from cyclade.samplers import ALL, Batch, Sample


class Features:
    """How p features, and perhaps an intercept, with T outputs each, are cut into blocks.

    `blocks` is "coordinates", a number of blocks, a list of sizes, or a list of index lists, over
    the features; the intercept is a block of its own at the end. With `joined`, everything is one
    block (PAGE and SGD).

    Example
    -------
    >>> features = Features(5, blocks=2, fit_intercept=True)
    >>> features.members
    [slice(0, 3, None), slice(3, 5, None), slice(5, 6, None)]
    >>> features.layout
    Layout(m=3, sizes=(3, 2, 1), names=('0', '1', '2'))
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
    if rows.dtype.kind != "f":  # squares of small integers would overflow
        rows = rows.astype(np.float64)
    if sparse and not rows.has_canonical_format:
        rows = rows.copy()  # X is the caller's
        rows.sum_duplicates()
    return rows


class LinearOracle:
    """f over the rows of (X, y), X an array or a SciPy sparse matrix; sweeps hold z = Xx.

    A sample S of the rows stands for f_S = (n / |S|) Σ_{i∈S} (s_i / total) φ(y_i, z_i), whose
    expectation is f; `total` is Σ_i s_i unless given. A `Batch` of a stream holds (X, y, weights,
    offsets) of its own rows, and f_S is their weighted mean.

    Dense X is never copied whole; sparse X is kept by rows (for sampling) and, once a sweep sees
    every row, by columns too.

    Example
    -------
    >>> import numpy as np
    >>> from cyclade.linear.losses import Squared
    >>> from cyclade.samplers import ALL
    >>> features = Features(2, "coordinates")
    >>> oracle = LinearOracle(np.eye(2), np.array([2.0, 4.0]), Squared(), features)
    >>> at = oracle.sweep(features.point(), ALL)
    >>> at.grad(1)
    array([-2.])
    >>> at.set(1, np.array([4.0]))
    >>> at.grad(1), at.value()
    (array([0.]), 1.0)
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
        self._all: Rows | None = None
        self._last: tuple[Sample, Rows] | None = None

    def sweep(self, x: Any, sample: Sample) -> LinearSweep:
        """A sweep from `x` on the rows in `sample`."""
        rows = self.rows(sample)
        z = rows.predict(*self.features.read(x))
        return LinearSweep(x, rows, self.loss, self.features.shapes, z)

    def evaluate(self, x: Any, sample: Sample) -> tuple[float, list[Array]]:
        """f_S(x), and ∇f_S(x) by blocks."""
        at = self.sweep(x, sample)
        return at.value(), [at.grad(j) for j in range(self.features.layout.m)]

    def rows(self, sample: Sample) -> Rows:
        """The rows of a sample. The current and the lagged point ask for the same ones in turn."""
        if sample is ALL:
            if self._all is None:
                self._all = self._rows(self.X, self.y, self.weight, self.offset)
            return self._all
        if self._last is None or self._last[0] is not sample:
            self._last = (sample, self._taken(sample))
        return self._last[1]

    def _taken(self, sample: Sample) -> Rows:
        if isinstance(sample, Batch):
            X, y, weight, offset = sample.data
            return self._rows(X, y, weight / weight.sum(), offset)
        weight = self.weight[sample] * (self.n / len(sample))
        offset = None if self.offset is None else self.offset[sample]
        return self._rows(self.X[sample], self.y[sample], weight, offset)

    def _rows(self, X: Any, y: Array, weight: Array, offset: Array | None) -> Rows:
        return Rows(X, y, weight, offset, self.features.members)
