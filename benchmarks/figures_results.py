"""Figures of the docs that come from docs/results: runs, claims, times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from cyclade.experiments import RunConfig
from cyclade.experiments.config import value_of
from cyclade.experiments.plans.plan import Check
from cyclade.experiments.report.board import Board, read
from cyclade.experiments.report.claims import answers, claims_table
from cyclade.experiments.report.groups import Group, Spread, spread
from cyclade.experiments.report.tables import plus_minus
from tables import table

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"


@cache
def board(experiment: str) -> Board:
    """The results of an experiment."""
    return read(RESULTS / experiment)


def run(experiment: str, key: str, *words: str) -> str:
    """A value of one curve at the end or at an epoch: mean ± standard deviation, or the mean."""
    filters, epoch, alone = _words(words)
    found = _at(_group(experiment, filters), key, epoch)
    return f"{found.mean:.3f}" if alone else plus_minus(found, 3)


def seeds(experiment: str) -> str:
    """How many seeds each curve has."""
    counts = {len(group.runs) for group in board(experiment).groups}
    return f"{min(counts)} to {max(counts)} seeds" if len(counts) > 1 else f"{max(counts)} seeds"


def paired(experiment: str, mine: str, other: str, key: str, *words: str) -> str:
    """The difference of two curves over the seeds, with its interval, and the verdict."""
    filters, _, _ = _words(words)
    check = Check({"method": mine, **filters}, {"method": other, **filters}, key)
    (found,) = answers(board(experiment), [check])
    return f"{found.difference}, ahead on {found.seeds}: {found.verdict}"


def search(experiment: str, lr: str, *words: str) -> str:
    """What a learning rate came to in the search, on the images held out."""
    filters, _, _ = _words(words)
    (found,) = (s for s in board(experiment).searches if _fits(s.config, filters))
    (one,) = (one for one in found.tried if one["lr"] == float(lr))
    accuracy = one["held_out_accuracy"]
    return str(one["status"]) if accuracy is None else f"{accuracy:.3f}"


def claims(experiment: str) -> str:
    """The claims and what was seen, as on the page."""
    found = claims_table(board(experiment))
    rows, title = [], ""
    for i, line in enumerate(found.lines):
        title = found.titles.get(i, "")
        rows.append((title, line[0], f"**{line[1]}**", *line[2:]))
    return table(("claim", *found.head), rows)


def timing(experiment: str, method: str, key: str, other: str) -> str:
    """The ratio of a plain method's time to another's."""
    timed = board(experiment).timing
    assert timed is not None
    plain = {row["method"]: row for row in timed.rows if not row["spectral"]}
    return f"{plain[method][key] / plain[other][key]:.2f}"


def table1() -> str:
    """Table 1 beside the paper's."""
    timed = board("table1").timing
    assert timed is not None
    rows = []
    for row in timed.rows:
        paper = () if row["spectral"] else timed.paper.get(row["method"], ())
        samples = (row["samples_paper_per_epoch"], row["samples_per_epoch"])
        rows.append([
            row["method"] + (", SN" if row["spectral"] else ""),
            *([f"{number:g}" for number in paper] or ["", ""]),
            f"{1e3 * row['seconds_per_iteration']:.3f}",
            f"{row['seconds_per_epoch']:.3f}",
            f"{row['multiply_adds_per_iteration'] / 1e9:.3f}e9",
            ", ".join(f"{number:,.0f}" for number in samples),
            f"{100 * row['seconds_per_epoch']:.1f} s",
        ])  # fmt: skip
    head = (
        "", "paper: s / iteration", "s / epoch", "here (H200): ms / iteration", "s / epoch",
        "multiply-adds / iteration", "samples / epoch (paper's count, as read)", "100 epochs",
    )  # fmt: skip
    return table(head, rows)


def batch() -> str:
    """The study of batches: accuracy and time by b."""
    found = board("study-batch")
    sizes = sorted({group.config.batch for group in found.groups})
    kinds = (
        ("SGD", {"method": "SGD"}),
        ("SCCD", {"method": "SCCD", "spectral": None, "precondition": None}),
        ("SCCD, η/σ(W_j)", {"method": "SCCD", "spectral": "step"}),
        ("SCCD, η/L_j", {"method": "SCCD", "precondition": "curvature"}),
    )
    rows = [
        [name, *(_accuracy(_group("study-batch", {**kind, "batch": b})) for b in sizes)]
        for name, kind in kinds
    ]
    for name, kind in (kinds[0], kinds[1], kinds[3]):
        groups = [_group("study-batch", {**kind, "batch": b}) for b in sizes]
        rows.append([f"ms / epoch: {name}", *(_per_epoch(found, group) for group in groups)])
    return table(["b", *(f"{b:,}" for b in sizes)], rows)


def batch_over(b: str, mine: str, other: str) -> str:
    """Seconds of an epoch of the study of batches, over those of another kind of step."""
    kinds: dict[str, dict[str, Any]] = {
        "SGD": {"method": "SGD"},
        "SCCD": {"method": "SCCD", "spectral": None, "precondition": None},
        "curvature": {"method": "SCCD", "precondition": "curvature"},
    }
    timed = board("study-batch").timing
    assert timed is not None
    above, below = (
        timed.seconds_per_epoch(_group("study-batch", {**kinds[kind], "batch": int(b)}).config)
        for kind in (mine, other)
    )
    assert above is not None
    assert below is not None
    return f"{above / below:.2g}"


def order() -> str:
    """The study of orders and numbers of blocks."""
    found = board("study-order")
    rows = []
    for group in sorted(found.groups, key=lambda g: (g.config.method, g.config.blocks)):
        config = group.config
        blocks = "1 block (SGD)" if config.blocks == 1 else f"{config.blocks} blocks"
        turns = "" if config.blocks == 1 else f", {config.order}"
        loss = plus_minus(_at(group, "train_loss", None), 3)
        rows.append(
            [
                f"{config.method}, {blocks}{turns}", f"{config.lr:g}", _accuracy(group), loss,
                _per_epoch(found, group),
            ]
        )  # fmt: skip
    return table(["", "lr", "test accuracy", "train loss", "ms / epoch"], rows)


def vr() -> str:
    """VR-CCD and VRO-CCD, at the end and at the cycles and multiply-adds of VR-CCD."""
    rows = []
    for dataset, name in (("mnist", "MNIST, b = 64"), ("cifar10", "CIFAR-10, b = 256")):
        pair = [
            _group("fig-vr", {"dataset": dataset, "method": method})
            for method in ("VR-CCD", "VRO-CCD")
        ]
        for group in pair:
            end = group.runs[0].last
            cells = [f"{name}, {group.config.method}", f"{group.config.lr:g}"]
            cells.append(f"{end.train_loss:.4f}, {end.test_accuracy:.4f}")
            for key in ("cycles", "multiply_adds"):
                cells.append("" if group is pair[0] else _no_more(group, key, pair[0]))
            rows.append(cells)
    head = ("", "lr", "end: train loss, test accuracy", "VRO-CCD at VR-CCD's cycles",
            "at its multiply-adds")  # fmt: skip
    return table(head, rows)


# --------------------------------------------------------------------------------------- helpers


def _words(words: Sequence[str]) -> tuple[dict[str, Any], int | None, bool]:
    """Filters (key=value), the epoch, and whether the mean alone is wanted."""
    pairs = dict(word.split("=", 1) for word in words if "=" in word)
    epoch = int(pairs.pop("epoch")) if "epoch" in pairs else None
    filters = {k: None if v == "none" else value_of(v) for k, v in pairs.items()}
    return filters, epoch, "mean" in words


def _group(experiment: str, filters: dict[str, Any]) -> Group:
    found = [g for g in board(experiment).groups if _fits(g.config, filters)]
    if len(found) != 1:
        raise SystemExit(f"{experiment} has {len(found)} curves with {filters}")
    return found[0]


def _fits(config: RunConfig, filters: dict[str, Any]) -> bool:
    return all(getattr(config, key) == value for key, value in filters.items())


def _at(group: Group, key: str, epoch: int | None) -> Spread:
    rows = [run.history[-1 if epoch is None else epoch] for run in group.of_status("finished")]
    return spread(getattr(row, key) for row in rows)


def _accuracy(group: Group) -> str:
    lost = len(group.of_status("diverged"))
    return plus_minus(_at(group, "test_accuracy", None), 3) + (f" {'†' * lost}" if lost else "")


def _per_epoch(found: Board, group: Group) -> str:
    seconds = found.timing.seconds_per_epoch(group.config) if found.timing else None
    return "" if seconds is None else f"{1e3 * seconds:,.0f}"


def _no_more(group: Group, key: str, than: Group) -> str:
    """The state after the last epoch in which no more was spent than by another in all."""
    most = fmean(getattr(run.last, key) for run in than.runs)
    row = [r for r in group.runs[0].history if getattr(r, key) <= 1.01 * most][-1]
    return f"{row.train_loss:.4f}, {row.test_accuracy:.4f} (epoch {row.epoch})"


SOURCES: dict[str, Callable[..., str]] = {
    "run": run, "seeds": seeds, "paired": paired, "search": search, "claims": claims,
    "timing": timing, "table1": table1, "batch": batch,
    "batch-over": batch_over, "order": order, "vr": vr,
}  # fmt: skip
