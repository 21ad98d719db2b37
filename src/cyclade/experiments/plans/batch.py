"""Beyond the paper: how does the cyclic scheme fare as batches grow?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cyclade.experiments.config import RunConfig
from cyclade.experiments.datasets import find
from cyclade.experiments.plans.grids import learning_rates
from cyclade.experiments.plans.plan import Check, Claim, Curve, Plan, Settings
from cyclade.experiments.plans.table1 import TIMING_LR


def batch(settings: Settings) -> Plan:
    """SGD, and SCCD with one lr, with σ(W_j) and with L_j; lr searched for each at each b."""
    dataset = settings.dataset or settings.choose("cifar10", "digits")
    base = replace(
        settings.base, dataset=dataset, epochs=settings.epochs or settings.choose(100, 12)
    )
    variants = [
        replace(base, method="SGD"),
        replace(base, method="SCCD"),
        replace(base, method="SCCD", spectral="step"),
        replace(base, method="SCCD", precondition="curvature"),
    ]
    configs = [replace(one, batch=size) for size in find(dataset).sizes for one in variants]
    short = settings.choose(5, 3)
    return Plan(
        name="study-batch",
        quick=settings.quick,
        title="Large batches: where does the cyclic scheme win?",
        question="SGD against SCCD with one learning rate, with steps η/σ(W_j) and with steps "
        "η/L_j, as the batch grows: accuracy at equal epochs, and the price in seconds.",
        curves=tuple(Curve(c, learning_rates(c, settings.choose(5, 3))) for c in configs),
        seeds=settings.seeds or settings.choose(3, 1),
        tune_epochs=settings.tune_epochs,
        timed=tuple(replace(c, lr=TIMING_LR, epochs=short) for c in configs),
        split_by="batch",
        paper=(
            Claim(
                "The cyclic scheme is an alternative for large-batch methods",
                checks=tuple(
                    Check(_named(one), {"method": "SGD", "batch": one.batch}, "test_accuracy")
                    for one in configs
                    if one.method != "SGD"
                ),
            ),
        ),
        notes=(
            "Every method has its own learning rate at every batch size, chosen on images held out "
            "of the training set.",
            "timing.json holds the seconds of each alone on the device.",
        ),
    )


def _named(config: RunConfig) -> dict[str, Any]:
    return {key: getattr(config, key) for key in ("method", "spectral", "precondition", "batch")}
