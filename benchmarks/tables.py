"""Tables as Markdown and as CSV: the one reader and writer of all benchmarks."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any


def table(head: Sequence[str], rows: Iterable[Sequence[str]] = ()) -> str:
    """A table with its head; without rows the head alone, for lines that follow one by one."""
    return "\n".join([line(head), line(["---"] * len(head)), *map(line, rows)])


def line(cells: Sequence[str]) -> str:
    """One row."""
    return f"| {' | '.join(cells)} |"


def write_csv(
    path: Path | None,
    rows: Iterable[Mapping[str, Any]],
    fields: Iterable[str] | None = None,
    digits: int = 17,
) -> None:
    """Write rows, whose floats have so many digits; without a path, or rows, there is no file."""
    found = list(rows)
    if path is None or not found:
        return
    names = list(fields or dict.fromkeys(name for row in found for name in row))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, restval="", extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for row in found:
            writer.writerow(
                {k: f"{v:.{digits}g}" if isinstance(v, float) else v for k, v in row.items()}
            )


def read_csv(path: Path | None) -> list[dict[str, str]]:
    """The rows of a file; none if it is not there."""
    if path is None or not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def printed(
    rows: Iterable[Mapping[str, Any]],
    path: Path | None = None,
    fields: Sequence[str] = (),
    digits: int = 4,
) -> list[Mapping[str, Any]]:
    """Rows as they come: each is printed, and the file is written anew with it."""
    found: list[Mapping[str, Any]] = []
    for row in rows:
        names = list(fields or row)
        if not found:
            print(table(names))
        found.append(row)
        values = [row.get(name, "") for name in names]
        cells = [f"{v:.{digits}g}" if isinstance(v, float) else str(v) for v in values]
        print(line(cells), flush=True)
        write_csv(path, found, names, digits)
    return found
