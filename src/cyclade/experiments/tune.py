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
from cyclade.experiments.errors import ConfigError, ExperimentError, FolderError
from cyclade.experiments.folder import RunResult
from cyclade.experiments.many import check_jobs, run_many
from cyclade.files.lock import LOCK, locked
from cyclade.files.writing import is_temporary, sweep, write_json

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
    `learnt` says whether the best is better than guessing (`learnt`).
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
        return learnt(self.config, self.held_out_accuracy)


def learnt(config: RunConfig, accuracy: float) -> bool:
    """Whether an accuracy is that of a net that has learnt: more than twice what guessing gives.

    >>> learnt(RunConfig(dataset="digits"), 0.108)
    False
    """
    return accuracy > 2 / find(config.dataset).classes


def tune(
    bases: Sequence[RunConfig],
    root: str | Path,
    *,
    lrs: Grid,
    held_out: float = 0.1,
    seeds: Sequence[int] | None = None,
    epochs: int | None = None,
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
    epochs:
        Of the runs that are compared; default: the base's own.
    """
    bases, root = list(bases), Path(root)
    if not 0 < held_out < 1:
        raise ConfigError(f"held_out must be in (0, 1), got {held_out}")
    check_jobs(jobs)
    searches = [_Search(base, _grid(lrs, base), held_out, seeds, epochs) for base in bases]
    _check_folder(root)
    with locked(root):
        sweep(root)
        for extensions in range(1 + EXTENSIONS):
            configs = [config for search in searches for config in search.missing()]
            found = longest_first(
                configs, root / RUNS, data_dir=data_dir, jobs=jobs, progress=progress
            )
            for search in searches:
                search.judge(found)
            if extensions < EXTENSIONS:
                for search in searches:
                    search.extend()
        _check_all_found(searches)
        tuned = [search.outcome() for search in searches]
        _write(root / SUMMARY, tuned)
    return tuned


def longest_first(
    configs: Sequence[RunConfig], root: str | Path, **options: Any
) -> dict[RunConfig, RunResult]:
    """`run_many`, with long runs at the head, so that none of them is left over at the end."""
    ordered = sorted(set(configs), key=lambda c: (c.recursive, c.epochs, c.slug()), reverse=True)
    return dict(zip(ordered, run_many(ordered, root, **options), strict=True))


class _Search:
    """One base config and its grid, which may grow."""

    def __init__(
        self,
        base: RunConfig,
        grid: list[float],
        held_out: float,
        seeds: Sequence[int] | None,
        epochs: int | None,
    ) -> None:
        self.base, self.grid, self._asked = base, grid, len(grid)
        self._seeds = [base.seed] if seeds is None else list(seeds)
        if not self._seeds:
            raise ConfigError("seeds must not be empty")
        self._judged = replace(base, held_out=held_out, epochs=epochs or base.epochs)
        self._known: dict[float, Tried] = {}

    def runs(self, lr: float) -> list[RunConfig]:
        """The runs by which a learning rate is judged."""
        return [replace(self._judged, lr=lr, seed=seed) for seed in self._seeds]

    def missing(self) -> list[RunConfig]:
        """The runs of the learning rates of the grid that were not judged yet."""
        return [run for lr in self.grid if lr not in self._known for run in self.runs(lr)]

    def judge(self, found: dict[RunConfig, RunResult]) -> None:
        """Judge these learning rates by their runs."""
        for lr in self.grid:
            if lr not in self._known:
                self._known[lr] = _judged(lr, [found[run] for run in self.runs(lr)])

    def tried(self) -> list[Tried]:
        """The grid, from the smallest lr up; all of it has been tried."""
        return [self._known[lr] for lr in self.grid]

    def best(self) -> Tried | None:
        """By the rule of `tune`; None if all diverged."""
        alive = [one for one in self.tried() if one.held_out_accuracy is not None]
        return max(alive, key=_rank, default=None)

    def extend(self) -> None:
        """Let the grid grow beyond the edge where the best lr lies, if it lies at one."""
        best = self.best()
        if best is None or best.lr == self.grid[0]:
            self.grid = [rounded(self.grid[0] / self._factor(0, 1)), *self.grid]
        elif best.lr == self.grid[-1]:
            self.grid = [*self.grid, rounded(self.grid[-1] * self._factor(-2, -1))]

    def _factor(self, lower: int, upper: int) -> float:
        """Between two neighbours in the grid; 2 where there is only one lr."""
        return self.grid[upper] / self.grid[lower] if len(self.grid) > 1 else 2.0

    def outcome(self) -> Tuned:
        """The best of the grid."""
        best = self.best()
        assert best is not None
        assert best.held_out_accuracy is not None
        return Tuned(
            config=replace(self.base, lr=best.lr),
            held_out_accuracy=best.held_out_accuracy,
            tried=tuple(self.tried()),
            extended=len(self.grid) - self._asked,
            at_edge=best.lr in (self.grid[0], self.grid[-1]),
        )


def _rank(one: Tried) -> tuple[float, float, float]:
    loss = inf if one.train_loss is None else one.train_loss
    return (one.held_out_accuracy or 0.0, -loss, one.lr)


def _judged(lr: float, results: list[RunResult]) -> Tried:
    """A learning rate by its runs."""
    accuracies = [
        result.last.held_out_accuracy
        for result in results
        if result.status == "finished" and result.last.held_out_accuracy is not None
    ]
    if len(accuracies) < len(results):
        return Tried(lr, "diverged", None)
    losses = [result.last.train_loss for result in results]
    return Tried(lr, "finished", fmean(accuracies), fmean(losses))


def _check_all_found(searches: list[_Search]) -> None:
    hopeless = [search for search in searches if search.best() is None]
    if hopeless:
        lines = [
            f"{search.base.slug()} ({', '.join(f'{lr:g}' for lr in search.grid)})"
            for search in hopeless
        ]
        raise ExperimentError(
            f"every learning rate diverged for {'; '.join(lines)}: give smaller ones"
        )


def _grid(lrs: Grid, base: RunConfig) -> list[float]:
    chosen = lrs(base) if callable(lrs) else lrs
    grid = sorted({replace(base, lr=lr).lr for lr in chosen})  # the config checks each
    if not grid:
        raise ConfigError("lrs must hold at least one learning rate")
    return grid


def rounded(lr: float) -> float:
    """To five digits, so that a grid reads well and repeats exactly."""
    return float(f"{lr:.5g}")


def _check_folder(root: Path) -> None:
    """The folder is new, or of a search."""
    if root.exists() and not root.is_dir():
        raise FolderError(f"{root} is a file, not a folder")
    if not root.exists() or any((root / name).exists() for name in (RUNS, SUMMARY)):
        return
    if any(e.name != LOCK and not is_temporary(e.name) for e in root.iterdir()):
        raise FolderError(f"{root} is not empty and holds no {RUNS}: give a new folder")


def _write(path: Path, tuned: list[Tuned]) -> None:
    """The outcome, for people and for the report."""
    rows = [
        {
            **{key: value for key, value in asdict(one).items() if key != "config"},
            "lr": one.lr,
            "config": {k: v for k, v in asdict(one.config).items() if k not in ("device", "seed")},
        }
        for one in tuned
    ]
    write_json(path, {"tuned": rows})
