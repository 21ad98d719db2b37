"""The paper's grid search of the initial learning rate.

The runs in their folders are the record of a search: those that are done are read, others start or
go on where they stopped. A learning rate is judged by the accuracy at the end of the run on images
held out of the *training* set. The test set plays no part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf
from pathlib import Path
from statistics import fmean
from typing import Any

from cyclade.experiments.config import RunConfig
from cyclade.experiments.datasets import find
from cyclade.experiments.errors import ConfigError, ExperimentError
from cyclade.experiments.folder import RunResult, holds
from cyclade.experiments.plans.grids import rounded
from cyclade.experiments.running import check_jobs, run_many
from cyclade.files.disk import sweep, write_json
from cyclade.files.lock import locked

SUMMARY, RUNS = "tuned.json", "runs"
EXTENSIONS = 2
"""How often a grid grows when the best lr is at its edge."""

Grid = Sequence[float] | Callable[[RunConfig], Sequence[float]]


@dataclass(frozen=True)
class Tried:
    """One learning rate: accuracy and train loss are means over the seeds, None if one diverged."""

    lr: float
    status: str
    held_out_accuracy: float | None
    train_loss: float | None = None


@dataclass(frozen=True)
class Tuned:
    """What the search came to for one base config.

    `config` is the base with the chosen lr. `at_edge` says that the best lr is the smallest or the
    largest one tried, even after the grid grew `extended` times: a better one may lie beyond.
    """

    config: RunConfig
    held_out_accuracy: float
    tried: tuple[Tried, ...]
    extended: int
    at_edge: bool

    @property
    def lr(self) -> float:
        """The chosen learning rate."""
        return self.config.lr

    @property
    def learnt(self) -> bool:
        """Whether the best lr does better than guessing."""
        return find(self.config.dataset).learnt(self.held_out_accuracy)


def tune(
    bases: Sequence[RunConfig],
    root: str | Path,
    *,
    lrs: Grid,
    held_out: float = 0.1,
    seeds: Sequence[int] | None = None,
    data_dir: str | Path | None = None,
    jobs: int | None = None,
    progress: bool = True,
) -> list[Tuned]:
    """The best initial learning rate for each base config, by grid search.

    The best is the lr of the highest accuracy on the images held out; of equals the one with the
    lowest train loss at the end, and of those the largest. So if nothing was learnt, the lr that
    came furthest is taken, the grid grows there, and `Tuned.learnt` is false.

    All runs of all bases go to one `run_many`, so that a GPU is filled. Where the best lr is at the
    edge of its grid, or all diverged, the grid grows by one factor on that side and the new runs
    are made, at most twice. The same call resumes: runs that are done are read, and runs that were
    cut off go on. A second process that tunes in the folder gets an error.

    Parameters
    ----------
    bases:
        The configs; their `lr` is what is searched.
    root:
        The folder: ``runs`` (run folders) and ``tuned.json`` (the outcome).
    lrs:
        The grid, or a function from a base config to its grid.
    held_out:
        The share of the training images on which a learning rate is judged.
    seeds:
        Every lr is run with each, and judged by the mean; default: the base's own seed.
    """
    root = Path(root)
    if not 0 < held_out < 1:
        raise ConfigError(f"held_out must be in (0, 1), got {held_out}")
    if seeds is not None and not seeds:
        raise ConfigError("seeds must not be empty")
    check_jobs(jobs)
    searches = [_Search(base, _grid(lrs, base), held_out, seeds) for base in bases]
    holds(root, RUNS, SUMMARY)
    with locked(root):
        sweep(root)
        for extensions in range(1 + EXTENSIONS):
            configs = [run for search in searches for lr in search.new() for run in search.runs(lr)]
            found = longest_first(
                configs, root / RUNS, data_dir=data_dir, jobs=jobs, progress=progress
            )
            for search in searches:
                for lr in search.new():
                    search.tried[lr] = _judged(lr, [found[run] for run in search.runs(lr)])
                if extensions < EXTENSIONS:
                    search.extend()
        hopeless = [
            f"{search.base.slug()} ({', '.join(f'{lr:g}' for lr in search.grid)})"
            for search in searches
            if search.best() is None
        ]
        if hopeless:
            raise ExperimentError(
                f"every learning rate diverged for {'; '.join(hopeless)}: give smaller ones"
            )
        tuned = [search.outcome() for search in searches]
        write_json(root / SUMMARY, {"tuned": [*map(_row, tuned)]})
    return tuned


def longest_first(
    configs: Sequence[RunConfig], root: str | Path, **options: Any
) -> dict[RunConfig, RunResult]:
    """`run_many`, with long runs at the head, so that none of them is left over at the end."""
    ordered = sorted(set(configs), key=lambda c: (c.recursive, c.epochs, c.slug()), reverse=True)
    return dict(zip(ordered, run_many(ordered, root, **options), strict=True))


class _Search:
    """One base config, its grid, which may grow, and what was tried."""

    def __init__(
        self, base: RunConfig, grid: list[float], held_out: float, seeds: Sequence[int] | None
    ) -> None:
        self.base, self.grid, self._asked = base, grid, len(grid)
        self._held_out, self._seeds = held_out, seeds or [base.seed]
        self.tried: dict[float, Tried] = {}

    def runs(self, lr: float) -> list[RunConfig]:
        """The runs by which a learning rate is judged."""
        judged = replace(self.base, held_out=self._held_out, lr=lr)
        return [replace(judged, seed=seed) for seed in self._seeds]

    def new(self) -> list[float]:
        """The learning rates of the grid that were not tried yet."""
        return [lr for lr in self.grid if lr not in self.tried]

    def best(self) -> Tried | None:
        """By the rule of `tune`; None if all diverged."""
        alive = [one for one in self.tried.values() if one.held_out_accuracy is not None]
        return max(alive, key=_rank, default=None)

    def extend(self) -> None:
        """Let the grid grow beyond the edge where the best lr lies, if it lies at one."""
        best, grid = self.best(), self.grid
        low, high = (grid[1] / grid[0], grid[-1] / grid[-2]) if len(grid) > 1 else (2.0, 2.0)
        if best is None or best.lr == grid[0]:
            self.grid = [rounded(grid[0] / low), *grid]
        elif best.lr == grid[-1]:
            self.grid = [*grid, rounded(grid[-1] * high)]

    def outcome(self) -> Tuned:
        """The best of the grid, and what was tried, from the smallest lr up."""
        best = self.best()
        assert best is not None
        assert best.held_out_accuracy is not None
        return Tuned(
            config=replace(self.base, lr=best.lr),
            held_out_accuracy=best.held_out_accuracy,
            tried=tuple(self.tried[lr] for lr in self.grid),
            extended=len(self.grid) - self._asked,
            at_edge=best.lr in (self.grid[0], self.grid[-1]),
        )


def _rank(one: Tried) -> tuple[float, float, float]:
    loss = inf if one.train_loss is None else one.train_loss
    return (one.held_out_accuracy or 0.0, -loss, one.lr)


def _judged(lr: float, results: list[RunResult]) -> Tried:
    """A learning rate by its runs."""
    if any(result.status != "finished" for result in results):
        return Tried(lr, "diverged", None)
    accuracy = fmean(result.last.held_out_accuracy or 0.0 for result in results)
    return Tried(lr, "finished", accuracy, fmean(result.last.train_loss for result in results))


def _grid(lrs: Grid, base: RunConfig) -> list[float]:
    chosen = lrs(base) if callable(lrs) else lrs
    grid = sorted({replace(base, lr=lr).lr for lr in chosen})  # the config checks each
    if not grid:
        raise ConfigError("lrs must hold at least one learning rate")
    return grid


def _row(one: Tuned) -> dict[str, Any]:
    """An outcome as ``tuned.json`` has it, for people and for the report."""
    found = asdict(one)
    config = {k: v for k, v in found.pop("config").items() if k not in ("device", "seed")}
    return {**found, "lr": one.lr, "config": config}
