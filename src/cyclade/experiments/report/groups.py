"""Groups of runs that differ in their seed alone: their statistics, and what they are called."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from cyclade.experiments import METHODS
from cyclade.experiments.config import ORDERS, RunConfig
from cyclade.experiments.datasets import find
from cyclade.experiments.folder import Row, RunResult

_KEYS = tuple(f.name for f in fields(RunConfig) if f.name not in ("method", "seed"))
# Tuned for each method, or following from something else: named only if nothing else differs.
_FOLLOWING = ("lr", "b_small", "p", "epochs", "held_out", "capture", "tf32", "threads", "device")
_SPECTRAL = {
    None: "without spectral normalisation",
    "step": "with spectral normalisation",
    "step-all": "with spectral normalisation of all layers",
    "reparam": "spectral W/σ(W)",
}
_SHORT_NAMES = {
    "batch": "b", "b_small": "b′", "weight_decay": "weight decay", "held_out": "held out",
}  # fmt: skip


@dataclass(frozen=True, eq=False)  # compared by identity, which makes it a key
class Group:
    """Runs equal in everything but the seed, in the order of their seeds."""

    runs: tuple[RunResult, ...]

    @property
    def config(self) -> RunConfig:
        """The config of the first seed."""
        return self.runs[0].config

    def of_status(self, status: str) -> list[RunResult]:
        """The runs that are "finished", "diverged" or "unfinished"."""
        return [run for run in self.runs if run.status == status]

    @property
    def whole(self) -> bool:
        """Whether every run finished."""
        return all(run.status == "finished" for run in self.runs)

    @property
    def averaged(self) -> list[RunResult]:
        """The runs that enter means: a diverged run has no place in an average."""
        return [run for run in self.runs if run.status != "diverged" and run.history]

    @property
    def ended(self) -> list[RunResult]:
        """The runs whose ends are averaged: the finished ones, or else those under way."""
        return self.of_status("finished") or self.averaged


def gather(results: Iterable[RunResult]) -> list[Group]:
    """The groups of some runs. Of several copies of one run the most complete one counts."""
    found: dict[RunConfig, dict[int, RunResult]] = {}
    for result in results:
        seeds = found.setdefault(replace(result.config, seed=0), {})
        there = seeds.get(result.config.seed)
        if there is None or _completeness(result) > _completeness(there):
            seeds[result.config.seed] = result
    groups = [Group(tuple(seeds[seed] for seed in sorted(seeds))) for seeds in found.values()]
    return sorted(groups, key=lambda group: _natural(group.config))


def _natural(config: RunConfig) -> tuple[Any, ...]:
    """The order in which people would list configs: plain ones first, numbers by size."""
    orders = [*ORDERS, config.order]
    blocks = config.blocks if isinstance(config.blocks, int) else math.inf
    return (
        config.dataset, METHODS.index(config.method), config.batch, config.spectral or "",
        config.precondition or "", orders.index(config.order), blocks, config.lr, repr(config),
    )  # fmt: skip


def _completeness(result: RunResult) -> tuple[bool, int]:
    return result.status != "unfinished", len(result.history)


@dataclass(frozen=True)
class Spread:
    """Mean, sample standard deviation (from two values on) and range of the finite values.

    >>> spread([1.0, 2.0, 3.0])
    Spread(n=3, mean=2.0, sd=1.0, low=1.0, high=3.0)
    >>> spread([0.5, float("nan")])
    Spread(n=1, mean=0.5, sd=None, low=0.5, high=0.5)
    """

    n: int
    mean: float | None = None
    sd: float | None = None
    low: float | None = None
    high: float | None = None


def spread(values: Iterable[float | None]) -> Spread:
    """The spread of those values that exist and are finite."""
    kept = [value for value in values if value is not None and math.isfinite(value)]
    if not kept:
        return Spread(0)
    sd = statistics.stdev(kept) if len(kept) > 1 else None
    return Spread(len(kept), statistics.fmean(kept), sd, min(kept), max(kept))


Value = Callable[[Row], float | None]


def by_epoch(runs: Iterable[RunResult], y: Value) -> dict[int, Spread]:
    """The spread of a value after each epoch, over the runs that have got there with a finite one.

    Seeds are matched by epoch on every axis: on one where they stand apart (seconds, or samples of
    methods that toss coins) a point lies at their mean.
    """
    found: dict[int, list[float | None]] = {}
    for run in runs:
        for row in run.history:
            found.setdefault(row.epoch, []).append(y(row))
    spreads = {epoch: spread(values) for epoch, values in sorted(found.items())}
    return {epoch: one for epoch, one in spreads.items() if one.n}


def last(runs: Iterable[RunResult], y: Value) -> Spread:
    """The spread of a value at the ends of some runs."""
    return spread(y(run.last) for run in runs if run.history)


# ------------------------------------------------------------- what groups and panels are called


def words_of(key: str, value: Any) -> str:
    """A value of a config in a few words.

    >>> words_of("batch", 512), words_of("spectral", None), words_of("order", (0, 2, 1))
    ('b = 512', 'without spectral normalisation', 'order 0-2-1')
    """
    if key in _WORDS:
        return _WORDS[key](value)
    if isinstance(value, bool):
        return key if value else f"no {key}"
    shown = "default" if value is None else f"{value:g}" if isinstance(value, float) else value
    return f"{_SHORT_NAMES.get(key, key)} = {shown}"


def _blocks(value: Any) -> str:
    if isinstance(value, int):
        return f"m = {value}"
    return "a block per layer" if value is None else "blocks " + "+".join(value)


_WORDS: dict[str, Callable[[Any], str]] = {
    "method": str,
    "dataset": lambda value: find(str(value)).label,
    "spectral": _SPECTRAL.__getitem__,
    "precondition": lambda value: "one lr" if value is None else f"Λ by {value}",
    "blocks": _blocks,
    "order": lambda value: (
        f"order {'-'.join(map(str, value))}" if isinstance(value, tuple) else str(value)
    ),
    "schedule": lambda value: f"{value} schedule",
    "epochs": lambda value: f"{value} epoch{'' if value == 1 else 's'}",
    "device": lambda value: f"on {value}",
    "lr": lambda value: f"lr {value:g}",
}


def varying(groups: Iterable[Group]) -> list[str]:
    """The keys, but for method and seed, in which any two groups differ."""
    return different([group.config for group in groups])


def different(configs: Sequence[RunConfig]) -> list[str]:
    """The keys, but for method and seed, in which any two configs differ."""
    return [key for key in _KEYS if len({getattr(config, key) for config in configs}) > 1]


def panels(groups: Sequence[Group], keys: Sequence[str]) -> dict[tuple[Any, ...], list[Group]]:
    """The groups by their values of these keys; None first, numbers by size."""
    found: dict[tuple[Any, ...], list[Group]] = {}
    for group in groups:
        found.setdefault(tuple(getattr(group.config, key) for key in keys), []).append(group)
    return dict(sorted(found.items(), key=lambda item: tuple(map(_rank, item[0]))))


def _rank(value: Any) -> tuple[int, float, str]:
    if value is None:
        return 0, 0.0, ""
    if isinstance(value, int | float):
        return 1, float(value), ""
    return 2, 0.0, str(value)


def names(groups: Sequence[Group], keys: Sequence[str]) -> dict[Group, str]:
    """The legend's name of each group, where panels are split by `keys`.

    It is the method, with what tells apart the groups of that method within a panel; what is None
    goes without saying. A tuned lr is named only if nothing else tells groups apart: the same name
    then stands in every panel.
    """
    found: dict[Group, str] = {}
    for method in {group.config.method: None for group in groups}:
        mine = [group for group in groups if group.config.method == method]
        apart = _apart(list(panels(mine, keys).values()), keys)
        found |= {group: named(group.config, apart) for group in mine}
    return found


def named(config: RunConfig, keys: Sequence[str]) -> str:
    """The method of a config, and its values of these keys; what is None goes without saying."""
    values = ((key, getattr(config, key)) for key in keys)
    return ", ".join([config.method, *(words_of(k, v) for k, v in values if v is not None)])


def _apart(within: Sequence[Sequence[Group]], keys: Sequence[str]) -> list[str]:
    """The keys that tell groups apart within every panel."""
    candidates = [
        key for key in _KEYS if key not in keys and any(key in varying(some) for some in within)
    ]
    chosen = [key for key in candidates if key not in _FOLLOWING]

    def alike(some: Sequence[Group]) -> bool:
        return len({named(group.config, chosen) for group in some}) < len(some)

    for key in (key for key in _FOLLOWING if key in candidates):
        if any(map(alike, within)):
            chosen.append(key)
    return chosen


def subtitle(groups: Sequence[Group], keys: Sequence[str]) -> str:
    """What all groups of a panel share, of the things one asks for first."""
    apart, config = varying(groups), groups[0].config
    shared = [
        key
        for key in ("dataset", "batch", "epochs", "schedule", "weight_decay", "lr")
        if key not in apart and key not in keys
    ]
    return " · ".join(words_of(key, getattr(config, key)) for key in shared)
