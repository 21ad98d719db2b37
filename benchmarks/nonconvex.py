"""Nonconvex penalties: does a fit end lower than skglm's, or higher?

    python benchmarks/nonconvex.py [--penalties mcp scad] [--problems 60] [--first 0] [--every]
    python benchmarks/nonconvex.py --no-hops
    python benchmarks/nonconvex.py --problems 240 --csv docs/benchmarks/nonconvex.csv

Sixty seeded least-squares problems: correlated, tall, wide and text-like designs, with λ from
λ_max/3 to λ_max/100. Columns are scaled to mean square 1. Both solvers start at zero and stop at
the same distance to stationarity; F is computed here. "same" is within 1 %. With `--no-hops` our
fit does without its hops to other λ and back.
"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from cyclade.linear import penalties, solve, starts
from measuring import command_line, timed
from tables import write_csv

TOLERANCE = 1e-5  # of λ, on the distance to stationarity
SAME = 0.01
RATIOS = (3.0, 10.0, 30.0, 100.0)
SHAPES: dict[str, dict[str, Any]] = {"mcp": {"gamma": 3.0}, "scad": {"gamma": 3.7}}


@dataclass
class Problem:
    """½‖y − Xx‖²/n under a penalty at λ = λ_max/ratio."""

    name: str
    X: Any
    y: Any
    lam: float

    def penalty(self, name: str) -> Any:
        """The penalty of that name at λ."""
        return penalties.get(name, self.lam, **SHAPES[name])

    def objective(self, x: Any, penalty: Any) -> float:
        """F(x)."""
        residual = self.y - self.X @ x
        return float(0.5 * residual @ residual / len(self.y)) + penalty.total(x)


def make(seed: int) -> Problem:
    """Problem number `seed`: its kind, its λ and its numbers."""
    rng = np.random.default_rng(seed)
    kind, ratio = ("correlated", "tall", "wide", "text")[seed % 4], RATIOS[seed // 4 % 4]
    n, p = {"correlated": (200, 400), "tall": (400, 100), "wide": (100, 1000), "text": (300, 1500)}[
        kind
    ]
    if kind == "text":
        rates = 3.0 / (1.0 + np.arange(p)) ** 0.8
        topics = rng.gamma(0.3, 1.0, (n, 5)) @ rng.gamma(0.3, 1.0, (5, p))
        X: Any = sp.csc_array(np.log1p(rng.poisson(rates * topics)).astype(float))
        X = sp.csc_array(X[:, np.diff(X.indptr) > 2])
        p = X.shape[1]
        X = sp.csc_array(X @ sp.diags_array(np.sqrt(n) / sp.linalg.norm(X, axis=0)))
    else:
        rho = (0.0, 0.5, 0.9, 0.95)[rng.integers(4)]
        X = rng.standard_normal((n, p))
        for j in range(1, p):
            X[:, j] = rho * X[:, j - 1] + np.sqrt(1.0 - rho * rho) * X[:, j]
        X = np.asfortranarray(X / np.sqrt((X * X).mean(axis=0)))
    truth = np.zeros(p)
    chosen = rng.choice(p, size=min(20, p), replace=False)
    truth[chosen] = rng.standard_normal(chosen.size) * 2.0
    signal = X @ truth
    y = signal + rng.standard_normal(n) * signal.std() * (0.1, 0.5, 1.0)[rng.integers(3)]
    y -= y.mean()
    lam = float(np.abs(X.T @ y).max()) / n / ratio
    return Problem(f"{kind} {n} x {p}, λ_max/{ratio:g}", X, y, lam)


def ours(problem: Problem, name: str) -> Any:
    """A fit with the defaults, or other constants."""
    return solve(
        problem.X, problem.y, "squared", problem.penalty(name), tol=TOLERANCE, fit_intercept=False,
    ).coef  # fmt: skip


def skglm_fit(problem: Problem, name: str) -> Any:
    """AndersonCD, from zero."""
    from skglm.datafits import Quadratic
    from skglm.penalties import SCAD, MCPenalty
    from skglm.solvers import AndersonCD

    kind = {"mcp": MCPenalty, "scad": SCAD}[name]
    solver = AndersonCD(
        tol=TOLERANCE * problem.lam, max_iter=1_000, max_epochs=100_000, fit_intercept=False
    )
    X = sp.csc_matrix(problem.X) if sp.issparse(problem.X) else problem.X
    penalty = kind(problem.lam, SHAPES[name]["gamma"])
    return solver.solve(X, problem.y, Quadratic(), penalty)[0]


def compare(name: str, seeds: range, us: Any, peer: Any, every: bool) -> dict[str, Any]:
    """Print how often ours ends lower, same and higher, and where it is higher."""
    counts: Counter[str] = Counter()
    seconds, worst = np.zeros(2), 0.0
    for seed in seeds:
        problem = make(seed)
        penalty, found = problem.penalty(name), []
        for k, solver in enumerate((us, peer)):
            took, x = timed(partial(solver, problem, name))
            seconds[k] += took
            found.append(problem.objective(x, penalty))
        ratio = found[0] / found[1]
        worst = max(worst, ratio)
        verdict = "same" if abs(ratio - 1) <= SAME else "lower" if ratio < 1 else "higher"
        counts[verdict] += 1
        if every or verdict == "higher":
            print(f"  {seed:3d} {problem.name:32s} F {found[0]:.6g}, {found[1]:.6g}: {verdict}")
    total = ", ".join(f"{word} {counts[word]}" for word in ("lower", "same", "higher"))
    print(f"{name}: {total}; CPU seconds {seconds[0]:.1f}, {seconds[1]:.1f}", flush=True)
    return {
        "penalty": name, "first": seeds.start, "problems": len(seeds),
        **{word: counts[word] for word in ("lower", "same", "higher")},
        "worst_ratio": round(worst, 4), "ours_s": round(seconds[0], 2),
        "peer_s": round(seconds[1], 2), "peer": peer.__name__,
    }  # fmt: skip


def main() -> None:
    """Read the arguments, warm up both solvers, and compare."""
    parser = command_line(__doc__)
    parser.add_argument("--penalties", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--problems", type=int, default=60)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first problem")
    parser.add_argument("--no-hops", action="store_true", help="ours without hops to other λ")
    parser.add_argument("--every", action="store_true", help="a line for every problem")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # skglm warns where it stops early; F is compared anyway
    us: Any = ours
    if arguments.no_hops:
        starts.hop = lambda problem, state, *more: state
    rows = []
    for name in arguments.penalties:
        for seed in (0, 3):  # compiled before the clock runs
            us(make(seed), name), skglm_fit(make(seed), name)
        seeds = range(arguments.first, arguments.first + arguments.problems)
        rows.append(compare(name, seeds, us, skglm_fit, arguments.every))
    write_csv(arguments.csv, rows)


if __name__ == "__main__":
    main()
