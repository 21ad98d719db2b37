"""How many lines and branches the tests reach, by rooms: python tests/covered.py DATA --csv FILE

DATA is a JSON report of coverage. Compiled kernels are left out of it, as they run outside Python.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections import Counter
from pathlib import Path

ROOMS = ("core.py", "run/", "steps/", "sampling/", "blocks/", "oracles/", "linear/")
KINDS = ("num_statements", "missing_lines", "num_branches", "missing_branches")
GOAL = 95.0


def main() -> int:
    """Sum by rooms, print, write; 1 where the core or linear has less than the goal."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    sums = {room: Counter[str]() for room in (*ROOMS, "core", "linear")}
    for path, found in json.loads(options.data.read_text("utf-8"))["files"].items():
        inside = path.partition("cyclade/")[2]
        for room in ROOMS:
            if inside.startswith(room):
                sums[room].update({kind: found["summary"][kind] for kind in KINDS})
    for room in ROOMS[:-1]:
        sums["core"].update(sums[room])
    sums["linear"] = sums.pop("linear/")
    rows = []
    for room, n in sums.items():
        all_of = n["num_statements"] + n["num_branches"]
        reached = 100.0 * (1.0 - (n["missing_lines"] + n["missing_branches"]) / max(all_of, 1))
        rows.append([room, *(n[kind] for kind in KINDS), f"{reached:.1f}"])
    head = ["room", "lines", "not reached", "branches", "branches not reached", "%"]
    for row in [head, *rows]:
        print(*row, sep=", ")
    if options.csv is not None:
        with options.csv.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([head, *rows])
    return int(any(float(row[-1]) < GOAL for row in rows if row[0] in ("core", "linear")))


if __name__ == "__main__":
    sys.exit(main())
