"""The paper's grid search of the initial learning rate, on Optuna.

Each base config (a method, with or without spectral normalisation, …) is one Optuna study, and all
studies lie in one journal file. The studies hold *what was found*; the runs themselves lie in
folders beside the journal and resume by themselves. A learning rate is judged by the accuracy at
the end of the run on images held out of the *training* set. The test set plays no part.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from math import inf
from pathlib import Path
from statistics import fmean
from typing import Any

from cyclade.experiments.config import RunConfig
from cyclade.experiments.datasets import find
from cyclade.experiments.errors import ConfigError, ExperimentError, FolderError
from cyclade.experiments.folder import RunFolder, RunResult
from cyclade.experiments.lock import LOCK, locked
from cyclade.experiments.many import check_jobs, run_many
from cyclade.experiments.storage import digest, is_temporary, sweep, write_json

JOURNAL, SUMMARY, RUNS = "tune.journal", "tuned.json", "runs"
EXTENSIONS = 2
"""How often a grid grows when the best lr is at its edge."""

_log = logging.getLogger("cyclade.experiments")

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
    storage: Any = None,
) -> list[Tuned]:
    """The best initial learning rate for each base config, by grid search.

    The best is the lr of the highest accuracy on the images held out; of equals the one with the
    lowest train loss at the end, and of those the largest. So if nothing was learnt, the lr that
    came furthest is taken, the grid grows there, and `Tuned.learnt` is false.

    All runs of all bases go to one `run_many`, so that a GPU is filled. Where the best lr is at the
    edge of its grid, or all diverged, the grid grows by one factor on that side and the new runs
    are made, at most twice. The same call resumes: trials that are finished are read, and runs that
    were cut off go on. A second process that tunes in the folder gets an error.

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
    check_jobs(jobs)
    optuna = load_optuna()
    searches = [_Search(base, _grid(lrs, base), held_out, seeds, epochs) for base in bases]
    _check_folder(root)
    with locked(root), _quietly(optuna):
        sweep(root)
        storage = _journal(optuna, root) if storage is None else storage
        for search in searches:
            search.study = _Study(optuna, search.name, storage)
        for extensions in range(1 + EXTENSIONS):
            missing = [(search, lr) for search in searches for lr in search.missing(root / RUNS)]
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
            f"tuning needs Optuna ({error}): in a checkout of cyclade, pip install '.[experiments]'"
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

    def missing(self, root: Path) -> list[float]:
        """The learning rates of the grid that were not tried yet, or whose runs are damaged."""
        known = self.study.tried()
        return [lr for lr in self.grid if lr not in known or self._damaged(lr, root)]

    def _damaged(self, lr: float, root: Path) -> bool:
        """Whether a run folder is there, but not as its run left it. `run_many` mends it."""
        places = [RunFolder(root / config.slug()) for config in self.runs(lr)]
        return any(place.path.exists() and place.problems() for place in places)

    def tried(self) -> list[Tried]:
        """The grid, from the smallest lr up; all of it has been tried."""
        known = self.study.tried()
        return [known[lr] for lr in self.grid]

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


class _Study:
    """An Optuna study: one finished trial for each learning rate.

    A trial is added whole, when its runs have ended; a kill at any moment leaves no half of one.
    """

    def __init__(self, optuna: Any, name: str, storage: Any) -> None:
        self._optuna, self._name, self._refused = optuna, name, set[int]()
        if name in optuna.get_all_study_names(storage):
            self._study = optuna.load_study(study_name=name, storage=storage)
        else:
            self._study = optuna.create_study(
                study_name=name, storage=storage, direction="maximize"
            )

    def add(self, tried: Tried) -> None:
        """One that diverged counts as accuracy 0, and its status says so."""
        if self.tried().get(tried.lr) == tried:
            return
        self._study.add_trial(
            self._optuna.trial.create_trial(
                params={"lr": tried.lr},
                distributions={
                    "lr": self._optuna.distributions.FloatDistribution(1e-100, 1e100, log=True)
                },
                value=tried.held_out_accuracy or 0.0,
                user_attrs={
                    "status": tried.status,
                    "train_loss": tried.train_loss,
                    "sha256": self._seal(tried),
                },
            )
        )

    def tried(self) -> dict[float, Tried]:
        """By learning rate. A trial that does not fit its digest is not read, and so made again."""
        found = {}
        for trial in self._study.get_trials(deepcopy=False):
            attributes = trial.user_attrs
            if not trial.state.is_finished() or "status" not in attributes:
                continue
            status = attributes["status"]
            accuracy = None if status == "diverged" else trial.value
            one = Tried(trial.params["lr"], status, accuracy, attributes.get("train_loss"))
            if attributes.get("sha256", self._seal(one)) == self._seal(one):
                found[one.lr] = one
            elif trial.number not in self._refused:
                self._refused.add(trial.number)
                _log.warning(
                    "%s: trial %d of %s does not fit its digest: read from its runs again",
                    JOURNAL, trial.number, self._name,
                )  # fmt: skip
        return found

    def _seal(self, tried: Tried) -> str:
        """The digest of a trial and the study it belongs to."""
        return digest(json.dumps([self._name, asdict(tried)], sort_keys=True).encode())


def _judge(lr: float, results: list[RunResult]) -> Tried:
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


def _check_folder(root: Path) -> None:
    """The folder is new, or of a search."""
    if root.exists() and not root.is_dir():
        raise FolderError(f"{root} is a file, not a folder")
    if (root / JOURNAL).exists() or (root / RUNS).exists() or not root.exists():
        return
    if any(e.name != LOCK and not is_temporary(e.name) for e in root.iterdir()):
        raise FolderError(f"{root} is not empty and holds no {JOURNAL}: give a new folder")


def _journal(optuna: Any, root: Path) -> Any:
    """The journal in `root`, whole again if a process was killed while it wrote.

    All that it says can be read from the runs again. So a journal that is damaged is moved aside,
    with a warning, and a new one begun.
    """
    path = root / JOURNAL
    path.with_name(JOURNAL + ".lock").unlink(missing_ok=True)  # of a process that is gone
    try:
        _check_lines(path)
        return _opened(optuna, path)
    except FolderError as error:
        aside = path.with_name(JOURNAL + ".damaged")
        _log.warning("%s: moved to %s, its trials are read from their runs", error, aside.name)
        os.replace(path, aside)
        return _opened(optuna, path)


def _opened(optuna: Any, path: Path) -> Any:
    try:
        storage = optuna.storages.JournalStorage(
            optuna.storages.journal.JournalFileBackend(str(path))
        )
        for name in optuna.get_all_study_names(storage):
            for trial in optuna.load_study(study_name=name, storage=storage).get_trials():
                if "status" in trial.user_attrs:
                    float(trial.params["lr"]), float(trial.value)
        return storage
    except OSError:
        raise
    except Exception as error:  # whatever Optuna trips over in lines that are JSON
        raise FolderError(f"{path} is damaged ({type(error).__name__}: {error})") from error


def _check_lines(path: Path) -> None:
    """Every line is a JSON object; a last one that was cut off is removed."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise FolderError(f"{path} cannot be read: {error.strerror or error}") from error
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)
    for number, line in enumerate(content[:whole].splitlines(), start=1):
        try:
            sound = b"\0" not in line and isinstance(json.loads(line), dict)
        except (ValueError, RecursionError):
            sound = False
        if not sound:
            raise FolderError(f"{path} is damaged: line {number} is not a JSON object")


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
