"""The experiments of the paper: Figure 1 by epoch and by seconds, Table 1, VR-CCD, the same lr."""

from __future__ import annotations

from dataclasses import replace

from cyclade.experiments.config import RunConfig
from cyclade.experiments.datasets import find
from cyclade.experiments.errors import ConfigError
from cyclade.experiments.plans.grids import learning_rates
from cyclade.experiments.plans.plan import (
    AHEAD,
    TIMING_LR,
    Check,
    Claim,
    Curve,
    Plan,
    Settings,
    claimed,
    compared,
)

METHODS = ("SGD", "SCCD", "PAGE", "VRO-CCD")

SEARCH = 30
"""Epochs of the search runs of PAGE and VRO-CCD. Their step is bounded by what they bear, which
shows early, and a run takes ten times that of SGD. SGD and SCCD are searched at full length: in
short runs they look best with steps at which long runs overfit."""


def methods(settings: Settings, epochs: int) -> list[RunConfig]:
    """The four methods, without and with spectral normalisation, as the paper sets them."""
    batch = find(settings.base.dataset).batch
    base = replace(settings.base, batch=batch, weight_decay=5e-4, schedule="cosine", epochs=epochs)
    return [
        replace(base, method=method, spectral=spectral)
        for spectral in (None, "step")
        for method in METHODS
    ]


def fig1(settings: Settings) -> Plan:
    """SGD, SCCD, PAGE and VRO-CCD with their own best lr; b = 512, 100 epochs, 3 seeds."""
    points = settings.choose(5, 3)
    return Plan(
        name="fig1",
        quick=settings.quick,
        title="Figure 1: train loss and test accuracy by epoch",
        question="Do cyclic updates train faster and generalise better, at equal epochs and each "
        "method at its own best learning rate?",
        curves=tuple(
            Curve(
                config,
                learning_rates(config, points),
                settings.tune_epochs or (SEARCH if config.recursive else None),
            )
            for config in methods(settings, settings.length(100, 12))
        ),
        seeds=settings.seeds or settings.choose(3, 2),
        split_by="spectral",
        paper=(
            claimed(
                "SCCD converges faster and generalises better than SGD",
                compared("SCCD", "SGD", *AHEAD, spectral=None),
            ),
            claimed(
                "VRO-CCD converges faster and generalises better than PAGE",
                compared("VRO-CCD", "PAGE", *AHEAD, spectral=None),
            ),
            claimed(
                "Both still hold, by less, with spectral normalisation in all methods",
                compared("SCCD", "SGD", *AHEAD, spectral="step"),
                compared("VRO-CCD", "PAGE", *AHEAD, spectral="step"),
            ),
            claimed(
                "SGD and SCCD admit larger steps than PAGE and VRO-CCD and converge faster",
                compared("SGD", "PAGE", "lr"),
                compared("SGD", "PAGE", "train_loss", spectral=None),
                compared("SCCD", "VRO-CCD", "lr"),
                compared("SCCD", "VRO-CCD", "train_loss", spectral=None),
            ),
        ),
        notes=(
            "Each learning rate was chosen on images held out of the training set; the final runs "
            "train on the whole training set.",
            f"Search runs have {settings.tune_epochs} epochs at most."
            if settings.tune_epochs
            else f"Search runs are as long as the final ones, but {SEARCH} epochs at most for PAGE "
            "and VRO-CCD.",
            "Spectral normalisation is read as the step η/σ(W_j) of fully connected layers.",
            "An epoch is counted as the paper counts it: a small step is b' samples, although it "
            "evaluates 2b'.",
            "The paper gives neither its learning rates nor its grid.",
        ),
    )


def table1(settings: Settings) -> Plan:
    """Short runs one after the other, nothing beside them."""
    epochs = settings.length(12, 4)
    if epochs < 2:
        raise ConfigError("table1 needs at least 2 epochs, the first one warms up: got 1")

    def cost(mine: str, other: str, ratio: float) -> tuple[Check, ...]:
        return compared(mine, other, "seconds_per_iteration", expected=ratio, spectral=None)

    return Plan(
        name="table1",
        quick=settings.quick,
        title="Table 1: seconds per iteration and per epoch",
        question="What does a cyclic iteration cost, in seconds and in multiply-adds?",
        timed=tuple(replace(config, lr=TIMING_LR) for config in methods(settings, epochs)),
        split_by="spectral",
        paper=(
            claimed(
                "SCCD costs 7.5 % more than SGD per iteration",
                cost("SCCD", "SGD", 0.185 / 0.172),
                value="0.185 s against 0.172 s",
            ),
            claimed(
                "VRO-CCD costs 2.4 times as much as PAGE",
                cost("VRO-CCD", "PAGE", 0.041 / 0.017),
                value="0.041 s against 0.017 s",
            ),
        ),
        notes=(
            "Medians over the epochs after the first, of runs alone on the device. The seconds are "
            "of training: evaluation and files are not in them.",
            "The paper's SGD sees 3,000 images a second: its times are bound by the loading of "
            "data, which hides what a cycle costs.",
        ),
    )


def fig_time(settings: Settings) -> Plan:
    """Figure 1 against seconds, at the seconds per epoch of Table 1; it trains nothing itself."""
    return Plan(
        name="fig-time",
        quick=settings.quick,
        title="Train loss and test accuracy by seconds",
        question="Do cyclic updates still win when time is counted instead of epochs?",
        shows=(fig1(settings), table1(settings)),
        split_by="spectral",
        x="seconds",
        paper=(
            claimed(
                "SCCD converges fastest by wall-clock time, with or without normalisation",
                compared("SCCD", "SGD", *AHEAD, at="seconds", spectral=None),
                compared("SCCD", "SGD", *AHEAD, at="seconds", spectral="step"),
            ),
            claimed(
                "VRO-CCD is slower than PAGE by wall-clock time: small batches make a cycle dear",
                compared("PAGE", "VRO-CCD", "train_loss", at="seconds", spectral=None),
            ),
        ),
        notes=(
            "Seconds are epochs times the seconds per epoch of a run alone (table1), as in the "
            "paper; the runs themselves may have shared the device.",
        ),
    )


def fig_vr(settings: Settings) -> Plan:
    """MNIST with b = 64 and CIFAR-10 with b = 256, 200 epochs, one run, no normalisation.

    A step that is best for VR-CCD in 20 epochs can kill it in 200, so its own is searched in runs
    of full length.
    """
    datasets = settings.choose(("mnist", "cifar10"), ("digits",))
    datasets = (settings.dataset,) if settings.dataset else datasets
    epochs = settings.length(200, 10)
    configs = []
    for dataset in datasets:
        batch = find(dataset).batch_of("VR-CCD")
        base = replace(settings.base, dataset=dataset, batch=batch, epochs=epochs)
        configs += [replace(base, method=method) for method in ("VR-CCD", "VRO-CCD")]

    def checks(chosen: bool, *by: str, alike: bool = False) -> tuple[Check, ...]:
        """VRO-CCD against VR-CCD, on CIFAR-10 or on the others."""
        return tuple(
            check
            for dataset in datasets
            if (dataset == "cifar10") == chosen
            for check in compared("VRO-CCD", "VR-CCD", *by, alike=alike, dataset=dataset)
        )

    return Plan(
        name="fig-vr",
        quick=settings.quick,
        title="VR-CCD against VRO-CCD",
        question="What does a fresh sample for every block bring, against one for the whole cycle?",
        curves=tuple(
            Curve(
                c,
                learning_rates(c, settings.choose(4, 3)),
                settings.tune_epochs or (epochs if c.method == "VR-CCD" else None),
            )
            for c in configs
        ),
        seeds=settings.seeds or 1,
        tune_epochs=settings.tune_epochs or settings.choose(20, None),
        split_by="dataset",
        paper=(
            claimed("VR-CCD and VRO-CCD perform alike on MNIST", checks(False, *AHEAD, alike=True)),
            claimed(
                "VR-CCD converges more slowly on CIFAR-10, as it bears only smaller steps",
                checks(True, "train_loss", "lr"),
            ),
            Claim("Sampling for each block increases samples and time"),
        ),
        notes=(
            "One run of each, as in the paper, unless more seeds were asked for. The learning "
            "rate of VRO-CCD was searched in shorter runs; that of VR-CCD in whole ones, unless "
            "a length was asked for: a step that is best for it at first can kill it later.",
            "VR-CCD draws a sample for every block, and an epoch counts the images drawn: it makes "
            "a fifth of the cycles of VRO-CCD in an epoch. By multiply-adds the two are closer.",
        ),
    )


def fig_same_lr(settings: Settings) -> Plan:
    """η = 0.01 for all, 0.005 for PAGE without normalisation, as the paper says.

    In small, epochs are many: SGD takes some to get going at an η that PAGE bears.
    """
    shared = settings.choose(0.01, 0.05)
    lower = {"PAGE": (shared / 2,), "VRO-CCD": (shared, shared / 2)}
    vro = {"method": "VRO-CCD", "spectral": None}

    def rates(config: RunConfig) -> tuple[float, ...]:
        return (lower if config.spectral is None else {}).get(config.method, (shared,))

    return Plan(
        name="fig-same-lr",
        quick=settings.quick,
        title="The same initial learning rate for all",
        question="At equal steps, what do cyclic updates and variance reduction bring?",
        curves=tuple(
            Curve(replace(config, lr=lr))
            for config in methods(settings, settings.length(100, 16))
            for lr in rates(config)
        ),
        seeds=settings.seeds or settings.choose(3, 2),
        split_by="spectral",
        paper=(
            claimed(
                "SCCD performs better than SGD, VRO-CCD better than PAGE",
                compared("SCCD", "SGD", *AHEAD, spectral=None),
                [
                    Check({**vro, "lr": lr}, {"method": "PAGE", "spectral": None}, "test_accuracy")
                    for lr in lower["VRO-CCD"]
                ],
                compared("SCCD", "SGD", *AHEAD, spectral="step"),
                compared("VRO-CCD", "PAGE", *AHEAD, spectral="step"),
            ),
            Claim("PAGE without normalisation bears at most η = 0.005", "0.005"),
            claimed(
                "SCCD stagnates earlier than SGD, as η is too small for it",
                compared("SGD", "SCCD", "train_loss", spectral=None),
            ),
        ),
        notes=(
            "VRO-CCD without normalisation is run at the lower rate, too: beside PAGE at its rate, "
            "and in case it does not bear the higher one.",
        ),
    )
