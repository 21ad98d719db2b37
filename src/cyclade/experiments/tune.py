"""The paper's grid search of the initial learning rate, on Optuna.

Each base config (a method, with or without spectral normalisation, …) is one Optuna study, and all
studies lie in one journal file. The studies hold *what was found*; the runs themselves lie in
folders beside the journal and resume by themselves. A learning rate is judged by the accuracy at
the end of the run on images held out of the *training* set. The test set plays no part.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from cyclade.experiments.config import RunConfig
from cyclade.experiments.errors import ConfigError, ExperimentError, FolderError
from cyclade.experiments.files import write_json
from cyclade.experiments.folder import RunResult
from cyclade.experiments.many import run_many

JOURNAL, SUMMARY, RUNS = "tune.journal", "tuned.json", "runs"
EXTENSIONS = 2
"""How often a grid grows when the best lr is at its edge."""

Grid = Sequence[float] | Callable[[RunConfig], Sequence[float]]


@dataclass(frozen=True)
class Tried:
    """One learning rate: `held_out_accuracy` is the mean over the seeds, None if one diverged."""

    lr: float
    status: str
    held_out_accuracy: float | None


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
    storage: Any = None,
) -> list[Tuned]:
    """The best initial learning rate for each base config, by grid search.

    All runs of all bases go to one `run_many`, so that a GPU is filled. Where the best lr is at the
    edge of its grid, or all diverged, the grid grows by one factor on that side and the new runs
    are made, at most twice. The same call resumes: trials that are finished are read, and runs that
    were cut off go on. Only one process may tune in a folder at a time.

    Parameters
    ----------
    bases:
        The configs; their `lr` is what is searched.
    root:
        The folder: ``tune.journal`` (Optuna), ``runs`` (run folders), ``tuned.json`` (the outcome).
    lrs:
        The grid, or a function from a base config to its grid.
    held_out:
        The share of the training images on which a learning rate is judged.
    seeds:
        Every lr is run with each, and judged by the mean; default: the base's own seed.
    epochs:
        Of the runs that are compared; default: the base's own.
    storage:
        An Optuna storage to use instead of the journal.
    """
    bases, root = list(bases), Path(root)
    if not 0 < held_out < 1:
        raise ConfigError(f"held_out must be in (0, 1), got {held_out}")
    optuna = load_optuna()
    searches = [_Search(base, _grid(lrs, base), held_out, seeds, epochs) for base in bases]
    with _quietly(optuna):
        storage = _journal(optuna, root) if storage is None else storage
        for search in searches:
            search.study = _Study(optuna, search.name, storage)
        for extensions in range(1 + EXTENSIONS):
            missing = [(search, lr) for search in searches for lr in search.missing()]
            configs = [config for search, lr in missing for config in search.runs(lr)]
            found = longest_first(
                configs, root / RUNS, data_dir=data_dir, jobs=jobs, progress=progress
            )
            for search, lr in missing:
                search.study.add(_judge(lr, [found[config] for config in search.runs(lr)]))
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


def load_optuna() -> Any:
    """Optuna, or an error that says how to get it."""
    try:
        import optuna
    except ImportError as error:
        raise ExperimentError(
            f"tuning needs Optuna ({error}): pip install 'cyclade[experiments]'"
        ) from error
    return optuna


class _Search:
    """One base config and its grid, which may grow."""

    study: _Study

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
        # The study is named by everything but the lr, so another search never meets it.
        self.name = replace(self._judged, lr=1.0, seed=self._seeds[0]).slug().replace("-lr1-", "-")
        if len(self._seeds) > 1:
            self.name += "-and-" + "-".join(map(str, self._seeds[1:]))

    def runs(self, lr: float) -> list[RunConfig]:
        """The runs by which a learning rate is judged."""
        return [replace(self._judged, lr=lr, seed=seed) for seed in self._seeds]

    def missing(self) -> list[float]:
        """The learning rates of the grid that were not tried yet."""
        known = self.study.tried()
        return [lr for lr in self.grid if lr not in known]

    def tried(self) -> list[Tried]:
        """The grid, from the smallest lr up; all of it has been tried."""
        known = self.study.tried()
        return [known[lr] for lr in self.grid]

    def best(self) -> Tried | None:
        """The lr of the best held-out accuracy, the smaller one of equals; None if all diverged."""
        alive = [one for one in self.tried() if one.held_out_accuracy is not None]
        return max(alive, key=lambda one: one.held_out_accuracy or 0.0, default=None)

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


class _Study:
    """An Optuna study: one finished trial for each learning rate.

    A trial is added whole, when its runs have ended; a kill at any moment leaves no half of one.
    """

    def __init__(self, optuna: Any, name: str, storage: Any) -> None:
        self._optuna = optuna
        if name in optuna.get_all_study_names(storage):
            self._study = optuna.load_study(study_name=name, storage=storage)
        else:
            self._study = optuna.create_study(
                study_name=name, storage=storage, direction="maximize"
            )

    def add(self, tried: Tried) -> None:
        """One that diverged counts as accuracy 0, and its status says so."""
        self._study.add_trial(
            self._optuna.trial.create_trial(
                params={"lr": tried.lr},
                distributions={
                    "lr": self._optuna.distributions.FloatDistribution(1e-100, 1e100, log=True)
                },
                value=tried.held_out_accuracy or 0.0,
                user_attrs={"status": tried.status},
            )
        )

    def tried(self) -> dict[float, Tried]:
        """By learning rate."""
        found = {}
        for trial in self._study.get_trials(deepcopy=False):
            if trial.state.is_finished() and "status" in trial.user_attrs:
                status = trial.user_attrs["status"]
                accuracy = None if status == "diverged" else trial.value
                found[trial.params["lr"]] = Tried(trial.params["lr"], status, accuracy)
        return found


def _judge(lr: float, results: list[RunResult]) -> Tried:
    """A learning rate by its runs."""
    accuracies = [
        result.last.held_out_accuracy
        for result in results
        if result.status == "finished" and result.last.held_out_accuracy is not None
    ]
    if len(accuracies) < len(results):
        return Tried(lr, "diverged", None)
    return Tried(lr, "finished", fmean(accuracies))


def _check_all_found(searches: list[_Search]) -> None:
    hopeless = [search for search in searches if search.best() is None]
    if hopeless:
        lines = [
            f"{search.name} ({', '.join(f'{lr:g}' for lr in search.grid)})" for search in hopeless
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


# --------------------------------------------------------------------------------------- storage


def _journal(optuna: Any, root: Path) -> Any:
    """The journal in `root`, whole again if a process was killed while it wrote."""
    path = root / JOURNAL
    if root.exists() and not root.is_dir():
        raise FolderError(f"{root} is a file, not a folder")
    if not path.exists() and root.exists() and any(root.iterdir()) and not (root / RUNS).exists():
        raise FolderError(f"{root} is not empty and holds no {JOURNAL}: give a new folder")
    root.mkdir(parents=True, exist_ok=True)
    path.with_name(JOURNAL + ".lock").unlink(missing_ok=True)  # of a process that is gone
    if path.exists():
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):  # a line that was cut off
            os.truncate(path, whole)
    try:
        return optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
    except (ValueError, KeyError) as error:
        raise FolderError(f"{path} cannot be read ({error}): delete it, the runs stay") from error


@contextmanager
def _quietly(optuna: Any) -> Iterator[None]:
    """Without Optuna's line for every study and trial."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


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
