"""The square-root lasso: a penalty that need not know how large the errors are."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from scipy.stats import norm

from cyclade.linear import Certificate, Solution, penalties
from cyclade.linear.estimators.base import Data, Regressor, Single, solve
from cyclade.linear.estimators.cross_validated import CrossValidated
from cyclade.linear.estimators.least_squares import Positive
from cyclade.linear.losses import Array, Squared
from cyclade.linear.results import PathResult

MOST_LASSOS = 50  # for one alpha
PERFECT = 1e-4  # of the root at x = 0: below it y is fitted exactly, where lassos end too early


class SqrtLasso(Regressor, Single):
    """The square root of least squares with an l1 penalty: the scaled lasso's coefficients.

    F = (Σ s_i (y_i − a_i·x − c)² / Σ s_i)^½ + alpha ‖x‖_1

    A good alpha does not depend on the size of the errors. None takes that of Belloni, Chernozhukov
    and Wang (2011), 1.1 Φ⁻¹(1 − 0.05/(2p))/√n, for p columns of standard deviation 1
    (`standardize`). x solves the lasso with λ = alpha·σ, where σ is the root above. A few lassos
    end at it, since σ² is linear in λ² as long as the signs of x stay. The certificate is a gap.

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import SqrtLasso
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 20))
    >>> for errors in (0.1, 10.0):
    ...     y = errors * (5 * X[:, 0] + rng.standard_normal(100))
    ...     print(np.flatnonzero(SqrtLasso().fit(X, y).coef_))
    [0]
    [0]
    """

    positive: Positive = False

    _phi = Squared()
    _form = penalties.L1
    _multi_output = False
    _takes_chunks = False
    _alpha_ratio = 0.05

    def _data(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Data:
        """The penalty is that of a lasso, beside the root at x = 0: so λ_max is right."""
        data = super()._data(X, y, sample_weight, offset)
        rest, s = self._target(data), data.weights / data.weights.sum()
        if self.fit_intercept:
            rest = rest - s @ rest
        self._null = float(np.sqrt(s @ (rest * rest))) or 1.0
        return replace(data, penalty=data.penalty.weighted(np.full(data.X.shape[1], self._null)))

    def _alpha(self, data: Data) -> float | None:
        if self.alpha is not None:
            return super()._alpha(data)
        n, p = data.weights.sum(), data.X.shape[1]
        return float(1.1 * norm.isf(0.025 / p) / np.sqrt(n))

    def _solve(self, data: Data, k: int, penalty: Any, coef: Any, intercept: Any) -> Any:
        if isinstance(penalty, penalties.Box):  # alpha is zero
            return super()._solve(data, k, penalty, coef, intercept)
        return self._rooted(data, penalty, (coef, intercept), 1.0)[0]

    def _path(self, data: Data, grid: Array) -> list[Any]:
        start: tuple[Any, Any] = None, None
        fits, size = [], 1.0
        for alpha in grid:
            found, size = self._rooted(data, data.penalty.scaled(float(alpha)), start, size)
            start = found.coef, found.intercept
            fits.append(found)
        return [PathResult.of(grid, fits)]

    def _rooted(self, data: Data, penalty: Any, start: Any, size: float) -> tuple[Solution, float]:
        """The fit under `penalty` at λ = alpha, and σ there; σ is in units of that at x = 0.

        Lassos at λ = alpha·t are solved for t between the bounds known, until σ(t) = t by the gap.
        """
        options, passes = self._options(data, 0), 0
        goal, low, high, before = self._tolerance(data) * self._null, 0.0, np.inf, None
        # Gradients are as exact as the root of a gap, which is rounded.
        options["tol"] = max(self._tolerance(data) ** 2, 1e-15)
        y, s = self._target(data), data.weights / data.weights.sum()
        options.pop("offset")
        coef, intercept = start
        for _ in range(MOST_LASSOS):
            lasso = penalty.scaled(penalty.lam * size)
            found = solve(data.X, y, data.loss, lasso, coef=coef, intercept=intercept, **options)
            coef, intercept, passes = found.coef, found.intercept, passes + found.passes
            residual = y - data.X @ coef - intercept
            sigma = float(np.sqrt(s @ (residual * residual)))
            F = sigma + penalty.total(coef) / self._null
            gap = F - self._dual(data.X, y, s * residual / (size * self._null), s, penalty)
            if gap <= goal or high <= PERFECT:
                break
            now = sigma / self._null
            low, high = (max(low, size), high) if now > size else (low, min(high, size))
            point, size = (size * size, now * now), now
            if before is not None and point[0] != before[0]:  # σ² = a + b t² through both
                b = (point[1] - before[1]) / (point[0] - before[0])
                a = point[1] - b * point[0]
                if b < 1.0 and a > 0.0:
                    size = float(np.sqrt(a / (1.0 - b)))
            if not low < size < high:
                size = 0.5 * (low + min(high, 1.0))
            before = point
        certificate = Certificate("gap", max(gap, 0.0), max(goal, 1e-15 * F))
        return replace(found, objective=F, certificate=certificate, passes=passes), size

    def _target(self, data: Data) -> Array:
        """What X has to explain."""
        return data.targets[0] if data.offset is None else data.targets[0] - data.offset

    def _dual(self, X: Any, y: Array, u: Array, s: Array, penalty: Any) -> float:
        """⟨u, y⟩ of u made feasible: Σ u²/s ≤ 1, and |Xᵀu| ≤ the thresholds of x.

        Residuals over λ/alpha are, for the lasso is optimal; even where σ goes to zero.
        """
        if self.fit_intercept:
            u = u - s * u.sum()
        pull = np.asarray(X.T @ u)
        pull = np.maximum(pull, 0.0) if self.positive else abs(pull)
        most = np.broadcast_to(penalty._table[:, 0] / self._null, pull.shape)
        free = most > 0.0
        over = max(1.0, float(np.max(pull[free] / most[free], initial=0.0)))
        over = max(over, float(np.sqrt(np.sum(u * u / np.where(s > 0, s, np.inf)))))
        return float(u @ y) / over if (pull[~free] <= 1e-6).all() else -np.inf


class SqrtLassoCV(CrossValidated, SqrtLasso):
    """`SqrtLasso` with alpha by cross-validation; scores are minus the mean squared error."""

    alpha_ratio: Annotated[
        float,
        "The smallest alpha over the largest. With more columns than rows small ones fit y "
        "exactly, where the root has no derivative.",
    ] = 0.05
