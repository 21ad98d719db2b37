"""Least squares under a convex penalty on coordinates, on the products of all columns at once.

Where these are cheap, as for small tables, or serve many λ, as on a path over a tall X, they say
all there is to know: with weights s that sum to one, and the intercept minimised over first,

    F(x) = ½ xᵀGx − qᵀx + const + r(x),   G = Σ_i s_i (a_i − ā)(a_i − ā)ᵀ,

and q = Σ_i s_i (y_i − ȳ)(a_i − ā).

All λ are then one compiled call, without working sets. Certificates are measured on X afterwards:
of all solutions where that costs less than the products did, else of the last (the others on G,
which is the same up to rounding). A certificate that does not hold sends the whole to the engine.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.certificate import Certificate
from cyclade.linear.compression import products
from cyclade.linear.kernels.gram_path import certify, path
from cyclade.linear.problem import Problem

Array = NDArray[Any]


class Fits(NamedTuple):
    """One row of `coefs` per λ."""

    coefs: Array
    intercepts: Array
    objectives: Array
    certificates: list[Certificate]
    passes: Array


def suits(problem: Problem, fits: int) -> bool:
    """Whether products of all columns are possible, and cheap beside that many fits."""
    design, penalty, tuning = problem.design, problem.penalty, problem.tuning
    if not (problem.loss.quadratic and design.is_dense and problem.offset.ndim == 1):
        return False
    if not (penalty.is_scalar and penalty.shipped and penalty.convex and penalty.has_dual):
        return False
    n, p = design.n, design.p
    price = tuning.cost.product * n * p * p
    if n < p or p > tuning.max_columns_kept:
        return False
    many = fits > 1 and price <= tuning.direct_per_fit * fits * n * p
    return many or price <= tuning.direct_price


def solve(problem: Problem, x: Array, lams: Array, tol: float, max_passes: int) -> Fits | None:
    """The solutions for decreasing λ, each from the one before; None if one is not certified.

    The first starts from x. The penalty of the problem is taken at each λ in turn.
    """
    moments, penalty = Moments(problem), problem.penalty
    if not moments.finite:
        return None
    x = np.array(x, np.float64)
    penalty.project(x)
    if lams.size == 1 and x.any():
        there = certified(moments, lams, x[None].copy(), np.zeros(1, np.int64), tol)
        if there is not None:
            return there
    c = moments.q - moments.G @ x
    kind, unit = penalty.parameters[0], penalty.penalty.unit
    coefs, passes = np.empty((lams.size, x.size)), np.empty(lams.size, np.int64)
    path(moments.G, c, x, moments.L, kind, unit, lams, 0.25 * tol, max_passes, coefs, passes)
    return certified(moments, lams, coefs, passes, tol)


def certified(
    moments: Moments, lams: Array, coefs: Array, passes: Array, tol: float
) -> Fits | None:
    """The fits with their certificates, if all of those hold."""
    every, penalty = moments.cheap(lams.size), moments.problem.penalty
    objectives, gaps, intercepts = judged(penalty, lams, coefs, moments.measured(coefs, every))
    if not every:
        last = judged(penalty, lams[-1:], coefs[-1:], moments.measured(coefs[-1:], True))
        objectives[-1:], gaps[-1:], intercepts[-1:] = last
    goals = np.maximum(tol * moments.null, 1e-15 * np.abs(objectives))
    if not (gaps <= goals).all():
        return None
    pairs = zip(gaps.tolist(), goals.tolist(), strict=True)
    certificates = [Certificate("gap", gap, goal) for gap, goal in pairs]
    return Fits(coefs, intercepts, objectives, certificates, passes)


class Residuals(NamedTuple):
    """What certificates are made of, for several points: residuals u = z − y and gradients."""

    squares: Array  # Σ s u²
    along: Array  # Σ s u (y − ȳ)
    g: Array  # Xᵀ(su), by rows
    intercepts: Array


def judged(penalty: Any, lams: Array, coefs: Array, at: Residuals) -> tuple[Array, Array, Array]:
    """F, the duality gap and the intercept for every λ."""
    r, dual = np.empty((2, lams.size))
    kind, unit = penalty.parameters[0], penalty.penalty.unit
    certify(kind, unit, lams, coefs, at.g, at.squares, at.along, r, dual)
    r += 0.5 * at.squares
    return r, np.maximum(r - dual, 0.0), at.intercepts


class Moments:
    """G, q and means of a problem."""

    def __init__(self, problem: Problem) -> None:
        X, s, tuning = problem.design.X, problem.s, problem.tuning  # type: ignore[attr-defined]
        self.problem, self.X, self.s = problem, X, s
        y = problem.y - problem.offset if problem.has_offset else problem.y
        p, self.means, self.target_mean = X.shape[1], np.zeros(X.shape[1]), 0.0
        if problem.fit_intercept:
            self.means, self.target_mean = np.asarray(s @ X, np.float64), float(s @ y)
            y = y - self.target_mean
        self.y = y
        with np.errstate(over="ignore", invalid="ignore"):
            if X.size <= tuning.compressed_chunk:
                A = X - self.means
                weighted = A * s[:, None]
                self.G, self.q = weighted.T @ A, y @ weighted
            else:
                self.G, self.q = products(X, y, s, self.means, tuning)
        self.square = float(s @ (y * y))
        self.null = 0.5 * self.square
        size = self.G.diagonal()
        self.L = np.maximum(size, tuning.least_curvature * (size + self.means**2))
        np.maximum(self.L, np.finfo(np.float64).tiny, out=self.L)
        sums = float(self.G.sum()), float(self.q.sum()), self.square
        self.finite = p > 0 and bool(np.isfinite(sums).all())

    def cheap(self, points: int) -> bool:
        """Whether to measure so many points on X costs no more than the products did."""
        most = self.problem.tuning.direct_measured
        few = 2 * points <= self.X.shape[1] or self.X.size * points <= most
        return bool(few and self.X.dtype == np.float64)

    def measured(self, coefs: Array, on_rows: bool) -> Residuals:
        """At several points, from the rows of X or from the products."""
        if not on_rows:
            c = self.q - coefs @ self.G
            along = coefs @ self.q - self.square
            squares = self.square - np.einsum("kj,kj->k", coefs, self.q + c)
            return Residuals(np.maximum(squares, 0.0), along, -c, self.intercepts(coefs))
        design, s = self.problem.design, self.s
        if len(coefs) == 1:
            U = design.predict(coefs[0])[None]
        else:
            U = coefs @ self.X.T
        U -= self.y
        intercepts = np.zeros(len(coefs))
        if self.problem.fit_intercept:
            shift = U @ s
            U -= shift[:, None]
            intercepts = self.target_mean - shift
        su = U * s
        squares, along = np.einsum("ki,ki->k", su, U), su @ self.y
        g = design.correlate(su[0])[None] if len(coefs) == 1 else su @ self.X
        return Residuals(squares, along, g, intercepts)

    def intercepts(self, coefs: Array) -> Array:
        """The best intercept at each point."""
        return np.asarray(self.target_mean - coefs @ self.means)
