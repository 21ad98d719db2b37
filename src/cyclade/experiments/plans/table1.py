"""Table 1 of the paper: seconds per iteration and per epoch, of a run alone."""

from __future__ import annotations

from dataclasses import replace

from cyclade.experiments.errors import ConfigError
from cyclade.experiments.plans.fig1 import methods
from cyclade.experiments.plans.plan import Check, Claim, Plan, Settings

TIMING_LR = 1e-3
"""Small, so that nothing diverges; the time does not depend on it."""


def table1(settings: Settings) -> Plan:
    """Short runs one after the other, nothing beside them."""
    epochs = settings.epochs or settings.choose(12, 4)
    if epochs < 2:
        raise ConfigError("table1 needs at least 2 epochs, the first one warms up: got 1")
    return Plan(
        name="table1",
        quick=settings.quick,
        title="Table 1: seconds per iteration and per epoch",
        question="What does a cyclic iteration cost, in seconds and in multiply-adds?",
        timed=tuple(replace(config, lr=TIMING_LR) for config in methods(settings, epochs)),
        split_by="spectral",
        paper=(
            Claim(
                "SCCD costs 7.5 % more than SGD per iteration",
                "0.185 s against 0.172 s",
                (_cost("SCCD", "SGD", 0.185 / 0.172),),
            ),
            Claim(
                "VRO-CCD costs 2.4 times as much as PAGE",
                "0.041 s against 0.017 s",
                (_cost("VRO-CCD", "PAGE", 0.041 / 0.017),),
            ),
        ),
        notes=(
            "Medians over the epochs after the first, of runs alone on the device. The seconds are "
            "of training: evaluation and files are not in them.",
            "The paper's SGD sees 3,000 images a second: its times are bound by the loading of "
            "data, which hides what a cycle costs.",
        ),
    )


def _cost(mine: str, other: str, expected: float) -> Check:
    plain = {"spectral": None}
    return Check(
        {"method": mine, **plain},
        {"method": other, **plain},
        "seconds_per_iteration",
        expected=expected,
    )
