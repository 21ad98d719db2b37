"""What the paper says, and what in the runs of an experiment bears on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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


def faster_and_better(mine: str, other: str, **shared: Any) -> tuple[Check, Check]:
    """One method against another: test accuracy and train loss at the end."""
    one, two = {"method": mine, **shared}, {"method": other, **shared}
    return Check(one, two, "test_accuracy"), Check(one, two, "train_loss")
