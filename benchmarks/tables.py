"""Tables in Markdown: the one helper of all benchmarks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]] = ()) -> str:
    """A table with its head; without rows the head alone, for lines that follow one by one."""
    return "\n".join([line(head), line(["---"] * len(head)), *map(line, rows)])


def line(cells: Sequence[str]) -> str:
    """One row."""
    return f"| {' | '.join(cells)} |"
