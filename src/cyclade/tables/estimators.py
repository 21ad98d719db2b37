"""Estimators on tables in chunks: X stays where it is; y and weights are looked at on the client.

Labels, spreads and folds are found from y (one number a row). What is fitted are the chunks of y as
they were given, encoded where they lie, so that passes move no rows. Folds are weights of zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import validate_data

from cyclade.linear.checks import check_table, check_weights, from_dask
from cyclade.linear.losses import Array, Loss
from cyclade.tables import as_chunks
from cyclade.tables.chunks import Chunk, Mapped, RowChunks, Sums
from cyclade.tables.products import Buffers, as_array, combine

if TYPE_CHECKING:
    from cyclade.linear.estimators.base import Data


def gathered(column: Any) -> Any:
    """What belongs to the rows as an array on the client."""
    if column is None or np.isscalar(column):
        return column
    return np.asarray(column.compute() if from_dask(column) else column)


def sized(X: Any) -> bool:
    """Whether it is known how many rows the chunks of a table have."""
    if not from_dask(X):
        return True
    from cyclade.tables.dask_chunks import known_rows

    return known_rows(X) is not None


def gathered_parts(column: Any) -> tuple[Any, tuple[int, ...]]:
    """The same of a column of Dask, and how many rows its chunks have."""
    import dask

    from cyclade.tables.dask_chunks import delayed_parts

    if hasattr(column, "chunks") and column.ndim > 1:
        column = column.rechunk({1: -1})
    parts = [np.asarray(part) for part in dask.compute(*delayed_parts(column))]
    return np.concatenate(parts), tuple(map(len, parts))


def cut(column: Any, lengths: tuple[int, ...] | None) -> Any:
    """An array in memory as Dask's, in chunks of these rows; as it is where they are None."""
    if lengths is None or not isinstance(column, np.ndarray):
        return column
    import dask.array as da

    return da.from_array(column, chunks=(lengths, *column.shape[1:]))


def describe(model: Any, X: Any, reset: bool = True) -> None:
    """Set the number and the names of features, or compare with those of the fit."""
    check_table(X)
    if len(X.shape) != 2:
        raise ValueError(f"X: must have two dimensions, rows and columns, got {len(X.shape)}")
    named = hasattr(X, "columns") and X.columns.is_unique
    like = X._meta if named else np.empty((0, int(X.shape[1])))  # no rows, of pandas or NumPy
    validate_data(model, like, reset=reset, skip_check_array=True)


def table_data(model: Any, X: Any, y: Any, sample_weight: Any, offset: Any) -> Data:
    """Checked data of an estimator; rows of X are not read."""
    if model.standardize:
        raise ValueError(
            "standardize must be False for tables in chunks: divide the columns of X beforehand, "
            "as in X / X.std(axis=0)"
        )
    describe(model, X)
    lengths: tuple[int, ...] | None = None
    if from_dask(y) and not sized(X):  # the chunks of y say how long they are
        rows, lengths = gathered_parts(y)
    else:
        rows = gathered(y)
    model._lengths = lengths
    if rows is None:
        raise ValueError(f"{type(model).__name__} requires y to be passed, but it is None")
    if not len(rows):
        raise ValueError("X: must have at least one row and one column")
    if rows.dtype.kind == "O" and any(map(is_missing, rows.ravel())):
        raise ValueError("y: has missing values: drop these rows (dropna)")
    if rows.ndim == 2 and rows.shape[1] == 1 and not model._multi_output:
        rows = rows[:, 0]
    given = check_weights(gathered(sample_weight), len(rows), np.float64)
    if np.isscalar(sample_weight):  # all rows weigh the same
        sample_weight = given = None
    encoded, weights = model._encode(rows, given)
    data: Data = model._checked(X, rows, encoded, weights, gathered(offset))
    targets: list[Any] = data.targets
    if from_dask(y):
        kind = getattr(model, "classes_", None), data.loss.target == "classes", targets[0].ndim
        targets = [Mapped(partial(target, *kind, k), y) for k in range(len(targets))]
    own = np.ones(len(rows)) if weights is None else weights
    if getattr(model, "class_weight", None) is None:
        weights = sample_weight if from_dask(sample_weight) else cut(weights, lengths)
    elif from_dask(y):
        table = compute_class_weight(model.class_weight, classes=model.classes_, y=rows)
        own_weights = cut(given, lengths)
        own_weights = sample_weight if from_dask(sample_weight) else own_weights
        weights = Mapped(partial(class_weights, model.classes_, table), y, own_weights)
    if data.offset is not None and from_dask(offset):
        offset = offset.values if hasattr(offset, "columns") else offset
        offset = offset[:, 0] if offset.ndim > data.offset.ndim else offset
    else:
        offset = cut(data.offset, lengths)
    return replace(data, targets=targets, sample_weight=weights, offset=offset, gathered=own)


def is_missing(label: Any) -> bool:
    """Whether a label is none: None, NaN, or what pandas has for it."""
    same = label == label
    return label is None or not (isinstance(same, (bool, np.bool_)) and same)


def target(classes: Array | None, codes: bool, ndim: int, k: int, y: Array) -> Array:
    """Separate fit k of a chunk of y: class codes, −1 and 1 for one class, or numbers."""
    y = np.asarray(y)  # a column of a dataframe, or several
    if classes is None:
        return np.ascontiguousarray(y[:, k] if y.ndim > ndim else y, np.float64)
    found = np.searchsorted(classes, y[:, 0] if y.ndim > 1 else y)
    return found if codes else np.where(found == (1 if len(classes) == 2 else k), 1.0, -1.0)


def class_weights(classes: Array, table: Array, y: Array, s: Array | None) -> Array:
    """What the class of a row weighs, times its own weight."""
    y = np.asarray(y)
    found = table[np.searchsorted(classes, y[:, 0] if y.ndim > 1 else y)]
    return np.asarray(found if s is None else found * np.asarray(s))


def masked(s: Array | None, inside: Array) -> Array:
    """Weights that are zero outside."""
    return np.asarray(inside * 1.0 if s is None else np.where(inside, s, 0.0))


def table_part(data: Data, lengths: tuple[int, ...] | None, rows: Array) -> Data:
    """The same on some of the rows: all others weigh nothing."""
    inside = np.zeros(len(data.y), bool)
    inside[rows] = True
    weights: Any = Mapped(masked, data.sample_weight, cut(inside, lengths))
    return replace(data, sample_weight=weights)


@dataclass(frozen=True)
class Errors:
    """Σ s_i φ(y_i, z_i) at many coefficients, from one pass."""

    loss: Loss
    cols: Array
    coefs: Array  # (k, L), or (k, T, L)
    intercepts: Array  # (L,), or (T, L)

    def __call__(self, chunk: Chunk) -> Sums:
        """The sums of a chunk."""
        y, s = np.asarray(chunk.y), np.asarray(chunk.s, np.float64)
        X = chunk.X if hasattr(chunk.X, "tocsr") else as_array(chunk.X)
        values, buffers = [], Buffers()
        for k in range(self.intercepts.shape[-1]):
            z = combine(X, self.cols, self.coefs[..., k], buffers) + self.intercepts[..., k]
            z = z if chunk.offset is None else z + chunk.offset
            values.append(float(s @ self.loss.value(y, z)))
        outputs = y.shape[1] if y.ndim == 2 else 1
        return {"values": np.array(values) / outputs, "weight": float(s.sum())}


def table_errors(data: Data, results: list[Any]) -> Array:
    """The mean loss at every alpha over rows and outputs."""
    errors = []
    for k, (target, found) in enumerate(zip(data.targets, results, strict=True)):
        cols = np.flatnonzero(found.coefs.reshape(len(found.coefs), -1).any(axis=1))
        chunks = as_chunks(data.X, target, data.sample_weight, data.offset_of(k))
        task = Errors(data.loss, cols, np.asarray(found.coefs[cols], np.float64), found.intercepts)
        sums = chunks.reduce(task)
        errors.append(sums["values"] / sums["weight"])
    return np.asarray(np.mean(errors, axis=0))


@dataclass(frozen=True)
class Linear:
    """Xx + c, chunk by chunk."""

    coef: Array  # (p,), or (p, T)
    intercept: Any

    def __call__(self, chunk: Chunk) -> Sums:
        """The predictions of a chunk."""
        X = chunk.X if hasattr(chunk.X, "tocsr") else as_array(chunk.X)
        return {"list z": [(chunk.number, np.asarray(X @ self.coef) + self.intercept)]}


def table_predictions(X: Any, coef: Array, intercept: Any) -> Array:
    """Xx + c as an array on the client."""
    found = as_chunks(X, None, None, None).reduce(Linear(np.ascontiguousarray(coef), intercept))
    z = np.concatenate([z for _, z in sorted(found["list z"], key=lambda part: part[0])])
    if not np.isfinite(z).all():  # as in memory, where X is looked at
        row = int(np.argmin(np.isfinite(z).reshape(len(z), -1).all(axis=1)))
        raise ValueError(
            f"X: must hold finite numbers; it has NaN or infinity (or numbers too large) in row "
            f"{row}: fill or drop them (fillna, dropna, an imputer)"
        )
    return z


def some_columns(X: Any, on: Array) -> Any:
    """A table of these columns."""
    if isinstance(X, RowChunks):
        return X.take(on)
    if hasattr(X, "iloc") and X.columns.is_unique:
        return X.iloc[:, list(on)]
    return (X.values if hasattr(X, "iloc") else X)[:, on]


def row_parts(X: Any, *columns: Any) -> Iterator[tuple[Any, ...]]:
    """X, y, … of one chunk after another, computed as they are asked for; columns keep names."""
    chunks: Any = as_chunks(X, *columns)
    return (tuple(part[1:]) for part in chunks.parts() if part.X.shape[0])
