"""Runs one solver on one problem, in a process of its own, and prints what came of it as JSON.

The solver's own tolerance is tightened, rung by rung, until the accuracy is met; the time reported
is the CPU time of a fit at that rung, the median of the repeats. Measuring F is off the clock.

With ``--serve`` the process then waits: for every line on its input it makes one more fit and
prints the CPU seconds, so that two solvers can take turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from linear_peers.problems import ACCURACY, STATIONARY, Problem, load
from linear_peers.solvers import SOLVERS, Solver
from measuring import timed


class Rung(NamedTuple):
    """A fit at one tolerance: far ≤ 1 is accurate enough."""

    tol: float
    seconds: float
    coefs: Any
    far: float
    values: list[float]


class Bench:
    """One solver, one problem, one λ or a path; `best` is F at every λ, if it is known."""

    def __init__(self, solver: Solver, problem: Problem, at: str, best: Any = None) -> None:
        self.solver, self.problem, self.best = solver, problem, best
        self.is_path = at == "path"
        self.lams = problem.lams() if self.is_path else [problem.lam_max / float(at)]

    def solve(self, tol: float) -> Any:
        """The coefficients, one column per λ."""
        if self.is_path:
            return np.asarray(self.solver.path(self.problem, self.lams, tol))
        return np.asarray(self.solver.fit(self.problem, self.lams[0], tol))[:, None]

    def quality(self, coefs: Any) -> tuple[float, list[float]]:
        """How far from accurate, in units of what is asked for (≤ 1 is met); and F at every λ."""
        problem = self.problem
        points = list(zip(map(np.ascontiguousarray, coefs.T), self.lams, strict=True))
        values = [problem.objective(x, lam) for x, lam in points]
        if not problem.convex:
            return max(problem.distance(x, lam) / (STATIONARY * lam) for x, lam in points), values
        if self.best is None:
            return float("nan"), values
        return float(((np.array(values) - self.best) / self.best).max()) / ACCURACY, values

    def climb(self, limit: float) -> Iterator[Rung]:
        """Tighter and tighter fits until the accuracy is met, or so many seconds are spent."""
        began = time.process_time()
        for tol in self.solver.ladder(self.problem):
            seconds, coefs = timed(partial(self.solve, tol))
            rung = Rung(tol, seconds, coefs, *self.quality(coefs))
            yield rung
            if rung.far <= 1.0 or time.process_time() - began > limit:
                break

    def run(self, limit: float, repeats: int) -> dict[str, Any]:
        """First call, ladder, repeats."""
        solver, problem = self.solver, self.problem
        if not solver.can(problem, self.is_path):
            return {"status": "cannot"}
        clock = time.perf_counter
        import_s, _ = timed(partial(import_module, solver.module), clock)
        solver.prepare(problem)
        ladder = solver.ladder(problem)
        first_s, _ = timed(partial(self.solve, ladder[0]), clock)  # compiles
        trail = list(self.climb(limit))
        last = trail[-1]
        missed = "missed" if last.tol == ladder[-1] else "over"
        record = {
            "status": "ok" if last.far <= 1.0 else missed, "import_s": import_s,
            "first_s": first_s, "tol": last.tol, "cpu_s": last.seconds, "far": last.far,
            "fun": last.values[-1], "nonzero": int(np.count_nonzero(last.coefs[:, -1])),
            "ladder": [{"tol": r.tol, "cpu_s": r.seconds, "far": r.far} for r in trail],
        }  # fmt: skip
        if record["status"] == "ok":
            times = [last.seconds]
            while len(times) < repeats and sum(times) < limit / 4:
                times.append(timed(partial(self.solve, last.tol))[0])
            record |= {"cpu_s": statistics.median(times), "repeats": len(times)}
            record["fastest_s"] = min(times)
            if hasattr(solver, "traffic"):
                record["bytes"] = solver.traffic(problem, self.lams, last.tol)
        return record

    def reference(self) -> dict[str, Any]:
        """The best F known: a solution at the tightest tolerance of the ladder."""
        self.solver.prepare(self.problem)
        tol = self.solver.ladder(self.problem)[-1]
        return {"fun": self.quality(self.solve(tol))[1], "tol": tol, "by": self.solver.name}


def main() -> None:
    """Read the command line, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--kind", required=True)
    parser.add_argument("--at", required=True, help="10, 100 or path")
    parser.add_argument("--reference", type=Path)
    parser.add_argument("--limit", type=float, default=30.0)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--make-reference", action="store_true")
    parser.add_argument("--serve", action="store_true", help="a fit for every line of input")
    given = parser.parse_args()
    best = None
    if given.reference and given.reference.exists():
        best = np.array(json.loads(given.reference.read_text())["fun"])
    bench = Bench(SOLVERS[given.peer], Problem(given.kind, *load(given.data)), given.at, best)
    if given.make_reference:
        print(json.dumps(bench.reference()))
        return
    record = bench.run(given.limit, given.repeats)
    print(json.dumps(record), flush=True)
    if given.serve and record["status"] == "ok":
        for _ in sys.stdin:
            print(timed(partial(bench.solve, record["tol"]))[0], flush=True)


if __name__ == "__main__":
    main()
