"""What a step costs: samples as the paper counts them, samples as they are, multiply-adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from cyclade.experiments.config import RunConfig
from cyclade.optim.blocks.costs import cycle_cost, direction, stage_costs
from cyclade.optim.stages import Inputs

CURVATURE_EVERY, CURVATURE_ITERATIONS = 10, 5
CURVATURE_DAMPING = 10.0
"""Λ_j = L_j + this. At its start a net is nearly flat (L_j about 0.01 on LeNets), and some tens of
cycles later L_j is in the tens: steps of η/L_j alone leave the region where L_j was measured."""


@dataclass
class Spent:
    """What a run has used so far."""

    samples_paper: int = 0
    samples: int = 0
    multiply_adds: float = 0.0


class Prices:
    """The price of one step of an optimizer.

    A small step of the recursive methods evaluates its b' samples at two points: 2b' samples, where
    the paper counts b'. The multiply-adds of a cycle follow `optim.blocks.costs`. A step of VR-CCD
    draws for one block and moves it; it is priced at the mean over the blocks, which is exact over
    whole cycles. Random orders are priced as shuffled ones; a greedy turn as the gradient of every
    block and its own; a product with the block Hessian as two gradients.
    """

    def __init__(self, config: RunConfig, optimizer: Any, image: Tensor) -> None:
        net = optimizer.net
        costs = stage_costs(net.chain, Inputs((image,), {}))
        cycle = cycle_cost(costs, net.starts, direction(config.order), keep=False)
        self._formation = cycle
        self._step = cycle
        if config.order == "greedy":
            self._step = (net.m + 1) * cycle
        if config.method == "VR-CCD":
            alone = [_alone(costs, net.starts, j) for j in range(net.m)]
            self._step = sum(alone) / net.m
        self._measuring = 0.0
        if config.precondition == "curvature":
            self._measuring = 2 * CURVATURE_ITERATIONS * cycle / CURVATURE_EVERY

    def pay(self, spent: Spent, sizes: list[int], refresh: list[bool]) -> None:
        """For these steps."""
        for size, large in zip(sizes, refresh, strict=True):
            evaluated = size if large else 2 * size
            spent.samples_paper += size
            spent.samples += evaluated
            spent.multiply_adds += evaluated * self._step + size * self._measuring

    def pay_formation(self, spent: Spent, size: int) -> None:
        """For g_{−1}: the gradient of every block at x_0."""
        spent.samples_paper += size
        spent.samples += size
        spent.multiply_adds += size * self._formation


def _alone(costs: list[float], starts: list[int], j: int) -> float:
    """The price of block j by itself, from the images on."""
    return cycle_cost(costs, starts, lambda m: [j], keep=False)
