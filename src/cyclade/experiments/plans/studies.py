"""Beyond the paper: the cyclic scheme as batches grow, and the order and number of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cyclade.experiments.config import RunConfig
from cyclade.experiments.datasets import find
from cyclade.experiments.plans.grids import learning_rates
from cyclade.experiments.plans.plan import TIMING_LR, Check, Curve, Plan, Settings, claimed

ORDERS = ("forward", "backward", "shuffled", "random", "greedy")
BLOCKS = 5
"""The layers of a LeNet."""

SHORTER = 5
"""VRO-CCD trains this many times fewer epochs: it takes some twelve times the steps of SCCD."""


def _study(settings: Settings, configs: Sequence[RunConfig], **about: Any) -> Plan:
    """A plan that searches the lr of every config, trains it with some seeds, and times it."""
    short = settings.choose(5, 3)
    return Plan(
        quick=settings.quick,
        curves=tuple(Curve(c, learning_rates(c, settings.choose(5, 3))) for c in configs),
        seeds=settings.seeds or settings.choose(3, 1),
        tune_epochs=settings.tune_epochs,
        timed=tuple(replace(c, lr=TIMING_LR, epochs=short) for c in configs),
        **about,
    )


def batch(settings: Settings) -> Plan:
    """SGD, and SCCD with one lr, with σ(W_j) and with L_j; lr searched for each at each b."""
    base = replace(settings.base, epochs=settings.length(100, 12))
    variants = [
        replace(base, method="SGD"),
        replace(base, method="SCCD"),
        replace(base, method="SCCD", spectral="step"),
        replace(base, method="SCCD", precondition="curvature"),
    ]
    configs = [replace(one, batch=b) for b in find(base.dataset).sizes for one in variants]
    keys = ("method", "spectral", "precondition", "batch")
    return _study(
        settings,
        configs,
        name="study-batch",
        title="Large batches: where does the cyclic scheme win?",
        question="SGD against SCCD with one learning rate, with steps η/σ(W_j) and with steps "
        "η/L_j, as the batch grows: accuracy at equal epochs, and the price in seconds.",
        split_by="batch",
        paper=(
            claimed(
                "The cyclic scheme is an alternative for large-batch methods",
                [
                    Check(mine, {"method": "SGD", "batch": mine["batch"]}, "test_accuracy")
                    for mine in ({key: getattr(one, key) for key in keys} for one in configs)
                    if mine["method"] != "SGD"
                ],
            ),
        ),
        notes=(
            "Every method has its own learning rate at every batch size, chosen on images held out "
            "of the training set.",
            "timing.json holds the seconds of each alone on the device.",
        ),
    )


def order(settings: Settings) -> Plan:
    """SCCD in five orders, and with 1, 2, 3 and 5 blocks; VRO-CCD forward and backward."""
    epochs = settings.length(100, 12)
    sccd = replace(settings.base, batch=find(settings.base.dataset).batch, epochs=epochs)
    vro = replace(sccd, method="VRO-CCD", epochs=max(1, epochs // SHORTER))
    sccd_alone = {"method": "SCCD"}
    forward = {**sccd_alone, "blocks": BLOCKS, "order": "forward"}
    return _study(
        settings,
        [
            *(replace(sccd, order=name, blocks=BLOCKS) for name in ORDERS),
            *(replace(sccd, blocks=m) for m in (1, 2, 3)),
            *(replace(vro, order=name, blocks=BLOCKS) for name in ("forward", "backward")),
        ],
        name="study-order",
        title="The order of the blocks, and their number",
        question="Does it matter in which order the blocks move, and how many there are? What does "
        "each order cost?",
        split_by="method",
        paper=(
            claimed(
                "Asked here: is forward, the paper's order, ahead of the others?",
                [Check(forward, {**forward, "order": o}, "test_accuracy") for o in ORDERS[1:]],
            ),
            claimed(
                "Asked here: are five blocks ahead of fewer?",
                [Check(forward, {**sccd_alone, "blocks": m}, "test_accuracy") for m in (1, 2, 3)],
            ),
        ),
        notes=(
            "Forward is from input to output, the paper's j = 1..m. SCCD with one block is SGD. In "
            "random and greedy orders a cycle is m turns, in which blocks may repeat.",
            f"VRO-CCD trains {SHORTER} times fewer epochs than SCCD here. Its orders that change "
            "are left out: without CUDA graphs its small steps take half a minute an epoch.",
            "Orders that change from cycle to cycle are not captured as CUDA graphs, and so pay "
            "more for each launch.",
        ),
    )
