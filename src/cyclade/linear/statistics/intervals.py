"""Standard errors, p-values and intervals for coefficients of a fitted model.

Without a penalty they are the classical ones, by the information matrix or the sandwich. With one
they are those of the debiased lasso (Zhang and Zhang 2014; van de Geer et al. 2014): a step from
the fit along −Mg, for the gradient g and a matrix M near the inverse of the information, whose rows
come from lassos of each column on the others.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from scipy import sparse, stats

from cyclade._checks import choice
from cyclade._extras import needs
from cyclade.linear.checks import between
from cyclade.linear.cox import Cox
from cyclade.linear.losses import Array, Squared
from cyclade.linear.statistics.deviances import (
    DISPERSED,
    FittedRows,
    expected_curvature,
    fitted_rows,
    pearson,
    products,
)
from cyclade.linear.threads import one_thread

OTHER_ROWS = (
    "X, y: the model was fitted to other rows, or with other weights or offsets; inference is "
    "about a fit, so give what it was fitted to, or fit the model to these rows first"
)


@dataclass(frozen=True)
class Inference:
    """Estimates of coefficients and how sure they are; one entry per feature.

    Attributes
    ----------
    names : array of p names or numbers
    estimate, std_error, statistic, p_value : arrays of shape (p,)
        `p_value` is two-sided, of the hypothesis that the coefficient is zero.
    method : {"classical", "debiased"}
    dispersion : float
        The variance of errors, or what stands for it; 1 where the distribution says it.
    df : float
        Degrees of freedom of the t distribution; infinite for the normal one.
    intercept : (estimate, standard error), or None
        With the classical method alone.
    """

    names: Array
    estimate: Array
    std_error: Array
    method: str
    dispersion: float
    df: float = np.inf
    intercept: tuple[float, float] | None = None

    @cached_property
    def statistic(self) -> Array:
        """Estimates over their errors."""
        return self.estimate / self.std_error

    @cached_property
    def p_value(self) -> Array:
        """Two-sided."""
        return np.asarray(2.0 * stats.t.sf(abs(self.statistic), self.df))

    def interval(self, level: float = 0.95) -> Array:
        """Lower and upper ends of intervals for each coefficient by itself, shape (p, 2)."""
        half = stats.t.ppf(0.5 + 0.5 * between("level", level), self.df) * self.std_error
        return np.stack([self.estimate - half, self.estimate + half], axis=1)

    @property
    def q_value(self) -> Array:
        """P-values adjusted by Benjamini and Hochberg: the least rate that selects each feature."""
        return np.asarray(stats.false_discovery_control(self.p_value))

    def discoveries(self, rate: float = 0.1) -> Array:
        """Features, by number, at a rate of false discoveries (Benjamini–Hochberg)."""
        return np.flatnonzero(self.q_value <= between("rate", rate))

    def __str__(self) -> str:
        """The table, where pandas is installed."""
        try:
            table = self.table().to_string(max_rows=60, float_format="{:.4g}".format)
            return f"{self.method} inference\n{table}"
        except ModuleNotFoundError:
            return repr(self)

    def table(self, level: float = 0.95) -> Any:
        """All of it as a pandas DataFrame."""
        with needs("table"):
            pd: Any = import_module("pandas")
        low, high = self.interval(level).T
        columns = {
            "coef": self.estimate, "std err": self.std_error, "statistic": self.statistic,
            "p": self.p_value, "q": self.q_value, "lower": low, "upper": high,
        }  # fmt: skip
        return pd.DataFrame(columns, index=pd.Index(self.names, name="feature"))


def inference(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    offset: Any = None,
    method: str = "auto",
    covariance: str = "auto",
    n_jobs: int | None = None,
) -> Inference:
    """Standard errors, p-values and intervals, on the rows that the model was fitted to.

    Parameters
    ----------
    model : estimator
        A fitted one with one target, or two classes.
    X, y, sample_weight, offset
        As for `fit`. Weights count rows.
    method : {"auto", "classical", "debiased"}
        "classical" is the table of the unpenalised fit, which is made from the model's
        coefficients; it needs more rows than columns. "debiased" corrects a sparse fit, for losses
        of distributions. "auto" is the first where ``alpha_`` is zero, else the second.
    covariance : {"auto", "model", "sandwich"}
        Of the classical method: the inverse information times the dispersion, or the sandwich,
        which holds for any smooth loss and errors of unequal spread. "auto" is the first for
        distributions and Cox models, else the second.
    n_jobs : int, default=None
        Threads for the lassos of columns, as in joblib.

    Notes
    -----
    Debiased intervals hold for each coefficient by itself where the truth is sparse, about
    s log p ≪ √n, and the columns are not too alike. ``docs/inference.md`` has their coverage.

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import LassoCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 200))
    >>> y = X[:, 0] + rng.standard_normal(100)
    >>> found = inference(LassoCV().fit(X, y), X, y)
    >>> found.discoveries(0.1)
    array([0])
    >>> low, high = found.interval()[0]
    >>> bool(low < 1.0 < high)
    True
    """
    choice("method", method, ("auto", "classical", "debiased"))
    choice("covariance", covariance, ("auto", "model", "sandwich"))
    rows = fitted_rows(model, X, y, sample_weight, offset)
    if rows.z.ndim > 1:
        raise ValueError("model: inference is for one target (y in one dimension) or two classes")
    require_fitted_rows(rows, model)
    coef, names = model._ranked()[:2]
    coef = np.ravel(np.asarray(coef, np.float64))
    if method == "debiased" or (method == "auto" and model.alpha_ != 0):
        return debiased(rows, coef, model._has_intercept, names, n_jobs)
    return classical(rows, model, coef, covariance, names)


def require_fitted_rows(rows: FittedRows, model: Any) -> None:
    """Raise ValueError unless the model may be a fit of these rows.

    Where the intercept is best, derivatives of the loss add up to zero. Of other rows they do not.
    """
    slopes, null = (rows.s * rows.loss.gradient(rows.y, z) for z in (rows.z, rows.offset))
    exact = 1e-5 if np.asarray(model.coef_).dtype == np.float64 else 1e-3
    size = exact * abs(slopes).sum() + 1e-4 * exact * abs(null).sum()  # a perfect fit has rounding
    balanced = abs(slopes.sum()) <= size or not model._has_intercept
    if len(rows.y) != getattr(model, "_n_rows", len(rows.y)) or not balanced:
        raise ValueError(OTHER_ROWS)


def classical(
    rows: FittedRows, model: Any, coef: Array, covariance: str, names: Array
) -> Inference:
    """The table of the unpenalised fit; Newton steps from the model's coefficients end exactly."""
    cox = isinstance(rows.loss, Cox)
    intercept = model._has_intercept
    D, x = rows.X, coef
    if intercept:
        ones = np.ones((len(rows.y), 1))
        D = sparse.hstack([ones, D], "csc") if sparse.issparse(D) else np.hstack([ones, D])
        x = np.r_[float(np.ravel(model.intercept_)[0]), coef]
    total = float(rows.s.sum())
    if D.shape[1] >= total:
        raise ValueError("method: 'classical' needs more rows than columns; 'debiased' does not")
    for made in range(100):
        z = D @ x + rows.offset
        H, slopes = information(rows, D, z)
        size = np.sqrt(np.diag(H))
        if not np.linalg.eigvalsh(H / np.outer(size, size))[0] > 1e-13:
            raise ValueError(
                "X: its columns are dependent: drop some of them; of a category's levels, "
                "formula= leaves one out"
            )
        inverse, dispersion = np.linalg.inv(H), 1.0
        if isinstance(rows.loss, DISPERSED):
            dispersion = pearson(rows, z) / (total - x.size)
        step = -np.linalg.solve(H, D.T @ slopes)
        if made == 0 and model.alpha_ == 0 and (step**2 > dispersion * np.diag(inverse)).any():
            raise ValueError(OTHER_ROWS)  # the fit of these rows is more than one error away
        if np.max(abs(step)) <= 1e-13 * (1.0 + np.max(abs(x))):
            break
        x = x + step
    df = total - x.size if isinstance(rows.loss, Squared) else np.inf
    plain = covariance == "model" or (covariance == "auto" and (rows.family or cox))
    if plain and not (rows.family or cox):
        raise ValueError(f"covariance must be 'sandwich' with {rows.loss!r}, no distribution's")
    if cox and not plain:
        raise ValueError("covariance must be 'model' for Cox models")
    if plain:
        errors = np.sqrt(dispersion * np.diag(inverse))
    else:
        meat = products(D, slopes**2 / rows.s)
        errors = np.sqrt(np.diag(inverse @ meat @ inverse))
    known = (float(x[0]), float(errors[0])) if intercept else None
    at = slice(int(intercept), None)
    return Inference(names, x[at], errors[at], "classical", dispersion, df, known)


def information(rows: FittedRows, D: Any, z: Array) -> tuple[Array, Array]:
    """The expected information at z (observed where none is expected), and derivatives Σ s φ'."""
    loss, s = rows.loss, rows.s
    if isinstance(loss, Cox):
        scale = loss.sets(rows.y).total / len(s)  # of the mean over rows
        return scale * differences(loss, rows.y, D, z), scale * loss.gradient(rows.y, z)
    known = rows.family
    bend = expected_curvature(loss, z) if known else loss.second_derivative(rows.y, z)
    return products(D, s * bend), s * loss.gradient(rows.y, z)


def differences(loss: Any, y: Array, D: Any, z: Array) -> Array:
    """The Hessian of a loss whose rows belong together, by differences of order four."""
    h = 1e-3 / np.maximum(abs(D).max(axis=0), 1e-300)
    H = np.empty((len(h), len(h)))
    for j, step in enumerate(h):
        d = step * D[:, j]
        ends = [loss.gradient(y, z + t * d) for t in (-2.0, -1.0, 1.0, 2.0)]
        H[:, j] = D.T @ (ends[0] - 8.0 * ends[1] + 8.0 * ends[2] - ends[3]) / (12.0 * step)
    return 0.5 * (H + H.T)


def debiased(
    rows: FittedRows, coef: Array, intercept: bool, names: Array, n_jobs: int | None
) -> Inference:
    """The debiased lasso: a step from the fit along −Mg, and the spread of that step.

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
    return Inference(names, coef - shift / (part * scale), errors, "debiased", dispersion)


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
