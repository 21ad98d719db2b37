"""The four methods with the same initial learning rate."""

from __future__ import annotations

from dataclasses import replace

from cyclade.experiments.config import RunConfig
from cyclade.experiments.plans.fig1 import methods
from cyclade.experiments.plans.plan import Check, Claim, Curve, Plan, Settings, faster_and_better


def fig_same_lr(settings: Settings) -> Plan:
    """η = 0.01 for all, 0.005 for PAGE without normalisation, as the paper says.

    In small, epochs are many: SGD takes some to get going at an η that PAGE bears.
    """
    shared = settings.choose(0.01, 0.05)
    configs = methods(settings, settings.epochs or settings.choose(100, 16))
    return Plan(
        name="fig-same-lr",
        quick=settings.quick,
        title="The same initial learning rate for all",
        question="At equal steps, what do cyclic updates and variance reduction bring?",
        curves=tuple(
            Curve(config) for one in configs for config in _rates(one, shared, shared / 2)
        ),
        seeds=settings.seeds or settings.choose(3, 2),
        split_by="spectral",
        paper=(
            Claim(
                "SCCD performs better than SGD, VRO-CCD better than PAGE",
                checks=(
                    *faster_and_better("SCCD", "SGD", spectral=None),
                    Check(
                        {"method": "VRO-CCD", "spectral": None, "lr": shared},
                        {"method": "PAGE", "spectral": None},
                        "test_accuracy",
                    ),
                    Check(
                        {"method": "VRO-CCD", "spectral": None, "lr": shared / 2},
                        {"method": "PAGE", "spectral": None},
                        "test_accuracy",
                    ),
                    *faster_and_better("SCCD", "SGD", spectral="step"),
                    *faster_and_better("VRO-CCD", "PAGE", spectral="step"),
                ),
            ),
            Claim("PAGE without normalisation bears at most η = 0.005", "0.005"),
            Claim(
                "SCCD stagnates earlier than SGD, as η is too small for it",
                checks=(
                    Check(
                        {"method": "SGD", "spectral": None},
                        {"method": "SCCD", "spectral": None},
                        "train_loss",
                    ),
                ),
            ),
        ),
        notes=(
            "VRO-CCD without normalisation is run at the lower rate, too: beside PAGE at its rate, "
            "and in case it does not bear the higher one.",
        ),
    )


def _rates(config: RunConfig, shared: float, lower: float) -> list[RunConfig]:
    rates = [shared]
    if config.spectral is None and config.method == "PAGE":
        rates = [lower]
    if config.spectral is None and config.method == "VRO-CCD":
        rates = [shared, lower]
    return [replace(config, lr=lr) for lr in rates]
