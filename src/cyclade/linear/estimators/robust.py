"""Regression that outliers do not spoil, and regression of quantiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cyclade.linear import losses
from cyclade.linear.estimators.checks import check_choice, check_number, spread
from cyclade.linear.estimators.cross_validated import CrossValidated
from cyclade.linear.estimators.penalised import NAMES, named_penalty
from cyclade.linear.estimators.tasks import Regressor, Single
from cyclade.linear.losses import Loss, Quantile
from cyclade.linear.losses.base import Array

LOSSES = ("huber", "cauchy", "welsch", "geman_mcclure", "tukey")


def spread_of(y: Array, sample_weight: Array | None) -> float:
    """`spread`, averaged over the outputs."""
    columns = y[:, None] if y.ndim == 1 else y
    return float(np.mean([spread(column, sample_weight) for column in columns.T]))


@dataclass(eq=False, repr=False, kw_only=True)
class RobustFamily(Regressor):
    """A loss that grows slowly, with any penalty on coordinates."""

    loss: str = "cauchy"
    penalty: str = "l1"
    scale: Any = "auto"

    def _loss(self, y: Array, sample_weight: Array | None) -> Loss:
        check_choice("loss", self.loss, LOSSES)
        parameter = "delta" if self.loss == "huber" else "scale"
        scale = self.scale
        if isinstance(scale, str):
            check_choice("scale", scale, ("auto",))
            tuned: float = getattr(losses.get(self.loss), parameter)
            scale = tuned * spread_of(y, sample_weight)
        self.scale_ = check_number("scale", scale)
        return losses.get(self.loss, **{parameter: self.scale_})

    def _penalty(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        check_choice("penalty", self.penalty, NAMES)
        return named_penalty(self.penalty)


@dataclass(eq=False, repr=False)
class RobustRegression(RobustFamily, Single):
    """Regression with a robust loss and a sparse penalty.

    F = (1/Σs_i) Σ s_i φ(y_i − a_i·x − c) + r(x). Every φ is ½u² for small u; "huber" is linear far
    out and convex, the others grow like a logarithm ("cauchy") or not at all, so that gross
    outliers lose all influence. Those are nonconvex, and a stationary point is found.

    Parameters
    ----------
    alpha : float, default=1.0
        λ, > 0.
    loss : {"huber", "cauchy", "welsch", "geman_mcclure", "tukey"}, default="cauchy"
        φ.
    penalty : {"l1", "elastic_net", "mcp", "scad", "log_sum", "nonnegative_l1"}, default="l1"
        r, with its usual parameters; `GeneralizedLinear` takes others.
    scale : float or "auto", default="auto"
        Where φ turns away from ½u² (huber's δ). "auto" is the constant with 95 % efficiency on
        normal errors times the spread of y about its median (1.4826 times the median absolute
        deviation). That is more than the spread of the errors where X explains much of y: give a
        number if you know the errors.
    {common}

    Attributes
    ----------
    scale_ : float
        The scale used.
    {fitted}

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import RobustRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 3))
    >>> y = X @ [1.0, 0.0, -2.0]
    >>> y[:10] += 1000.0
    >>> RobustRegression(alpha=0.01, loss="tukey", scale=1.0).fit(X, y).coef_.round(1)
    array([ 1., 0., -2.])
    """


@dataclass(eq=False, repr=False)
class RobustRegressionCV(RobustFamily, CrossValidated):
    """`RobustRegression` with alpha by cross-validation; scores are minus the robust loss.

    Parameters
    ----------
    loss : {"huber", "cauchy", "welsch", "geman_mcclure", "tukey"}, default="cauchy"
        φ.
    penalty : {"l1", "elastic_net", "mcp", "scad", "log_sum", "nonnegative_l1"}, default="l1"
        r.
    scale : float or "auto", default="auto"
        As in `RobustRegression`, from all rows.
    {choice}
    {common}

    Attributes
    ----------
    scale_ : float
        The scale used.
    {chosen}
    {fitted}
    """


@dataclass(eq=False, repr=False, kw_only=True)
class QuantileFamily(Regressor):
    """The smoothed check loss."""

    quantile: float = 0.5
    smoothing: Any = "auto"
    penalty: str = "l1"

    def _loss(self, y: Array, sample_weight: Array | None) -> Loss:
        smoothing = self.smoothing
        if isinstance(smoothing, str):
            check_choice("smoothing", smoothing, ("auto",))
            smoothing = 0.05 * spread_of(y, sample_weight)
        if not 0 < check_number("quantile", self.quantile) < 1:
            raise ValueError(f"quantile must lie strictly between 0 and 1, got {self.quantile!r}")
        self.smoothing_ = check_number("smoothing", smoothing)
        return Quantile(self.quantile, self.smoothing_)

    def _penalty(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        check_choice("penalty", self.penalty, NAMES)
        return named_penalty(self.penalty)


@dataclass(eq=False, repr=False)
class QuantileRegression(QuantileFamily, Single):
    """Regression of a quantile of y given X, with a sparse penalty.

    F = (1/Σs_i) Σ s_i φ(y_i − a_i·x − c) + r(x), where φ(v) = (q − ½) v + ½ |v|, with |v| rounded
    to v²/(2h) + h/2 where |v| < h. As h → 0 this is the objective of scikit-learn's
    `QuantileRegressor`; F moves by h/4 at most.

    Parameters
    ----------
    alpha : float, default=1.0
        λ, > 0.
    quantile : float, default=0.5
        q, strictly between 0 and 1.
    smoothing : float or "auto", default="auto"
        h > 0. "auto" is 5 % of the spread of y about its median.
    penalty : {"l1", "elastic_net", "mcp", "scad", "log_sum", "nonnegative_l1"}, default="l1"
        r.
    {common}

    Attributes
    ----------
    smoothing_ : float
        The smoothing used.
    {fitted}

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import QuantileRegression
    >>> y = np.arange(101.0)
    >>> model = QuantileRegression(quantile=0.9, alpha=1.0).fit(np.zeros((101, 1)), y)
    >>> round(model.intercept_)
    90
    """


@dataclass(eq=False, repr=False)
class QuantileRegressionCV(QuantileFamily, CrossValidated):
    """`QuantileRegression` with alpha by cross-validation; scores are minus the smoothed loss.

    Parameters
    ----------
    quantile : float, default=0.5
        q, strictly between 0 and 1.
    smoothing : float or "auto", default="auto"
        h > 0; "auto" is 5 % of the spread of y about its median.
    penalty : {"l1", "elastic_net", "mcp", "scad", "log_sum", "nonnegative_l1"}, default="l1"
        r.
    {choice}
    {common}

    Attributes
    ----------
    smoothing_ : float
        The smoothing used.
    {chosen}
    {fitted}
    """
