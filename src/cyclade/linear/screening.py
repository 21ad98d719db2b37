"""Gradients at one point after another: columns that a safe bound rules out are not read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import numerics
from cyclade.linear.kernels.columns import bound_gradient, undecided
from cyclade.linear.panels.protocols import Design

Array = NDArray[Any]


class Gradient:
    """g at one v: a column was read, or is known to be below its threshold and estimated."""

    def __init__(self, reader: Reader | None, v: Array, g: Array, error: float = 0.0) -> None:
        """`error` is ‖v − c v₀ − d v₁‖ where g is an estimate, zero where all columns were read."""
        self.reader, self.v, self.g, self.error = reader, v, g, error
        self.known = np.zeros(g.size, np.bool_) if error else None

    def read_undecided(self, x: Array, zero_threshold: Array) -> None:
        """Read the columns with x_j ≠ 0, and those that the bound does not screen out."""
        reader = self.reader
        if self.known is None or reader is None:
            return
        many = undecided(
            self.g, reader.norms, self.error, self.known, x, zero_threshold,
            reader.cols,
        )  # fmt: skip
        cols = reader.cols[:many]
        if 2 * reader.design.reading(cols) > reader.design.entries:
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
        assert self.reader is not None
        self.g[cols] = self.reader.design.correlate_some(cols, self.v)
        self.known[cols] = True


class Reader:
    """Where gradients g = Xᵀv at one v after another come from, with columns screened out.

    A check asks of a zero coefficient whether |g_j| stays below its threshold. With the gradients
    at two earlier v₀ and v₁, and with any numbers c and d,

        |g_j − c a_j·v₀ − d a_j·v₁| = |a_j·(v − c v₀ − d v₁)| ≤ ‖a_j‖ ‖v − c v₀ − d v₁‖,

    which is smallest for the projection of v. A column for which |c a_j·v₀ + d a_j·v₁| and that
    bound together stay below the threshold is skipped: the distance from stationary and the duality
    gap are the same as if it had been read. At most λ of a path a small part of X is read: of least
    squares v is on a line as long as the support and its signs stay, and two points tell where that
    goes. Where it would be a large part, all of X is read, v₀ replaces v₁, and v replaces v₀.
    """

    def __init__(self, design: Design, many: bool = False) -> None:
        """`many`: gradients at points near one another will be asked for, as along a path."""
        self.design = design
        self.screens = design.by_columns and many
        self.rounding = numerics.PRODUCT * float(np.finfo(design.dtype).eps) / numerics.EPS
        self.v: Array | None = None  # v₀
        self.before: tuple[Array, Array] | None = None  # v₁ and the gradient there
        self.g = self.norms = np.empty(0)
        self.cols = np.empty(design.p, np.int64)  # room

    def read(self, v: Array) -> Array:
        """Xᵀv from all columns; bounds start from it."""
        if self.v is not None:
            self.before = self.v, self.g
        self.v, self.g = v, self.design.correlate(v)
        return self.g.copy()  # the caller may write to it

    def at(self, v: Array, x: Array, zero_threshold: Array) -> Gradient:
        """The gradient at v, for a point x and thresholds."""
        if not self.screens:
            return Gradient(self, v, self.design.correlate(v))
        if self.v is None:
            return Gradient(self, v, self.read(v))
        if not self.norms.size:
            self.norms = self.design.norms()
        g = np.empty(self.design.p)
        v1, g1 = self.before or (self.v, self.g)
        error = bound_gradient(v, self.v, self.g, v1, g1, self.rounding, g)
        gradient = Gradient(self, v, g, error)
        gradient.read_undecided(x, zero_threshold)
        return gradient
