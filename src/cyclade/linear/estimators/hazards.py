"""Regression of survival times: Cox's proportional hazards."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any

import numpy as np
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from cyclade._checks import choice, whole_number
from cyclade.linear.checks import check_weights
from cyclade.linear.cox import Cox, as_survival, concordance
from cyclade.linear.estimators.base import Data, Encoded, Regressor, Single
from cyclade.linear.estimators.cross_validated import CrossValidated
from cyclade.linear.estimators.generalized import GroupsText, named_penalty
from cyclade.linear.estimators.least_squares import L1Ratio
from cyclade.linear.losses import Array, Loss


class CoxRegression(Regressor, Single):
    """Cox's proportional hazards with the elastic net, or another penalty.

    F = −ℓ(z)/Σs_i + alpha (ρ ‖x‖_1 + ½ (1 − ρ) ‖x‖²) with z = Xx + offset and ℓ the partial
    log-likelihood, weighted by s. There is no intercept. The certificate is dist(∂F, 0).

    `y` is ``survival(time, event, entry=…, strata=…)``, a structured array of event and time as
    scikit-survival has it, or two columns of time and event. Times alone are all events.

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import CoxRegression, survival
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 3))
    >>> time = rng.exponential(np.exp(-X[:, 0]))
    >>> model = CoxRegression(alpha=0.1).fit(X, survival(time, rng.random(200) < 0.7))
    >>> bool(model.coef_[0] > 0.5), model.coef_[1:]
    (True, array([0., 0.]))
    >>> round(model.score(X, survival(time, np.ones(200))), 2)  # concordance
    0.75
    """

    l1_ratio: L1Ratio = 1.0
    penalty: Annotated[
        Any,
        "str or penalty object",
        'r; "elastic_net" has `l1_ratio`. Others are as for `GeneralizedLinear`, such as "mcp" or '
        "``penalties.GroupL2``.",
    ] = "elastic_net"
    groups: GroupsText = 1
    ties: Annotated[str, '{"breslow", "efron"}', "How events at equal times count."] = "breslow"
    # F does not change with an intercept. The engine fits one, which centres the columns.
    fit_intercept: Any = field(init=False, default=True)

    baseline_: Annotated[
        list[tuple[Array, Array]],
        "list of (times, cumulative hazard)",
        "The baseline of each stratum, a step function: Breslow's estimate, or Efron's with "
        '``ties="efron"`` (lifelines takes Breslow\'s there too).',
    ] = field(init=False)

    _targets = "rng.exponential(np.exp(-2.0 * X[:, 0]))"
    _positive_only, _multi_output = True, False
    _takes_chunks = False  # rows depend on one another
    _alpha_ratio = 0.05
    _has_intercept = False

    def _loss(self, y: Array, sample_weight: Array | None) -> Loss:
        return Cox(*self._likelihood, self.ties)

    def _penalty(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        options = {"l1_ratio": self.l1_ratio} if self.penalty == "elastic_net" else {}
        return named_penalty(self, X.shape[1], **options)

    def _data(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Data:
        choice("ties", self.ties, ("breslow", "efron"))
        return super()._data(X, y, sample_weight, offset)

    def _validated(self, X: Any, y: Any, **options: Any) -> tuple[Any, Array]:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        y = as_survival(y)
        X, _ = super()._validated(X, y["time"], **options)
        if not y["event"].any():
            raise ValueError("y must hold at least one event")
        return X, y

    def _encode(self, y: Array, sample_weight: Array | None) -> Encoded:
        """Rows by number: their weights are within the likelihood."""
        self._likelihood = y, np.ones(y.size) if sample_weight is None else sample_weight
        return np.arange(float(y.size)), None

    def _shape(self, coefs: list[Array], intercepts: list[Any]) -> tuple[Array, Any]:
        return super()._shape(coefs, intercepts)[0], 0.0

    def _fitted(self, data: Data) -> Any:
        super()._fitted(data)
        z = safe_sparse_dot(data.X, self.coef_ * self._scale)
        z = z if data.offset is None else z + data.offset
        self.baseline_ = data.loss.sets(data.targets[0]).baseline(z)  # type: ignore[attr-defined]
        return self

    def predict(self, X: Any, *, offset: Any = None) -> Array:
        """z = Xx + offset, the logarithm of the hazard beside the baseline's."""
        return np.asarray(self._linear(X, offset))

    def survival(self, X: Any, times: Any, *, offset: Any = None, stratum: Any = None) -> Array:
        """P(T > t) for each row of X and each of the times.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, p)
            The rows.
        times : array of shape (k,)
            The times.
        offset : array of shape (n,), default=None
            As in `fit`.
        stratum : int, default=None
            Which baseline, in the order of the sorted labels; needed where there are several.

        Returns
        -------
        array of shape (n, k)
        """
        check_is_fitted(self, "coef_")
        last = len(self.baseline_) - 1
        chosen = 0 if last == 0 and stratum is None else whole_number("stratum", stratum, 0, last)
        steps, hazard = self.baseline_[chosen]
        at = np.searchsorted(steps, np.asarray(times, np.float64), side="right")
        passed = np.r_[0.0, hazard][at]
        return np.asarray(np.exp(-np.outer(np.exp(self._linear(X, offset)), passed)))

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None) -> float:
        """Harrell's concordance: the share of comparable pairs that `predict` orders rightly."""
        z, y = self._linear(X, self._offset_for_score(offset)), as_survival(y)
        check_consistent_length(z, y)
        return concordance(y, z, check_weights(sample_weight, y.size, np.float64))


class CoxRegressionCV(CrossValidated, CoxRegression):
    """`CoxRegression` with alpha, and `l1_ratio` of several, by cross-validation.

    Scores are the partial log-likelihood of the held-out rows over their weight.
    """

    alpha_ratio: Annotated[
        float,
        "The smallest alpha over the largest. Fits with fewer rows than columns, next to no "
        "penalty, take long.",
    ] = 0.05
