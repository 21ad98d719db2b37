"""l1 logistic regression by samples of rows: epochs and CPU seconds to a given accuracy.

    F(x) = (1/n) Σ_i log(1 + exp(−y_i a_i·x)) + λ ‖x‖₁,   λ = λ_max/100, without intercept

Ours run as `solve_rows` has them, with nothing tuned. scikit-learn's saga has no step to tune
either; its SGDClassifier is given a grid of schedules and the best on each level is shown. An epoch
is n component gradients (a small step of the recursive methods counts both points). Rows of ours
are medians over the seeds. The seconds of ours include looking at F twice an epoch; theirs do not.
The defaults of `solve_rows` (10 blocks, η = 1, sure refreshes in cycles 8 and 64) were settled on
a9a and w8a, so on these two the table is not an independent test of them.

    python benchmarks/linear_rows.py a9a w8a --data-dir FOLDER --out docs/benchmarks/linear-rows.md
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cyclade.linear import solve
from cyclade.linear.penalties import L1
from cyclade.rows.fit import solve_rows
from linear_peers.problems import Problem, table
from tables import table as markdown

LEVELS = (1e-2, 1e-3, 1e-4, 1e-5)
METHODS = ("VRO-CCD", "VR-CCD", "PAGE", "SCCD", "SGD", "P-CCD")
SCHEDULES = [("optimal", 0.0)] + [
    (kind, eta) for kind in ("invscaling", "constant") for eta in (0.001, 0.01, 0.1, 1.0)
]
Trail = list[tuple[float, float, float]]  # epochs, CPU seconds, relative suboptimality


def ours(problem: Problem, lam: float, best: float, method: str, epochs: float, seed: int) -> Trail:
    """One run, F seen by the callback."""
    trail: Trail = []
    begun = time.process_time()

    def see(row: dict[str, float]) -> None:
        trail.append((row["epochs"], time.process_time() - begun, row["objective"] / best - 1.0))

    solve_rows(
        problem.X, problem.y, "logistic", L1(lam), method=method, fit_intercept=False, tol=0.0,
        epochs=epochs, every=0.5, seed=seed, callback=see,
    )  # fmt: skip
    return trail


def saga(problem: Problem, lam: float, best: float, epochs: float) -> Iterator[Trail]:
    """scikit-learn's saga, run again for each number of epochs."""
    from sklearn.linear_model import LogisticRegression

    def fit(k: int) -> Any:
        return LogisticRegression(
            C=1.0 / (lam * problem.n), l1_ratio=1.0, solver="saga", fit_intercept=False, tol=0.0,
            max_iter=k, random_state=0,
        ).fit(problem.X, problem.y).coef_[0]  # fmt: skip

    yield _ladder(problem, lam, best, fit, epochs)


def sgd(problem: Problem, lam: float, best: float, epochs: float) -> Iterator[Trail]:
    """scikit-learn's SGDClassifier with every schedule."""
    from sklearn.linear_model import SGDClassifier

    for schedule, eta in SCHEDULES:

        def fit(k: int, schedule: str = schedule, eta: float = eta) -> Any:
            return SGDClassifier(
                loss="log_loss", penalty="l1", alpha=lam, fit_intercept=False, tol=None,
                max_iter=k, learning_rate=schedule, eta0=eta or 0.01, random_state=0,
            ).fit(problem.X, problem.y).coef_[0]  # fmt: skip

        yield _ladder(problem, lam, best, fit, epochs)


def _ladder(
    problem: Problem, lam: float, best: float, fit: Callable[[int], Any], epochs: float
) -> Trail:
    trail: Trail = []
    for k in (1, 2, 3, 5, 7, 10, 14, 20, 30, 50, 70, 100):
        if k > epochs:
            break
        begun = time.process_time()
        x = fit(k)
        seconds = time.process_time() - begun
        trail.append((k, seconds, problem.objective(x, lam) / best - 1.0))
    return trail


def reached(trails: list[Trail], level: float, how: Callable[[Any], Any]) -> str:
    """Epochs / seconds at which the level was met, put together over the trails by `how`."""
    found = []
    for trail in trails:
        met = [(epochs, seconds) for epochs, seconds, far in trail if far <= level]
        found.append(met[0] if met else (np.inf, np.inf))
    epochs, seconds = how([e for e, _ in found]), how([s for _, s in found])
    return "—" if np.isinf(epochs) else f"{epochs:.1f} / {seconds:.2f} s"


def main() -> None:
    """Read the command line, run, write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--epochs", type=float, default=50.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    text = [f"# Samples of rows: {', '.join(options.datasets)}", "", __doc__, ""]
    for name in options.datasets:
        X, y = table(name, options.data_dir)
        problem = Problem("logistic", X if isinstance(X, np.ndarray) else X.tocsr(), y)
        lam = problem.lam_max / 100
        best = solve(X, y, "logistic", L1(lam), fit_intercept=False, tol=1e-12).objective
        text += [f"{name}: {problem.n} x {problem.p}, λ = {lam:.4g}, F* = {best:.8g}", ""]
        lines: dict[str, tuple[list[Trail], Callable[[Any], Any]]] = {}
        for method in METHODS:
            seeds = range(1 if method == "P-CCD" else options.seeds)
            runs = [ours(problem, lam, best, method, options.epochs, seed) for seed in seeds]
            lines[method] = (runs, np.median)
        lines["scikit-learn saga"] = (list(saga(problem, lam, best, options.epochs)), min)
        lines["SGDClassifier, best of 9"] = (list(sgd(problem, lam, best, options.epochs)), min)
        cells = [
            [method, *(reached(runs, level, how) for level in LEVELS)]
            for method, (runs, how) in lines.items()
        ]
        text += [markdown(["method", *(f"{level:g}" for level in LEVELS)], cells), ""]
        print("\n".join(text[-4:]), flush=True)
    if options.out:
        options.out.write_text("\n".join(text))


if __name__ == "__main__":
    main()
