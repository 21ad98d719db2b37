"""Figure 1 against seconds: its runs, at the seconds per epoch of Table 1."""

from __future__ import annotations

from cyclade.experiments.plans.fig1 import fig1
from cyclade.experiments.plans.plan import Check, Claim, Plan, Settings
from cyclade.experiments.plans.table1 import table1


def fig_time(settings: Settings) -> Plan:
    """Nothing is trained for it alone: it shows fig1 and table1."""
    return Plan(
        name="fig-time",
        quick=settings.quick,
        title="Train loss and test accuracy by seconds",
        question="Do cyclic updates still win when time is counted instead of epochs?",
        shows=(fig1(settings), table1(settings)),
        split_by="spectral",
        x="seconds",
        paper=(
            Claim(
                "SCCD converges fastest by wall-clock time, with or without normalisation",
                checks=tuple(
                    Check(
                        {"method": "SCCD", "spectral": spectral},
                        {"method": "SGD", "spectral": spectral},
                        by,
                        at="seconds",
                    )
                    for spectral in (None, "step")
                    for by in ("test_accuracy", "train_loss")
                ),
            ),
            Claim(
                "VRO-CCD is slower than PAGE by wall-clock time: small batches make a cycle dear",
                checks=(
                    Check(
                        {"method": "PAGE", "spectral": None},
                        {"method": "VRO-CCD", "spectral": None},
                        "train_loss",
                        at="seconds",
                    ),
                ),
            ),
        ),
        notes=(
            "Seconds are epochs times the seconds per epoch of a run alone (table1), as in the "
            "paper; the runs themselves may have shared the device.",
        ),
    )
