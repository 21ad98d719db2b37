"""What an experiment is: curves to draw, lrs to search, runs to time, claims to check."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from cyclade.experiments.config import MOST, RunConfig
from cyclade.experiments.errors import ConfigError

T = TypeVar("T")

AHEAD = ("test_accuracy", "train_loss")
"""By what one method is faster and better than another."""
TIMING_LR = 1e-3
"""Of runs that are timed. Small, so that nothing diverges; the time does not depend on it."""


@dataclass(frozen=True)
class Settings:
    """What may be changed of a plan from outside; None leaves the plan's own choice.

    `quick` is the plan in small: the digits of scikit-learn, few epochs, minutes on two cores.
    """

    quick: bool = False
    dataset: str | None = None
    epochs: int | None = None
    tune_epochs: int | None = None
    seeds: int | tuple[int, ...] | None = None
    device: str = "auto"

    def __post_init__(self) -> None:
        for key in ("epochs", "tune_epochs", "seeds"):
            value = getattr(self, key)
            if isinstance(value, int) and not 1 <= value <= MOST:
                raise ConfigError(f"{key} must be from 1 to {MOST}, got {value}")
        if isinstance(self.seeds, tuple):
            for seed in self.seeds:
                RunConfig(seed=seed)  # which says what is accepted

    def choose(self, whole: T, quick: T) -> T:
        """One of two, by `quick`."""
        return quick if self.quick else whole

    def length(self, whole: int, quick: int) -> int:
        """Epochs of the final runs: those asked for, or the plan's own."""
        return self.epochs or self.choose(whole, quick)

    @property
    def base(self) -> RunConfig:
        """A config on the data and device asked for; plans replace its lr and batch, or search."""
        dataset = self.dataset or self.choose("cifar10", "digits")
        return RunConfig(dataset=dataset, device=self.device, lr=0.05, batch=512)


@dataclass(frozen=True)
class Check:
    """What the runs can say of a claim: whether `mine` is ahead of `other`, two curves.

    Parameters
    ----------
    mine, other:
        The values of a config by which the two curves are found.
    by:
        "test_accuracy" or "train_loss", compared seed by seed; "seconds_per_iteration" or
        "seconds_per_epoch", as a ratio of times alone; or "lr".
    at:
        "end": after the last epoch; "seconds": when the one that is done first is done.
    expected:
        The ratio that the paper gives, for times.
    alike:
        The claim is that the two do not differ.
    """

    mine: Mapping[str, Any]
    other: Mapping[str, Any]
    by: str
    at: str = "end"
    expected: float | None = None
    alike: bool = False


@dataclass(frozen=True)
class Claim:
    """Something the paper says, its number if it gives one, and what in the runs bears on it."""

    claim: str
    value: str | None = None
    checks: tuple[Check, ...] = ()


def claimed(claim: str, *checks: Sequence[Check], value: str | None = None) -> Claim:
    """A claim, and all that bears on it."""
    return Claim(claim, value, tuple(check for some in checks for check in some))


def compared(
    mine: str,
    other: str,
    *by: str,
    at: str = "end",
    expected: float | None = None,
    alike: bool = False,
    **shared: Any,
) -> tuple[Check, ...]:
    """Checks of one method against another that has the `shared` values of a config as well."""
    one, two = {"method": mine, **shared}, {"method": other, **shared}
    return tuple(Check(one, two, key, at, expected, alike) for key in by)


@dataclass(frozen=True)
class Curve:
    """Runs that differ in their seed alone. With `lrs` the lr is searched in this grid first.

    `tune_epochs` is the length of the search runs (None: the plan's).
    """

    config: RunConfig
    lrs: tuple[float, ...] | None = None
    tune_epochs: int | None = None


@dataclass(frozen=True)
class Plan:
    """One experiment, from the question to the layout of its figure.

    Parameters
    ----------
    curves, seeds, tune_epochs:
        What is trained: every curve with so many seeds from 0 on, or with these; the length of
        tuning runs (None: that of the curve).
    timed:
        Configs to time alone on the device; the result is ``timing.json``.
    shows:
        Other plans, made first, whose runs and times this one shows.
    split_by, x, y:
        The panels of the figure: one for each value of these keys; the axes.
    """

    name: str
    title: str
    question: str
    curves: tuple[Curve, ...] = ()
    seeds: int | tuple[int, ...] = 1
    tune_epochs: int | None = None
    timed: tuple[RunConfig, ...] = ()
    shows: tuple[Plan, ...] = ()
    split_by: str | None = None
    x: str = "epoch"
    y: tuple[str, ...] = ("train_loss", "test_accuracy")
    paper: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
    quick: bool = False

    def runs(self, curve: Curve) -> list[RunConfig]:
        """The runs of a curve."""
        seeds = range(self.seeds) if isinstance(self.seeds, int) else self.seeds
        return [replace(curve.config, seed=seed) for seed in seeds]

    def tuning(self, curve: Curve) -> RunConfig:
        """The base config of the search for a curve's lr."""
        wanted = curve.tune_epochs or self.tune_epochs or curve.config.epochs
        return replace(curve.config, epochs=min(wanted, curve.config.epochs))

    def datasets(self) -> list[str]:
        """The data sets it needs."""
        configs = [*(curve.config for curve in self.curves), *self.timed]
        names = [config.dataset for config in configs]
        return list(dict.fromkeys(sum((other.datasets() for other in self.shows), names)))

    def described(self, command: str) -> dict[str, Any]:
        """The plan as ``plan.json`` holds it."""
        words = {key: getattr(self, key) for key in ("name", "title", "question")}
        return words | {
            "command": command,
            "quick": self.quick,
            "datasets": self.datasets(),
            "panels": {"split_by": self.split_by, "x": self.x, "y": list(self.y)},
            "paper": [asdict(claim) for claim in self.paper],
            "notes": list(self.notes),
            "content": self.content(),
        }

    def content(self) -> dict[str, Any]:
        """What its results depend on, as plain values: two plans with the same are the same."""
        return {
            "seeds": self.seeds if isinstance(self.seeds, int) else list(self.seeds),
            "tune_epochs": self.tune_epochs,
            "curves": [
                {**vars(c), "config": _without_device(c.config), "lrs": c.lrs and list(c.lrs)}
                for c in self.curves
            ],
            "timed": [_without_device(config) for config in self.timed],
            "shows": {plan.name: plan.content() for plan in self.shows},
        }


Make = Callable[[Settings], Plan]
"""A plan for these settings."""


def _without_device(config: RunConfig) -> dict[str, Any]:
    """A config without the device, as JSON reads it back."""
    values = {key: value for key, value in asdict(config).items() if key != "device"}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
