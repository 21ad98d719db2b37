"""Any loss and penalty by the stochastic methods: for very many rows, and for streams of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import validate_data

from cyclade.linear.api import PathResult
from cyclade.linear.estimators.checks import check_number, check_offset, check_weights
from cyclade.linear.estimators.generalized import PairClassifier, PairRegressor, SinglePair
from cyclade.linear.estimators.values import Fit, Problem
from cyclade.linear.losses.base import Array
from cyclade.linear.stochastic.fit import RowStream, solve_rows

if TYPE_CHECKING:
    from typing_extensions import Self

ROWS = """alpha : float, default=None
        λ > 0, for penalties with `scaled`. None leaves the penalty as it is; one given by name
        then has λ = 1.
    method : {"VRO-CCD", "VR-CCD", "SCCD", "PAGE", "SGD"}, default="VRO-CCD"
        Cyclic descent on samples of the rows, with or without variance reduction.
    batch_size : int, default=None
        Rows of a large batch: by default all of them in `fit` (128 for SCCD and SGD), and 512, or
        those of the first call if fewer, in `partial_fit`. Small batches are its square root.
    max_iter : int, default=50
        Epochs: how many times n component gradients `fit` may evaluate.
    tol : float, default=1e-4
        Relative tolerance of the certificate, which `fit` looks at once an epoch.
    fit_intercept : bool, default=True
        Whether to fit an unpenalised intercept.
    warm_start : bool, default=False
        Whether `fit` starts from the solution of the last one.
    verbose : bool, default=False
        Whether every epoch is printed.
    random_state : int, default=0
        The seed: same seed and rows, same model."""

STREAMED = """coef_, intercept_ : arrays
        Coefficients and intercepts.
    certificate_, objective_, n_iter_
        After `fit`: how far from optimal the solution is over all rows, F there, and epochs.
    n_rows_used_ : int
        After `partial_fit`: rows that took part so far; others wait until a batch is full.
    n_features_in_, feature_names_in_
        As in scikit-learn."""


@dataclass(eq=False, repr=False, kw_only=True)
class Stochastic(SinglePair):
    """Rows in samples."""

    method: str = "VRO-CCD"
    batch_size: int | None = None
    random_state: int = 0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Fill in what the docstrings share."""
        super().__init_subclass__(**kwargs)
        for mark, text in (("{rows}", ROWS), ("{streamed}", STREAMED)):
            cls.__doc__ = (cls.__doc__ or "").replace(mark, text)

    def _solve(self, problem: Problem, alpha: float | None) -> list[Any]:
        self._streams: list[RowStream] = []
        penalty, starts = problem.at(alpha), self._warm(problem)
        return [
            self._rows(problem, k, penalty, coef, intercept)
            for k, (coef, intercept) in enumerate(starts)
        ]

    def _rows(self, problem: Problem, k: int, penalty: Any, coef: Any, intercept: Any) -> Fit:
        found = solve_rows(
            problem.X,
            problem.targets[k],
            problem.loss,
            penalty,
            method=self.method,
            sample_weight=problem.sample_weight,
            offset=problem.offset_of(k),
            fit_intercept=self.fit_intercept,
            coef=coef,
            intercept=intercept,
            b=self.batch_size,
            outputs=self._outputs(problem),
            epochs=self.max_iter,
            tol=self.tol,
            seed=self.random_state,
            callback=print if self.verbose else None,
        )
        epochs = math.ceil(found.epochs)
        return Fit(found.coef, found.intercept, found.objective, found.certificate, epochs)

    def _path(self, problem: Problem, grid: Array) -> list[Any]:
        """One solution after another, each by rows and from the one before."""
        return [self._rows_path(problem, k, grid) for k in range(len(problem.targets))]

    def _rows_path(self, problem: Problem, k: int, grid: Array) -> Any:
        found: list[Fit] = []
        for lam in grid:
            start = (found[-1].coef, found[-1].intercept) if found else (None, None)
            found.append(self._rows(problem, k, problem.at(float(lam)), *start))
        return PathResult(
            grid,
            np.stack([fit.coef for fit in found], axis=-1),
            np.stack([fit.intercept for fit in found], axis=-1),
            np.array([fit.objective for fit in found]),
            [fit.certificate for fit in found],
            np.array([fit.passes for fit in found]),
        )

    def _outputs(self, problem: Problem) -> int | None:
        return len(self.classes_) if problem.loss.target == "classes" else None

    def _take(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Self:
        """Rows for the streams, one per separate fit."""
        first = not getattr(self, "_streams", None)
        X, given = validate_data(
            self,
            X,
            y,
            reset=first,
            accept_sparse=("csr",),
            dtype=(np.float64, np.float32),
            multi_output=self.__sklearn_tags__().target_tags.multi_output,
        )
        weights = check_weights(sample_weight, X.shape[0], X.dtype)
        encoded, weights = self._encode_rows(given, weights, X.dtype)
        loss = self._loss(encoded, weights)
        penalty = self._penalty(X, encoded, weights)
        targets = self._separate(encoded, loss, penalty)
        offset = check_offset(offset, self._predictions(X.shape[0], targets, loss), X.dtype)
        problem = Problem(X, given, targets, weights, offset, loss, penalty)
        if first:
            alpha = None if self.alpha is None else check_number("alpha", self.alpha)
            self._streams = [
                RowStream(
                    loss,
                    problem.at(alpha),
                    method=self.method,
                    fit_intercept=self.fit_intercept,
                    b=self.batch_size,
                    outputs=self._outputs(problem),
                    seed=self.random_state,
                )
                for _ in targets
            ]
        for k, (stream, target) in enumerate(zip(self._streams, targets, strict=True)):
            stream.partial_fit(X, target, weights, problem.offset_of(k))
        self._one_column = given.ndim == 2 and targets[0].ndim == 1
        self.coef_, self.intercept_ = self._shape(
            [stream.coef for stream in self._streams],
            [stream.intercept for stream in self._streams],
        )
        self.n_rows_used_ = self._streams[0].rows_used
        return self

    def _encode_rows(
        self, y: Array, sample_weight: Array | None, dtype: Any
    ) -> tuple[Array, Array | None]:
        if not is_classifier(self):
            return self._encode(y, sample_weight, dtype)
        codes = np.searchsorted(self.classes_, y)
        unknown = (codes == len(self.classes_)) | (
            self.classes_[np.minimum(codes, len(self.classes_) - 1)] != y
        )
        if unknown.any():
            raise ValueError(f"y holds {y[unknown].tolist()[0]!r}, which is not in classes")
        return codes, sample_weight


@dataclass(eq=False, repr=False)
class StochasticLinear(PairRegressor, Stochastic):
    """Regression with any loss and penalty by variance-reduced cyclic descent on rows.

    F = (1/Σs_i) Σ s_i φ(y_i, z_i) + r(x), z = Xx + c + offset. `fit` is for tables with too many
    rows for many passes; `partial_fit` takes rows as they come, each used once.

    Parameters
    ----------
    {pair}
    {rows}

    Attributes
    ----------
    {streamed}

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import StochasticLinear
    >>> rng = np.random.default_rng(0)
    >>> model = StochasticLinear("squared", "l1", alpha=0.1)
    >>> for _ in range(40):
    ...     X = rng.standard_normal((250, 5))
    ...     model = model.partial_fit(X, 2.0 * X[:, 0] + 1.0)
    >>> model.coef_.round(1)
    array([1.9, 0. , 0. , 0. , 0. ])
    """

    # Said here, as the last base to mention a field decides its default.
    max_iter: int = field(default=50, kw_only=True)
    tol: float = field(default=1e-4, kw_only=True)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None) -> Self:
        """Take more rows. After `fit` a new stream begins.

        Parameters are those of `fit`.
        """
        return self._take(X, y, sample_weight, offset)


@dataclass(eq=False, repr=False)
class StochasticLinearClassifier(PairClassifier, Stochastic):
    """Classification with any loss of labels and penalty by variance-reduced descent on rows.

    F = (1/Σs_i) Σ s_i φ(y_i, z_i) + r(x), z = Xx + c + offset. `fit` is for tables with too many
    rows for many passes; `partial_fit` takes rows as they come, each used once.

    Parameters
    ----------
    {pair}
    {rows}
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; must be None for `partial_fit`.

    Attributes
    ----------
    classes_ : array
        The labels.
    {streamed}

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from cyclade.linear import StochasticLinearClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = StochasticLinearClassifier("logistic", "l1", alpha=0.02, tol=0.01)
    >>> model = model.fit(scale(X), y)
    >>> round(model.score(scale(X), y), 2)
    0.97
    """

    # Said here, as the last base to mention a field decides its default.
    max_iter: int = field(default=50, kw_only=True)
    tol: float = field(default=1e-4, kw_only=True)

    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
        *,
        offset: Any = None,
    ) -> Self:
        """Take more rows. After `fit` a new stream begins, with the same classes.

        `classes` are all labels that will ever come; they are needed in the first call.
        """
        if self.class_weight is not None:
            raise ValueError("class_weight must be None for partial_fit: give sample_weight")
        known = hasattr(self, "classes_")
        if not known and classes is None:
            raise ValueError("classes must be given in the first call of partial_fit")
        if not known:
            self.classes_ = np.unique(classes)
            if len(self.classes_) < 2:
                raise ValueError("classes must hold at least 2 classes")
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes must stay what they were: {self.classes_}")
        return self._take(X, y, sample_weight, offset)
