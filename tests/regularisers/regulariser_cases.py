"""The table of regularisers under test, with descriptions independent of the package.

Every row gives an instance and the shape of its block; the function as a CVXPY model, or for a
nonconvex one as a formula of one coordinate; the subdifferential at a point as CVXPY constraints
on s, written from its definition; and a generator of feasible points. A new regulariser is one
more row.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import cvxpy as cp
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from cyclade.regularisers import (
    L0,
    L1,
    MCP,
    SCAD,
    Box,
    ElasticNet,
    GroupL2,
    L1Ball,
    L2Ball,
    LHalf,
    NonNegative,
    NuclearNorm,
    Regulariser,
    Simplex,
    SquaredL2,
    TotalVariation1D,
    Zero,
)

Vector = np.ndarray
quick = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def anywhere(case: Case, rng: np.random.Generator) -> Vector:
    return 2.0 * rng.standard_normal(case.shape)


@dataclass
class Case:
    name: str
    reg: Regulariser
    shape: tuple[int, ...]
    model: Callable[[cp.Variable], tuple[Any, list[Any]]] | None
    subdifferential: Callable[[cp.Variable, Vector], list[Any]]
    feasible: Callable[[Case, np.random.Generator], Vector] = anywhere
    special_points: list[Vector] = field(default_factory=list)
    formula: Callable[[Vector], Vector] | None = None  # ρ(|z|), entry by entry, if not convex

    def points(self, rng: np.random.Generator) -> list[Vector]:
        """Points of the domain: smooth ones, kinks and boundaries."""
        projected = [self.reg.prox(anywhere(self, rng), t) for t in (0.3, 1.5)]
        return [self.feasible(self, rng), *projected, *self.special_points]


def diagonal(rng: np.random.Generator, shape: tuple[int, ...], decades: float = 1.0) -> Vector:
    return 10.0 ** rng.uniform(-decades, decades, shape)


def objective(reg: Regulariser, z: Vector, u: Vector, t: Any) -> float:
    return reg.value(z) + 0.5 * float(np.sum((z - u) ** 2 / t))


def optimality_gap(reg: Regulariser, z: Vector, u: Vector, t: Any) -> float:
    """Relative violation of 0 ∈ ∂r(z) + (z - u)/t, in the norm weighted with t."""
    v = (z - u) / t
    scale = math.sqrt(float(np.sum(t * v**2))) + math.sqrt(float(np.sum(u**2 / t))) + 1e-300
    return reg.distance(z, v, t) / scale


def solve(cost: Any, constraints: list[Any]) -> float:
    """Minimise with the interior-point solver, at the tightest tolerance that it can meet."""
    problem = cp.Problem(cp.Minimize(cost), constraints)
    for tolerance in (1e-10, 1e-9, 1e-8):
        options = dict.fromkeys(["tol_gap_abs", "tol_gap_rel", "tol_feas"], tolerance)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Solution may be inaccurate")
            optimum = problem.solve(solver=cp.CLARABEL, **options)
        if problem.status == cp.OPTIMAL:
            return float(optimum)
    raise AssertionError(f"CVXPY: {problem.status}")


def flat(s: cp.Variable) -> Any:
    return cp.vec(s, order="C")


# Models and subdifferentials -------------------------------------------------------------------
# Polyhedral ones use s ∈ ∂r(u) ⟺ r*(s) + r(u) = <s, u>; for curved ones that equation has no
# interior, which would cost a conic solver its accuracy, so those are written out.

LAM = 0.7
WEIGHTS = np.array([0.0, 0.3, 1.0, 2.0, 0.5])
GROUPS = [[4, 0], [1], [2, 3], [5]]
GROUP_WEIGHTS = [1.0, 0.0, 2.0, 0.5]
LOW, HIGH = np.array([-1.0, 0.0, -np.inf, 0.5]), np.array([1.0, np.inf, 0.3, 0.5])


def l1_subdifferential(s: cp.Variable, u: Vector, lam: Any, l2: float = 0.0) -> list[Any]:
    p = s - l2 * u
    return [cp.abs(p) <= lam, cp.sum(cp.multiply(p, u)) == np.sum(lam * np.abs(u))]


def box_subdifferential(s: cp.Variable, u: Vector, low: Any, high: Any) -> list[Any]:
    low, high = np.broadcast_to(low, u.shape), np.broadcast_to(high, u.shape)
    # <s, y - u> <= 0 for all y of the box; an infinite bound stands for a step of 1 that way.
    down = np.where(np.isfinite(low), low - u, -1.0)
    up = np.where(np.isfinite(high), high - u, 1.0)
    return [cp.multiply(s, down) <= 0, cp.multiply(s, up) <= 0]


def group_subdifferential(s: Any, u: Vector, groups: Any, kappas: Any) -> list[Any]:
    constraints = []
    for group, kappa in zip(groups, kappas, strict=True):
        norm = np.linalg.norm(u[group])
        if norm > 0:
            constraints.append(s[group] == kappa * u[group] / norm)
        else:
            constraints.append(cp.norm(s[group]) <= kappa)
    return constraints


def l2_ball_subdifferential(s: cp.Variable, u: Vector, radius: float) -> list[Any]:
    if np.linalg.norm(u) < radius * (1 - 1e-9):
        return [s == 0]
    c = cp.Variable(nonneg=True)
    return [s == c * u]


def nuclear_subdifferential(s: cp.Variable, u: Vector, lam: float) -> list[Any]:
    left, sigma, right = np.linalg.svd(u)
    rank = int(np.sum(sigma > 1e-9 * max(sigma[0], 1e-300)))
    fixed = left[:, :rank] @ right[:rank]
    left, right = left[:, rank:], right[rank:]
    if not (left.shape[1] and right.shape[0]):
        return [s == lam * fixed]
    m = cp.Variable((left.shape[1], right.shape[0]))
    return [s == lam * fixed + left @ m @ right, cp.sigma_max(m) <= lam]


def tv_subdifferential(s: cp.Variable, u: Vector, lam: float) -> list[Any]:
    if len(u) == 1:
        return [s == 0]
    difference = np.diff(np.eye(len(u)), axis=0)
    y = cp.Variable(len(u) - 1)
    return [s == difference.T @ y, cp.abs(y) <= lam, s @ u == lam * np.sum(np.abs(np.diff(u)))]


def simplex_point(case: Case, rng: np.random.Generator) -> Vector:
    return 2.0 * rng.dirichlet(np.ones(case.shape[0]))


def small_point(case: Case, rng: np.random.Generator) -> Vector:
    u = rng.standard_normal(case.shape)
    return u * (rng.uniform() / np.abs(u).sum())


def mcp(z: Vector) -> Vector:
    """∫_0^|z| max(λ - s/γ, 0) ds, with γ = 1.5."""
    s = np.minimum(np.abs(z), 1.5 * LAM)
    return LAM * s - s**2 / 3.0


def scad(z: Vector) -> Vector:
    """∫_0^|z| min(λ, max(γλ - s, 0)/(γ - 1)) ds, with γ = 2.5."""
    s = np.abs(z)
    between = LAM * s - (s - LAM) ** 2 / 3.0
    return np.where(s <= LAM, LAM * s, np.where(s <= 2.5 * LAM, between, 1.75 * LAM**2))


def sparse_subdifferential(s: cp.Variable, u: Vector, slope: Any, at_zero: float) -> list[Any]:
    """s_i = slope(|u_i|) sign(u_i) where u_i ≠ 0, and |s_i| <= at_zero where u_i = 0."""
    fixed, free, constraints = np.flatnonzero(u), np.flatnonzero(u == 0), []
    if fixed.size:
        constraints.append(s[fixed] == slope(np.abs(u[fixed])) * np.sign(u[fixed]))
    if free.size and at_zero < np.inf:
        constraints.append(cp.abs(s[free]) <= at_zero)
    return constraints


KNEES = [np.zeros(5), np.array([LAM, -1.5 * LAM, 2.5 * LAM, 0.0, 1e-3])]
ROWS = [list(range(3 * i, 3 * i + 3)) for i in range(4)]
COLUMNS = [list(range(i, 12, 3)) for i in range(3)]
RANK_ONE = np.outer([1.0, 2.0, 0.0, -1.0], [1.0, 0.0, 2.0])

CASES = [
    Case("zero", Zero(), (3,), lambda z: (0, []), lambda s, u: [s == 0]),
    Case(
        "l1",
        L1(LAM),
        (5,),
        lambda z: (LAM * cp.norm1(z), []),
        lambda s, u: l1_subdifferential(s, u, LAM),
        special_points=[np.zeros(5), np.array([1.0, 0, -1, 0, 1e-3])],
    ),
    Case(
        "weighted l1",
        L1(WEIGHTS),
        (5,),
        lambda z: (WEIGHTS @ cp.abs(z), []),
        lambda s, u: l1_subdifferential(s, u, WEIGHTS),
        special_points=[np.zeros(5)],
    ),
    Case(
        "squared l2",
        SquaredL2(LAM),
        (2, 2),
        lambda z: (0.5 * LAM * cp.sum_squares(z), []),
        lambda s, u: [s == LAM * u],
    ),
    Case(
        "elastic net",
        ElasticNet(LAM, 0.4),
        (5,),
        lambda z: (LAM * cp.norm1(z) + 0.2 * cp.sum_squares(z), []),
        lambda s, u: l1_subdifferential(s, u, LAM, 0.4),
        special_points=[np.zeros(5), np.array([1.0, 0, -1, 0, 0])],
    ),
    Case(
        "group l2, whole block",
        GroupL2(3 * LAM),
        (2, 3),
        lambda z: (3 * LAM * cp.norm(z, "fro"), []),
        lambda s, u: group_subdifferential(flat(s), u.ravel(), [list(range(6))], [3 * LAM]),
        special_points=[np.zeros((2, 3))],
    ),
    Case(
        "group l2, rows",
        GroupL2(2 * LAM, groups=0),
        (4, 3),
        lambda z: (2 * LAM * cp.sum(cp.norm(z, axis=1)), []),
        lambda s, u: group_subdifferential(flat(s), u.ravel(), ROWS, [2 * LAM] * 4),
        special_points=[np.zeros((4, 3)), np.diag([1.0, 0, 0, -2])[:, [0, 1, 3]]],
    ),
    Case(
        "group l2, weighted columns",
        GroupL2(LAM, groups=-1, weights=[1.0, 4.0, 0.0]),
        (4, 3),
        lambda z: (LAM * (np.array([1.0, 4.0, 0.0]) @ cp.norm(z, axis=0)), []),
        lambda s, u: group_subdifferential(flat(s), u.ravel(), COLUMNS, [LAM, 4 * LAM, 0.0]),
        special_points=[np.zeros((4, 3))],
    ),
    Case(
        "group l2, lists",
        GroupL2(LAM, GROUPS, GROUP_WEIGHTS),
        (6,),
        lambda z: (
            LAM * sum(w * cp.norm(z[g]) for g, w in zip(GROUPS, GROUP_WEIGHTS, strict=True)),
            [],
        ),
        lambda s, u: group_subdifferential(s, u, GROUPS, LAM * np.array(GROUP_WEIGHTS)),
        special_points=[np.zeros(6), np.array([0.0, 1, 2, 0, 0, 0])],
    ),
    Case(
        "non-negative",
        NonNegative(),
        (4,),
        lambda z: (0, [z >= 0]),
        lambda s, u: box_subdifferential(s, u, 0.0, np.inf),
        lambda case, rng: np.abs(anywhere(case, rng)),
        [np.zeros(4), np.array([1.0, 0.0, 2.0, 0.0])],
    ),
    Case(
        "box",
        Box(LOW, HIGH),
        (4,),
        lambda z: (0, [z[[0, 1, 3]] >= LOW[[0, 1, 3]], z[[0, 2, 3]] <= HIGH[[0, 2, 3]]]),
        lambda s, u: box_subdifferential(s, u, LOW, HIGH),
        lambda case, rng: np.clip(anywhere(case, rng), LOW, HIGH),
        [np.array([-1.0, 0.0, 0.3, 0.5]), np.array([1.0, 5.0, -4.0, 0.5])],
    ),
    Case(
        "simplex",
        Simplex(2.0),
        (5,),
        lambda z: (0, [z >= 0, cp.sum(z) == 2.0]),
        lambda s, u: [2.0 * s <= s @ u],
        simplex_point,
        [np.array([2.0, 0, 0, 0, 0]), np.array([0.5, 1.5, 0, 0, 0]), np.full(5, 0.4)],
    ),
    Case(
        "l2 ball",
        L2Ball(1.5),
        (2, 2),
        lambda z: (0, [cp.norm(z, "fro") <= 1.5]),
        lambda s, u: l2_ball_subdifferential(s, u, 1.5),
        small_point,
        [np.zeros((2, 2)), np.array([[0.0, 1.5], [0.0, 0.0]])],
    ),
    Case(
        "l1 ball",
        L1Ball(1.5),
        (5,),
        lambda z: (0, [cp.norm1(z) <= 1.5]),
        lambda s, u: [1.5 * cp.abs(s) <= s @ u],
        small_point,
        [np.zeros(5), np.array([0.0, -1.5, 0, 0, 0]), np.array([0.5, -0.5, 0, 0.5, 0])],
    ),
    Case(
        "nuclear norm",
        NuclearNorm(LAM),
        (4, 3),
        lambda z: (LAM * cp.normNuc(z), []),
        lambda s, u: nuclear_subdifferential(s, u, LAM),
        special_points=[np.zeros((4, 3)), RANK_ONE],
    ),
    Case(
        "total variation",
        TotalVariation1D(LAM),
        (6,),
        lambda z: (LAM * cp.norm1(cp.diff(z)), []),
        lambda s, u: tv_subdifferential(s, u, LAM),
        special_points=[np.zeros(6), np.array([1.0, 1, 1, -2, -2, 3]), np.arange(6.0)],
    ),
    Case(
        "mcp",
        MCP(LAM, 1.5),
        (5,),
        None,
        lambda s, u: sparse_subdifferential(s, u, lambda a: np.maximum(LAM - a / 1.5, 0), LAM),
        special_points=KNEES,
        formula=mcp,
    ),
    Case(
        "scad",
        SCAD(LAM, 2.5),
        (5,),
        None,
        lambda s, u: sparse_subdifferential(
            s, u, lambda a: np.clip((2.5 * LAM - a) / 1.5, 0, LAM), LAM
        ),
        special_points=KNEES,
        formula=scad,
    ),
    Case(
        "l0",
        L0(LAM),
        (5,),
        None,
        lambda s, u: sparse_subdifferential(s, u, np.zeros_like, np.inf),
        special_points=KNEES,
        formula=lambda z: LAM * (z != 0),
    ),
    Case(
        "l1/2",
        LHalf(LAM),
        (5,),
        None,
        lambda s, u: sparse_subdifferential(s, u, lambda a: LAM / (2 * np.sqrt(a)), np.inf),
        special_points=KNEES,
        formula=lambda z: LAM * np.sqrt(np.abs(z)),
    ),
]
NAMES = [case.name for case in CASES]
CONVEX = [case for case in CASES if case.reg.convex]
NONCONVEX = [case for case in CASES if not case.reg.convex]
