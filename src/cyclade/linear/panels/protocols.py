"""One view of X for the whole engine: dense in either memory order, or sparse by columns.

X itself is never changed or scaled. What the cyclic loop runs on is a `Panel`, a contiguous copy
of the columns of a working set, weighted and (for an intercept) centred on the way.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.kernels.storage import Stored

Array = NDArray[Any]


class Panel(Protocol):
    """min over x of ½‖R‖² + Σ_j r_j(x_j) on the columns of a working set, R = √w (t − z)."""

    R: Array  # the residual, in the precision of the panel, once started
    x: Array  # the coefficients, perhaps with room at the end
    L: Array  # ‖a_j‖²
    cols: Array  # the coordinate each column belongs to
    root: Array  # √w
    means: Array  # of the columns under w where the panel is centred, else zeros
    mass: float  # Σ w
    in_place: bool  # whether columns may lie in X, and be long
    dtype: np.dtype[Any]

    def extend(self, columns: Array) -> Array:
        """Take more columns in, and say where they are; `start` must follow."""

    def place(self, x: Array) -> None:
        """Begin at x; `start` must follow before anything asks for R."""

    def start(self, R: Array, x: Array) -> None:
        """Begin at x, where the (w-centred) residual is R."""

    def begin(self, slopes: Array, slope: float, x: Array) -> None:
        """The same where the loss has these slopes in z, of sum `slope`."""

    def correlations(self, at: Array | None = None) -> Array:
        """a_j · R for every column, or those `at`: minus the gradient of the quadratic part."""

    @property
    def storage(self) -> Stored:
        """The columns for kernels."""

    def residual(self) -> Array:
        """R at the present point, in float64."""

    def entries(self, order: Array) -> float:
        """How many entries these columns have."""

    def gram_breakeven_cycles(self, order: Array, new: Array) -> float:
        """How many cycles over `order` cost as much as the products of the `new` ones with all."""

    def products(self, old: Array, new: Array, G: Array) -> Array:
        """A Aᵀ over the columns `old` (whose products are G) followed by `new`."""

    def product(self, dx: Array, at: Array | None = None) -> Array:
        """Aᵀ dx over all columns, or those `at`: minus what R would change by."""

    def advance(self, columns: Array, dx: Array) -> None:
        """Move these coefficients by dx, and R with them."""


class Columns(Protocol):
    """Some columns A of X without weights, less their centres, for models under any weights.

    A quadratic model of the loss over k columns needs G = Aᵀ diag(w) A and the slopes Aᵀu alone.
    Where forming G costs about as much as a few cycles over the columns, all are made on it.
    """

    cols: Array
    centres: Array  # what was taken off each column, so that no products cancel

    def slopes(self, v: Array, chosen: Array | None = None) -> Array:
        """Aᵀv, for v (n,) or (n, m); of the chosen columns, if any are named."""

    def products(self, chosen: Array, w: Array) -> Array:
        """Aᵀ diag(w) A over the chosen columns, given in order; w may be negative."""

    def combine(self, chosen: Array, x: Array) -> Array:
        """Σ_k x_k a_k over the chosen columns, for x (k,) or (k, m)."""


class Design(Protocol):
    """X, by what the engine asks of it."""

    n: int
    p: int
    dtype: np.dtype[Any]  # that is worked in
    given: np.dtype[Any]  # that X came in, and results go back in
    entries: int  # that a pass over all columns reads
    is_dense: bool  # whether X is one array
    by_columns: bool  # whether some columns are read in less time than all
    precompute: Any  # whether products of all columns may be formed, or these; see `api.solve`

    def refuse(self) -> None:
        """Raise ValueError if X has NaN or infinity (asked only when a product was not finite)."""

    def correlate(self, v: Array) -> Array:
        """Xᵀv in float64, for v of shape (n,) or (n, T)."""

    def correlate_some(self, cols: Array, v: Array) -> Array:
        """Xᵀv on the chosen columns alone."""

    def reading(self, cols: Array) -> int:
        """How many entries that reads."""

    def norms(self) -> Array:
        """‖a_j‖ of all columns, in float64."""

    def predict(self, x: Array, support: Array | None = None) -> Array:
        """Xx in float64, for x (p,) or (p, T), from the columns where it is not zero.

        `support` holds those of one x, if given.
        """

    def panel(self, columns: Array, w: Array, centred: bool, dtype: Any = None) -> Panel:
        """A copy of the chosen columns, weighted by √w and centred under w if asked."""

    def growing_panel(self, w: Array, centred: bool) -> Panel:
        """A panel without columns, which some will be added to again and again."""

    def unweighted(self, cols: Array, centred: bool) -> Columns:
        """The chosen columns (and perhaps others) without weights, for products under any."""

    def products_pay(self, cols: Array) -> bool:
        """Whether products of these columns cost no more than a few cycles over them."""
