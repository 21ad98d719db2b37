"""Two versions of `cyclade.linear` in turns, on the lines of `benchmarks/linear.py`.

    python benchmarks/versions.py OLD NEW --data-dir FOLDER --duel 5 --csv versions.csv

OLD and NEW are source trees (with `src/cyclade` inside). For every line each tree gets a process of
its own on one thread, at the loosest tolerance that meets the accuracy; then the two make one fit
in turns. What is printed is the median of the CPU seconds of each, and new / old. ``--only`` picks
lines, as in ``--only "lasso|mcp" dense /10``; a second run goes on where the first stopped.
"""

from __future__ import annotations

import os
import statistics
import sys
from pathlib import Path

from linear import ENVIRONMENT, HERE, Line, Run, Served
from measuring import parser_of
from tables import read_csv, write_csv

SHORT_ROUNDS = 51  # of fits of milliseconds, which swing more
FIELDS = ("line", "old_s", "new_s", "new_over_old", "rounds", "old_tol", "new_tol")


def version(run: Run, tree: Path, line: Line) -> Served:
    """A worker on one source tree."""
    paths = os.pathsep.join([str(tree.resolve() / "src"), str(HERE)])
    return Served(run.command("ours", line, "--serve"), ENVIRONMENT | {"PYTHONPATH": paths})


def duel(run: Run, line: Line, trees: list[Path], rounds: int) -> dict[str, object] | None:
    """Medians of the two on one line; None where one of them does not get there."""
    workers = [version(run, tree, line) for tree in trees]
    try:
        if not all(worker.ready for worker in workers):
            print(f"{line[0]:34s} {[worker.record['status'] for worker in workers]}", flush=True)
            return None
        times: list[list[float]] = [[], []]
        while len(times[0]) < rounds or (sum(times[0]) < 1.0 and len(times[0]) < SHORT_ROUNDS):
            for i in (0, 1) if len(times[0]) % 2 == 0 else (1, 0):  # neither always goes first
                times[i].append(workers[i].fit())
    finally:
        for worker in workers:
            worker.end()
    old, new = (statistics.median(t) for t in times)
    print(f"{line[0]:34s} {old:9.4g} {new:9.4g}  {new / old:5.2f}", flush=True)
    tolerances = (worker.record["tol"] for worker in workers)
    return dict(
        zip(FIELDS, (line[0], old, new, new / old, len(times[0]), *tolerances), strict=True)
    )


def main() -> None:
    """Read the command line and run."""
    parser = parser_of(__doc__)
    parser.add_argument("--csv", type=Path, help="write the table")
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--data-dir", type=Path, help="a folder of real tables")
    parser.add_argument("--half", help="kinds of data, as in linear.py")
    parser.add_argument("--only", nargs="*", default=[], help="as: lasso|logistic dense /10")
    parser.add_argument("--without", nargs="*", default=[], help="lines to leave out, by name")
    parser.add_argument("--duel", type=int, default=5, metavar="ROUNDS")
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--work", type=Path, default=Path("out/linear"))
    options = parser.parse_args()
    options.redo, options.peer_python, options.solvers = [], [], ["ours"]
    options.repeats = 1
    run = Run(options)
    rows: dict[str, dict[str, object]] = {r["line"]: dict(r) for r in read_csv(options.csv)}
    for line in run.lines():
        if line[0] in rows or line[0] in options.without or not run.ensure_reference(line):
            continue
        row = duel(run, line, [options.old, options.new], options.duel)
        if row is None:
            continue
        rows[line[0]] = row
        write_csv(options.csv, rows.values(), FIELDS)
    ratios = sorted(float(str(row["new_over_old"])) for row in rows.values())
    if not ratios:
        sys.exit("no line was measured")
    slower = sum(ratio > 1.1 for ratio in ratios)
    print(
        f"{len(ratios)} lines: new / old median {statistics.median(ratios):.2f}, "
        f"from {ratios[0]:.2f} to {ratios[-1]:.2f}; {slower} more than 10 % slower"
    )


if __name__ == "__main__":
    main()
