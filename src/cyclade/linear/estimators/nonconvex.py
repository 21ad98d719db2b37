"""Least squares with penalties that stop shrinking what is large."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cyclade.linear.estimators.cross_validated import CrossValidated
from cyclade.linear.estimators.lasso import LeastSquares
from cyclade.linear.estimators.tasks import Single
from cyclade.linear.losses.base import Array
from cyclade.linear.penalties import MCP, SCAD, LogSum


@dataclass(eq=False, repr=False, kw_only=True)
class MCPFamily(LeastSquares):
    """r = the minimax concave penalty."""

    gamma: float = 3.0
    positive: bool = False

    def _penalty(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        return MCP(1.0, self.gamma, positive=self.positive)


@dataclass(eq=False, repr=False)
class MCPRegression(MCPFamily, Single):
    """Least squares with the minimax concave penalty.

    F = (1/2Σs_i) Σ s_i (y_i − a_i·x − c)² + Σ_j r(x_j), where r(x) = alpha |x| − x²/(2γ) up to
    |x| = γ alpha and constant beyond: coefficients that large are not shrunk. F is nonconvex, and a
    stationary point is found; `path` and `MCPRegressionCV` follow one down from large alphas.

    Parameters
    ----------
    alpha : float, default=1.0
        λ, > 0.
    gamma : float, default=3.0
        γ > 1; large values approach the lasso.
    positive : bool, default=False
        Whether coefficients must be >= 0.
    {common}

    Attributes
    ----------
    {fitted}

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import MCPRegression
    >>> X = np.sqrt(3.0) * np.eye(3)
    >>> MCPRegression(alpha=0.5, fit_intercept=False).fit(X, X @ [4.0, 1.0, 0.1]).coef_
    array([4. , 0.75, 0. ])
    """


@dataclass(eq=False, repr=False)
class MCPRegressionCV(MCPFamily, CrossValidated):
    """`MCPRegression` with alpha by cross-validation.

    Parameters
    ----------
    gamma : float, default=3.0
        γ > 1.
    positive : bool, default=False
        Whether coefficients must be >= 0.
    {choice}
    {common}

    Attributes
    ----------
    {chosen}
    {fitted}
    """


@dataclass(eq=False, repr=False, kw_only=True)
class SCADFamily(LeastSquares):
    """r = the smoothly clipped absolute deviation."""

    gamma: float = 3.7
    positive: bool = False

    def _penalty(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        return SCAD(1.0, self.gamma, positive=self.positive)


@dataclass(eq=False, repr=False)
class SCADRegression(SCADFamily, Single):
    """Least squares with the smoothly clipped absolute deviation.

    F = (1/2Σs_i) Σ s_i (y_i − a_i·x − c)² + Σ_j r(x_j), where r is alpha |x| up to alpha, constant
    beyond γ alpha, and a parabola in between. F is nonconvex; a stationary point is found.

    Parameters
    ----------
    alpha : float, default=1.0
        λ, > 0.
    gamma : float, default=3.7
        γ > 2.
    positive : bool, default=False
        Whether coefficients must be >= 0.
    {common}

    Attributes
    ----------
    {fitted}

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import SCADRegression
    >>> X = np.sqrt(3.0) * np.eye(3)
    >>> SCADRegression(alpha=0.5, fit_intercept=False).fit(X, X @ [4.0, 1.0, 0.1]).coef_
    array([4. , 0.5, 0. ])
    """


@dataclass(eq=False, repr=False)
class SCADRegressionCV(SCADFamily, CrossValidated):
    """`SCADRegression` with alpha by cross-validation.

    Parameters
    ----------
    gamma : float, default=3.7
        γ > 2.
    positive : bool, default=False
        Whether coefficients must be >= 0.
    {choice}
    {common}

    Attributes
    ----------
    {chosen}
    {fitted}
    """


@dataclass(eq=False, repr=False, kw_only=True)
class LogSumFamily(LeastSquares):
    """r = alpha Σ_j log(1 + |x_j|/ε)."""

    eps: float = 1.0
    positive: bool = False

    def _penalty(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        return LogSum(1.0, self.eps, positive=self.positive)


@dataclass(eq=False, repr=False)
class LogSumRegression(LogSumFamily, Single):
    """Least squares with the log-sum penalty.

    F = (1/2Σs_i) Σ s_i (y_i − a_i·x − c)² + alpha Σ_j log(1 + |x_j|/ε). F is nonconvex; a
    stationary point is found.

    Parameters
    ----------
    alpha : float, default=1.0
        λ, > 0; the slope at zero is alpha/eps.
    eps : float, default=1.0
        ε > 0; large values approach the lasso.
    positive : bool, default=False
        Whether coefficients must be >= 0.
    {common}

    Attributes
    ----------
    {fitted}

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import LogSumRegression
    >>> X = np.sqrt(3.0) * np.eye(3)
    >>> LogSumRegression(alpha=0.5, fit_intercept=False).fit(X, X @ [4.0, 1.0, 0.1]).coef_
    array([3.8979, 0.7071, 0. ])
    """


@dataclass(eq=False, repr=False)
class LogSumRegressionCV(LogSumFamily, CrossValidated):
    """`LogSumRegression` with alpha by cross-validation.

    Parameters
    ----------
    eps : float, default=1.0
        ε > 0.
    positive : bool, default=False
        Whether coefficients must be >= 0.
    {choice}
    {common}

    Attributes
    ----------
    {chosen}
    {fitted}
    """
