"""Fits on products of all columns: whole paths in one compiled call, certified on X.

Of least squares under a convex penalty on coordinates the moments of X say all there is to know,
so F(x) = ½ xᵀGx − qᵀx + const + r(x) is minimised for one λ after another, without working sets.
On small tables compiled code does the same for logistic, Poisson and gamma losses, by Newton models
(`kernels.curved_path`).

Certificates are measured on X: of all solutions where that costs less than the products did, else
of the last (the others on G, which is the same up to rounding). One that does not hold sends the
whole to the engine.

Moments of a table are all that least squares needs to know of its rows. With weights s that sum to
one, and the intercept minimised over first,

    ½ Σ_i s_i (y_i − c − a_i·x)² = ½ xᵀGx − qᵀx + ½ Σ_i s_i (y_i − ȳ)²,

    G = Σ_i s_i (a_i − ā)(a_i − ā)ᵀ,   q = Σ_i s_i (y_i − ȳ)(a_i − ā).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import limits, numerics, threads
from cyclade.linear.checks import plain
from cyclade.linear.kernels.curved_path import Found, Limits, Rows, fit, largest_lam, stages
from cyclade.linear.kernels.forecast import forecast
from cyclade.linear.kernels.gram_path import bounds, centre_targets, curvatures, path, residuals
from cyclade.linear.kernels.products import add_products, centre_products, room, spread_means
from cyclade.linear.problem import Problem
from cyclade.linear.results import Certificate, PathResult
from cyclade.linear.tuning import DEFAULT, Tuning

Array = NDArray[Any]
SINGLE = float(np.finfo(np.float32).eps)  # with a tighter tolerance products are in float64


def solve(
    problem: Problem, x: Array, c: Any, lams: Array, tol: float, max_passes: int
) -> PathResult | None:
    """The solutions for decreasing λ, each from the one before, where products are the cheaper way.

    The first starts from (x, c). The penalty of the problem is taken at each λ in turn. None where
    another way is cheaper, or one of them is not certified.
    """
    if not suits(problem, lams.size, tol):
        return None
    if problem.loss.quadratic:
        found = solve_squares(problem, x, lams, tol, max_passes)
    else:
        found = solve_curved(problem, x, c, lams, tol, max_passes)
    if found is not None:
        found.coefs = found.coefs.astype(problem.design.given, copy=False)
    return found


def suits(problem: Problem, fits: int, tol: float) -> bool:
    """Whether products of all columns are possible, and cheaper than that many fits to `tol`."""
    penalty = problem.penalty
    if not (problem.loss.convex and problem.design.is_dense and problem.offset.ndim == 1):
        return False
    if not (penalty.is_scalar and penalty.shipped and penalty.convex and penalty.has_dual):
        return False
    design, tuning = problem.design, problem.tuning
    price = tuning.cost.product * design.entries * min(design.n, design.p)
    if not problem.loss.quadratic:
        known = problem.code is not None and design.dtype == np.float64
        return known and price <= (2.0 if fits > 1 else 0.5) * tuning.cost.calls
    if design.precompute is False or design.n < design.p:
        return False
    if price <= tuning.cost.calls or not isinstance(design.precompute, str):  # asked for, or given
        return True
    if design.p > tuning.few_columns:
        return False
    if tol < SINGLE or design.n < 2 * design.p:
        price *= 2.0  # float64
    return price <= price_of_cycles(problem, fits)


def price_of_cycles(problem: Problem, fits: int) -> float:
    """About what working sets will cost, in entries of X; of a path calls and passes for each λ.

    A single fit checks all columns and cycles on some: how often and on how many tells a rough fit
    of a few rows, at a λ as far above the noise of these as λ is above that of all.
    """
    design, tuning, cost, s = problem.design, problem.tuning, problem.tuning.cost, problem.s
    if fits > 1:
        return cost.calls * (1 + fits / tuning.burst) + fits * design.entries
    X, y, n = design.X, targets(problem), design.n  # type: ignore[attr-defined]
    run = max(min(n // 8, tuning.sample) // 8, 1)
    A, u, w = np.empty((design.p, 8 * run)), np.empty(8 * run), np.empty(8 * run)
    for k, first in enumerate(np.linspace(0, n - run, 8).astype(np.int64).tolist()):
        at, there = slice(first, first + run), slice(k * run, (k + 1) * run)
        A[:, there], u[there], w[there] = X[at].T, y[at], s[at]
    w /= max(float(w.sum()), numerics.TINY)
    kind, unit = problem.penalty.parameters[0], problem.penalty.penalty.unit
    lam = float(problem.penalty.penalty.lam) * math.sqrt(n / w.size)
    with np.errstate(over="ignore", invalid="ignore"):  # then the fit will say so
        columns, ratio, alike = forecast(A, u, w, kind, unit, lam)
    harder = math.log(ratio * math.sqrt(n / w.size)) * math.log(alike)
    passes = tuning.checks * (1.0 + 0.5 * harder) + 2.0 * cost.gathered * (not design.by_columns)
    cycles = tuning.burst * math.log(1.0 / tuning.model_precision)
    # On products cycles read columns of p entries.
    return cost.calls + passes * design.entries + 2.0 * cycles * (n - design.p) * columns


def solve_squares(
    problem: Problem, x: Array, lams: Array, tol: float, max_passes: int
) -> PathResult | None:
    """Least squares, on products in float32 unless `tol` is tight or the table small.

    What these say of the last solution is compared with X. If it is not good enough, products are
    formed again in float64. With few rows more than columns rounding of float32 would count.
    """
    penalty, tuning = problem.penalty, problem.tuning
    x = np.array(x, np.float64)
    penalty.project(x)
    start = x.copy()
    n, p, asked = problem.design.n, problem.design.p, problem.design.precompute
    many = n >= 2 * p and tuning.cost.product * n * p * p > tuning.cost.calls
    if lams.size > 1:
        many = not measured_on_rows(problem, lams.size)
    if many and tol >= SINGLE and np.ndim(asked) < 2:
        found = solve_on(moments_of(problem, np.float32), problem, x, lams, tol, max_passes)
        if found is not None:
            return found
        if not np.isfinite(x).all():
            x[:] = start
    return solve_on(moments_of(problem), problem, x, lams, tol, max_passes)


def solve_on(
    moments: Moments, problem: Problem, x: Array, lams: Array, tol: float, max_passes: int
) -> PathResult | None:
    """The same with given moments; x is moved to the last solution."""
    penalty = problem.penalty
    if not moments.finite:
        return None
    if lams.size == 1 and x.any():
        there = x[None].copy(), np.zeros(1, np.int64)
        known = certified(penalty, moments, lams, *there, tol, problem)
        if known is not None:
            return known
    coefs, passes = follow(penalty, moments, x, lams, tol, max_passes)
    return certified(penalty, moments, lams, coefs, passes, tol, problem)


def follow(
    penalty: Any, moments: Moments, x: Array, lams: Array, tol: float, max_passes: int
) -> tuple[Array, Array]:
    """The solution for each λ, by rows, and the cycles that each took; x is overwritten.

    A single fit comes down through larger λ, if it starts at zero, and then to smaller distances
    until the gap is small: on the way few columns come in at a time.
    """
    kind, unit = penalty.parameters[0], penalty.penalty.unit
    at = (moments.G, moments.q - moments.G @ x, x, moments.L), (kind, unit)
    if lams.size > 1:
        return followed(at, lams, 0.25 * tol, max_passes)
    step, near = moments.tuning.lam_step, moments.tuning.forcing
    above = np.empty(0)
    if not x.any():
        above = stages(largest_lam(kind, unit, moments.q), float(lams[0]), step)
    passes = int(followed(at, above, near, max_passes)[1].sum())
    goal = 0.5 * tol * moments.null
    while True:
        coefs, made = followed(at, lams, near, max_passes - passes)
        passes += int(made[0])
        gap = float(judged(penalty, lams, coefs, moments.residuals(coefs))[1][0])
        if not gap > goal or near <= 0.25 * tol or passes >= max_passes:
            return coefs, np.array([passes])
        near = max(near * min(0.5 * goal / gap, 0.1), 0.25 * tol)


def followed(at: tuple[Any, Any], lams: Array, tol: float, max_passes: int) -> tuple[Array, Array]:
    """One compiled call; it moves c and x."""
    coefs, made = np.empty((lams.size, at[0][2].size)), np.empty(lams.size, np.int64)
    path(*at, lams, tol, max_passes, coefs, made)
    return coefs, made


def certified(
    penalty: Any, moments: Moments, lams: Array, coefs: Array, passes: Array, tol: float,
    problem: Problem | None,
) -> PathResult | None:  # fmt: skip
    """The fits with their certificates, if all of those hold; measured on X if there is a problem.

    Where that would cost more than the products did, only the last is; what it differs by from the
    gap on the products is added to all others, more of it where x is larger.
    """
    every = problem is not None and measured_on_rows(problem, lams.size)
    at = on_rows(problem, moments, coefs) if problem and every else moments.residuals(coefs)
    objectives, gaps = judged(penalty, lams, coefs, at)
    intercepts = at.intercepts
    if problem and not every:
        at = on_rows(problem, moments, coefs[-1:])
        F, gap = judged(penalty, lams[-1:], coefs[-1:], at)
        # Errors of G, relative to the norms of columns, count in xᵀGx: the larger x, the more.
        size = np.abs(coefs) @ np.sqrt(np.maximum(moments.G.diagonal(), 0.0))
        worse = np.maximum(size / max(float(size[-1]), numerics.TINY), 1.0) ** 2
        gaps += worse * (abs(gap[0] - gaps[-1]) + abs(F[0] - objectives[-1]))
        objectives[-1:], gaps[-1:], intercepts[-1:] = F, gap, at.intercepts
    if problem and problem.design.given != np.float64:  # of what is returned; dual points stay
        before = judged(penalty, lams, coefs, moments.residuals(coefs))[0]
        coefs = coefs.astype(problem.design.given).astype(np.float64)
        rise = judged(penalty, lams, coefs, moments.residuals(coefs))[0] - before
        objectives, gaps = objectives + rise, np.maximum(gaps + rise, 0.0)
        intercepts = moments.intercepts(coefs)
    return accepted(lams, coefs, intercepts, objectives, passes, gaps, tol * moments.null)


def accepted(
    lams: Array, coefs: Array, intercepts: Array, objectives: Array, passes: Array, gaps: Array,
    goal: float,
) -> PathResult | None:  # fmt: skip
    """The fits, if all gaps are within the goal, or within the rounding of F."""
    certificates = [
        Certificate("gap", gap, max(goal, numerics.SUM * abs(F)))
        for gap, F in zip(gaps.tolist(), objectives.tolist(), strict=True)
    ]
    if not all(certificate.reached for certificate in certificates):
        return None
    return PathResult(lams, coefs.T, intercepts, objectives, certificates, passes)


def judged(penalty: Any, lams: Array, coefs: Array, at: Residuals) -> tuple[Array, Array]:
    """F and the duality gap for every λ."""
    F, gaps = np.empty(lams.size), np.empty(lams.size)
    kind, unit = penalty.parameters[0], penalty.penalty.unit
    bounds(kind, unit, lams, coefs, at.g, at.squares, at.along, F, gaps)
    return F, gaps


def measured_on_rows(problem: Problem, points: int) -> bool:
    """Whether to measure so many points on X costs no more than the products did."""
    design, cost = problem.design, problem.tuning.cost
    small = 2.0 * cost.product * design.entries * points <= cost.calls
    few = 8 * points <= design.p or small
    return bool(few and design.dtype == np.float64)


def on_rows(problem: Problem, moments: Moments, coefs: Array) -> Residuals:
    """The residuals and gradients at several points, from the rows of X."""
    design, count = problem.design, len(coefs)
    X = design.X  # type: ignore[attr-defined]
    U = design.predict(coefs[0])[None] if count == 1 else coefs @ X.T
    squares, along, intercepts = np.empty((3, count))
    residuals(
        U, targets(problem), problem.s, moments.target_mean, problem.fit_intercept, squares, along,
        intercepts,
    )  # fmt: skip
    g = design.correlate(U[0])[None] if count == 1 else U @ X
    return Residuals(squares, along, g, intercepts)


def solve_curved(
    problem: Problem, x: Array, c: Any, lams: Array, tol: float, max_passes: int
) -> PathResult | None:
    """The same for smooth losses, by Newton models on a small table."""
    tuning, penalty, null = problem.tuning, problem.penalty, problem.null
    slope, size = null.loss_at.balance
    if problem.fit_intercept and not abs(slope) <= numerics.SOLVED * size:  # it has no minimum
        return None
    shape = penalty.parameters[0], penalty.penalty.unit
    x = np.array(x, np.float64)
    penalty.project(x)
    above = np.empty(0)
    if not x.any():
        c = null.c
        if lams.size == 1:
            largest = largest_lam(*shape, null.gradient)
            # The strong rule holds for short steps alone: after long ones of a wide X all come in.
            step = tuning.lam_step if problem.is_tall else tuning.near
            above = stages(largest, float(lams[0]), step)
    every, extra = np.concatenate([above, lams]), above.size
    goals = np.full(every.size, np.inf)
    goals[extra:] = max(0.5 * tol, numerics.SUM) * null.scale
    coefs, passes = np.empty((every.size, x.size)), np.empty(every.size, np.int64)
    intercepts, objectives, gaps = np.empty((3, every.size))
    rows = Rows(
        plain(problem.design.X.T), problem.y, problem.s, problem.offset,  # type: ignore[attr-defined]
        problem.code or 0, problem.fit_intercept,
    )  # fmt: skip
    most = Limits(tuning.close, tuning.near, limits.STEPS, max_passes)
    found = Found(coefs, intercepts, passes)
    if not fit(rows, x, float(c), shape, every, goals, most, found, objectives, gaps):
        return None
    passes[extra] += passes[:extra].sum()
    return accepted(
        lams, coefs[extra:], intercepts[extra:], objectives[extra:], passes[extra:], gaps[extra:],
        tol * null.scale,
    )  # fmt: skip


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
