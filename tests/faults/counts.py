"""The counts of all faults tried, in one table: docs/benchmarks/faults.csv."""

from __future__ import annotations

import csv
from pathlib import Path

HEAD = ("fault", "of", "tried", "as it should be", "else", "seeds")


def record(path: Path | None, seed: int, found: list[tuple[str, str, int, int]]) -> None:
    """Add (fault, of what, tried, as it should be) to the table.

    Counts of other seeds add up; a seed that is there already begins its row anew.
    """
    if path is None:
        return
    rows: dict[tuple[str, str], dict[str, str]] = {}
    if path.exists():
        with path.open(newline="") as file:
            rows = {(row["fault"], row["of"]): row for row in csv.DictReader(file)}
    for fault, of, tried, good in found:
        old = rows.get((fault, of), {})
        seeds = old.get("seeds", "").split()
        if str(seed) in seeds or not tried:
            old, seeds = {}, []
        if not tried:
            continue
        tried, good = tried + int(old.get("tried", 0)), good + int(old.get("as it should be", 0))
        values = (fault, of, tried, good, tried - good, " ".join([*seeds, str(seed)]))
        rows[fault, of] = dict(zip(HEAD, map(str, values), strict=True))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, HEAD, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())
