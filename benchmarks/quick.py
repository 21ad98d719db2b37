"""Twelve lines in three minutes: our CPU time beside the fastest peer that is installed.

    python benchmarks/quick.py                      # print the table
    python benchmarks/quick.py --check              # exit 1 if a ratio fell by a third or more
    python benchmarks/quick.py --record             # write the row of this version into --csv

A ratio is a peer's seconds over ours, both measured in turns in this process, on one thread, at
the loosest of each solver's own tolerances that meets the accuracy. So it does not depend much on
the machine, and the table of releases can be read downwards. The last two lines are no linear
models: `minimize` beside SciPy's L-BFGS-B on a smooth problem, and a cycle of SCCD on a small net
beside a step of torch's SGD.
"""

from __future__ import annotations

import os
import platform
import sys
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import scipy.sparse as sp

import cyclade
import tables
from linear_peers.problems import ACCURACY, Problem, correlated, signal
from linear_peers.solvers import SOLVERS
from linear_peers.worker import Bench
from measuring import arguments, in_turns, medians

TABLE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks" / "quick.csv"
PEERS = ("scikit_learn", "celer", "skglm")
LINEAR = (  # a kind, a design, and λ_max over λ
    ("lasso", "wide", 10), ("lasso", "wide", 100), ("lasso", "tall", 100), ("lasso", "sparse", 100),
    ("enet", "wide", 10), ("group", "wide", 10), ("huber", "wide", 10), ("mcp", "wide", 10),
    ("logistic", "wide", 10), ("logistic", "sparse", 10),
)  # fmt: skip
TURNS, LIMIT, LOST = 3, 8.0, 2 / 3
Fits = dict[str, Callable[[], Any]]


def design(name: str, kind: str) -> tuple[Any, Any]:
    """X and y, the same every time."""
    rng = np.random.default_rng(7)
    if name == "sparse":
        X: Any = sp.random(4_000, 10_000, 2e-3, format="csc", random_state=rng)
    else:
        X = correlated(*((500, 3_000) if name == "wide" else (20_000, 100)), 0.6, rng)
    y = signal(X, 30, 3.0, rng)
    return X, np.where(y > 0, 1.0, -1.0) if kind == "logistic" else y


def linear(kind: str, name: str, place: int) -> Fits:
    """The solvers that reach the accuracy; each is a function that fits."""
    problem, best = Problem(kind, *design(name, kind)), None
    found: Fits = {}
    for solver in (SOLVERS[peer] for peer in ("ours", *PEERS)):
        if find_spec(solver.module) is None or not solver.can(problem, False):
            continue
        solver.prepare(problem)
        bench = Bench(solver, problem, str(place), best)
        if best is None and problem.convex:
            best = bench.best = bench.quality(bench.solve(1e-10))[1]
        *_, last = bench.climb(LIMIT)
        if last.far <= 1.0:
            found[solver.name] = partial(bench.solve, last.tol)
    return found


def smooth() -> Fits:
    """Ridge logistic regression as a function, to 1e-6 of its value."""
    from scipy.optimize import minimize

    X, y = design("tall", "logistic")

    def fun(x: Any) -> float:
        return float(np.logaddexp(0.0, -y * (X @ x)).mean() + 5e-4 * x @ x)

    def jac(x: Any) -> Any:
        return X.T @ (-y / (1.0 + np.exp(y * (X @ x)))) / len(y) + 1e-3 * x

    x0 = np.zeros(X.shape[1])
    fits: dict[str, Callable[[float], Any]] = {
        "cyclade": lambda tol: cyclade.minimize(fun, x0, jac=jac, tol=tol).x,
        "scipy": lambda tol: minimize(fun, x0, jac=jac, method="L-BFGS-B", tol=tol).x,
    }
    best = fun(fits["scipy"](1e-14))
    found = {}
    for name, fit in fits.items():
        for tol in (10.0**-k for k in range(1, 13)):
            if fun(fit(tol)) - best <= ACCURACY * best:
                found[name] = partial(fit, tol)
                break
    return found


def net() -> Fits:
    """Twenty steps on a small net; a cycle costs more than a step, so the ratio is below 1."""
    import torch

    from cyclade.optim import SCCD

    torch.set_num_threads(1)
    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)]
    model, loss = torch.nn.Sequential(*layers), torch.nn.CrossEntropyLoss()
    x, y = torch.randn(256, 64), torch.randint(10, (256,))
    theirs = torch.optim.SGD(model.parameters(), lr=1e-3)
    ours = SCCD(model, loss, lr=1e-3)
    ours.step(x, y)

    def step() -> None:
        theirs.zero_grad()
        loss(model(x), y).backward()
        theirs.step()

    return {
        "cyclade": lambda: [ours.step(x, y) for _ in range(20)],
        "torch": lambda: [step() for _ in range(20)],
    }


LINES: dict[str, Callable[[], Fits]] = {
    **{f"{k} {name} /{at}": lambda k=k, n=name, at=at: linear(k, n, at) for k, name, at in LINEAR},
    "minimize": smooth,
    "SCCD step": net,
}


def measured(only: str) -> dict[str, tuple[float, str, float]]:
    """For every line our seconds, the fastest peer, and its seconds over ours."""
    found = {}
    for line, make in LINES.items():
        if only in line:
            solvers = make()
            times = medians(in_turns(solvers, TURNS, warm=0))
            ours = times.pop("cyclade")
            peer = min(times, key=times.__getitem__, default="none")
            found[line] = (ours, peer, times.get(peer, float("nan")) / ours)
            cells = (line, f"{ours:.3f}", peer, f"{found[line][2]:.2f}")
            print(tables.line(cells), flush=True)
    return found


def fallen(found: dict[str, tuple[float, str, float]], last: dict[str, str]) -> list[str]:
    """The lines whose ratio is a third or more below that of the last release."""
    return [
        f"{line}: {ratio:.2f}, {last[line]} in {last['version']}"
        for line, (_, _, ratio) in found.items()
        if last.get(line) and ratio <= LOST * float(last[line])
    ]


def main() -> None:
    """Measure, print, compare, record."""
    given = arguments(__doc__, only="", csv=TABLE, check=False, record=False)
    warnings.simplefilter("ignore")
    print(tables.table(("line", "CPU seconds", "fastest peer", "peer / ours")), flush=True)
    found = measured(given.only)
    before = tables.read_csv(given.csv)
    if given.record:
        row = {
            "version": cyclade.__version__, "python": platform.python_version(),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            **{line: f"{ratio:.2f}" for line, (_, _, ratio) in found.items()},
        }  # fmt: skip
        kept = [old for old in before if old["version"] != row["version"]]
        tables.write_csv(given.csv, [*kept, row], ["version", "python", "machine", *LINES])
    if given.check and before:
        wrong = fallen(found, before[-1])
        print(*(f"slower: {line}" for line in wrong), sep="\n")
        sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
