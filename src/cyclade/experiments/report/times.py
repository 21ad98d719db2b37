"""The table of times: runs alone beside the paper's Table 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cyclade.experiments.report import labels
from cyclade.experiments.report.plan import TIMED_BY, Timing
from cyclade.experiments.report.tables import NOTHING, Table, short


def timing_table(timing: Timing) -> Table:
    """Seconds of runs alone, and as multiples of SGD's at the same batch, beside the paper's."""
    apart = [key for key in TIMED_BY if key != "method" and _varies(timing, key)]
    compared = any(_paper(timing, row) for row in timing.rows)
    head = (
        "method", *(_NAMES.get(key, key) for key in apart), "s / iteration", "s / epoch",
        "× SGD by epoch", "iterations / epoch", "multiply-adds / epoch",
    )  # fmt: skip
    if compared:
        head += ("paper: s / iteration", "paper: s / epoch", "paper: × SGD by epoch")
    table = Table(head, [])
    for row in timing.rows:
        seconds, base = float(row["seconds_per_epoch"]), _sgd(timing, row)
        paper, paper_base = _paper(timing, row), timing.paper.get("SGD")
        cells = (
            str(row["method"]),
            *(_cell(key, row.get(key)) for key in apart),
            f"{float(row['seconds_per_iteration']):.3g}",
            f"{seconds:.3g}",
            NOTHING if base is None else f"{seconds / base:.2f}",
            short(row.get("iterations_per_epoch")),
            short(row.get("multiply_adds_per_epoch")),
        )
        if compared and paper and paper_base:
            cells += (f"{paper[0]:g}", f"{paper[1]:g}", f"{paper[1] / paper_base[1]:.2f}")
        elif compared:
            cells += (NOTHING, NOTHING, NOTHING)
        table.lines.append(cells)
    return table


_PAPERS_BATCH = 512
_NAMES = {"batch": "b", "blocks": "m", "spectral": "spectral normalisation"}


def _cell(key: str, value: Any) -> str:
    if value is None:
        return NOTHING
    if key == "dataset":
        return labels.said(key, value)
    return "-".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _varies(timing: Timing, key: str) -> bool:
    return len({repr(row.get(key)) for row in timing.rows}) > 1


def _same_setting(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(row.get(key) == other.get(key) for key in ("dataset", "batch"))


def _sgd(timing: Timing, row: Mapping[str, Any]) -> float | None:
    """Plain SGD on the same data with the same batch."""
    for other in timing.rows:
        if other["method"] == "SGD" and _plain(other) and _same_setting(row, other):
            return float(other["seconds_per_epoch"])
    return None


def _paper(timing: Timing, row: Mapping[str, Any]) -> tuple[float, float] | None:
    """The paper timed the plain methods, in forward order, with a block per layer, at one b."""
    other_batch = _varies(timing, "batch") and row.get("batch") != _PAPERS_BATCH
    return None if other_batch or not _plain(row) else timing.paper.get(row["method"])


def _plain(row: Mapping[str, Any]) -> bool:
    return (
        row.get("spectral") is None
        and row.get("precondition") is None
        and row.get("order", "forward") == "forward"
        and row.get("blocks") is None
    )
