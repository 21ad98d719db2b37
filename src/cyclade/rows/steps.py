"""Steps of linear models: Λ_j from the rows themselves, so that nothing is tuned.

Searched on the samples; or diagonals that bound the curvature on samples of rows.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from cyclade._arrays import Array
from cyclade.rows.sweep import Columns, Rows
from cyclade.rows.tuning import TUNING
from cyclade.steps import Eta, Rated, Searched


class RowSearch(Searched):
    """`Searched` with D_j from the columns: d_k = v_k + σ q_k / v_k + the geometric mean of v.

    v_k = Σ_i w_i a_ik² and q_k = Σ_i w_i a_ik⁴. σ = (n − b') / (b' (n − 1)) tells how much a sample
    may differ: a column that few rows have is rarely met, and then weighs much. The mean keeps
    columns with few or small entries from steps that the others' noise would blow up. A column that
    is nearly constant weighs more, so that the intercept moves first. With `even`,
    D_j is a number, as penalties on groups need it. β_j begins at the mean φ'' at x_0.
    """

    def __init__(
        self, features: Any, b_small: float, n: float, even: bool, eta: Eta, large: float
    ) -> None:
        super().__init__(features.layout.m, eta, large)
        self.features, self.even = features, even
        self.sigma = _sigma(b_small, n)

    every = 1
    slow = Rated.slow  # compiled cycles do not ask large samples

    def prepare(self, at_x0: Any, watch: Any = None) -> None:
        """Measure the columns on the rows of the sweep at x_0."""
        rows, p = at_x0.rows, self.features.p
        some, first, second, fourth = rows.moments()
        used = second > 0
        middle = float(np.exp(np.log(second[used]).mean())) if used.any() else 1.0
        filled = np.where(used, second, 1.0)
        tails = some * fourth / (filled * filled)  # of a normal column 3, of a constant one 1
        if tails.max(initial=0.0) > TUNING.heavy_tails:
            self.remark = (
                "steps may be far too small: a few rows hold most of the squares of column "
                f"{int(tails.argmax())} of X, and samples without them do not show its curvature. "
                "Scale or clip such rows, or use solve"
            )
        scale = second + self.sigma * fourth / filled + middle
        if self.features.fit_intercept:
            scale += TUNING.constant * second * (first * first / filled) ** 4
        scale = np.append(scale, 1.0 + self.sigma)
        if self.even or not scale.all():
            scale = np.full(p + 1, scale[:p].max() or 1.0)
        sets, width = self.features.sets(), self.features.width
        self.D = [np.repeat(scale[own], width) for own in sets]
        guess = at_x0.mean_curvature()
        self.beta = [guess if 0.0 < guess < math.inf else 1.0] * len(self.beta)


class RowSteps(Rated):
    """η Λ_j^{−1} with Λ_j = β D_j, D_j from `diagonal` and β the bound on φ''.

    D_j is measured on the rows at the start. On a stream (n = ∞), a sample of at least `large` rows
    that shows more curvature raises D_j for good.

    Where φ'' has no bound, β is the largest φ'' met since the last large sample. Where a step went
    too far, φ'' is large and the next steps are short, so that they lead back.
    """

    learnt = ("D", "beta")

    def __init__(
        self, bound: float, m: int, b_small: float, n: float, width: int, even: bool, eta: Eta,
        large: float = math.inf,
    ) -> None:  # fmt: skip
        super().__init__(eta)
        self.m, self.large = m, large
        self.bounded, self.stream = math.isfinite(bound), math.isinf(n)
        self.beta = bound if self.bounded else 1.0
        self.measure = partial(diagonal, bound=1.0, b=b_small, n=n, width=width, even=even)
        self.D: list[Array] = []

    def at(self, j: int, now: Any, gj: Array, reg: Any) -> tuple[Array, Array]:
        """g^j and η Λ_j^{−1}, with Λ_j raised by what the sample shows."""
        if not self.bounded:
            here = now.largest_curvature()
            fresh = j == 0 and now.rows.n >= self.large and here > 0
            self.beta = here if fresh else max(self.beta, here)
        elif self.stream and now.rows.n >= self.large:
            self.D[j] = np.maximum(self.D[j], self.measure(now.rows, j))
        return gj, self.current(j)

    def current(self, j: int) -> Array:
        """η Λ_j^{−1}."""
        return self.rate / self.beta / self.D[j]

    def metric(self, j: int) -> Array:
        """Λ_j."""
        return self.beta * self.D[j]

    def prepare(self, at_x0: Any) -> None:
        """Measure D_j on the rows of the sweep at x_0; where φ'' has no bound, β too."""
        self.D = [self.measure(at_x0.rows, j) for j in range(self.m)]
        if not self.bounded:
            self.beta = at_x0.largest_curvature() or 1.0


def diagonal(
    rows: Rows, j: int, bound: float, b: float, *, n: float, width: int = 1, even: bool = False
) -> Array:
    """A diagonal Λ_j that bounds, on average, the curvature of block j on samples of b of n rows.

    Let w sum to one over the rows, σ = (n − b) / (b (n − 1)), and D the diagonal of

        d_k = Σ_i w_i a_ik² + σ Σ_i w_i a_ik⁴ / Σ_i w_i a_ik²,

    the curvature along a column and how much a sample's may differ from it: a column that few rows
    have is rarely met in a sample, and then weighs much. With λ = λ_max(D^{−½} A_jᵀ W A_j D^{−½})
    and ρ = max_i n w_i ‖D^{−½} a_ij‖², sampling b of n rows without replacement has the expected
    smoothness bound · ((1 − σ) λ + σ ρ) in the norm of D, and Λ_j is that number times D. With
    b = n it is the exact L_j, in the scale of the columns.

    λ and ρ are measured on `rows`; `n` may be infinite, for a stream. `width` is the number of
    outputs of each feature; with `even`, D = I (penalties on groups need that).
    """
    if not math.isfinite(bound):
        raise ValueError(
            "the loss has no finite bound on its second derivative, so there is no L_j: give steps"
        )
    columns, weight = rows.columns(j), rows.weight
    squared = columns.squared()
    squares = squared.back(weight)
    sigma = _sigma(b, n)
    if even:
        scale = np.ones_like(squares)
    else:
        squares = np.where(squares > 0, squares, 1.0)  # an empty column has nothing to bound
        scale = squares + sigma * squared.squared().back(weight) / squares
    of_a_row = float((rows.n * weight * squared.along(1.0 / scale)).max())
    factor = bound * ((1.0 - sigma) * _norm(columns, rows, scale) + sigma * of_a_row) or 1.0
    return np.repeat(factor * scale, width).astype(weight.dtype)


def _norm(columns: Columns, rows: Rows, scale: Array) -> float:
    """λ_max of A_jᵀ W A_j with rows and columns divided by √scale."""
    root = np.sqrt(scale)

    def apply(v: Array) -> Array:
        return columns.back(rows.weight * columns.along(v / root)) / root

    start = np.random.default_rng(0).standard_normal(columns.size)
    there = apply(start)
    if columns.size == 1 or not there.any():
        return float(there[0] / start[0])
    from scipy.sparse.linalg import LinearOperator, eigsh

    shape: Any = (columns.size, columns.size)
    operator = LinearOperator(shape, apply, dtype=start.dtype)
    return float(eigsh(operator, k=1, which="LA", v0=start, return_eigenvectors=False)[0])


def _sigma(b: float, n: float) -> float:
    """(n − b) / (b (n − 1)): the variance of a mean over b of n rows, beside that of one."""
    return 0.0 if n == 1 else (1.0 / b if math.isinf(n) else (n - b) / (b * (n - 1)))
