"""One thread against two: wall seconds of single fits and paths of large and small tables.

    python benchmarks/linear_threads.py --csv docs/benchmarks/linear-threads.csv

The two take turns in one process, the number set as a user sets it, by a limit of threadpoolctl.
Medians; a ratio above 1 is what the second thread gains. The first line is one product Xᵀu by the
engine's own loop: what the memory of the machine lets a second thread gain on fits made of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from cyclade.linear import path, solve
from cyclade.linear.penalties import L1
from cyclade.linear.problem import as_design
from cyclade.linear.threads import one_thread
from measuring import command_line, in_turns, medians, seconds
from tables import printed

FIELDS = ("line", "one_s", "two_s", "one_over_two", "largest_difference", "rounds")


def dense(n: int, p: int, seed: int) -> tuple[Any, Any]:
    """Neighbouring columns are correlated by 0.5."""
    rng = np.random.default_rng(seed)
    X = np.asfortranarray(rng.standard_normal((n, p)))
    for j in range(1, p):
        X[:, j] = 0.5 * X[:, j - 1] + np.sqrt(0.75) * X[:, j]
    x = np.zeros(p)
    x[:: max(p // 40, 1)] = rng.standard_normal(x[:: max(p // 40, 1)].size)
    return X, X @ x + rng.standard_normal(n)


def sparse(n: int, p: int, density: float, seed: int) -> tuple[Any, Any]:
    """Entries at random."""
    rng = np.random.default_rng(seed)
    X = sp.random(n, p, density, "csc", random_state=rng, data_rvs=rng.standard_normal)
    x = np.zeros(p)
    x[: p // 100] = rng.standard_normal(p // 100)
    return X, X @ x + 0.3 * rng.standard_normal(n)


def lines() -> dict[str, Callable[[], tuple[Any, Any, float]]]:
    """X, y and the part of λ_max, by name; zero is a path, infinity one product with X."""
    return {
        "one product, 20,000 x 2,000": lambda: (*dense(20_000, 2_000, 0), np.inf),
        "square 20,000 x 2,000 /100": lambda: (*dense(20_000, 2_000, 0), 0.01),
        "square 20,000 x 2,000 /10": lambda: (*dense(20_000, 2_000, 0), 0.1),
        "tall 400,000 x 100 /100": lambda: (*dense(400_000, 100, 1), 0.01),
        "tall 400,000 x 100 path": lambda: (*dense(400_000, 100, 1), 0.0),
        "sparse 400,000 x 50,000 /10": lambda: (*sparse(400_000, 50_000, 5e-4, 2), 0.1),
        "sparse 400,000 x 50,000 /100": lambda: (*sparse(400_000, 50_000, 5e-4, 2), 0.01),
        "small 500 x 30 /100": lambda: (*dense(500, 30, 3), 0.01),
        "small 2,000 x 500 /10": lambda: (*dense(2_000, 500, 4), 0.1),
        "small 2,000 x 500 /100": lambda: (*dense(2_000, 500, 4), 0.01),
    }


def measure(name: str, X: Any, y: Any, part: float, rounds: int) -> dict[str, Any]:
    """Both numbers of threads, in turns."""
    lam = part * float(np.abs(X.T @ (y - y.mean())).max()) / len(y)
    coefs: dict[int, Any] = {}

    def fit(threads: int) -> None:
        with threadpool_limits(threads):
            if part == np.inf:
                with one_thread(X.size):
                    coefs[threads] = as_design(X).correlate(y)
            elif part:
                coefs[threads] = solve(X, y, "squared", L1(lam)).coef
            else:
                coefs[threads] = path(X, y, n_alphas=50, alpha_ratio=0.01).coefs

    ways = {threads: partial(fit, threads) for threads in (1, 2)}
    one, two = medians(in_turns(ways, rounds, one=partial(seconds, clock=perf_counter))).values()
    difference = float(np.abs(coefs[1] - coefs[2]).max() / np.abs(coefs[1]).max())
    values = (name, one, two, one / two, difference, rounds)
    return dict(zip(FIELDS, values, strict=True))


def main() -> None:
    """Read the command line and run."""
    parser = command_line(__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="a word of the lines to measure")
    options = parser.parse_args()
    chosen = {name: make for name, make in lines().items() if options.only in name}
    printed((measure(k, *make(), options.rounds) for k, make in chosen.items()), options.csv)


if __name__ == "__main__":
    main()
