"""Beyond the paper: the order of the blocks, and their number."""

from __future__ import annotations

from dataclasses import replace

from cyclade.experiments.config import RunConfig
from cyclade.experiments.datasets import find
from cyclade.experiments.plans.grids import learning_rates
from cyclade.experiments.plans.plan import Check, Claim, Curve, Plan, Settings
from cyclade.experiments.plans.table1 import TIMING_LR

ORDERS = ("forward", "backward", "shuffled", "random", "greedy")
BLOCKS = 5
"""The layers of a LeNet."""

SHORTER = 5
"""VRO-CCD trains this many times fewer epochs: it takes some twelve times the steps of SCCD."""


def order(settings: Settings) -> Plan:
    """SCCD in five orders, and with 1, 2, 3 and 5 blocks; VRO-CCD forward and backward."""
    dataset = settings.dataset or settings.choose("cifar10", "digits")
    epochs = settings.epochs or settings.choose(100, 12)
    sccd = replace(settings.base, dataset=dataset, batch=find(dataset).batch, epochs=epochs)
    vro = replace(sccd, method="VRO-CCD", epochs=max(1, epochs // SHORTER))
    configs: list[RunConfig] = []
    configs += [replace(sccd, order=name, blocks=BLOCKS) for name in ORDERS]
    configs += [replace(sccd, blocks=m) for m in (1, 2, 3)]
    configs += [replace(vro, order=name, blocks=BLOCKS) for name in ("forward", "backward")]
    short = settings.choose(5, 3)
    return Plan(
        name="study-order",
        quick=settings.quick,
        title="The order of the blocks, and their number",
        question="Does it matter in which order the blocks move, and how many there are? What does "
        "each order cost?",
        curves=tuple(Curve(c, learning_rates(c, settings.choose(5, 3))) for c in configs),
        seeds=settings.seeds or settings.choose(3, 1),
        tune_epochs=settings.tune_epochs,
        timed=tuple(replace(c, lr=TIMING_LR, epochs=short) for c in configs),
        split_by="method",
        paper=(
            Claim(
                "Asked here: is forward, the paper's order, ahead of the others?",
                checks=tuple(
                    Check(
                        {"method": "SCCD", "blocks": BLOCKS, "order": "forward"},
                        {"method": "SCCD", "blocks": BLOCKS, "order": name},
                        "test_accuracy",
                    )
                    for name in ORDERS[1:]
                ),
            ),
            Claim(
                "Asked here: are five blocks ahead of fewer?",
                checks=tuple(
                    Check(
                        {"method": "SCCD", "blocks": BLOCKS, "order": "forward"},
                        {"method": "SCCD", "blocks": m},
                        "test_accuracy",
                    )
                    for m in (1, 2, 3)
                ),
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
