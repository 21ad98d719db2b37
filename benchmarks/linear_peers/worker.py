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
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from linear_peers.problems import ACCURACY, STATIONARY, Problem, load


class Bench:
    """One solver, one problem, one λ or a path."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        X, y = load(Path(options.data))
        self.problem = Problem(options.kind, X, y)
        self.is_path = options.at == "path"
        if self.is_path:
            self.lams = self.problem.lams()
        else:
            self.lams = np.array([self.problem.lam_max / float(options.at)])
        self.best = None
        if options.reference and Path(options.reference).exists():
            self.best = np.array(json.loads(Path(options.reference).read_text())["fun"])
        self.judge = Problem(options.kind, X, y)  # adapters may change their own copy
        self.judge.lam_max = self.problem.lam_max
        self.solver = import_module(f"linear_peers.{options.peer}")

    def solve(self, tol: float) -> Any:
        """The coefficients, one column per λ."""
        if not self.is_path:
            return np.asarray(self.solver.fit(self.problem, float(self.lams[0]), tol))[:, None]
        if hasattr(self.solver, "path"):
            return np.asarray(self.solver.path(self.problem, self.lams, tol))
        fits = [self.solver.fit(self.problem, float(lam), tol) for lam in self.lams]
        return np.stack(fits, axis=1)

    def quality(self, coefs: Any) -> tuple[float, list[float]]:
        """How far from accurate, in units of what is asked for (≤ 1 is met); and F at every λ."""
        judge = self.judge
        values = [
            judge.objective(np.ascontiguousarray(x), lam)
            for x, lam in zip(coefs.T, self.lams, strict=True)
        ]
        if judge.convex:
            if self.best is None:
                return float("nan"), values
            return float(((np.array(values) - self.best) / self.best).max()) / ACCURACY, values
        far = [
            judge.distance(np.ascontiguousarray(x), lam) / (STATIONARY * lam)
            for x, lam in zip(coefs.T, self.lams, strict=True)
        ]
        return float(max(far)), values

    def run(self) -> dict[str, Any]:
        """First call, ladder, repeats."""
        options, solver = self.options, self.solver
        record: dict[str, Any] = {"status": "cannot"}
        if not solver.can(self.problem, self.is_path):
            return record
        begun = time.perf_counter()
        import_module(solver.MODULE)
        record["import_s"] = time.perf_counter() - begun
        solver.prepare(self.problem)
        ladder = self.ladder()
        begun = time.perf_counter()
        self.solve(ladder[0])
        record["first_s"] = time.perf_counter() - begun
        began = time.process_time()  # compiling was the first call's
        trail: list[dict[str, float]] = []
        for tol in ladder:
            seconds, coefs = self.timed(tol)
            far, values = self.quality(coefs)
            trail.append({"tol": tol, "cpu_s": seconds, "far": far})
            record |= {"tol": tol, "cpu_s": seconds, "far": far, "fun": values[-1]}
            record["nonzero"] = int(np.count_nonzero(coefs[:, -1]))
            if far <= 1.0:
                record["status"] = "ok"
                break
            if time.process_time() - began > options.limit:
                record["status"] = "over"
                break
        else:
            record["status"] = "missed"
        record["ladder"] = trail
        if record["status"] == "ok":
            times = [seconds]
            while len(times) < options.repeats and sum(times) < options.limit / 4:
                times.append(self.timed(tol)[0])
            record |= {"cpu_s": statistics.median(times), "repeats": len(times)}
            record["fastest_s"] = min(times)
            if hasattr(solver, "traffic"):
                record["bytes"] = solver.traffic(self.problem, self.lams, tol)
        return record

    def ladder(self) -> list[float]:
        """The solver's tolerances, loose to tight."""
        given = self.solver.LADDER
        return list(given(self.problem) if callable(given) else given)

    def timed(self, tol: float) -> tuple[float, Any]:
        """CPU seconds and coefficients."""
        begun = time.process_time()
        coefs = self.solve(tol)
        return time.process_time() - begun, coefs

    def reference(self) -> dict[str, Any]:
        """The best F known: a solution at the tightest tolerance of the ladder."""
        tol = self.ladder()[-1]
        coefs = self.solve(tol)
        return {"fun": self.quality(coefs)[1], "tol": tol, "by": self.solver.NAME}


def main() -> None:
    """Read the command line, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--kind", required=True)
    parser.add_argument("--at", required=True, help="10, 100 or path")
    parser.add_argument("--reference", default="")
    parser.add_argument("--limit", type=float, default=30.0)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--make-reference", action="store_true")
    parser.add_argument("--serve", action="store_true", help="a fit for every line of input")
    options = parser.parse_args()
    bench = Bench(options)
    if options.make_reference:
        bench.solver.prepare(bench.problem)
        print(json.dumps(bench.reference()))
    else:
        record = bench.run()
        print(json.dumps(record), flush=True)
        if options.serve and record["status"] == "ok":
            for _ in sys.stdin:
                print(bench.timed(record["tol"])[0], flush=True)


if __name__ == "__main__":
    main()
