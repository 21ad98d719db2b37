"""The outcome of the study in a table: each setting at its best learning rate."""

from __future__ import annotations

import math
import statistics
import textwrap
from typing import Any

import numpy as np

from cyclade.experiments.display import aligned
from studies.deep.record import TOGETHER, Setting

Record = dict[str, Any]
ORDERS = (TOGETHER, "forward", "shuffled")
HEAD = ("blocks", "order", "lr", "seeds", "loss by steps", "loss by seconds", "ms")
HEAD += ("cosine", "moved")


def groups(records: list[Record]) -> dict[Setting, list[Record]]:
    """The runs of each setting at its best learning rate.

    That is the least mean loss among the rates that were run with the most seeds.
    """
    found: dict[Setting, list[Record]] = {}
    for record in records:
        key = Setting(*(record[k] for k in ("task", "optimizer", "blocks", "order", "fresh")))
        found.setdefault(key, []).append(record)
    return {key: _at_best(runs) for key, runs in found.items()}


def _at_best(runs: list[Record]) -> list[Record]:
    by_rate: dict[float, list[Record]] = {}
    for record in runs:
        by_rate.setdefault(float(f"{record['lr']:.4g}"), []).append(record)
    most = max(map(len, by_rate.values()))
    repeated = [some for some in by_rate.values() if len(some) == most]
    return min(repeated, key=lambda some: statistics.fmean(map(final, some)))


def final(record: Record) -> float:
    """The validation loss at the end; infinite for a run that diverged."""
    last = record["val"][-1][1]
    return math.inf if last is None else float(last)


def at_seconds(record: Record, seconds: float) -> float:
    """The validation loss after so much time of training, between two validations by a line."""
    ms = record["ms"]
    if ms is None or final(record) == math.inf:
        return math.inf
    steps, losses = zip(*record["val"], strict=True)
    return float(np.interp(1e3 * seconds / ms, steps, losses, left=math.nan))


def seconds_of(runs: list[Record]) -> float:
    """The time of training of a setting: its steps at its median milliseconds."""
    ms = statistics.median(float(r["ms"]) for r in runs if r["ms"])
    return 1e-3 * float(runs[0]["steps"]) * ms


def rows(records: list[Record], task: str, optimizer: str) -> list[list[str]]:
    """A line for each setting. By seconds: when the simultaneous step has made all its steps."""
    mine = {
        key: runs
        for key, runs in groups(records).items()
        if (key.task, key.optimizer) == (task, optimizer)
    }
    together = next((runs for key, runs in mine.items() if key.order == TOGETHER), None)
    limit = None if together is None else seconds_of(together)
    made = []
    for key, runs in mine.items():
        timed = [r["ms"] for r in runs if r["ms"]]
        cosines = [c for r in runs for c in _later(r)]
        moved = [r["moved"] for r in runs if r["moved"] is not None]
        made.append([
            str(key.blocks), key.order + (", fresh batches" if key.fresh else ""),
            f"{runs[0]['lr']:.1g}", str(len(runs)), _mean([final(r) for r in runs]),
            "" if limit is None else _mean([at_seconds(r, limit) for r in runs]),
            f"{statistics.median(timed):.1f}" if timed else "", _plain(cosines, "+.2f"),
            _plain(moved, ".1f"),
        ])  # fmt: skip
    return made


RATES = ("lr", *(f"{what}, {order}" for order in ORDERS for what in ("loss", "cosine")))


def by_rate(records: list[Record], task: str, optimizer: str, blocks: int) -> list[list[str]]:
    """A line for each learning rate of the first seed: loss and cosine of the three main orders."""
    found: dict[float, dict[str, Record]] = {}
    for r in records:
        wanted = (task, optimizer, 0, False, 1 if r["order"] == TOGETHER else blocks)
        if wanted == tuple(r[k] for k in ("task", "optimizer", "seed", "fresh", "blocks")):
            found.setdefault(float(f"{r['lr']:.2g}"), {})[r["order"]] = r
    made = []
    for lr, runs in sorted(found.items()):
        if all(order in runs for order in ORDERS):
            made.append([f"{lr:.1g}"])
            for run in (runs[order] for order in ORDERS):
                made[-1] += [_mean([final(run)]), _plain(_later(run), "+.2f")]
    return made


def _later(record: Record) -> list[float]:
    """The cosines in the second half of a run."""
    seen: list[float] = record["cosines"]
    return seen[len(seen) // 2 :]


def _mean(values: list[float]) -> str:
    if not all(math.isfinite(v) for v in values):
        return "diverged" if any(v == math.inf for v in values) else "–"
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.3f}{spread}"


def _plain(values: list[float], form: str) -> str:
    return format(statistics.fmean(values), form) if values else ""


def table(records: list[Record]) -> str:
    """All of it as text."""
    lines = []
    for task in dict.fromkeys(r["task"] for r in records):
        for optimizer in dict.fromkeys(r["optimizer"] for r in records if r["task"] == task):
            body = aligned([HEAD, *rows(records, task, optimizer)])
            lines += [f"{task}, {optimizer}", textwrap.indent(body, "  ")]
    return "\n".join(lines)
