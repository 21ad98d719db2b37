"""Dataframes with categorical columns, and formulas, as sparse matrices: a column for each level.

The dense matrix is never made: a row has one entry for each categorical column.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from cyclade._extras import needs
from cyclade.linear.losses import Array


class FrameEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The columns of a dataframe of pandas or polars as one sparse matrix.

    Categorical columns (pandas' `category`, polars' `Categorical` and `Enum`) become a column of
    zeros and ones for each level seen, called ``column=level``. None is left out: a penalty, or the
    intercept, makes up for it. Other columns must hold numbers. Text is refused, since it may have
    as many levels as rows: declare it, as in ``frame.astype({"region": "category"})``.
    After the fit plain values will do, where all are levels that were seen.

    All estimators encode such frames themselves, with this encoder as `encoder_`.

    Parameters
    ----------
    formula : str, optional
        What the columns are made of, in the grammar of formulaic, as in
        ``"age + C(region) + age:income"``. It has treatment coding, as in R: where there is an
        intercept, a first level is left out. The intercept itself is that of the estimator.

    Attributes
    ----------
    levels_ : dict
        The levels of each categorical column; empty with a formula.

    Examples
    --------
    >>> import pandas as pd
    >>> from cyclade.linear import FrameEncoder
    >>> frame = pd.DataFrame({"age": [30.0, 50.0], "region": ["north", "south"]})
    >>> encoder = FrameEncoder().fit(frame.astype({"region": "category"}))
    >>> encoder.get_feature_names_out().tolist()
    ['age', 'region=north', 'region=south']
    >>> encoder.transform(frame.astype({"region": "category"})).toarray()
    array([[30.,  1.,  0.],
           [50.,  0.,  1.]])
    """

    def __init__(self, formula: str | None = None) -> None:
        self.formula = formula

    def fit(self, X: Any, y: Any = None) -> FrameEncoder:
        """Find the levels of categorical columns, or what a formula says about these columns."""
        require_frame(X)
        self.levels_: dict[Any, list[Any]] = {}
        if self.formula is not None:
            if "~" in self.formula:
                raise ValueError(
                    f"formula: must name columns of X alone, without ~ and y, got {self.formula!r}"
                )
            made = self._read(self.formula, X)
            self._spec, self._names = made.model_spec, list(made.model_spec.column_names)
            return self
        self._columns, self._names = list(X.columns), []
        for name in self._columns:
            if is_categorical(X[name]):
                levels, codes = levels_of(X[name])
                self.levels_[name] = [levels[k] for k in np.unique(codes[codes >= 0])]
            self._names += [f"{name}={level}" for level in self.levels_.get(name, [])] or [name]
        return self

    def transform(self, X: Any) -> Any:
        """The sparse matrix, by columns."""
        check_is_fitted(self, "levels_")
        require_frame(X)
        if self.formula is not None:
            X = self._read(self._spec, X)
            kept = [j for j, name in enumerate(self._names) if name != "Intercept"]
            return sparse.csc_matrix(X)[:, kept]
        lost = [name for name in self._columns if name not in X.columns]
        if lost:
            raise ValueError(f"X: lacks column {lost[0]!r}, which the fit had")
        parts = [self._column(name, X[name]) for name in self._columns]
        data, indices, counts = (np.concatenate(each) for each in zip(*parts, strict=True))
        indptr = np.concatenate([[0], np.cumsum(counts)])
        return sparse.csc_matrix((data, indices, indptr), shape=(len(X), len(self._names)))

    def _read(self, spec: Any, X: Any) -> Any:
        """The matrix of a formula, or of one that was read before."""
        with needs("formula", "formula"):
            formulaic: Any = import_module("formulaic")
        errors = formulaic.errors
        try:
            with warnings.catch_warnings():
                # Levels that the fit did not see would count as the one that is left out.
                warnings.simplefilter("error", errors.DataMismatchWarning)
                return formulaic.model_matrix(spec, X, output="sparse", na_action="raise")
        except (errors.FormulaicError, errors.DataMismatchWarning, ValueError) as error:
            said = str(error).partition(". They are being")[0]
            raise ValueError(f"formula: {self.formula!r} cannot be read: {said}") from None

    def _column(self, name: Any, column: Any) -> tuple[Array, Array, Array]:
        """Entries, their rows, and how many each of the columns has that are made of this one."""
        if name not in self.levels_:
            if holds_dates(column):  # which would pass as numbers
                raise TypeError("it holds dates")
            values = np.asarray(column, np.float64)
            rows = np.flatnonzero(values).astype(np.int32)
            return values[rows], rows, np.array([rows.size])
        known = {level: k for k, level in enumerate(self.levels_[name])}
        levels, codes = levels_of(column if is_categorical(column) else as_categorical(column))
        if (codes < 0).any():
            raise ValueError(f"X: column {name!r} has missing values: fill or drop them")
        found = np.array([known.get(level, -1) for level in levels], np.int64)[codes]
        if (found < 0).any():
            level = levels[codes[np.argmin(found)]]
            seen = ", ".join(map(repr, self.levels_[name][:5])) + ", …" * (len(known) > 5)
            raise ValueError(
                f"X: column {name!r} has level {level!r}, which the fit did not see; it saw {seen}"
            )
        counts = np.bincount(found, minlength=len(known))
        if len(known) < 2**15:
            found = found.astype(np.int16)  # sorted in linear time
        return np.ones(found.size), np.argsort(found, kind="stable").astype(np.int32), counts

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the columns that `transform` makes."""
        check_is_fitted(self, "levels_")
        return np.array([str(name) for name in self._names if name != "Intercept"], dtype=object)


def require_frame(X: Any) -> None:
    """Raise TypeError unless X has named columns."""
    if not hasattr(X, "columns"):
        raise TypeError(f"X: must be a dataframe of pandas or polars, got {type(X).__name__}")


def is_categorical(column: Any) -> bool:
    """Whether a column of a dataframe is declared to have levels."""
    kind = str(getattr(column, "dtype", ""))
    return kind == "category" or kind.startswith(("Categorical", "Enum"))


def holds_dates(column: Any) -> bool:
    """Whether a column of a dataframe holds times or spans of time."""
    return getattr(getattr(column, "dtype", None), "kind", np.asarray(column).dtype.kind) in "mM"


def as_categorical(column: Any) -> Any:
    """A column of plain values, whose levels are its values."""
    if hasattr(column, "to_physical"):  # polars
        return column.cast(str).cast(import_module("polars").Categorical)
    return column.astype("category")


def levels_of(column: Any) -> tuple[list[Any], Array]:
    """The levels of a categorical column, and the number of each row's; −1 where it is missing."""
    if hasattr(column, "to_physical"):  # polars
        codes = column.to_physical().cast(int).fill_null(-1).to_numpy()
        values, first, places = np.unique(codes, return_index=True, return_inverse=True)
        missing = int(values.size > 0 and values[0] < 0)  # it is the first, and no level
        return column[first[missing:].tolist()].cast(str).to_list(), places - missing
    return list(column.cat.categories), np.asarray(column.cat.codes, np.int64)


def encoded(model: Any, X: Any, reset: bool) -> Any:
    """X as the estimator fits it: frames with categorical columns, or a formula, become sparse.

    With `reset` the encoder is made anew; else X may be encoded already, as for a scorer.
    """
    formula = getattr(model, "formula", None)
    if reset:
        model.__dict__.pop("encoder_", None)
        frame = hasattr(X, "columns") and hasattr(X, "dtypes")
        if formula is not None or (frame and any(is_categorical(X[name]) for name in X.columns)):
            model.encoder_ = FrameEncoder(formula).fit(X)
    encoder = getattr(model, "encoder_", None)
    return encoder.transform(X) if encoder is not None and hasattr(X, "columns") else X
