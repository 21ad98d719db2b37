"""Least squares with every penalty that has an estimator of its own."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any

import numpy as np

from cyclade._checks import positive, require
from cyclade.linear import penalties
from cyclade.linear.checks import as_groups, chunked, in_chunks, numbers
from cyclade.linear.estimators.base import Regressor, Single, solve
from cyclade.linear.estimators.cross_validated import CrossValidated
from cyclade.linear.losses import Array, Squared

Positive = Annotated[bool, "Whether coefficients must be >= 0."]
L1Ratio = Annotated[
    Any,
    "float",
    "ρ, between 0 (ridge) and 1 (lasso). The twins with cross-validation take a list of them too.",
]
AlphaOne = Annotated[
    float | None,
    "float",
    "λ; 1 is scikit-learn's default too. None takes a tenth of the smallest λ at which all "
    "coefficients are zero, 0 leaves all unpenalised.",
]
Precompute = Annotated[
    Any,
    'bool, "auto" or array of shape (n_features, n_features)',
    "Whether to form the products X.T @ X of all columns first, where X is dense with no fewer "
    "rows than columns: 'auto' where that pays, True always, False never. Or these products, of X "
    "or of its centred columns; a few of them are compared with X. Folds of cross-validation form "
    "their own.",
]
UsedWeights = Annotated[Array, "array of shape (n_features,)", "The weights used."]


class LeastSquares(Regressor, Single):
    """φ = ½ (z − y)²."""

    _phi = Squared()


class Lasso(LeastSquares):
    """Least squares with an l1 penalty, the objective of scikit-learn's `Lasso`.

    F = (1/2Σs_i) Σ s_i (y_i − a_i·x − c)² + alpha ‖x‖_1

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import Lasso
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]])
    >>> model = Lasso(alpha=0.1).fit(X, [0.0, 1.0, 2.0])
    >>> model.coef_, model.intercept_
    (array([0.85, 0. ]), 0.15)
    >>> model.certificate_.reached
    True
    """

    alpha: AlphaOne = field(default=1.0, kw_only=False)
    positive: Positive = False
    precompute: Precompute = "auto"

    _form = penalties.L1


class LassoCV(CrossValidated, Lasso):
    """`Lasso` with alpha by cross-validation."""


class ElasticNet(LeastSquares):
    """Least squares with l1 and l2 penalties, the objective of scikit-learn's `ElasticNet`.

    F = (1/2Σs_i) Σ s_i (y_i − a_i·x − c)² + alpha (ρ ‖x‖_1 + ½ (1 − ρ) ‖x‖²)

    Examples
    --------
    >>> from cyclade.linear import ElasticNet
    >>> model = ElasticNet(alpha=0.1).fit([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]], [0.0, 1.0, 2.0])
    >>> model.coef_
    array([0.860..., 0. ])
    """

    alpha: AlphaOne = field(default=1.0, kw_only=False)
    l1_ratio: L1Ratio = 0.5
    positive: Positive = False
    precompute: Precompute = "auto"

    _form = penalties.ElasticNet


class ElasticNetCV(CrossValidated, ElasticNet):
    """`ElasticNet` with alpha, and `l1_ratio` of several, by cross-validation."""


class WeightedLasso(LeastSquares):
    """Least squares with a weighted l1 penalty; by default the adaptive lasso.

    F = (1/2Σs_i) Σ s_i (y_i − a_i·x − c)² + alpha Σ_j w_j |x_j|

    Examples
    --------
    >>> from cyclade.linear import WeightedLasso
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]], [0.0, 1.0, 2.0]
    >>> WeightedLasso(alpha=0.1, weights=[2.0, 1.0]).fit(X, y).coef_
    array([0.7, 0. ])
    """

    weights: Annotated[
        Any,
        '"adaptive" or array of shape (n_features,)',
        'w_j >= 0; zero leaves a coefficient unpenalised. "adaptive" takes |b_j|^−gamma from a '
        "ridge fit b with penalty 10⁻³, scaled to have the median 1.",
    ] = "adaptive"
    gamma: Annotated[float, "The exponent of adaptive weights."] = 1.0
    positive: Positive = False

    weights_: UsedWeights = field(init=False)

    _adapts = True

    def _penalty(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        if isinstance(self.weights, str):
            known = "'adaptive' or one number per feature"
            require(self.weights == "adaptive", "weights", self.weights, known)
            self.weights_ = self._adapted(X, y, sample_weight)
        else:
            self.weights_ = numbers("weights", self.weights, np.float64)
        if self.weights_.shape != (X.shape[1],):
            raise ValueError(
                f"weights must have one entry for each of the {X.shape[1]} features, "
                f"got shape {self.weights_.shape}"
            )
        return penalties.WeightedL1(1.0, self.weights_, positive=self.positive)

    def _adapted(self, X: Any, y: Array, sample_weight: Array | None) -> Array:
        """|b_j|^−γ of a lightly penalised ridge fit b, scaled to have the median 1."""
        gamma = positive("gamma", self.gamma)
        if in_chunks(X):
            cut = chunked("estimators").cut
            y, sample_weight = (cut(column, self._lengths) for column in (y, sample_weight))
            ridge = penalties.ElasticNet(1e-3, 0.0)
            options: Any = {"sample_weight": sample_weight, "fit_intercept": self.fit_intercept}
            size = abs(solve(X, y, "squared", ridge, tol=1e-12, **options).coef).T
        else:
            total = X.shape[0] if sample_weight is None else float(sample_weight.sum())
            from sklearn.linear_model import Ridge

            pilot = Ridge(1e-3 * total, fit_intercept=self.fit_intercept, tol=1e-10)
            size = abs(pilot.fit(X, y, sample_weight).coef_)
        size = size if size.ndim == 1 else np.linalg.norm(size, axis=0)
        largest = float(size.max(initial=0.0))
        if largest == 0.0:
            return np.ones(X.shape[1])
        weights = np.maximum(size / largest, 1e-6) ** -gamma
        return np.asarray(weights / np.median(weights), dtype=np.float64)


class WeightedLassoCV(CrossValidated, WeightedLasso):
    """`WeightedLasso` with alpha by cross-validation; each fold has adaptive weights of its own."""


class MCPRegression(LeastSquares):
    """Least squares with the minimax concave penalty.

    F = (1/2Σs_i) Σ s_i (y_i − a_i·x − c)² + Σ_j r(x_j), where r(x) = alpha |x| − x²/(2γ) up to
    |x| = γ alpha and constant beyond: coefficients that large are not shrunk. F is nonconvex, and a
    stationary point is found; `path` and `MCPRegressionCV` follow one down from large alphas.

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import MCPRegression
    >>> X = np.sqrt(3.0) * np.eye(3)
    >>> MCPRegression(alpha=0.5, fit_intercept=False).fit(X, X @ [4.0, 1.0, 0.1]).coef_
    array([4. , 0.75, 0. ])
    """

    gamma: Annotated[float, "γ > 1; large values approach the lasso."] = 3.0
    positive: Positive = False

    _form = penalties.MCP


class MCPRegressionCV(CrossValidated, MCPRegression):
    """`MCPRegression` with alpha by cross-validation."""


class SCADRegression(LeastSquares):
    """Least squares with the smoothly clipped absolute deviation.

    F = (1/2Σs_i) Σ s_i (y_i − a_i·x − c)² + Σ_j r(x_j), where r is alpha |x| up to alpha, constant
    beyond γ alpha, and a parabola in between. F is nonconvex; a stationary point is found.

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import SCADRegression
    >>> X = np.sqrt(3.0) * np.eye(3)
    >>> SCADRegression(alpha=0.5, fit_intercept=False).fit(X, X @ [4.0, 1.0, 0.1]).coef_
    array([4. , 0.5, 0. ])
    """

    gamma: Annotated[float, "γ > 2; large values approach the lasso."] = 3.7
    positive: Positive = False

    _form = penalties.SCAD


class SCADRegressionCV(CrossValidated, SCADRegression):
    """`SCADRegression` with alpha by cross-validation."""


class LogSumRegression(LeastSquares):
    """Least squares with the log-sum penalty.

    F = (1/2Σs_i) Σ s_i (y_i − a_i·x − c)² + alpha Σ_j log(1 + |x_j|/ε), whose derivative at zero is
    alpha/ε. F is nonconvex; a stationary point is found.

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import LogSumRegression
    >>> X = np.sqrt(3.0) * np.eye(3)
    >>> LogSumRegression(alpha=0.5, fit_intercept=False).fit(X, X @ [4.0, 1.0, 0.1]).coef_
    array([3.8979, 0.7071, 0. ])
    """

    eps: Annotated[float, "ε > 0; large values approach the lasso."] = 1.0
    positive: Positive = False

    _form = penalties.LogSum


class LogSumRegressionCV(CrossValidated, LogSumRegression):
    """`LogSumRegression` with alpha by cross-validation."""


class SlopeRegression(LeastSquares):
    """Least squares with a sorted l1 penalty (SLOPE): large coefficients are penalised more.

    F = (1/2Σs_i) Σ s_i (y_i − a_i·x − c)² + alpha Σ_k w_k |x|_(k)

    where |x|_(1) ≥ |x|_(2) ≥ … and w_1 ≥ w_2 ≥ …. Coefficients of correlated columns are drawn
    together to exactly equal size; equal weights give the `Lasso`.

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import SlopeRegression
    >>> X = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> model = SlopeRegression(alpha=1.0, weights=[1.0, 0.5, 0.0], fit_intercept=False)
    >>> model.fit(X, [6.0, 5.5, 0.0]).coef_
    array([3.5, 3.5, 0. ])
    """

    weights: Annotated[
        Any,
        '{"bh", "oscar"} or array of shape (n_features,)',
        'w, which must not increase. "bh" is w_k = Φ⁻¹(1 − kq/2p) / Φ⁻¹(1 − q/2p), after '
        'Benjamini and Hochberg; "oscar" falls along a line, w_k = (p − k + 1)/p.',
    ] = "bh"
    q: Annotated[float, 'Of "bh": the rate of false discoveries, strictly between 0 and 1.'] = 0.1

    weights_: UsedWeights = field(init=False)

    def _penalty(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        penalty = penalties.Slope(1.0, self.weights, self.q)
        self.weights_ = penalty.shape(X.shape[1])
        return penalty


class SlopeRegressionCV(CrossValidated, SlopeRegression):
    """`SlopeRegression` with alpha by cross-validation."""


class GroupLasso(LeastSquares):
    """Least squares that keeps or drops whole groups of features.

    F = (1/2Σs_i) Σ s_i (y_i − a_i·x − c)² + alpha Σ_k w_k ‖x_{G_k}‖_2

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import GroupLasso
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((50, 6))
    >>> y = X[:, 2] - X[:, 3]
    >>> model = GroupLasso(alpha=0.2, groups=[[0, 1], [2, 3], [4, 5]]).fit(X, y)
    >>> np.flatnonzero(model.coef_)
    array([2, 3])
    """

    groups: Annotated[
        Any,
        "int, list of int, array of labels or list of lists",
        "The size of consecutive groups, or a list of their sizes, or one label per feature (in "
        "the order of the sorted labels), or the features of each group, by number or by name. "
        "Every feature is in exactly one.",
    ] = 1
    group_weights: Annotated[
        Any,
        "array of one number per group",
        "w_k >= 0; None takes the square roots of the group sizes.",
    ] = None
    positive: Positive = False

    def _penalty(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        names = getattr(self, "feature_names_in_", None)
        penalty = self._group_penalty(as_groups(self.groups, X.shape[1], names))
        penalty.parameters(X.shape[1])  # groups and weights must fit X
        return penalty

    def _group_penalty(self, groups: Any) -> penalties.BlockPenalty:
        return penalties.GroupL2(1.0, groups, self.group_weights, self.positive)


class GroupLassoCV(CrossValidated, GroupLasso):
    """`GroupLasso` with alpha by cross-validation."""


class SparseGroupLasso(GroupLasso):
    """Least squares that drops whole groups, and features within groups.

    F = (1/2Σs_i) Σ s_i (y_i − a_i·x − c)² + alpha Σ_k ((1 − ρ) w_k ‖x_{G_k}‖_2 + ρ ‖x_{G_k}‖_1)

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import SparseGroupLasso
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((50, 6))
    >>> y = 2 * X[:, 2] + 0.1 * rng.standard_normal(50)
    >>> model = SparseGroupLasso(alpha=0.2, groups=2).fit(X, y)
    >>> np.flatnonzero(model.coef_)
    array([2])
    """

    l1_ratio: Annotated[
        Any, "float", "ρ, between 0 (group lasso) and 1 (lasso). The twin takes a list of them too."
    ] = 0.5

    def _group_penalty(self, groups: Any) -> penalties.BlockPenalty:
        return penalties.SparseGroup(1.0, self.l1_ratio, groups, self.group_weights, self.positive)


class SparseGroupLassoCV(CrossValidated, SparseGroupLasso):
    """`SparseGroupLasso` with alpha, and `l1_ratio` of several, by cross-validation."""


class MultiTaskLasso(LeastSquares):
    """Least squares for several targets that use the same features.

    F = (1/2Σs_i) Σ s_i ‖y_i − a_i·x − c‖² + alpha Σ_j ‖x_j‖_2 over the rows x_j of x (p, T), the
    objective of scikit-learn's `MultiTaskLasso`.

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import MultiTaskLasso
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((50, 5))
    >>> Y = np.stack([X[:, 1], X[:, 1] - X[:, 4]], axis=1)
    >>> MultiTaskLasso(alpha=0.3).fit(X, Y).coef_.any(axis=0)
    array([False, True, False, False, True])
    """

    alpha: AlphaOne = field(default=1.0, kw_only=False)
    _single_output = False
    _targets = "X[:, :1] + 0.1 * rng.standard_normal((60, 2))"

    def _penalty(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        if y.ndim != 2:
            raise ValueError(
                f"y must have shape (n_samples, n_tasks) for {type(self).__name__}, got {y.shape}; "
                "for one task use Lasso"
            )
        return penalties.Rows(1.0)


class MultiTaskLassoCV(CrossValidated, MultiTaskLasso):
    """`MultiTaskLasso` with alpha by cross-validation."""
