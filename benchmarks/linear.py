"""Linear models: CPU time to accuracy, ours beside every peer that is importable.

Nothing is installed. Each solver runs on each line in a process of its own, on one thread. Peers
that live in other environments are found with ``--peer-python`` (as often as needed).

    python benchmarks/linear.py                                   # the synthetic designs
    python benchmarks/linear.py --data-dir FOLDER --peer-python .venv-bench/bin/python \\
        --peer-python .venv-bench-adelie/bin/python --out docs/benchmarks

A line is a problem, a data set and a place: λ_max/10, λ_max/100, or a path of 100 λ from λ_max to
λ_max/100. Records go to ``--work`` as they come, and a second run goes on where the first stopped;
``--redo cyclade`` measures that solver again. What a solver is measured by is told in
`linear_peers.worker`, what the problems are in `linear_peers.problems`. On a machine that is busy,
``--duel 9`` then measures ours and the two fastest peers of every line again, taking turns.
``--versions OLD NEW --duel 5`` does the same with `cyclade` of two source trees and no peers; its
table is versions.csv.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from linear_peers import kinds
from linear_peers.problems import CONVEX, SYNTHETIC, save, synthetic, table
from linear_peers.report import (
    compare,
    draw,
    first_calls,
    lines_of,
    read_notes,
    summary,
    write_records,
)
from linear_peers.solvers import SOLVERS
from measuring import in_turns, medians, parser_of
from tables import write_csv

HERE = Path(__file__).resolve().parent
REAL = ("news20_counts", "a9a", "w8a", "basehock", "relathe", "leukemia_allaml", "madelon")
DESIGNS = (
    ("lasso", "dense"), ("lasso", "sparse"), ("logistic", "logit"), ("group", "groups"),
    ("mcp", "dense"), ("cauchy", "outliers"),
)  # fmt: skip
TABLES = (
    *((kind, name) for name in REAL for kind in ("lasso", "logistic")),
    ("mcp", "leukemia_allaml"), ("mcp", "basehock"), ("group", "leukemia_allaml"),
    ("cauchy", "leukemia_allaml"), ("cauchy", "madelon"),
)  # fmt: skip
# Some constants of ours were chosen with the lines above in view; these were never looked at.
UNSEEN_DESIGNS = (("lasso", "unseen"), ("mcp", "unseen"))
UNSEEN_TABLES = tuple(
    (kind, name) for name in ("phishing", "mushrooms") for kind in ("lasso", "logistic")
)
SHORT_ROUNDS = 51  # of fits of milliseconds, which swing more
PLACES = ("10", "100", "path")
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
TREE = os.pathsep.join([str(HERE.parent / "src"), str(HERE)])  # this one, installed or not
ENVIRONMENT = os.environ | ONE_THREAD | {"PYTHONPATH": TREE}
Line = tuple[str, str, str, str]  # name, kind, data set, place


class Run:
    """The lines to do, the solvers to do them with, and what is known already."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.work = options.work
        self.work.mkdir(parents=True, exist_ok=True)
        self.file = self.work / "records.jsonl"
        self.records = self._known()
        self.interpreters = self._interpreters()

    def _known(self) -> dict[tuple[str, str], dict[str, Any]]:
        """The last record of every line and solver, but those to be done again."""
        known = {}
        if self.file.exists():
            for text in self.file.read_text().splitlines():
                record = json.loads(text)
                known[record["line"], record["adapter"]] = record
        redo = set(self.options.redo)
        chosen = self.lines()
        return {
            key: record for key, record in known.items()
            if not (record["solver"] in redo and record["line"] in {name for name, *_ in chosen})
        }  # fmt: skip

    def lines(self) -> list[Line]:
        """(name, kind, data set, place) of every line asked for."""
        if self.options.half:
            found = kinds.lines(half_name(self.options), bool(self.options.data_dir))
        else:
            pairs = [*DESIGNS, *UNSEEN_DESIGNS]
            if self.options.data_dir:
                pairs += [*TABLES, *UNSEEN_TABLES]
            found = [(kind, data, at) for kind, data in pairs for at in PLACES]
        every = [(line_name(*parts), *parts) for parts in found]
        wanted = [set(words.split("|")) for words in self.options.only]
        return [line for line in every if all(words & set(line[0].split()) for words in wanted)]

    def _interpreters(self) -> dict[str, tuple[str, str]]:
        """For every adapter that can run: the first interpreter that imports it, and a version."""
        found = {}
        for adapter in self.options.solvers or SOLVERS:
            module = SOLVERS[adapter].module
            for python in (sys.executable, *self.options.peer_python):
                code = f"import {module} as m; print(getattr(m, '__version__', ''))"
                done = subprocess.run(
                    [python, "-W", "ignore", "-c", code], capture_output=True, text=True
                )
                if done.returncode == 0:
                    found[adapter] = (str(python), done.stdout.strip())
                    break
            else:
                print(f"{adapter}: {module} is importable nowhere; left out")
        return found

    def data(self, name: str) -> Path:
        """The data set, stored once for all workers."""
        path: Path = self.work / f"{name}.npz"
        if not path.exists():
            if "-" in name:
                X, y = kinds.generate(name, self.options.data_dir)
            else:
                X, y = synthetic(name) if name in SYNTHETIC else table(name, self.options.data_dir)
            save(path, X, y)
        return path

    def limit(self, line: Line) -> float:
        """CPU seconds that a solver may take."""
        return float(self.options.limit) * (3 if line[3] == "path" else 1)

    def command(self, adapter: str, line: Line, *extra: str) -> list[str]:
        """What starts a worker."""
        name, kind, data, at = line
        return [
            self.interpreters[adapter][0], "-W", "ignore", "-m", "linear_peers.worker",
            "--peer", adapter, "--data", str(self.data(data).resolve()), "--kind", kind, "--at", at,
            "--reference", str(self.reference_file(name)), "--limit", str(self.limit(line)),
            "--repeats", str(self.options.repeats), *extra,
        ]  # fmt: skip

    def call(self, adapter: str, line: Line, *extra: str) -> dict[str, Any]:
        """One worker, to its end or its limit."""
        try:
            done = subprocess.run(
                self.command(adapter, line, *extra), capture_output=True, text=True,
                env=ENVIRONMENT, timeout=2 * self.limit(line) + 60,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"status": "over"}
        if done.returncode != 0:
            return {"status": "failed", "why": done.stderr.strip().splitlines()[-1:]}
        return json.loads(done.stdout.strip().splitlines()[-1])  # type: ignore[no-any-return]

    def reference_file(self, name: str) -> Path:
        """Where the best F of a line is kept."""
        return (self.work / f"best {name.replace('/', 'over')}.json").resolve()

    def ensure_reference(self, line: Line) -> bool:
        """The best F known on a convex line, from a very tight solution by the first that can."""
        path = self.reference_file(line[0])
        if line[1].removesuffix("+1") not in CONVEX or path.exists():
            return True
        for adapter in ("ours", "celer", "skglm", "adelie"):
            if adapter in self.interpreters:
                tight = self.call(adapter, line, "--make-reference")
                if "fun" in tight:
                    path.write_text(json.dumps(tight))
                    return True
        print(f"{line[0]}: no reference; left out")
        return False

    def go(self) -> None:
        """Every line, every solver that has no record yet."""
        for line in self.lines():
            name = line[0]
            todo = [a for a in self.interpreters if (name, a) not in self.records]
            if todo and not self.ensure_reference(line):
                continue
            for adapter in todo:
                begun = time.time()
                record = self.call(adapter, line)
                solver = SOLVERS[adapter].name
                record |= {"line": name, "adapter": adapter, "solver": solver}
                record["version"] = self.interpreters[adapter][1]
                record["limit_s"] = self.options.limit
                self.keep(record)
                if record["status"] != "cannot":
                    shown = f"{record.get('cpu_s', float('nan')):.4g}"
                    print(
                        f"{name:34s} {solver:18s} {record['status']:7s} {shown:>9s} s"
                        f"   ({time.time() - begun:.0f} s in all)",
                        flush=True,
                    )

    def duels(self) -> None:
        """Every line again: ours and its fastest peers take turns, fit by fit, for `--duel` rounds.

        A busy machine slows all of them alike, so the ratio of the medians stands where times that
        were taken an hour apart do not. Their records are replaced.
        """
        for line in self.lines():
            here = [r for (name, _), r in self.records.items() if name == line[0]]
            fast = sorted((r for r in here if r["status"] == "ok"), key=lambda r: r["cpu_s"])
            known = self.interpreters.keys() - {"ours"}
            peers = [r["adapter"] for r in fast if r["adapter"] in known]
            workers = {a: Served(self.command(a, line, "--serve")) for a in ["ours", *peers[:2]]}
            times = self.turns({a: w for a, w in workers.items() if w.ready}, line)
            for adapter, worker in workers.items():
                old = self.records.get((line[0], adapter), {})
                record = old | worker.record | {"line": line[0], "adapter": adapter}
                record |= {"solver": SOLVERS[adapter].name, "limit_s": self.options.limit}
                record["version"] = self.interpreters[adapter][1]
                if times.get(adapter):
                    record |= {"cpu_s": statistics.median(times[adapter]), "duel": True}
                    record |= {"fastest_s": min(times[adapter]), "repeats": len(times[adapter])}
                self.keep(record)
            shown = ", ".join(
                f"{SOLVERS[a].name} {statistics.median(t):.4g}" for a, t in times.items()
            )
            found = compare(list(self.records.values()), line[0])
            print(f"{line[0]:34s} ratio {found['ratio']:5.2f}   {shown}", flush=True)

    def turns(self, workers: dict[Any, Served], line: Line) -> dict[Any, list[float]]:
        """Seconds of fits that take turns, at least `--duel` of each if they are not too long."""
        fits = {name: worker.fit for name, worker in workers.items()}
        once = sum(worker.record["cpu_s"] for worker in workers.values())
        rounds = min(self.options.duel, 1 + int(3 * self.limit(line) / once)) if fits else 0
        times = in_turns(fits, rounds, warm=0, one=lambda fit: fit(), least=2.0, most=SHORT_ROUNDS)
        for worker in workers.values():
            worker.end()
        return times

    def versions(self) -> None:
        """Two source trees on every line in turns, and new over old."""
        rows = []
        for line in filter(self.ensure_reference, self.lines()):
            workers = {}
            for age, tree in zip(("old", "new"), self.options.versions, strict=True):
                paths = os.pathsep.join([str(tree.resolve() / "src"), str(HERE)])
                served = Served(self.command("ours", line, "--serve"), {"PYTHONPATH": paths})
                if served.ready:
                    workers[age] = served
            row: dict[str, Any] = {"line": line[0]} | medians(self.turns(workers, line))
            if len(workers) == 2:
                row["new / old"] = row["new"] / row["old"]
            rows.append(row)
            print(*row.values(), flush=True)
            write_csv(self.options.out / "versions.csv", rows)
        ratios = [row["new / old"] for row in rows if "new / old" in row]
        if not ratios:
            sys.exit("no line was measured")
        print(f"{len(ratios)} lines: new / old median {statistics.median(ratios):.2f}, "
              f"from {min(ratios):.2f} to {max(ratios):.2f}")  # fmt: skip

    def keep(self, record: dict[str, Any]) -> None:
        """Remember a record, on disk too."""
        self.records[record["line"], record["adapter"]] = record
        with self.file.open("a") as file:
            file.write(json.dumps(record) + "\n")

    def ordered(self) -> list[dict[str, Any]]:
        """The records, line by line."""
        place = {line[0]: i for i, line in enumerate(self.lines())}
        kept = [r for r in self.records.values() if r["line"] in place]
        rank = {a: i for i, a in enumerate(SOLVERS)}
        return sorted(kept, key=lambda r: (place[r["line"]], rank[r["adapter"]]))

    def report(self) -> None:
        """CSV, picture, and the ratios on the screen."""
        records = self.ordered()
        if not records or self.options.versions:
            return
        out = self.options.out
        out.mkdir(parents=True, exist_ok=True)
        name = f"linear-{self.options.half}" if self.options.half else "linear"
        write_records(records, out / f"{name}.csv")
        notes = read_notes(out / f"{name}-notes.csv")
        if not self.options.half:
            draw(records, out / "linear.png", notes)
        for line in lines_of(records):
            found = compare(records, line)
            best = found["best"]["solver"] if found["best"] else "none"
            print(f"{line:34s} ratio {found['ratio']:.2f} against {best}")
        print(first_calls(records))
        print({r["solver"]: r["version"] for r in records if r.get("version")})
        print(f"{bandwidth() / 1e9:.1f} GB a second are read from memory")
        print(summary(records, notes))


class Served:
    """A worker that says how far it came, and then waits to be asked for one more fit."""

    def __init__(self, command: list[str], more: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            command, env=ENVIRONMENT | (more or {}), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        text = self._answer()
        self.record: dict[str, Any] = json.loads(text) if text else {"status": "failed"}
        self.ready = self.record["status"] == "ok"

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def fit(self) -> float:
        """CPU seconds of one more."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self._answer())

    def end(self) -> None:
        """Let it go."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def half_name(options: argparse.Namespace) -> str:
    """``tuned``, or ``held`` and the number it is drawn by."""
    return f"held{options.draw}" if options.half == "held" else str(options.half)


def line_name(kind: str, data: str, at: str) -> str:
    """As tables have it."""
    return f"{kind} {data} {'path' if at == 'path' else '/' + at}"


def bandwidth(size: int = 2**26) -> float:
    """Bytes per second that one thread reads from memory."""
    a, fastest = np.ones(size), float("inf")
    for _ in range(5):
        begun = time.perf_counter()
        a.sum()
        fastest = min(fastest, time.perf_counter() - begun)
    return a.nbytes / fastest


def main() -> None:
    """Read the command line and run."""
    parser = parser_of(__doc__)
    parser.add_argument("--data-dir", type=Path, help="a folder of real tables")
    parser.add_argument(
        "--half", choices=kinds.HALVES, help="kinds of data: the half to tune on, or the other"
    )
    parser.add_argument(
        "--draw", type=int, metavar="N", help="what the held-out half is drawn by: a new number"
    )
    parser.add_argument("--peer-python", action="append", default=[], metavar="PATH")
    parser.add_argument("--solvers", nargs="*", default=[], choices=list(SOLVERS))
    parser.add_argument("--only", nargs="*", default=[], help="as: lasso|logistic dense /10")
    parser.add_argument("--redo", nargs="*", default=[], help="solvers to measure again, by name")
    parser.add_argument("--limit", type=float, default=30.0, help="CPU seconds (paths: 3 times)")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--duel", type=int, default=0, metavar="ROUNDS", help="ours and the two best, in turns"
    )
    parser.add_argument("--versions", nargs=2, type=Path, help="ours of two trees, in turns")
    parser.add_argument("--report", action="store_true", help="run nothing, write the tables")
    parser.add_argument("--work", type=Path, default=Path("out/linear"))
    parser.add_argument("--out", type=Path, default=Path("out/linear"))
    options = parser.parse_args()
    if options.half == "held" and (options.draw is None or options.draw < 0):
        parser.error("--half held needs --draw N, a number ≥ 0 that was not used before")
    run = Run(options)
    try:
        if options.versions:
            run.versions()
        elif options.duel:
            run.duels()
        elif not options.report:
            run.go()
    finally:
        run.report()


if __name__ == "__main__":
    main()
