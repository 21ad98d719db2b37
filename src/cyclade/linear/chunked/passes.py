"""What is summed over the rows of a table: three tasks, each a function of one chunk.

`Look` checks what belongs to the rows and reads no X; `NullPass` is the loss at one intercept, and
reads none either; `Pass` is everything that an outer iteration needs: losses along a step, the
gradient on the columns that are not screened out, what a dual value is made of, and the products of
the working set. A chunk keeps nothing: z is computed again from x, which is short.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.checks import numbers
from cyclade.linear.chunked.chunks import Chunk, Sums
from cyclade.linear.chunked.products import Room, blocks, combine, correlate, products
from cyclade.linear.loss_at import LossAt, by_rows, loss_at
from cyclade.linear.losses import Loss
from cyclade.linear.quadratic import curvatures
from cyclade.linear.tuning import Tuning

Array = NDArray[Any]


def softmax_hessians(p: Array) -> Array:
    """diag(p) − ppᵀ of every row of p, (n, T, T)."""
    every, H = np.arange(p.shape[1]), -p[:, :, None] * p[:, None, :]
    H[:, every, every] += p
    return H


@dataclass(frozen=True)
class Column:
    """Targets, weights and offset of a chunk as losses take them; one output of several if asked.

    Weights are divided by `total`, so that over all chunks they sum to one.
    """

    loss: Loss
    outputs: int | None  # columns of z; None where z is a vector
    output: int | None = None  # of several that nothing joins, which
    total: float = 1.0

    def of(self, chunk: Chunk) -> tuple[Array, Array, Array | None]:
        """y, s and the offset."""
        y = np.asarray(chunk.y)
        n = len(y)
        y = numbers("y", y, y.dtype if self.loss.target == "classes" else np.float64)
        s = np.ones(n) if chunk.s is None else numbers("sample_weight", chunk.s, np.float64)
        b = None if chunk.offset is None else numbers("offset", chunk.offset, np.float64)
        if s.shape != (n,) or (b is not None and b.shape[:1] != (n,)):
            raise ValueError("y, sample_weight and offset must be chunked as X is, by rows")
        if chunk.X is not None and chunk.X.shape[0] != n:
            raise ValueError(
                f"y: chunk {chunk.number} of X has {chunk.X.shape[0]} rows, that of y has {n}"
            )
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
class Look:
    """Rows, weights and targets of a chunk, checked; and some targets to guess a spread from."""

    column: Column
    sample: int  # rows of a chunk that are looked at for that, at most

    def __call__(self, chunk: Chunk) -> Sums:
        """The sums of a chunk."""
        y, s, b = self.column.of(chunk)
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
class NullPass:
    """The loss at x = 0 and an intercept c, its derivatives in c, and φ*(0) of a perfect fit."""

    column: Column
    c: Any

    def __call__(self, chunk: Chunk) -> Sums:
        """The sums of a chunk."""
        y, s, b = self.column.of(chunk)
        loss, z = self.column.loss, np.zeros(self.column.shape(len(y))) + self.c
        at = loss_at(loss, y, s, z if b is None else z + b)
        sums = {"value": at.value, "slope": at.slopes.sum(axis=0)}
        sums["size"] = np.abs(at.slopes).sum(axis=0)
        if loss.softmax:
            sums["bend"] = np.tensordot(s, softmax_hessians(loss.mean(at.z)), 1)
        else:
            sums["bend"] = s @ (at.second if loss.convex else at.majoriser)
        with np.errstate(invalid="ignore"):  # weights of zero times infinity
            sums["bound"] = s @ at.majoriser
        if loss.convex and hasattr(loss, "conjugate"):
            sums["perfect"] = at.conjugate(np.zeros_like(z))
        return sums


@dataclass(frozen=True)
class Pass:
    """Everything at one point, from each row once."""

    column: Column
    tuning: Tuning
    cols: Array  # columns where x or dx is not zero
    x: Array  # there: (k,), or (k, T)
    c: Any
    dx: Array | None = None  # the step that led here: losses are summed along it, too
    dc: Any = 0.0
    gradient: bool = True
    alive: Array | None = None  # the columns of the gradient; None: all
    moments: bool = False  # whether means and squares of columns are summed
    dual: bool = False
    old: Array | None = None  # products of the columns `new` with `old` and `new`
    new: Array | None = None
    damping: float = 1.0
    trust: float | None = 0.1  # as in `quadratic.curvatures`; None takes φ'' as it is

    def __call__(self, chunk: Chunk) -> Sums:
        """The sums of a chunk."""
        columns, sums, room = self.column.of(chunk), Sums(), Room()
        for rows, A in blocks(chunk, self.tuning.chunk_block):
            y, s, b = (None if column is None else column[rows] for column in columns)
            assert y is not None
            assert s is not None
            for name, value in self._block(A, y, s, b, room).items():
                sums[name] = sums[name] + value if name in sums else value
        return {name: self._packed(v) if name == "products" else v for name, v in sums.items()}

    def _block(self, A: Any, y: Array, s: Array, b: Array | None, room: Room) -> Sums:
        shape = self.column.shape(len(y))
        z = combine(A, self.cols, self.x, room).reshape(shape) + self.c
        if b is not None:
            z += b
        at = loss_at(self.column.loss, y, s, z)
        sums: Sums = {}
        if self.gradient:
            values = [at.value]
            if self.dx is not None:
                dz = combine(A, self.cols, self.dx, room).reshape(shape) + self.dc
                values += [
                    float(s @ self.column.loss.value(y, z - (1.0 - t) * dz))
                    for t in self.tuning.chunk_lengths
                ]
            sums["values"] = np.array(values)
            sums["g"] = correlate(A, at.slopes, self.alive)
            sums["slope"] = at.slopes.sum(axis=0)
            sums["size"] = np.abs(at.slopes).sum(axis=0)
        if self.moments:
            sums["means"] = correlate(A, s, None)
            squared = (
                A.multiply(A) if hasattr(A, "multiply")
                else np.multiply(A, A, out=room.of("columns", *A.shape))
            )  # fmt: skip
            sums["squares"] = correlate(squared, s, None)
        if self.dual:
            sums["dual"] = self._dual(at, b)
        if self.new is not None:
            sums["products"] = self._products(A, at, room)
        return sums

    def _dual(self, at: LossAt, b: Array | None) -> Array:
        """By the sign of φ' (of several outputs, together): Σ s φ*(t φ') at t = 1, part, 0; then
        Σ s φ' offset and Σ s φ'².

        At t = 1 it is Σ s (φ'z − φ), by Fenchel's equality.
        """
        loss, y, s, u, z = self.column.loss, at.y, at.s, at.u, at.z
        part = self.tuning.chunk_dual_part

        def rows(entries: Array) -> Array:
            return entries if entries.ndim == 1 else np.asarray(entries.sum(axis=1))

        conjugate: Any = loss.conjugate  # type: ignore[attr-defined]
        columns = np.stack([
            rows(u * z) - loss.value(y, z), conjugate(y, part * u), conjugate(y, np.zeros_like(u)),
            np.zeros(len(y)) if b is None else rows(u * b), rows(u * u),
        ])  # fmt: skip
        columns = np.where(s > 0, columns, 0.0)
        if u.ndim == 2:
            return np.stack([columns @ s, np.zeros(len(columns))])
        up = u > 0
        return np.stack([columns @ (s * up), columns @ (s * ~up)])

    def _products(self, A: Any, at: LossAt, room: Room) -> Array:
        """(m, new, old + new): one matrix, or one for each output, or one over all entries."""
        assert self.new is not None
        old = np.empty(0, np.int64) if self.old is None else self.old
        loss, s = self.column.loss, at.s
        if loss.quadratic:
            return products(A, s, old, self.new, room)[None]
        if loss.softmax:
            H = s[:, None, None] * softmax_hessians(loss.mean(at.z)) * self.damping
            T, k, m = H.shape[1], self.new.size, self.new.size + old.size
            G = np.empty((k, T, m, T))
            for t in range(T):
                for r in range(t + 1):
                    G[:, t, :, r] = products(
                        A, np.ascontiguousarray(H[:, t, r]), old, self.new, room
                    )
                    G[:, r, :, t] = G[:, t, :, r]
            return G.reshape(1, k * T, m * T)
        if self.trust is None:
            w = by_rows(s, at.second)
        else:
            w = by_rows(s, curvatures(loss, self.tuning, at, self.damping, self.trust))
        if w.ndim == 1:
            return products(A, w, old, self.new, room)[None]
        return np.stack([products(A, np.ascontiguousarray(v), old, self.new, room) for v in w.T])

    def _packed(self, G: Array) -> Array:
        """Of a symmetric matrix, half is sent."""
        if self.old is not None and self.old.size:
            return G
        rows, cols = np.triu_indices(G.shape[1])
        return np.asarray(G[:, rows, cols])


def unpacked(G: Array, k: int) -> Array:
    """The whole of k x k matrices whose upper halves were sent.

    >>> unpacked(np.array([[1.0, 2.0, 3.0]]), 2)
    array([[[1., 2.],
            [2., 3.]]])
    """
    out = np.empty((len(G), k, k))
    rows, cols = np.triu_indices(k)
    out[:, rows, cols] = G
    out[:, cols, rows] = G
    return out
