"""Moments of a table: all that least squares needs to know of its rows.

With weights s that sum to one, and the intercept minimised over first,

    ½ Σ_i s_i (y_i − c − a_i·x)² = ½ xᵀGx − qᵀx + ½ Σ_i s_i (y_i − ȳ)²,

    G = Σ_i s_i (a_i − ā)(a_i − ā)ᵀ,   q = Σ_i s_i (y_i − ȳ)(a_i − ā).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import numerics, threads
from cyclade.linear.checks import plain
from cyclade.linear.kernels.gram_path import centre_targets, curvatures
from cyclade.linear.kernels.products import add_products, centre_products, room, spread_means
from cyclade.linear.problem import Problem
from cyclade.linear.tuning import DEFAULT, Tuning

Array = NDArray[Any]


class Residuals(NamedTuple):
    """What certificates are made of, for several points: residuals u = z − y and gradients."""

    squares: Array  # Σ s u²
    along: Array  # Σ s u (y − ȳ)
    g: Array  # Xᵀ(su), by rows
    intercepts: Array


class Moments:
    """G and q, about the means ā and ȳ (zeros without an intercept), of rows of some mass."""

    def __init__(
        self, G: Array, q: Array, square: float, means: Array, target_mean: float,
        tuning: Tuning = DEFAULT, mass: float = 1.0,
    ) -> None:  # fmt: skip
        """`square` is Σ s (y − ȳ)², and `mass` what the weights summed to before."""
        self.G, self.q, self.square, self.null = G, q, square, 0.5 * square
        self.means, self.target_mean, self.tuning, self.mass = means, target_mean, tuning, mass

    @cached_property
    def _curved(self) -> tuple[Array, float]:
        L = np.empty(self.q.size)
        total = curvatures(self.G, self.q, self.means, numerics.FLAT, L)
        return L, total + self.square

    @property
    def L(self) -> Array:
        """The diagonal of G, positive."""
        return self._curved[0]

    @property
    def finite(self) -> bool:
        """Whether nothing overflowed."""
        return math.isfinite(self._curved[1])

    def intercepts(self, coefs: Array) -> Any:
        """The best intercept at one point, or at several by rows."""
        return self.target_mean - coefs @ self.means

    def residuals(self, coefs: Array) -> Residuals:
        """At several points, without X."""
        c = self.q - coefs @ self.G
        along = coefs @ self.q - self.square
        squares = np.maximum(self.square - np.einsum("kj,kj->k", coefs, self.q + c), 0.0)
        return Residuals(squares, along, -c, self.intercepts(coefs))

    def errors(self, coefs: Array, intercepts: Array) -> Array:
        """Mean squared errors of these rows at several points."""
        b = self.target_mean - intercepts - coefs @ self.means
        bent = np.einsum("kj,kj->k", coefs @ self.G - 2.0 * self.q, coefs)
        return np.asarray(bent + self.square + b * b)

    def joined(self, other: Moments, sign: float = 1.0) -> Moments:
        """With the rows of `other` as well; or with a sign of −1 without them, where they are."""
        w, W = other.mass, self.mass
        mass = W + sign * w
        part = sign * w / mass
        d, e = other.means - self.means, other.target_mean - self.target_mean
        rest = W / mass * part  # of the square of how far the two means are apart
        return Moments(
            W / mass * self.G + part * other.G + rest * np.outer(d, d),
            W / mass * self.q + part * other.q + rest * e * d,
            W / mass * self.square + part * other.square + rest * e * e,
            self.means + part * d, self.target_mean + part * e, self.tuning, mass,
        )  # fmt: skip


def moments_of(problem: Problem, dtype: Any = np.float64) -> Moments:
    """Of all rows, from products in `dtype` or from those that were given."""
    X, s, tuning = problem.design.X, problem.s, problem.tuning  # type: ignore[attr-defined]
    sy, centred = np.empty(s.size), problem.fit_intercept
    target_mean, square = centre_targets(targets(problem), s, centred, sy)
    given = problem.design.precompute
    if isinstance(given, np.ndarray):
        with np.errstate(over="ignore", invalid="ignore"):
            means = column_sums(X, s, tuning) if centred else np.zeros(X.shape[1])
            G, q = given_products(given, X, s, means), column_sums(X, sy, tuning)
    else:
        G, q, means = products(X, sy, s, centred, tuning, dtype)
    return Moments(G, q, square, means, target_mean, tuning)


def moments_of_rows(problem: Problem, rows: Array) -> Moments | None:
    """Of some rows, read a few at a time; None if their weights are zero."""
    X, s, y = problem.design.X, problem.s, targets(problem)  # type: ignore[attr-defined]
    p, found = X.shape[1], None
    chunk = max(problem.tuning.cache // p, 64)
    for first in range(0, rows.size, chunk):
        at = rows[first : first + chunk]
        neighbours = at[-1] - at[0] == at.size - 1 and bool((np.diff(at) == 1).all())
        some: Any = slice(at[0], at[-1] + 1) if neighbours else at
        mass = float(s[some].sum())
        if mass > 0.0:
            w, A, t = s[some] / mass, X[some].astype(np.float64), y[some]
            means, mean = (w @ A, float(w @ t)) if problem.fit_intercept else (np.zeros(p), 0.0)
            root = np.sqrt(w)
            A = (A - means) * root[:, None]
            t = (t - mean) * root
            part = Moments(A.T @ A, t @ A, float(t @ t), means, mean, problem.tuning, mass)
            found = part if found is None else found.joined(part)
    return found


def targets(problem: Problem) -> Array:
    """y without the offset."""
    return problem.y - problem.offset if problem.has_offset else problem.y


def products(
    X: Array, sy: Array, s: Array, centred: bool, tuning: Tuning = DEFAULT, dtype: Any = np.float64
) -> tuple[Array, Array, Array]:
    """G = Σ_i s_i (a_i − ā)(a_i − ā)ᵀ, q = Σ_i s_i y_i (a_i − ā), and ā, in one reading of X.

    ā is zero unless `centred`, and then Σ_i s_i y_i must be zero. Products are formed in `dtype`,
    of a few rows at a time about a point near their mean, and added up in float64; all other sums
    are in float64.
    """
    p = X.shape[1]
    centres = np.zeros(p)
    if centred:
        spread_means(X.T, tuning.sample, centres)
    ranks = threads.number(X.size * (1 + p // 32), tuning)

    def summed(rank: int) -> Array:
        sums = np.zeros((p + 2, p))
        add_products(X.T, rank, ranks, centres, s, sy, room(p, dtype), sums)
        return sums

    found, *others = threads.together(summed, ranks)
    for other in others:
        with np.errstate(over="ignore", invalid="ignore"):
            found += other
    centre_products(found, centred, centres)
    return found[:p], found[p + 1], centres


def given_products(given: Array, X: Array, s: Array, means: Array) -> Array:
    """Σ_i s_i (a_i − ā)(a_i − ā)ᵀ from a matrix n Σ_i s_i a_i a_iᵀ, or the same of centred columns.

    It is compared with X on a few columns; ValueError if it is neither.
    """
    n, p = X.shape
    some = np.unique([0, p // 2, p - 1])
    A = X[:, some].astype(np.float64)
    raw, m = (A * s[:, None]).T @ A, means[some]
    # A matrix in single precision is rounded like that, whatever X was turned into.
    eps = max(np.finfo(kind).eps for kind in (X.dtype, np.result_type(given, np.float32)))
    G = np.asarray(given, np.float64) / n
    found, size = G[np.ix_(some, some)], np.sqrt(np.outer(raw.diagonal(), raw.diagonal()))
    rounding = np.sqrt(eps) * size
    if (np.abs(found - raw) <= rounding).all():
        return plain(G - np.outer(means, means))
    if (np.abs(found - raw + np.outer(m, m)) <= rounding).all():
        return plain(G)
    raise ValueError(
        "precompute: the matrix given is not that of X: it must be X.T @ X, of X as it is or of "
        "its centred columns (with sample_weight, X.T @ diag(w) @ X for weights that sum to the "
        "number of rows)"
    )


def column_sums(X: Array, v: Array, tuning: Tuning = DEFAULT) -> Array:
    """Xᵀv in float64, whatever X is, without a copy of all of it."""
    p = X.shape[1]
    if X.dtype == np.float64:
        out, ranks = np.empty(p), threads.number(X.size, tuning)
        threads.split(lambda some: np.matmul(v, X[:, some], out=out[some]), p, ranks)
        return out
    rows, out = max(tuning.cache // p, 64), np.zeros(p)
    for first in range(0, len(X), rows):
        out += v[first : first + rows] @ X[first : first + rows].astype(np.float64)
    return out
