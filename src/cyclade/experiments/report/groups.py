"""Runs that differ in their seed alone are one group, with means and spreads over its seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cyclade.experiments import METHODS
from cyclade.experiments.config import ORDERS, RunConfig
from cyclade.experiments.folder import Row, RunResult

_COMPLETENESS = {"unfinished": 0, "diverged": 1, "finished": 1}


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
    def averaged(self) -> list[RunResult]:
        """The runs that enter means: a diverged run has no place in an average."""
        return [run for run in self.runs if run.status != "diverged" and run.history]


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


def _completeness(result: RunResult) -> tuple[int, int]:
    return _COMPLETENESS.get(result.status, 0), len(result.history)


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


@dataclass(frozen=True)
class Point:
    """A group after an epoch: where it stands on an axis (mean over the seeds) and how high."""

    epoch: int
    x: float
    y: Spread


def curve(runs: Sequence[RunResult], x: Value, y: Value) -> list[Point]:
    """One point per epoch, over the runs that have got there with a finite value.

    Seeds are matched by epoch on every axis: on one where they stand apart (seconds, or samples of
    methods that toss coins) the point lies at their mean.
    """
    rows: dict[int, list[Row]] = {}
    for run in runs:
        for row in run.history:
            if _finite(x(row)) and _finite(y(row)):
                rows.setdefault(row.epoch, []).append(row)
    points = []
    for epoch, there in sorted(rows.items()):
        place = spread(map(x, there)).mean
        if place is not None:
            points.append(Point(epoch, place, spread(map(y, there))))
    return points


def last(runs: Iterable[RunResult], y: Value) -> Spread:
    """The spread of a value at the ends of some runs."""
    return spread(y(run.last) for run in runs if run.history)


def ended(group: Group) -> list[RunResult]:
    """The runs whose ends are averaged: the finished ones, or else those under way."""
    return group.of_status("finished") or group.averaged


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
