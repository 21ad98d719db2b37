"""Gradients g = Xᵀv at one v after another, from as few columns as the question allows.

What is asked of a column at rest is whether |g_j| stays below its threshold. With the gradient at
an earlier v₀ at hand, and with any number c,

    |g_j − c a_j·v₀| = |a_j·(v − c v₀)| ≤ ‖a_j‖ ‖v − c v₀‖,

which is least for the projection c = v·v₀ / ‖v₀‖². A column for which |c a_j·v₀| and that bound
together stay well below the threshold is at rest, surely, and need not be read: all that is said
of the point, its distance from stationary and its duality gap, is the same as if it had been. Along
a path a small part of X is read at most λ. Where most of it would be, all is, and v₀ moves up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.kernels.bounds import bound_gradient, undecided
from cyclade.linear.panels.protocols import Design

Array = NDArray[Any]

SURE = 0.9  # of a threshold: a column is left unread if |g_j| is less for certain
ROUNDING = 1e4  # units in the last place that a product with X is trusted to
MOST = 0.4  # of all entries: instead of more, all are read


class Gradient:
    """g at one v: every column is known, or known to be below a threshold and foretold."""

    def __init__(self, reader: Reader, v: Array, g: Array, error: float = 0.0) -> None:
        """`error` is ‖v − c v₀‖ where g is foretold, and zero where all columns were read."""
        self.reader, self.v, self.g, self.error = reader, v, g, error
        self.known = np.zeros(g.size, np.bool_) if error else None

    def read_undecided(self, x: Array, zero_threshold: Array) -> None:
        """Read the columns that move, or may be pulled by more than their threshold."""
        if self.known is None:
            return
        reader = self.reader
        many = undecided(
            self.g, reader.norms, self.error, self.known, x, zero_threshold, SURE, reader.cols
        )  # fmt: skip
        cols = reader.cols[:many]
        if reader.design.reading(cols) > MOST * reader.design.entries:
            self.g, self.known = reader.read(self.v), None
        else:
            self._read(cols)

    def exactly(self, cols: Array) -> Array:
        """g on these columns, read."""
        if self.known is not None:
            unread = cols[~self.known[cols]]
            if unread.size:
                self._read(unread)
        return np.asarray(self.g[cols])

    def _read(self, cols: Array) -> None:
        assert self.known is not None
        self.g[cols] = self.reader.design.correlate_some(cols, self.v)
        self.known[cols] = True


class Reader:
    """Where gradients come from; it keeps one that all others are foretold from."""

    def __init__(self, design: Design, many: bool = False) -> None:
        """`many`: gradients at points near one another will be asked for, as along a path.

        Else points are too far apart, unless most columns have few entries and move little.
        """
        self.design, self.screens = design, design.by_columns and (many or design.lopsided)
        self.rounding = ROUNDING * float(np.finfo(design.dtype).eps)
        self.v: Array | None = None  # v₀
        self.g = self.norms = np.empty(0)
        self.cols = np.empty(design.p, np.int64)  # room

    def read(self, v: Array) -> Array:
        """Xᵀv from all columns; others will be foretold from it."""
        self.v, self.g = v, self.design.correlate(v)
        return self.g.copy()  # who asked may write to it

    def at(self, v: Array, x: Array, zero_threshold: Array) -> Gradient:
        """The gradient at v, for a point x and thresholds."""
        if not self.screens:
            return Gradient(self, v, self.design.correlate(v))
        if self.v is None:
            return Gradient(self, v, self.read(v))
        if not self.norms.size:
            self.norms = self.design.norms()
        g = np.empty(self.design.p)
        error = bound_gradient(v, self.v, self.g, self.rounding, g)
        gradient = Gradient(self, v, g, error)
        gradient.read_undecided(x, zero_threshold)
        return gradient
