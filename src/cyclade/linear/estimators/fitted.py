"""What a fitted linear model holds and does; coefficients along alpha."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from cyclade._extras import needs
from cyclade.linear import Certificate
from cyclade.linear.checks import check_offset, chunked, in_chunks
from cyclade.linear.estimators.declare import Declared
from cyclade.linear.estimators.frames import encoded, holds_dates, is_categorical
from cyclade.linear.losses import Array
from cyclade.linear.results import worst

if TYPE_CHECKING:
    from typing_extensions import Self


@contextmanager
def text_named(X: Any) -> Iterator[None]:
    """Where a dataframe cannot be read as numbers, an error that names the column."""
    try:
        yield
    except (ValueError, TypeError) as error:  # TypeError: dates beside numbers, and the like
        if str(error).startswith(("X: ", "formula: ", "Expected unique")):  # it is not of text
            raise
        for name in getattr(X, "columns", ()):
            try:
                column = X[name]
                if is_categorical(column):
                    continue
                if holds_dates(column):
                    raise TypeError("it holds dates")  # which alone would pass as numbers
                np.asarray(column, np.float64)
            except (ValueError, TypeError):
                raise ValueError(
                    f"X: its entries must be real numbers; encode or drop column {name!r} "
                    f"(astype('category'), OneHotEncoder): {error}"
                ) from error
        raise


class FittedModel(Declared):
    """What `fit` sets, and what it is good for."""

    _chosen: ClassVar[str] = "alpha"  # the word for `alpha_`

    coef_: Annotated[
        Array,
        "array of shape (n_features,), or (n_outputs, n_features)",
        "Coefficients; classifiers have one row with two classes.",
    ] = field(init=False)
    intercept_: Annotated[Any, "float or array", "Intercepts."] = field(init=False)
    alpha_: Annotated[
        Any, "float", "The λ of the fit; None where the penalty object came with its own."
    ] = field(init=False)
    certificate_: Annotated[
        Certificate,
        "How far from optimal the solution is, measured on all columns; of several separate fits, "
        "the worst.",
    ] = field(init=False)
    objective_: Annotated[float, "F; of several separate fits, the sum."] = field(init=False)
    n_iter_: Annotated[int, "Passes; of several separate fits, the most."] = field(init=False)
    fit_time_: Annotated[float, "Seconds that `fit` took."] = field(init=False)
    n_features_in_: Annotated[int, "Columns of X."] = field(init=False)
    feature_names_in_: Annotated[
        Array, "array of str", "Names of the columns, where X had any."
    ] = field(init=False)
    encoder_: Annotated[
        Any,
        "FrameEncoder",
        "What encoded X, where that was a dataframe with categorical columns or a formula was "
        "given. Names and numbers of features are then those of the encoded columns.",
    ] = field(init=False)

    @property
    def _has_intercept(self) -> bool:
        """Whether an intercept was fitted."""
        return bool(getattr(self, "fit_intercept", True))

    def _linear(self, X: Any, offset: Any) -> Array:
        """Z = Xx + c + offset."""
        offset = getattr(self, "_own_offset", None) if offset is None else offset
        check_is_fitted(self, "coef_")
        if in_chunks(X):
            tables = chunked("estimators")
            tables.describe(self, X, reset=False)
            z = tables.table_predictions(X, dense(self.coef_).T, self.intercept_)
            return shifted(z, offset)
        options: Any = {"accept_sparse": ("csr", "csc"), "dtype": (np.float64, np.float32)}
        with text_named(X):
            if hasattr(self, "encoder_"):  # names are of what it makes
                X = check_array(encoded(self, X, reset=False), **options)
                if X.shape[1] != self.n_features_in_:
                    raise ValueError(f"X: must be a dataframe, or {self.n_features_in_} columns")
            else:
                X = validate_data(self, X, reset=False, **options)
        z = safe_sparse_dot(X, self.coef_.T, dense_output=True)
        if sparse.issparse(self.coef_) and np.ndim(self.intercept_) == 0:
            z = np.ravel(z)  # sparse coefficients always have two dimensions
        return shifted(np.asarray(z + self.intercept_), offset)

    def _name_features(self) -> None:
        """Names of the encoded columns are those of the features."""
        if hasattr(self, "encoder_"):
            self.feature_names_in_ = self.encoder_.get_feature_names_out()

    def _offset_for_score(self, offset: Any) -> Any:
        """The offset that `score` was given; ValueError where the fit had one and it has none."""
        if offset is None and getattr(self, "_had_offset", False):
            raise ValueError(
                "score: the model was fitted with an offset, so give offset= here too "
                "(zeros where there is none)"
            )
        return offset

    @property
    def sparse_coef_(self) -> Any:
        """`coef_` as a SciPy sparse array of two dimensions."""
        return sparse.csr_array(np.atleast_2d(dense(self.coef_)))

    def sparsify(self) -> Self:
        """Keep `coef_` as a sparse array from now on; predictions stay as they are."""
        check_is_fitted(self, "coef_")
        self.coef_ = self.sparse_coef_
        return self

    def densify(self) -> Self:
        """Keep `coef_` as an array again."""
        check_is_fitted(self, "coef_")
        if sparse.issparse(self.coef_):
            coef = dense(self.coef_)
            self.coef_ = coef[0] if np.ndim(self.intercept_) == 0 else coef
        return self

    def _ranked(self) -> tuple[Array, Array, Array, Array]:
        """Coefficients (T, p), names, the features chosen by |coefficient| × deviation, and those.

        Deviations are 1 where the fit knew none: of tables in chunks, and of streams.
        """
        check_is_fitted(self, "coef_")
        coef = np.atleast_2d(dense(self.coef_))
        names = np.asarray(getattr(self, "feature_names_in_", np.arange(coef.shape[1])))
        deviations: Array = getattr(self, "_deviations", np.ones(coef.shape[1]))
        size = abs(coef).max(axis=0) * np.where(deviations > 0, deviations, 1e-300)
        order = np.argsort(-size, kind="stable")
        return coef, names, order[abs(coef).max(axis=0)[order] > 0], deviations

    def _choice(self) -> list[str]:
        """How alpha was chosen, in words."""
        return []

    def coef_table(self) -> Any:
        """The features chosen as a pandas DataFrame, those that matter most first.

        Columns are `coef` (one per class or output where there are several), the standard deviation
        `std` of the feature (over at most some thousand rows), and `effect`, the largest
        |coef| × std of a feature.
        """
        with needs("coef_table"):
            pd: Any = import_module("pandas")
        coef, names, chosen, deviations = self._ranked()
        labels = getattr(self, "classes_", np.arange(len(coef)))
        columns = ["coef"] if len(coef) == 1 else [f"coef {labels[k]}" for k in range(len(coef))]
        table = dict(zip(columns, coef[:, chosen], strict=True))
        effect = abs(coef[:, chosen]).max(axis=0, initial=0.0) * deviations[chosen]
        index = pd.Index(names[chosen], name="feature")
        return pd.DataFrame({**table, "std": deviations[chosen], "effect": effect}, index=index)

    def summary(self, limit: int = 20) -> str:
        """The fit in words: what matters most, how alpha was chosen, the certificate.

        Parameters
        ----------
        limit : int, default=20
            How many features are listed. They are ranked as in `coef_table`.
        """
        coef, names, chosen = self._ranked()[:3]
        lines = [f"{type(self).__name__}: {len(chosen)} of {coef.shape[1]} features selected"]
        if getattr(self, "alpha_", None) is not None:
            lines[0] += f", {self._chosen} = {self.alpha_:.4g}"
        for j in chosen[:limit]:
            lines.append(f"  {names[j]}: " + ", ".join(f"{value:.4g}" for value in coef[:, j]))
        if len(chosen) > limit:
            lines.append(f"  and {len(chosen) - limit} more")
        if self._has_intercept:
            lines.append("intercept: " + ", ".join(f"{c:.4g}" for c in np.ravel(self.intercept_)))
        lines += self._choice()
        if hasattr(self, "certificate_"):
            c = self.certificate_
            state = "reached" if c.reached else "not reached"
            lines.append(f"{c.kind} {c.value:.2e}, tolerance {c.tolerance:.2e} {state}")
            lines.append(f"{self.fit_time_:.3g} s, {self.n_iter_} passes")
        return "\n".join(lines)


@dataclass(frozen=True)
class CoefficientPath:
    """Coefficients at many alphas.

    Attributes
    ----------
    alphas : array of shape (L,)
        Descending.
    coefs : array of shape (p, L), or (n_outputs, p, L)
        Coefficients.
    intercepts : array of shape (L,), or (n_outputs, L)
        Intercepts.
    certificates : list of L
        The certificate of each solution; of several separate fits, the worst.
    feature_names : array of p names, or None
        As the columns of X were called.
    """

    alphas: Array
    coefs: Array
    intercepts: Array
    certificates: list[Any]
    feature_names: Array | None = None

    @staticmethod
    def of(
        alphas: Array,
        results: list[Any],
        shape: Callable[[list[Array], list[Any]], tuple[Array, Any]],
        feature_names: Array | None = None,
    ) -> CoefficientPath:
        """Put the paths of separate fits together; `shape` makes coef_ and intercept_ of them."""
        points = [
            shape([r.coefs[..., k] for r in results], [r.intercepts[..., k] for r in results])
            for k in range(len(alphas))
        ]
        columns = zip(*(result.certificates for result in results), strict=True)
        return CoefficientPath(
            alphas,
            np.stack([coef for coef, _ in points], axis=-1),
            np.stack([np.asarray(intercept) for _, intercept in points], axis=-1),
            [worst(list(column)) for column in columns],
            feature_names,
        )

    @property
    def l1_norms(self) -> Array:
        """‖coef‖_1 at each alpha."""
        return np.asarray(abs(self.coefs).reshape(-1, len(self.alphas)).sum(axis=0))

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw it; see `cyclade.linear.plots.plot_path`."""
        from cyclade.linear.plots import plot_path

        return plot_path(self, ax=ax, **options)


def dense(coef: Any) -> Array:
    """Coefficients as an array, whether kept sparse or not."""
    return np.asarray(coef.toarray() if sparse.issparse(coef) else coef)


def shifted(z: Array, offset: Any) -> Array:
    """Predictions with the offset added."""
    offset = check_offset(offset, z.shape, z.dtype)
    return z if offset is None else np.asarray(z + offset)
