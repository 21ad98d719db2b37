"""Figure 1 of the paper: four methods by epoch, without and with spectral normalisation."""

from __future__ import annotations

from dataclasses import replace

from cyclade.experiments.config import RunConfig
from cyclade.experiments.datasets import find
from cyclade.experiments.plans.grids import learning_rates
from cyclade.experiments.plans.plan import Check, Claim, Curve, Plan, Settings, faster_and_better

METHODS = ("SGD", "SCCD", "PAGE", "VRO-CCD")

SEARCH = 30
"""Epochs of the search runs of PAGE and VRO-CCD. Their step is bounded by what they bear, which
shows early, and a run takes ten times that of SGD. SGD and SCCD are searched at full length: in
short runs they look best with steps at which long runs overfit."""


def methods(settings: Settings, epochs: int) -> list[RunConfig]:
    """The four methods, without and with spectral normalisation, as the paper sets them."""
    dataset = settings.dataset or settings.choose("cifar10", "digits")
    base = replace(
        settings.base,
        dataset=dataset,
        batch=find(dataset).batch,
        weight_decay=5e-4,
        schedule="cosine",
        epochs=epochs,
    )
    return [
        replace(base, method=method, spectral=spectral)
        for spectral in (None, "step")
        for method in METHODS
    ]


def fig1(settings: Settings) -> Plan:
    """SGD, SCCD, PAGE and VRO-CCD with their own best lr; b = 512, 100 epochs, 3 seeds."""
    epochs = settings.epochs or settings.choose(100, 12)
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
            for config in methods(settings, epochs)
        ),
        seeds=settings.seeds or settings.choose(3, 2),
        split_by="spectral",
        paper=(
            Claim(
                "SCCD converges faster and generalises better than SGD",
                checks=faster_and_better("SCCD", "SGD", spectral=None),
            ),
            Claim(
                "VRO-CCD converges faster and generalises better than PAGE",
                checks=faster_and_better("VRO-CCD", "PAGE", spectral=None),
            ),
            Claim(
                "Both still hold, by less, with spectral normalisation in all methods",
                checks=(
                    *faster_and_better("SCCD", "SGD", spectral="step"),
                    *faster_and_better("VRO-CCD", "PAGE", spectral="step"),
                ),
            ),
            Claim(
                "SGD and SCCD admit larger steps than PAGE and VRO-CCD and converge faster",
                checks=tuple(
                    Check({"method": one}, {"method": other}, by)
                    if by == "lr"
                    else Check(
                        {"method": one, "spectral": None}, {"method": other, "spectral": None}, by
                    )
                    for one, other in (("SGD", "PAGE"), ("SCCD", "VRO-CCD"))
                    for by in ("lr", "train_loss")
                ),
            ),
        ),
        notes=(
            "Each learning rate was chosen on images held out of the training set; the final runs "
            "train on the whole training set.",
            f"Search runs are as long as the final ones, but {SEARCH} epochs at most for PAGE and "
            "VRO-CCD.",
            "Spectral normalisation is read as the step η/σ(W_j) of fully connected layers.",
            "An epoch is counted as the paper counts it: a small step is b' samples, although it "
            "evaluates 2b'.",
            "The paper gives neither its learning rates nor its grid.",
        ),
    )
