"""Least squares on the best k columns, by cyclic descent over the members of the support.

One member after another is exchanged for the column that lowers F most, with all coefficients
fitted again. With the products R of the members A and all columns, B = (XᵀX)⁻¹_AA R tells what
every exchange would bring, and two rank-one updates make one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy import sparse

from cyclade._checks import choice, whole_number
from cyclade.linear import Certificate, Solution
from cyclade.linear.estimators.base import Data, Regressor
from cyclade.linear.estimators.cross_validated import CrossValidated
from cyclade.linear.losses import Array, Squared
from cyclade.linear.results import PathResult

INDEPENDENT = 1e-10  # of a column's square: what must be left of it beside the others
GAIN = 1e-9  # of what y has beside its mean: smaller gains are rounding


class Fit(NamedTuple):
    """The members of a support, their coefficients, and what they leave of Σ y²."""

    members: Array
    beta: Array
    rest: float


class Support:
    """A support, its least squares, and what every other column would bring."""

    def __init__(
        self, row: Callable[[int], Array], q: Array, diagonal: Array, square: float, most: int
    ) -> None:
        """`row(j)` are the products of column j and all, `q` those with y, `square` y's own."""
        self.row, self.q, self.diagonal, self.square = row, q, diagonal, square
        self.least = INDEPENDENT * diagonal
        self.R, self.B = np.empty((2, most, q.size))
        self.M = np.empty((most, most))
        self.start([])

    def start(self, members: list[int]) -> None:
        """Go to a support, without the rounding of updates."""
        self.members: list[int] = []
        self.beta, self.inside = np.empty(0), np.zeros(self.q.size, np.bool_)
        self.c, self.left = self.q.copy(), self.diagonal.copy()
        for j in members:
            self.add(j)

    @property
    def fit(self) -> Fit:
        """Where it is."""
        rest = self.square - float(self.beta @ self.q[self.members])
        return Fit(np.array(self.members, np.int64), self.beta.copy(), max(rest, 0.0))

    def add(self, j: int) -> None:
        """Take column j in."""
        k, s, gain = len(self.members), self.left[j], self.c[j]
        v = self.B[:k, j].copy()
        self.R[k] = self.row(j)
        b = (self.R[k] - v @ self.R[:k]) / s
        self.B[:k] -= np.outer(v, b)
        self.B[k] = b
        w = np.r_[-v, 1.0]
        self.M[k, :k] = self.M[:k, k] = self.M[k, k] = 0.0
        self.M[: k + 1, : k + 1] += np.outer(w, w) / s
        self.beta = np.r_[self.beta, 0.0] + w * (gain / s)
        self.c -= b * gain
        self.left -= b * b * s
        self.members.append(j)
        self.inside[j] = True

    def remove(self, k: int) -> None:
        """Take the k-th member out; the last one takes its place."""
        last, m, b, beta = len(self.members) - 1, self.M[k, k], self.B[k].copy(), self.beta[k]
        v = self.M[: last + 1, k] / m
        self.c += b * (beta / m)
        self.left += b * b / m
        self.B[: last + 1] -= np.outer(v, b)
        self.M[: last + 1, : last + 1] -= np.outer(v, v) * m
        self.beta -= v * beta
        self.B[k], self.R[k], self.beta[k] = self.B[last], self.R[last], self.beta[last]
        self.M[k] = self.M[last]
        self.M[:, k] = self.M[:, last]
        self.beta = self.beta[:last]
        self.inside[self.members[k]] = False
        self.members[k] = self.members[last]
        del self.members[last]

    def best_column(self, b: Array, slope: float, share: float) -> tuple[int, float]:
        """The column outside with the largest (c + slope·b)²/(left + share·b²), and that number.

        Columns with next to nothing left of them beside the support do not count; −1 if all do.
        """
        rest, gains = self.left + share * b * b, (self.c + slope * b) ** 2
        counts = (rest > self.least) & ~self.inside
        gains[counts] /= rest[counts]
        gains[~counts] = -1.0
        j = int(np.argmax(gains))
        return (j, float(gains[j])) if counts[j] else (-1, -1.0)

    def grow(self) -> bool:
        """Add the column that explains most; whether there was one."""
        j, _ = self.best_column(self.c, 0.0, 0.0)
        if j >= 0:
            self.add(j)
        return j >= 0

    def shrink(self) -> None:
        """Remove the member that explains least beside the others."""
        self.remove(int(np.argmin(self.beta**2 / np.diag(self.M)[: self.beta.size])))

    def exchange(self) -> int:
        """Cycle over the members until no exchange of one lowers F; how many were looked at."""
        k, stayed, looked = 0, 0, 0
        while stayed < len(self.members):
            k %= len(self.members)
            m, b, beta = self.M[k, k], self.B[k], self.beta[k]
            j, gain = self.best_column(b, beta / m, 1.0 / m)
            if gain > beta * beta / m + GAIN * self.square:
                self.remove(k)
                self.add(j)
                stayed = 0
            else:
                k, stayed = k + 1, stayed + 1
            looked += 1
        return looked


def best_subsets(
    row: Callable[[int], Array], q: Array, diagonal: Array, square: float, most: int
) -> tuple[list[Fit], int]:
    """A support of each size from 0 to `most`, and how many members were looked at.

    Up from the support before and its best further column, then down again without the member
    that explains least; each is exchanged until nothing is gained, and the better one stays.
    """
    support, looked = Support(row, q, diagonal, square, most), 0
    found = [support.fit]
    while len(found) <= most and support.grow():
        looked += support.exchange()
        support.start(support.members)
        found.append(support.fit)
    for k in range(len(found) - 2, 0, -1):
        support.shrink()
        looked += support.exchange()
        support.start(support.members)
        if support.fit.rest < found[k].rest:
            found[k] = support.fit
    return found, looked


class BestSubset(Regressor):
    """Least squares with at most `size` coefficients that are not zero.

    F = (1/2Σs_i) Σ s_i (y_i − a_i·x − c)² where ‖x‖_0 ≤ size

    No exchange of one member of the support for another column lowers F, all coefficients fitted
    again. That is no proof of a global minimum, which is hard to have. All sizes up to the largest
    are found on the way, and `size=None` takes the one with the least information criterion.

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import BestSubset
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 50))
    >>> y = X[:, 3] - 2.0 * X[:, 7] + rng.standard_normal(100)
    >>> np.flatnonzero(BestSubset().fit(X, y).coef_)
    array([3, 7])
    """

    size: Annotated[
        Any, "int", "The number of coefficients; None lets `criterion` choose among all sizes."
    ] = field(default=None, kw_only=False)
    max_size: Annotated[
        Any, "int", "The largest size where `size` is None; None is n/(log p · log log n), or p."
    ] = None
    criterion: Annotated[str, '{"aic", "bic", "ebic"}', "As in `select`."] = "ebic"
    # What has no meaning here.
    standardize: Any = field(init=False, default=False)
    penalty_weights: Any = field(init=False, default=None)
    relaxed: Any = field(init=False, default=False)
    warm_start: Any = field(init=False, default=False)
    verbose: Any = field(init=False, default=False)
    tol: Any = field(init=False, default=1e-6)
    max_iter: Any = field(init=False, default=1)

    size_: Annotated[int, "The number of coefficients that are not zero."] = field(init=False)
    supports_: Annotated[list[Array], "list", "The support of every size."] = field(init=False)
    objective_path_: Annotated[Array, "array", "F of every size."] = field(init=False)
    criterion_path_: Annotated[Array, "array", "The criterion of every size."] = field(init=False)

    _phi = Squared()
    _multi_output = False
    _takes_chunks = False

    def _penalised(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        return None

    def _fit(self, data: Data) -> list[Any]:
        from cyclade.linear.statistics.criteria import cost_of_features

        choice("criterion", self.criterion, ("aic", "bic", "ebic"))
        fits = self._solutions(data, self._largest(data))
        n, sizes = float(data.weights.sum()), np.arange(len(fits))
        cost = cost_of_features(self.criterion, sizes, n, data.X.shape[1])
        with np.errstate(divide="ignore"):
            self.criterion_path_ = n * np.log(2.0 * self.objective_path_) + cost
        self.size_ = int(sizes[-1] if self.size is not None else np.argmin(self.criterion_path_))
        self.alpha_ = None
        return [fits[self.size_]]

    def _grid(self, data: Data, *_: Any) -> Array:
        """Every size from the largest down to 0."""
        return np.arange(min(self._largest(data), data.X.shape[1]), -1.0, -1.0)

    def _path(self, data: Data, grid: Array) -> list[Any]:
        fits = self._solutions(data, int(grid.max()))
        last = len(fits) - 1  # rows may be too few for more
        return [PathResult.of(grid, [fits[min(int(size), last)] for size in grid])]

    def _largest(self, data: Data) -> int:
        """The largest size that is looked for."""
        p, n = data.X.shape[1], max(float(data.weights.sum()), 3.0)
        if self.size is not None:
            return whole_number("size", self.size, 0, p)
        if self.max_size is not None:
            return whole_number("max_size", self.max_size, 0, p)
        return max(int(n / max(np.log(p) * np.log(np.log(n)), 1.0)), 1)

    def _solutions(self, data: Data, most: int) -> list[Solution]:
        """Those of all sizes from 0 to `most`, or as many as rows and columns tell apart."""
        X, s = data.X, data.weights / data.weights.sum()
        y = np.asarray(data.targets[0], np.float64)
        y = y if data.offset is None else y - data.offset
        p, rows = X.shape[1], int(np.count_nonzero(s))
        columns = X.tocsc() if sparse.issparse(X) else X
        squares = columns.multiply(columns) if sparse.issparse(X) else np.square(X, dtype=float)
        diagonal, means, mean = np.asarray(squares.T @ s), np.zeros(p), 0.0
        if self.fit_intercept:
            means, mean = np.asarray(columns.T @ s), float(s @ y)
            diagonal = np.maximum(diagonal - means**2, 0.0)
        known: dict[int, Array] = {}

        def row(j: int) -> Array:
            if j not in known:
                column = columns[:, [j]].toarray()[:, 0] if sparse.issparse(X) else X[:, j]
                known[j] = np.asarray(columns.T @ (s * column)) - means * means[j]
            return known[j]

        diagonal[diagonal <= 1e-12 * (diagonal + means**2)] = 0.0  # constant
        q, square = np.asarray(columns.T @ (s * (y - mean))), float(s @ (y - mean) ** 2)
        most = min(most, p, max(rows - 1 - self.fit_intercept, 0))
        fits, looked = best_subsets(row, q, diagonal, square, most)
        solutions, tolerance = [], 1e-6 * float(np.max(abs(q), initial=1e-300))
        for members, beta, rest in fits:
            coef, left = np.zeros(p), q[members]
            coef[members] = beta
            for j, b in zip(members, beta, strict=True):
                left = left - b * row(j)[members]
            certificate = Certificate("distance", float(abs(left).max(initial=0.0)), tolerance)
            intercept = mean - float(means @ coef)
            solutions.append(Solution(coef, intercept, 0.5 * rest, certificate, looked))
        self.supports_ = [np.sort(fit.members) for fit in fits]
        self.objective_path_ = np.array([found.objective for found in solutions])
        return solutions


class BestSubsetCV(CrossValidated, BestSubset):
    """`BestSubset` with its size by cross-validation: `alphas_` are the sizes, from 0 on.

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import BestSubsetCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 50))
    >>> y = X[:, 3] - 2.0 * X[:, 7] + rng.standard_normal(100)
    >>> np.flatnonzero(BestSubsetCV(rule="1se").fit(X, y).coef_)
    array([3, 7])
    """

    _chosen = "size"

    # Sizes are tried, all up to the largest.
    size: Any = field(init=False, default=None)
    criterion: Any = field(init=False, default="ebic")
    alphas: Any = field(init=False, default=None)
    n_alphas: Any = field(init=False, default=None)
    alpha_ratio: Any = field(init=False, default=None)
    checkpoint: Any = field(init=False, default=None)

    def _grid(self, data: Data, *_: Any) -> Array:
        return super()._grid(data)[::-1]

    def _fit(self, data: Data) -> list[Any]:
        found = super()._fit(data)
        self.size_ = int(np.count_nonzero(found[0].coef))
        return found
