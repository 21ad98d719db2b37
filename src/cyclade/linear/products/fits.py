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
from cyclade.linear.kernels.gram_path import bounds, path
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
    x = np.array(x, np.float64)
    problem.penalty.project(x)
    if problem.loss.quadratic:
        found = solve_squares(problem, x, lams, tol, max_passes)
    else:
        found = solve_curved(problem, x, c, lams, tol, max_passes)
    if found is not None:
        found.coefs = found.coefs.astype(problem.design.given, copy=False)
    return found


def suits(problem: Problem, fits: int, tol: float) -> bool:
    """Whether products of all columns are possible, and cheaper than that many fits to `tol`."""
    penalty, design, cost = problem.penalty, problem.design, problem.tuning.cost
    if not (problem.loss.convex and design.is_dense and problem.offset.ndim == 1):
        return False
    if not (penalty.is_scalar and penalty.shipped and penalty.convex and penalty.has_dual):
        return False
    price = cost.product * design.entries * min(design.n, design.p)
    if not problem.loss.quadratic:
        known = problem.code is not None and design.dtype == np.float64
        return known and price <= (2.0 if fits > 1 else 0.5) * cost.calls
    if design.precompute is False or design.n < design.p:
        return False
    if price <= cost.calls or not isinstance(design.precompute, str):  # asked for, or given
        return True
    if tol < SINGLE or design.n < 2 * design.p:
        price *= 2.0  # float64
    return design.p <= problem.tuning.few_columns and price <= price_of_cycles(problem, fits)


def price_of_cycles(problem: Problem, fits: int) -> float:
    """About what working sets will cost, in entries of X; of a path calls and passes for each λ.

    A single fit checks all columns and cycles on some: how often and on how many tells a rough fit
    of a few rows, at a λ as far above the noise of these as λ is above that of all. An X by rows is
    copied by columns first.
    """
    design, tuning, cost, s = problem.design, problem.tuning, problem.tuning.cost, problem.s
    copied = 2.0 * cost.gathered * (not design.by_columns) * design.entries
    if fits > 1:
        return cost.calls * (1 + fits / tuning.burst) + fits * design.entries + copied
    X, y, n = design.X, targets(problem), design.n  # type: ignore[attr-defined]
    run = max(min(n // 8, tuning.sample) // 8, 1)
    rows = np.linspace(0, n - run, 8).astype(np.int64)[:, None] + np.arange(run)
    rows = rows.ravel()
    A, u, w = np.array(X[rows].T, np.float64, order="C"), y[rows], s[rows]
    w = w / max(float(w.sum()), numerics.TINY)
    kind, unit = problem.penalty.parameters[0], problem.penalty.penalty.unit
    lam = float(problem.penalty.penalty.lam) * math.sqrt(n / w.size)
    with np.errstate(over="ignore", invalid="ignore"):  # then the fit will say so
        columns, ratio, alike = forecast(A, u, w, kind, unit, lam)
    harder = math.log(ratio * math.sqrt(n / w.size)) * math.log(alike)
    passes = tuning.checks * (1.0 + 0.5 * harder)
    cycles = tuning.burst * math.log(1.0 / tuning.model_precision)
    # On products cycles read columns of p entries.
    return cost.calls + copied + passes * design.entries + 2.0 * cycles * (n - design.p) * columns


def solve_squares(
    problem: Problem, x: Array, lams: Array, tol: float, max_passes: int
) -> PathResult | None:
    """Least squares; x is moved to the last solution.

    Products are in float32, unless `tol` is tight or they cost little: the certificate is measured
    on X, and where it does not hold products are formed again in float64. With few rows more than
    columns rounding of float32 would count.
    """
    design, cost, start = problem.design, problem.tuning.cost, x.copy()
    dear = cost.product * design.entries * design.p > cost.calls
    if lams.size > 1:
        dear = not measured_on_rows(problem, lams.size)
    single = dear and tol >= SINGLE and design.n >= 2 * design.p and np.ndim(design.precompute) < 2
    for dtype in (np.float32, np.float64) if single else (np.float64,):
        moments = moments_of(problem, dtype)
        if not moments.finite:
            return None
        coefs, passes = follow(problem.penalty, moments, x, lams, tol, max_passes)
        found = certified(problem.penalty, moments, lams, coefs, passes, tol, problem)
        if found is not None:
            return found
        if not np.isfinite(x).all():
            x[:] = start
    return None


def follow(
    penalty: Any, moments: Moments, x: Array, lams: Array, tol: float, max_passes: int
) -> tuple[Array, Array]:
    """The solution for each λ, by rows, and the cycles that each took; x is overwritten.

    From x = 0 it stays there until λ is below λ_max. A single fit comes down through larger λ, if
    it starts at zero, and then to smaller distances until the gap is small: on the way few columns
    come in at a time.
    """
    kind, unit = penalty.parameters[0], penalty.penalty.unit
    at = (moments.G, moments.q - moments.G @ x, x, moments.L), (kind, unit)
    largest = 0.0 if x.any() else largest_lam(kind, unit, moments.q)
    if lams.size > 1:
        zero = int(np.count_nonzero(lams >= (1.0 - numerics.SOLVED) * largest)) if largest else 0
        coefs, cycles = np.zeros((lams.size, x.size)), np.zeros(lams.size, np.int64)
        coefs[zero:], cycles[zero:] = followed(at, lams[zero:], 0.25 * tol, max_passes)
        return coefs, cycles
    tuning, passes, goal = moments.tuning, 0, 0.5 * tol * moments.null
    if largest:
        above = stages(largest, float(lams[0]), tuning.lam_step)
        passes = int(followed(at, above, tuning.forcing, max_passes)[1].sum())
    coefs, near = x[None].copy(), np.inf
    while True:
        gap = float(judged(penalty, lams, coefs, moments.residuals(coefs))[1][0])
        if not gap > goal or near <= 0.25 * tol or passes >= max_passes:
            return coefs, np.array([passes])
        near = min(tuning.forcing, max(near * min(0.5 * goal / gap, 0.1), 0.25 * tol))
        coefs, made = followed(at, lams, near, max_passes - passes)
        passes += int(made[0])


def followed(at: tuple[Any, Any], lams: Array, tol: float, max_passes: int) -> tuple[Array, Array]:
    """One compiled call; it moves c and x."""
    coefs, made = np.empty((lams.size, at[0][2].size)), np.empty(lams.size, np.int64)
    path(*at, lams, tol, max_passes, coefs, made)
    return coefs, made


def certified(
    penalty: Any, moments: Moments, lams: Array, coefs: Array, passes: Array, tol: float,
    problem: Problem | None,
) -> PathResult | None:  # fmt: skip
    """The fits, rounded as X is, with their certificates, if all of those hold.

    With a problem they are measured on X, or only the last is, where all would cost more than the
    products did. What the last differs by from the gap on the products is then added to all others,
    more of it where x is larger: errors of G, relative to the norms of columns, count in xᵀGx.
    """
    if problem:
        coefs = coefs.astype(problem.design.given, copy=False).astype(np.float64, copy=False)
    at = moments.residuals(coefs)
    objectives, gaps = judged(penalty, lams, coefs, at)
    if problem:
        first = 0 if measured_on_rows(problem, lams.size) else lams.size - 1
        there = on_rows(problem, moments, coefs[first:])
        F, gap = judged(penalty, lams[first:], coefs[first:], there)
        size = np.abs(coefs) @ np.sqrt(np.maximum(moments.G.diagonal(), 0.0))
        worse = np.maximum(size / max(float(size[-1]), numerics.TINY), 1.0) ** 2
        gaps += worse * (abs(gap[-1] - gaps[-1]) + abs(F[-1] - objectives[-1]))
        objectives[first:], gaps[first:], at.intercepts[first:] = F, gap, there.intercepts
    return accepted(lams, coefs, at.intercepts, objectives, passes, gaps, tol * moments.null)


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
    t, s, mean = targets(problem), problem.s, moments.target_mean
    intercepts = mean - (U - (t - mean)) @ s if problem.fit_intercept else np.zeros(count)
    U += intercepts[:, None] - t
    squares = np.einsum("ki,ki,i->k", U, U, s)
    U *= s
    along = U @ (t - mean)
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
    def L(self) -> Array:
        """The diagonal of G, positive."""
        diagonal = self.G.diagonal()
        least = np.maximum(numerics.FLAT * (diagonal + self.means**2), numerics.TINY)
        return np.asarray(np.maximum(diagonal, least))

    @property
    def finite(self) -> bool:
        """Whether nothing overflowed."""
        known = np.isfinite(self.G).all() and np.isfinite(self.q).all()
        return bool(known and math.isfinite(self.square))

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
    """Of all rows, from their products in `dtype` or from those that were given."""
    design, s, tuning = problem.design, problem.s, problem.tuning
    X, y, given = design.X, targets(problem), design.precompute  # type: ignore[attr-defined]
    if not isinstance(given, np.ndarray):
        return moments_of_part(X, y, s, problem.fit_intercept, tuning, dtype=dtype)
    centred = problem.fit_intercept
    target_mean, square, sy = centred_targets(y, s, centred)
    with np.errstate(over="ignore", invalid="ignore"):
        means = design.correlate(s).astype(np.float64) if centred else np.zeros(X.shape[1])
        G, q = given_products(given, X, s, means), design.correlate(sy).astype(np.float64)
    return Moments(G, q, square, means, target_mean, tuning)


def moments_of_rows(problem: Problem, rows: Array) -> Moments | None:
    """Of some rows, read a few at a time; None if their weights are zero."""
    X, s, y = problem.design.X, problem.s, targets(problem)  # type: ignore[attr-defined]
    found = None
    chunk = max(problem.tuning.cache // X.shape[1], 64)
    for first in range(0, rows.size, chunk):
        at = rows[first : first + chunk]
        mass = float(s[at].sum())
        if mass > 0.0:
            w = s[at] / mass
            part = moments_of_part(X[at], y[at], w, problem.fit_intercept, problem.tuning, mass)
            found = part if found is None else found.joined(part)
    return found


def moments_of_part(
    X: Array, y: Array, s: Array, centred: bool, tuning: Tuning, mass: float = 1.0,
    dtype: Any = np.float64,
) -> Moments:  # fmt: skip
    """Of these rows, whose weights s sum to one."""
    target_mean, square, sy = centred_targets(y, s, centred)
    G, q, means = products(X, sy, s, centred, tuning, dtype)
    return Moments(G, q, square, means, target_mean, tuning, mass)


def centred_targets(y: Array, s: Array, centred: bool) -> tuple[float, float, Array]:
    """ȳ = Σ s_i y_i, or zero unless `centred`; Σ s_i (y_i − ȳ)² and s (y − ȳ)."""
    with np.errstate(over="ignore", invalid="ignore"):  # who asks checks the result
        mean = float(s @ y) if centred else 0.0
        out = s * (y - mean)
        return mean, float(out @ (y - mean)), out


def targets(problem: Problem) -> Array:
    """y without the offset."""
    return problem.y - problem.offset if problem.has_offset else problem.y


def products(
    X: Array, sy: Array, s: Array, centred: bool, tuning: Tuning = DEFAULT, dtype: Any = np.float64
) -> tuple[Array, Array, Array]:
    """G = Σ_i s_i (a_i − ā)(a_i − ā)ᵀ, q = Σ_i s_i y_i (a_i − ā), and ā, in one reading of X.

    ā is zero unless `centred`, and then Σ_i s_i y_i must be zero. Products are formed in `dtype`,
    of a few rows at a time about a point near their mean, and added up in float64.
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
    """Centred products from n Σ_i s_i a_i a_iᵀ or from n times themselves, compared with X."""
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
