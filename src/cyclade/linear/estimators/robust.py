"""Regression that outliers do not spoil, and regression of quantiles."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any

from cyclade._checks import choice, positive
from cyclade.linear import losses, penalties
from cyclade.linear.checks import between, spread
from cyclade.linear.estimators.base import Regressor, Single
from cyclade.linear.estimators.cross_validated import CrossValidated
from cyclade.linear.estimators.least_squares import Positive
from cyclade.linear.losses import Array, Loss, Quantile

LOSSES = ("huber", "cauchy", "welsch", "geman_mcclure", "tukey")
PENALTIES = ("l1", "elastic_net", "mcp", "scad", "log_sum", "nonnegative_l1")


def listed(names: tuple[str, ...]) -> str:
    """The names as a docstring lists them."""
    return "{" + ", ".join(f'"{name}"' for name in names) + "}"


def in_spreads(name: str, given: Any, times: float, y: Array, sample_weight: Array | None) -> float:
    """The number given, or so many times the spread of y for "auto"."""
    if isinstance(given, str):
        choice(name, given, ("auto",))
        given = times * spread(y, sample_weight)
    return positive(name, given)


class NamedPenalty(Regressor, Single):
    """A penalty on coordinates, by name."""

    penalty: Annotated[
        str, listed(PENALTIES), "r, with its usual parameters; `GeneralizedLinear` takes others."
    ] = "l1"
    positive: Positive = False

    def _penalty(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        choice("penalty", self.penalty, PENALTIES)
        bounded = {} if self.penalty == "nonnegative_l1" else {"positive": self.positive}
        return penalties.get(self.penalty, 1.0, **bounded)


class RobustRegression(NamedPenalty):
    """Regression with a robust loss and a sparse penalty.

    F = (1/Σs_i) Σ s_i φ(y_i − a_i·x − c) + r(x). Every φ is ½u² for small u; "huber" is linear far
    out and convex, the others grow like a logarithm ("cauchy") or not at all, so that gross
    outliers lose all influence. Those are nonconvex, and a stationary point is found.

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

    loss: Annotated[str, listed(LOSSES), "φ."] = "cauchy"
    scale: Annotated[
        Any,
        'float or "auto"',
        'Where φ turns away from ½u² (huber\'s δ). "auto" is the constant with 95 % efficiency on '
        "normal errors times the spread of y about its median over all rows (1.4826 times the "
        "median absolute deviation). That is more than the spread of the errors where X explains "
        "much of y: give a number if you know the errors.",
    ] = "auto"

    scale_: Annotated[float, "The scale used."] = field(init=False)

    def _loss(self, y: Array, sample_weight: Array | None) -> Loss:
        choice("loss", self.loss, LOSSES)
        parameter = "delta" if self.loss == "huber" else "scale"
        tuned: float = getattr(losses.get(self.loss), parameter)
        self.scale_ = in_spreads("scale", self.scale, tuned, y, sample_weight)
        return losses.get(self.loss, **{parameter: self.scale_})


class RobustRegressionCV(CrossValidated, RobustRegression):
    """`RobustRegression` with alpha by cross-validation; scores are minus the robust loss."""


class QuantileRegression(NamedPenalty):
    """Regression of a quantile of y given X, with a sparse penalty.

    F = (1/Σs_i) Σ s_i φ(y_i − a_i·x − c) + r(x), where φ(v) = (q − ½) v + ½ |v|, with |v| rounded
    to v²/(2h) + h/2 where |v| < h. As h → 0 this is the objective of scikit-learn's
    `QuantileRegressor`; F moves by h/4 at most.

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import QuantileRegression
    >>> y = np.arange(101.0)
    >>> model = QuantileRegression(quantile=0.9, alpha=1.0).fit(np.zeros((101, 1)), y)
    >>> round(model.intercept_)
    90
    """

    quantile: Annotated[float, "q, strictly between 0 and 1."] = 0.5
    smoothing: Annotated[
        Any,
        'float or "auto"',
        'h > 0. "auto" is 5 % of the spread of y about its median over all rows.',
    ] = "auto"

    smoothing_: Annotated[float, "The smoothing used."] = field(init=False)

    def _loss(self, y: Array, sample_weight: Array | None) -> Loss:
        between("quantile", self.quantile)
        self.smoothing_ = in_spreads("smoothing", self.smoothing, 0.05, y, sample_weight)
        return Quantile(self.quantile, self.smoothing_)


class QuantileRegressionCV(CrossValidated, QuantileRegression):
    """`QuantileRegression` with alpha by cross-validation; scores are minus the smoothed loss."""
