"""The debiased lasso: a step from a sparse fit that makes normal estimates of its coefficients."""

from __future__ import annotations

import warnings
from functools import partial
from itertools import pairwise

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from cyclade.linear.losses import Array
from cyclade.linear.statistics.deviances import (
    DISPERSED,
    FittedRows,
    expected_curvature,
    pearson,
    products,
)
from cyclade.linear.threads import one_thread


def debiased(
    rows: FittedRows, coef: Array, intercept: bool, names: Array, n_jobs: int | None
) -> tuple[Array, Array, str, float]:
    """A step from the fit along −Mg, and the spread of that step.

    Coefficients that were fitted took degrees of freedom from the residuals: the step is longer by
    n over those left, and its variance too (Bellec and Zhang 2022).
    """
    if not rows.family:
        raise ValueError(f"method: 'debiased' is for losses of distributions, not {rows.loss!r}")
    n, slopes = float(rows.s.sum()), rows.s * rows.loss.gradient(rows.y, rows.z)
    w, dispersion, part = rows.s * expected_curvature(rows.loss, rows.z), 1.0, 1.0
    if isinstance(rows.loss, DISPERSED):
        part = 1.0 - (np.count_nonzero(coef) + intercept) / n
        if part <= 0.0:
            raise ValueError("model: it has as many coefficients as there are rows; raise alpha")
        dispersion = pearson(rows, rows.z) / (n * part)
    G, g = products(rows.X, w), rows.X.T @ slopes
    if intercept:
        means = rows.X.T @ w / w.sum()
        G, g = G - w.sum() * np.outer(means, means), g - means * slopes.sum()
    scale = np.sqrt(np.diag(G) / n)
    if not (scale > 1e-12 * scale.max()).all():
        at = names[int(np.argmin(scale))]
        raise ValueError(f"X: feature {at} is constant: drop it, as nothing is known of it")
    G, g = G / (n * np.outer(scale, scale)), g / (n * scale)
    shift, variance = nodewise(G, g, n, n_jobs)
    unknown = dependent(G) | np.isinf(variance) if len(g) < len(rows.y) else np.isinf(variance)
    if unknown.any():
        which = ", ".join(map(str, names[unknown][:10])) + (", ..." if unknown.sum() > 10 else "")
        warnings.warn(
            f"X: columns {which} are dependent (as all levels of a category are beside an "
            "intercept), so the rows do not tell their coefficients apart: drop one of them; "
            "formula= leaves a level out",
            UserWarning,
            stacklevel=3,
        )
    errors = np.sqrt(dispersion * variance / (n * part)) / scale
    return coef - shift / (part * scale), errors, "debiased", dispersion


def dependent(G: Array) -> Array:
    """Which columns have a part in a combination that is zero; G are products, of diagonal one."""
    values, vectors = np.linalg.eigh(G)
    return np.asarray((vectors[:, values <= 1e-10] ** 2).sum(axis=1) > 1e-8)


def nodewise(G: Array, g: Array, n: float, n_jobs: int | None) -> tuple[Array, Array]:
    """Shift and variance of every coefficient; see the kernel. Columns are shared among threads."""
    from cyclade.linear.kernels import nodewise as kernel

    p, found = len(g), np.full((2, len(g)), np.inf)
    jobs = effective_n_jobs(n_jobs)
    cuts = np.linspace(0, p, min(p, 8 * jobs if jobs > 1 else 1) + 1).astype(int)
    bias = np.sqrt(2.0 * np.log(max(p, 2)))
    run = partial(kernel.nodewise, np.ascontiguousarray(G), g)
    with one_thread(0):
        Parallel(n_jobs=n_jobs, prefer="threads")(
            delayed(run)(a, b, n, bias, *found) for a, b in pairwise(cuts)
        )
    found[0, np.isinf(found[0])] = 0.0  # a column that others explain: nothing is known of it
    return found[0], found[1]
