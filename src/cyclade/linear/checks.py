"""Arguments of linear models beyond those of `cyclade._checks`, checked before any work."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cyclade._checks import as_float, require, whole_number

if TYPE_CHECKING:
    from cyclade.linear.losses import Loss

Array = NDArray[Any]


def in_chunks(X: Any) -> bool:
    """Whether X is a table in chunks of rows: `RowChunks`, or of Dask, which is not imported."""
    return type(X).__name__ == "RowChunks" or from_dask(X)


def chunked(module: str) -> Any:
    """A module of `cyclade.tables`, which imports this package: loaded late."""
    return import_module(f"cyclade.tables.{module}")


def from_dask(X: Any) -> bool:
    """Whether X is an array or a dataframe of Dask."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(X, "__dask_keys__")


def check_table(X: Any) -> None:
    """Raise TypeError for what Dask has besides arrays and dataframes."""
    kind = type(X).__name__
    if kind in ("Bag", "Item") or kind.startswith("Delayed"):
        raise TypeError(f"X: must be an array or a dataframe of Dask, got {kind}")


def check_flag(name: str, value: Any) -> None:
    """Raise ValueError unless the value is true or false: any text would count as true."""
    require(isinstance(value, (bool, np.bool_, int)), name, value, "True or False")


def between(name: str, value: Any) -> float:
    """`value` as a float; ValueError unless it lies strictly between 0 and 1."""
    require(0 < as_float(value) < 1, name, value, "strictly between 0 and 1")
    return float(value)


def check_weights(sample_weight: Any, n: int, dtype: Any) -> Array | None:
    """Weights as a vector, or None; ValueError unless n finite numbers >= 0, not all zero."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n, sample_weight)
    weights = numbers("sample_weight", sample_weight, dtype)
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight must be 1D with one entry for each of the {n} rows of X, "
            f"got shape {weights.shape}"
        )
    if (weights < 0).any():
        raise ValueError("sample_weight must hold numbers >= 0: negative weights are not allowed")
    if not weights.any():
        raise ValueError("sample_weight: at least one weight must not be zero")
    return weights


def check_offset(offset: Any, shape: tuple[int, ...], dtype: Any) -> Array | None:
    """An offset in the shape of the predictions, or None; ValueError unless it is that."""
    if offset is None:
        return None
    values = numbers("offset", offset, dtype)
    if values.shape == (*shape, 1):
        values = values[:, 0]
    elif values.shape == shape[:1] and len(shape) == 2:
        values = np.repeat(values[:, None], shape[1], axis=1)
    if values.shape != shape:
        raise ValueError(
            f"offset must have the shape {shape} of the predictions, got {values.shape}"
        )
    return values


def check_groups(groups: Any, n: int) -> Array | None:
    """Labels of rows, or None; ValueError unless there is one per row."""
    if groups is None:
        return None
    labels = np.asarray(groups)
    if labels.shape != (n,):
        raise ValueError(
            f"groups must have one entry for each of the {n} rows of X, got shape {labels.shape}"
        )
    return labels


def check_gram(precompute: Any, p: int) -> Any:
    """`precompute`; ValueError unless it is what scikit-learn's may be."""
    if isinstance(precompute, (bool, np.bool_)):
        return bool(precompute)
    if isinstance(precompute, str) and precompute == "auto":
        return precompute
    if isinstance(precompute, str) or np.shape(precompute) != (p, p):
        got = repr(precompute) if isinstance(precompute, str) else f"shape {np.shape(precompute)}"
        raise ValueError(
            f"precompute must be True, False, 'auto' or an array of shape {(p, p)}, got {got}"
        )
    single = getattr(precompute, "dtype", None) == np.float32  # its rounding is allowed for
    return numbers("precompute", precompute, np.float32 if single else np.float64)


def as_groups(groups: Any, p: int, names: Array | None) -> Any:
    """Groups by sizes, labels or names as lists of features; one size and lists are left alone."""
    if isinstance(groups, str) and groups == "columns":
        if names is None:
            raise ValueError('groups: "columns" goes by the names of a dataframe, and X has none')
        groups = [str(name).partition("=")[0] for name in names]
    accepted = f"one size, sizes that add up to {p}, {p} labels or lists of features"
    require(isinstance(groups, Integral) or np.iterable(groups), "groups", groups, accepted)
    groups = list(groups.values()) if isinstance(groups, Mapping) else groups
    if isinstance(groups, Integral) or any(np.ndim(group) for group in groups):
        return groups if names is None or isinstance(groups, Integral) else named(groups, names)
    if len(groups) == p:
        labels = np.asarray(groups)
        if p > 1 and labels.dtype.kind in "iu" and (labels == 1).all():
            raise ValueError(
                f"groups: {p} ones may be sizes or labels; give 1 for groups of one feature, or "
                "another label for one group of all"
            )
        _, codes = np.unique(labels, return_inverse=True)
        order, sizes = np.argsort(codes, kind="stable"), np.bincount(codes)
    else:
        order, sizes = np.arange(p), np.asarray(groups)
        valid = sizes.dtype.kind in "iu" and bool((sizes >= 1).all()) and sizes.sum() == p
        require(valid, "groups", groups, accepted)
    return [part.tolist() for part in np.split(order, np.cumsum(sizes)[:-1])]


def named(groups: Any, names: Array) -> Any:
    """Lists of features with names turned into numbers; ValueError if names leave one out."""
    known = by_name(names)
    given = [feature for group in groups for feature in group if isinstance(feature, str)]
    for feature in given:
        if feature not in known:
            raise ValueError(f"groups: X has no feature named {feature!r}")
    numbered = [[j for feature in group for j in known.get(feature, [feature])] for group in groups]
    missing = set(range(len(names))).difference(*numbered)
    if given and missing:
        raise ValueError(
            f"groups miss feature {str(names[min(missing)])!r}; they must cover all {len(names)}"
        )
    return numbered


def by_name(names: Any) -> dict[str, list[int]]:
    """The features with each name, and under the name of a categorical column all its levels."""
    found: dict[str, list[int]] = {name: [j] for j, name in enumerate(names)}
    for j, name in enumerate(names):
        column, level, _ = str(name).partition("=")
        if level and [j] != found.get(column):
            found.setdefault(column, []).append(j)
    return found


def numbers(name: str, values: Any, dtype: Any) -> Array:
    """Finite numbers as an array of that type."""
    try:
        array = np.asarray(values, dtype=dtype)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must hold numbers") from None
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must hold finite numbers: it has NaN or infinity")
    return array


def is_constant(y: Array) -> bool:
    """Whether all rows are alike: an intercept then explains them, and gradients are rounding."""
    return bool((y[0] == y[-1]).all() and (y == y[0]).all())


def weighted_median(values: Array, weights: Array | None) -> float:
    """The lower median, each value as often as its weight says; ties are told up to rounding."""
    order = np.argsort(values, kind="stable")
    mass = np.ones(len(values)) if weights is None else weights
    cumulated = np.cumsum(mass[order], dtype=np.float64)
    half = (0.5 - len(values) * np.finfo(np.float64).eps) * cumulated[-1]
    return float(values[order][np.searchsorted(cumulated, half)])


def spread(y: Array, weights: Array | None) -> float:
    """The standard deviation by the median absolute deviation, averaged over the outputs.

    1.4826 times the median of |y − median y|, or of the nonzero ones where more than half are 0;
    1 where all are.
    """
    if y.ndim == 2:
        return float(np.mean([spread(column, weights) for column in y.T]))
    distance = abs(y - weighted_median(y, weights))
    kept = distance > 0
    if weights is not None:
        kept &= weights > 0
    if not kept.any():
        return 1.0
    median = weighted_median(distance, weights)
    if median == 0.0:
        median = weighted_median(distance[kept], None if weights is None else weights[kept])
    return 1.4826 * median


def as_start(p: int, coef: Any, intercept: Any) -> tuple[Any, Any]:
    """Checked starting points, or None where none was given."""
    if coef is not None:
        coef = numbers("coef", coef, np.float64)
        if coef.shape[:1] != (p,) or coef.ndim > 2:
            raise ValueError(
                f"coef: X has {p} columns, so a start must have as many rows, "
                f"got shape {coef.shape}"
            )
    return coef, None if intercept is None else numbers("intercept", intercept, np.float64)


def default_alphas(penalty: Any, g0: Array, n_alphas: int, alpha_ratio: float) -> Array:
    """λ_max, …, alpha_ratio · λ_max in geometric progression."""
    count = whole_number("n_alphas", n_alphas, 1)
    between("alpha_ratio", alpha_ratio)
    if not hasattr(penalty, "lam_max"):
        raise TypeError(f"penalty: {type(penalty).__name__} lacks lam_max(g0); give alphas instead")
    largest = float(penalty.lam_max(g0))
    if not 0 < largest < np.inf:
        raise ValueError(f"alphas: λ_max is {largest} for these data, so alphas must be given")
    return np.asarray(largest * np.geomspace(1.0, alpha_ratio, count))


def check_alphas(alphas: Any) -> Array:
    """Positive finite λ in decreasing order."""
    given: Array = np.atleast_1d(np.asarray(alphas, np.float64))
    if given.ndim != 1 or given.size == 0 or not (np.isfinite(given).all() and (given > 0).all()):
        raise ValueError("alphas: must be one or more positive finite numbers")
    return np.sort(given)[::-1].copy()


def as_data(
    n: int, y: Any, loss: Loss, sample_weight: Any, offset: Any
) -> tuple[Array, Array, Array]:
    """Checked y, weights that sum to one, and the offset, in float64."""
    y = np.asarray(y)
    if y.dtype.kind not in "fiub":
        raise ValueError(f"y: must hold real numbers, got dtype {y.dtype}")
    if y.ndim not in (1, 2) or len(y) != n:
        raise ValueError(f"y: X has {n} rows, so y must have shape ({n},), got {y.shape}")
    y = numbers("y", y, y.dtype if loss.target == "classes" else np.float64)
    loss.check(y)
    check_gradient(loss, y)
    weights = check_weights(sample_weight, n, np.float64)
    s = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
    b = np.zeros(n) if offset is None else numbers("offset", offset, np.float64)
    if b.shape[:1] != (n,) or b.ndim > 2:
        raise ValueError(f"offset: must have one entry per row of X ({n}), got shape {b.shape}")
    return plain(y), s, plain(b)


def check_gradient(loss: Any, y: Array) -> None:
    """Raise ValueError where a user's gradient(y, z) points away from the slope of value(y, z).

    By differences on a few rows, near y or near 0; rows where they are not finite are left out.
    """
    if type(loss).__module__.startswith("cyclade.") and not hasattr(loss, "loss"):
        return
    own, y = getattr(loss, "loss", loss), y[:16]
    outputs = (int(y.max()) + 1,) if loss.target == "classes" else y.shape[1:]
    centre = y if loss.target == "real" else np.zeros(len(y))
    spread = float(np.std(centre)) or 1.0
    z = np.zeros((len(y), *outputs)) + (centre if centre.ndim > len(outputs) else centre[:, None])
    z += spread * np.random.default_rng(0).standard_normal(z.shape)
    move = 1e-4 * spread
    with np.errstate(all="ignore"):
        rise = np.asarray(loss.value(y, z + move)) - np.asarray(loss.value(y, z - move))
        slope, g = rise / (2.0 * move), np.asarray(loss.gradient(y, z))
        g = g if g.ndim == 1 else g.sum(axis=1)
        told = np.isfinite(slope) & np.isfinite(g)
        slope, g = slope[told], g[told]
        if slope.size and slope @ g < -0.5 * np.linalg.norm(slope) * np.linalg.norm(g):
            i = int(np.argmax(np.abs(slope)))
            raise ValueError(
                f"loss: gradient(y, z) of {type(own).__name__} has the wrong sign: it is "
                f"{g[i]:.3g} where value(y, z) changes by {slope[i]:.3g} for each unit of z"
            )


def plain(array: Array) -> Array:
    """The array, C-contiguous and writable: kernels are compiled anew for any other kind."""
    return array if array.flags.carray else np.array(array, order="C")


def as_starts(
    problems: list[Any], p: int, outputs: int | None, coef: Any, intercept: Any
) -> list[tuple[Any, Array, Any]]:
    """Each problem with its start (x, c); `outputs` is None where each has one."""
    coef, intercept = as_start(p, coef, intercept)
    T = len(problems) if outputs is None else outputs
    shape = (p,) if T == 1 else (p, T)
    if coef is not None and coef.size != p * T:
        raise ValueError(f"coef: a start must have shape {shape}, got {coef.shape}")
    x = np.zeros((p, T)) if coef is None else coef.reshape(p, T)
    c = np.zeros(T)
    if intercept is not None and problems[0].fit_intercept:
        if intercept.size not in (1, T):
            raise ValueError(f"intercept: there are {T} outputs, got {intercept.size} numbers")
        c[:] = intercept.reshape(-1)
    if outputs is not None:
        return [(problems[0], problems[0].penalty.by_blocks(x), c)]
    return [
        (problem, problem.penalty.by_blocks(np.ascontiguousarray(x[:, t])), float(c[t]))
        for t, problem in enumerate(problems)
    ]


def as_floats(X: Array) -> Array:
    """float32 and float64 as they are, other real numbers as float64."""
    if X.dtype.kind not in "fiub":
        raise ValueError(f"X: its entries must be real numbers, got dtype {X.dtype}")
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


def check_shape(shape: tuple[int, ...]) -> None:
    """Raise ValueError unless there are rows and columns."""
    if len(shape) != 2:
        raise ValueError(f"X: must have two dimensions, rows and columns, got {len(shape)}")
    if 0 in shape:
        raise ValueError(f"X: must have at least one row and one column, got shape {shape}")


def precise(X: Any, entries: int, uneven: bool, tuning: Any) -> Any:
    """X itself, or a small float32 X in float64: its rounding would show before a gap closes."""
    small = entries <= tuning.huge if uneven else 2 * entries <= tuning.cache
    return X.astype(np.float64) if X.dtype == np.float32 and small else X


def check_finite(entries: Array) -> None:
    """Raise ValueError unless all entries are finite."""
    if not np.isfinite(entries).all():
        raise ValueError("X: must hold finite numbers; it has NaN or infinity")
