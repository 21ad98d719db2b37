"""Where the learning rates are searched: by factors of 2 around what trains.

The paper does not give its grid. A grid that turns out too narrow grows by itself (`tune`), so
these need only be near: their centres are the learning rates of `datasets`.
"""

from __future__ import annotations

import math

from cyclade.experiments.config import CURVATURE_DAMPING, RunConfig
from cyclade.experiments.datasets import find


def learning_rates(config: RunConfig, points: int = 5) -> tuple[float, ...]:
    """A grid for this config; its own lr plays no part.

    Large batches bear larger steps: the centre grows as b^{2/3}, between the two rules of thumb √b
    and b. σ(W_j) starts near 1, so steps divided by it have the same grid; steps divided by
    L_j + damping are larger by the damping, which is all of it where the net is flat.

    Example
    -------
    >>> learning_rates(RunConfig(dataset="cifar10", method="SGD", batch=512))
    (0.0125, 0.025, 0.05, 0.1, 0.2)
    """
    info = find(config.dataset)
    centre = info.learning_rate(config.method)
    if not config.recursive:
        centre *= 2 ** round(2 / 3 * math.log2(config.batch / info.batch))
    if config.precondition == "curvature":
        centre *= CURVATURE_DAMPING
    return tuple(rounded(centre * 2.0 ** (i - points // 2)) for i in range(points))


def rounded(lr: float) -> float:
    """To five digits, so that a grid reads well and repeats exactly."""
    return float(f"{lr:.5g}")
