"""Any loss and penalty by the stochastic methods: for very many rows, and for streams of them."""

from __future__ import annotations

import math
from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from sklearn.base import is_classifier

from cyclade.linear import PathResult, Solution
from cyclade.linear.checks import check_weights, chunked, in_chunks
from cyclade.linear.estimators.base import Data, Encoded, LinearModel
from cyclade.linear.estimators.generalized import GeneralizedLinear, GeneralizedLinearClassifier
from cyclade.linear.losses import Array
from cyclade.rows.fit import RowStream, solve_rows

if TYPE_CHECKING:
    from typing_extensions import Self


class Stochastic(LinearModel):
    """Rows in samples. Mixed in before an estimator with a loss and a penalty."""

    method: Annotated[
        str,
        '{"VRO-CCD", "VR-CCD", "SCCD", "PAGE", "SGD"}',
        "Cyclic descent on samples of the rows, with or without variance reduction.",
    ] = "VRO-CCD"
    batch_size: Annotated[
        int | None,
        "int",
        "Rows of a large batch: by default all of them in `fit` (128 for SCCD and SGD), and 512, "
        "or those of the first call if fewer, in `partial_fit`. Small batches are its square root.",
    ] = None
    max_iter: Annotated[int, "Epochs: how many times n component gradients `fit` may evaluate."] = (
        50
    )
    tol: Annotated[
        float, "Relative tolerance of the certificate, which `fit` checks once an epoch."
    ] = 1e-4
    random_state: Annotated[int, "The seed: same seed and rows, same model."] = 0

    n_iter_: Annotated[int, "Epochs of `fit`."] = field(init=False)
    n_rows_used_: Annotated[
        int, "After `partial_fit`: rows that took part so far; others wait until a batch is full."
    ] = field(init=False)

    def _fit(self, data: Data) -> list[Any]:
        self._streams: list[RowStream] = []
        return super()._fit(data)

    def _solve(self, data: Data, k: int, penalty: Any, coef: Any, intercept: Any) -> Solution:
        found = solve_rows(
            data.X,
            data.targets[k],
            data.loss,
            penalty,
            sample_weight=data.sample_weight,
            offset=data.offset_of(k),
            coef=coef,
            intercept=intercept,
            epochs=self.max_iter,
            tol=self.tol,
            callback=print if self.verbose else None,
            **self._sampling(data),
        )
        epochs = math.ceil(found.epochs)
        return Solution(found.coef, found.intercept, found.objective, found.certificate, epochs)

    def _sampling(self, data: Data) -> dict[str, Any]:
        """What a table and a stream have in common."""
        return {
            "method": self.method,
            "fit_intercept": self.fit_intercept,
            "b": self.batch_size,
            "outputs": len(self.classes_) if data.loss.target == "classes" else None,
            "seed": self.random_state,
        }

    def _path(self, data: Data, grid: Array) -> list[Any]:
        """One solution after another, each by rows and from the one before."""
        paths = []
        for k in range(len(data.targets)):
            found: list[Solution] = []
            start: tuple[Any, Any] = (None, None)
            for lam in grid:
                found.append(self._solve(data, k, data.at(float(lam)), *start))
                start = (found[-1].coef, found[-1].intercept)
            paths.append(PathResult.of(grid, found))
        return paths

    def _take(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Self:
        """Rows for the streams, one per separate fit."""
        if self.standardize or self.relaxed:
            raise ValueError("standardize and relaxed must be False for partial_fit")
        if in_chunks(X):
            for part in chunked("estimators").row_parts(X, y, sample_weight, offset):
                self._take(*part)
            return self
        first = not getattr(self, "_streams", None)
        X, y = self._validated(X, y, reset=first, accept_sparse=("csr",))
        weights = check_weights(sample_weight, X.shape[0], np.float64)
        data = self._checked(X, y, *self._encode_rows(y, weights), offset)
        if first:
            self.alpha_ = self._alpha(data)
            penalty, options = data.at(self.alpha_), self._sampling(data)
            self._streams = [RowStream(data.loss, penalty, **options) for _ in data.targets]
        for k, (stream, target) in enumerate(zip(self._streams, data.targets, strict=True)):
            stream.partial_fit(X, target, data.sample_weight, data.offset_of(k))
        coefs = [stream.coef for stream in self._streams]
        self.coef_, self.intercept_ = self._shape(coefs, [s.intercept for s in self._streams])
        self.n_rows_used_ = self._streams[0].rows_used
        return self

    def _encode_rows(self, y: Array, sample_weight: Array | None) -> Encoded:
        if not is_classifier(self):
            return self._encode(y, sample_weight)
        codes = np.searchsorted(self.classes_, y)
        unknown = (codes == len(self.classes_)) | (
            self.classes_[np.minimum(codes, len(self.classes_) - 1)] != y
        )
        if unknown.any():
            raise ValueError(f"y holds {y[unknown].tolist()[0]!r}, which is not in classes")
        return codes, sample_weight


class StochasticLinear(Stochastic, GeneralizedLinear):
    """Regression with any loss and penalty by variance-reduced cyclic descent on rows.

    F = (1/Σs_i) Σ s_i φ(y_i, z_i) + r(x), z = Xx + c + offset. `fit` is for tables with too many
    rows for many passes; `partial_fit` takes rows as they come, each used once.

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

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None) -> Self:
        """Take more rows. After `fit` a new stream begins.

        Parameters are those of `fit`.
        """
        return self._take(X, y, sample_weight, offset)


class StochasticLinearClassifier(Stochastic, GeneralizedLinearClassifier):
    """Classification with any loss of labels and penalty by variance-reduced descent on rows.

    F = (1/Σs_i) Σ s_i φ(y_i, z_i) + r(x), z = Xx + c + offset. `fit` is for tables with too many
    rows for many passes; `partial_fit` takes rows as they come, each used once.

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

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, *, offset: Any = None
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
