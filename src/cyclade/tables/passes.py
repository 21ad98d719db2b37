"""What is summed over the rows of a table: two tasks, each a function of one chunk.

`RowCheck` checks what belongs to the rows, and does not read X; `Pass` is everything that an outer
iteration needs: the loss, the gradient, what a dual value is made of, and the products of the
working set. Without X it is that of the null model. A chunk keeps nothing: z is computed again
from x, which is short.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.checks import numbers
from cyclade.linear.loss_at import LossAt, by_rows, loss_at
from cyclade.linear.losses import Loss
from cyclade.linear.quadratic import curvatures
from cyclade.tables.chunks import Chunk, Sums
from cyclade.tables.products import Buffers, blocks, combine, correlate, products
from cyclade.tables.tuning import DEFAULT, Tuning

Array = NDArray[Any]


@dataclass(frozen=True)
class Column:
    """Targets, weights and offset of a chunk as losses take them; one output of several if asked.

    Weights are divided by `total`, so that over all chunks they sum to one.
    """

    loss: Loss
    outputs: int | None  # columns of z; None where z is a vector
    output: int | None = None  # of several that nothing joins, which
    total: float = 1.0

    def rows(self, chunk: Chunk, part: slice) -> tuple[Array, Array, Array | None]:
        """y, s and the offset of some rows; `RowCheck` has checked them."""
        y = np.asarray(chunk.y[part])
        y = y if self.loss.target == "classes" else np.asarray(y, np.float64)
        s = np.ones(len(y)) if chunk.s is None else np.asarray(chunk.s[part], np.float64)
        b = None if chunk.offset is None else np.asarray(chunk.offset[part], np.float64)
        if self.output is not None:
            y = np.ascontiguousarray(y[:, self.output])
            b = b[:, self.output] if b is not None and b.ndim == 2 else b
        if self.outputs is not None and b is not None and b.ndim == 1:
            b = np.repeat(b[:, None], self.outputs, axis=1)
        return y, s / self.total, b

    def shape(self, n: int) -> tuple[int, ...]:
        """Of z."""
        return (n,) if self.outputs is None else (n, self.outputs)


@dataclass(frozen=True)
class RowCheck:
    """Rows, weights and targets of a chunk, checked; and some targets to guess a spread from."""

    column: Column
    sample: int  # rows of a chunk that are looked at for that, at most

    def __call__(self, chunk: Chunk) -> Sums:
        """The sums of a chunk."""
        given, n = np.asarray(chunk.y), len(chunk.y)
        if given.dtype.kind not in "fiubO":
            raise ValueError(f"y: must hold real numbers, got dtype {given.dtype}")
        codes = self.column.loss.target == "classes"
        y = numbers("y", given, given.dtype if codes else np.float64)
        s = np.ones(n) if chunk.s is None else numbers("sample_weight", chunk.s, np.float64)
        b = None if chunk.offset is None else numbers("offset", chunk.offset, np.float64)
        if s.shape != (n,) or (b is not None and b.shape[:1] != (n,)):
            raise ValueError("y, sample_weight and offset must be chunked as X is, by rows")
        if y.ndim > 2 or (b is not None and b.ndim > 2):
            raise ValueError("y and offset: must have one or two dimensions")
        if y.dtype.kind not in "fiub":
            raise ValueError(f"y: must hold real numbers, got dtype {y.dtype}")
        if (s < 0).any():
            raise ValueError(
                "sample_weight must hold numbers >= 0: negative weights are not allowed"
            )
        if len(y):
            self.column.loss.check(y)
        step = max(len(y) // self.sample, 1)
        some = y[::step] - (0.0 if b is None or b.ndim > y.ndim else _like(b, y)[::step])
        return {
            "weight": float(s.sum()), "n": len(y), "list some": list(some),
            "most class": int(y.max(initial=0)), "most shape": y.shape[1:],
            "list rows": [(chunk.number, len(y))], "most offset": 0 if b is None else b.shape[1:],
            "moved": int(b is not None and b.any()),
        }  # fmt: skip


def _like(b: Array, y: Array) -> Array:
    return b[:, None] if y.ndim > b.ndim else b


@dataclass(frozen=True)
class Pass:
    """Everything at one point, from each row once."""

    column: Column
    tuning: Tuning
    cols: Array  # columns where x is not zero
    x: Array  # there: (k,), or (k, T)
    c: Any
    gradient: bool = True
    squares: bool = False  # whether squares of columns are summed
    dual: bool = False
    sides: bool = False  # whether sums for dual values are kept apart by the sign of φ'
    old: Array | None = None  # products of the columns `new` with `old` and `new`
    new: Array | None = None
    damping: float = 1.0
    trust: float = DEFAULT.forcing  # as in `quadratic.curvatures`

    def __call__(self, chunk: Chunk) -> Sums:
        """The sums of a chunk."""
        n = len(chunk.y)
        if chunk.X is None:
            chunk = chunk._replace(X=np.zeros((n, 1)))
        if chunk.X.shape[0] != n:
            raise ValueError(
                f"y: chunk {chunk.number} of X has {chunk.X.shape[0]} rows, that of y has {n}"
            )
        sums, buffers, tuning = Sums(), Buffers(), self.tuning
        coefs = self.x.reshape(self.cols.size, self.column.outputs or 1)
        for part, A in blocks(chunk, tuning.cache, tuning.chunk_rows):
            y, s, b = self.column.rows(chunk, part)
            z = combine(A, self.cols, coefs, buffers)
            with np.errstate(over="ignore", invalid="ignore"):  # too long a step: it is shortened
                self._block(A, y, s, b, z, buffers, sums)
        if "products" in sums:
            sums["products"] = packed(sums["products"])
        return sums

    def _columns(self) -> Array:
        """Those whose products are asked for, old ones first."""
        known = [one for one in (self.old, self.new) if one is not None]
        return np.concatenate(known) if known else np.empty(0, np.int64)

    def _block(
        self, A: Any, y: Array, s: Array, b: Array | None, z: Array, buffers: Buffers, sums: Sums
    ) -> None:  # fmt: skip
        """Add the sums of some rows; z, without the intercept and the offset, is spent."""
        z = z.reshape(self.column.shape(len(y)))
        z += self.c
        if b is not None:
            z += b
        at = loss_at(self.column.loss, y, s, z)
        found: Sums = {}
        if self.gradient:
            found["value"] = at.value
            found["slope"], found["size"] = at.balance
            correlate(A, at.slopes, sums, "g")
        if self.squares:
            correlate(A, s, sums, "squares", squared=buffers)
        if self.dual:
            found["dual"] = self._dual(at, b)
        if self.new is not None:
            found["products"] = self._products(A, at, buffers)
        for name, value in found.items():
            sums[name] = sums[name] + value if name in sums else value

    def _dual(self, at: LossAt, b: Array | None) -> Array:
        """Σ s φ*(t φ') at t = 1, part, 0; then Σ s φ' offset and Σ s φ'²: a row, or two by the sign
        of φ' (one where there are several outputs).

        At t = 1 it is Σ s (φ'z − φ), by Fenchel's equality.
        """
        if at.s.min(initial=1.0) <= 0:  # they may have infinite φ*
            kept = at.s > 0
            at = loss_at(at.loss, at.y[kept], at.s[kept], at.z[kept])
            b = None if b is None else b[kept]
        if not (self.sides and at.u.ndim == 1):
            return self._dual_row(at, b)[None]
        up = at.u > 0
        parts = [loss_at(at.loss, at.y[one], at.s[one], at.z[one]) for one in (up, ~up)]
        offsets = [None if b is None else b[one] for one in (up, ~up)]
        return np.stack([self._dual_row(*one) for one in zip(parts, offsets, strict=True)])

    def _dual_row(self, at: LossAt, b: Array | None) -> Array:
        """The five sums over all rows."""
        full = float(np.vdot(at.slopes, at.z)) - at.value
        offset = 0.0 if b is None else float(np.vdot(at.slopes, b))
        squares = float(np.vdot(at.slopes, at.u)) if self.sides else 0.0
        shrunk = -at.dual(self.tuning.chunk_dual_part)
        return np.array([full, shrunk, -at.perfect, offset, squares])

    def _products(self, A: Any, at: LossAt, buffers: Buffers) -> Array:
        """(m, new, old + new): one matrix, or one for each output, or one over all entries."""
        assert self.new is not None
        cols, k = self._columns(), 0 if self.old is None else self.old.size
        loss, s = self.column.loss, at.s

        def of(w: Array) -> Array:
            return products(A, np.ascontiguousarray(w), k, cols, buffers)

        if loss.quadratic:
            return of(s)[None]
        if loss.softmax:
            mean = loss.mean(at.z)  # diag(p) − ppᵀ in each row
            H = np.eye(mean.shape[1]) * mean[:, :, None] - mean[:, :, None] * mean[:, None, :]
            H *= self.damping * s[:, None, None]
            T = H.shape[1]
            G = np.empty((self.new.size, T, cols.size, T))
            for t in range(T):
                for r in range(t + 1):
                    G[:, t, :, r] = of(H[:, t, r])
                    G[:, r, :, t] = G[:, t, :, r]
            return G.reshape(1, self.new.size * T, cols.size * T)
        w = by_rows(s, curvatures(loss, self.tuning, at, self.damping, self.trust))
        return of(w)[None] if w.ndim == 1 else np.stack([of(v) for v in w.T])


def packed(G: Array) -> Array:
    """Rows of a symmetric matrix without what stands there twice: below the diagonal.

    G is (m, k, K): the last k rows of matrices of K columns.
    """
    rows, cols = np.nonzero(np.tri(G.shape[1], G.shape[2], G.shape[2] - G.shape[1], bool))
    return np.asarray(G[:, rows, cols])


def unpacked(G: Array, k: int, K: int) -> Array:
    """The last k rows of symmetric matrices with K columns, from what `packed` sent.

    >>> unpacked(np.array([[1.0, 2.0, 3.0]]), 2, 2)
    array([[[1., 2.],
            [2., 3.]]])
    """
    rows, cols = np.nonzero(np.tri(k, K, K - k, bool))
    out = np.empty((len(G), k, K))
    out[:, rows, cols] = G
    own = out[:, :, K - k :]
    every, below = np.tril_indices(k, -1)
    own[:, below, every] = own[:, every, below]
    return out
