"""What a cycle costs, in multiply-adds.

With c_i the multiply-adds of stage i's forward, its activation gradient costs c_i more and so
does its weight gradient. The gradient of a block that begins at stage s takes the forward of
stages s, s+1, ..., the activation gradients of all of them but s, and the weight gradients of
its own stages. After its update the env is carried over it, another forward of its stages, if a
later block in the cycle needs that.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from cyclade.optim.stages import Chain, Inputs, Replay
from cyclade.optim.stages.preserve import preserved
from cyclade.sampling.orders import Custom

Order = str | Sequence[int]
"""'forward', 'backward', 'shuffled', or an order of the blocks."""

_DRAWS = 16  # shuffles averaged to predict a shuffled cycle


class CostWarning(UserWarning):
    """A cycle costs many times what an SGD step does."""


def direction(order: Any) -> str | list[int]:
    """The order as the cost model knows it; random and greedy ones count as shuffled."""
    if isinstance(order, Custom):
        return list(order.sequence)
    if isinstance(order, list | tuple):
        return list(order)
    name = order if isinstance(order, str) else type(order).__name__.lower()
    return name if name in ("forward", "backward") else "shuffled"


def _cpu_attention(
    query: Any, key: Any, value: Any, *args: Any, out_shape: Any = None, **kwargs: Any
) -> int:
    return int(sdpa_flop_count(query, key, value))  # type: ignore[no-untyped-call]


# torch's counter knows the attention kernels of accelerators only.
_EXTRA = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _cpu_attention}


def stage_costs(chain: Chain, inputs: Inputs) -> list[float]:
    """Multiply-adds of each stage's forward; model and random generators are left alone."""
    costs = []
    differentiates = chain.how == "whole"  # its forward may do so itself
    with chain.eager(), preserved(chain.model), torch.set_grad_enabled(differentiates):
        env = chain.start(inputs)
        replay = Replay()
        for i in range(len(chain.stages)):
            with FlopCounterMode(display=False, custom_mapping=_EXTRA) as counter:
                env = replay.run(i, env, {}, live=False)
            costs.append(counter.get_total_flops() / 2)
    return costs


def sgd_cost(costs: Sequence[float], first: int = 0) -> float:
    """Multiply-adds of one SGD step; stages before ``first`` hold nothing to train."""
    trained = sum(costs[first:])
    return sum(costs) + 2 * trained - costs[first]


def _orders(order: Order, m: int) -> list[Sequence[int]]:
    if order == "forward":
        return [range(m)]
    if order == "backward":
        return [range(m - 1, -1, -1)]
    if order == "shuffled":
        generator = random.Random(0)
        return [generator.sample(range(m), m) for _ in range(_DRAWS)]
    return [order]  # type: ignore[list-item]  # no string any more


def cycle_cost(costs: Sequence[float], starts: Sequence[int], order: Order = "forward") -> float:
    """Multiply-adds of one exact cycle over the blocks that begin at ``starts``.

    An order of numbers may leave blocks out. In forward order with one block per stage this is
    sum c_i (2i+1) - c_m for i = 1..m: nothing is carried over the last stage.
    """
    first = sorted(set(starts))
    ends = dict(zip(first, [*first[1:], len(costs)], strict=True))
    total, orders = 0.0, _orders(order, len(starts))
    for one in orders:
        reach = 0  # envs up to this stage are valid
        for s in (starts[j] for j in one):
            total += sum(costs[reach:s])
            total += 2 * sum(costs[ends[s] :]) + 3 * sum(costs[s : ends[s]]) - costs[s]
            reach = s  # the update of a block spoils everything behind it
    return total / len(orders)


def overhead(costs: Sequence[float], starts: Sequence[int], order: Order = "forward") -> float:
    """Cost of a cycle relative to an SGD step on the same batch; 1 when nothing is counted."""
    base = sgd_cost(costs, min(starts))
    return cycle_cost(costs, starts, order) / base if base > 0 else 1.0


def balance(costs: Sequence[float], k: int) -> list[int]:
    """The starts of `k` contiguous blocks: of those whose largest cost is least, the most even."""
    edges = np.concatenate([[0.0], np.cumsum(np.asarray(costs, dtype=float))])
    size = edges[None, :] - edges[:, None]  # size[s, e]: cost of stages s..e-1
    largest = _partitions(size, k, np.maximum)[k][1]
    # Rounding in the sums must not forbid the best partition.
    allowed = np.where(size <= largest * (1 + 1e-12), size**2, np.inf)
    return _partitions(allowed, k, np.add)[k][0]


def _partitions(size: Any, most: int, join: Any) -> dict[int, tuple[list[int], float]]:
    """The best cuts of [0, m) into 1, 2, … ``most`` non-empty blocks: starts, and joined cost."""
    m = size.shape[0] - 1
    block = np.where(np.tri(m + 1, m + 1, 0, dtype=bool), np.inf, size)  # s < e only
    best = block[0].copy()
    choices = [np.zeros(m + 1, dtype=int)]
    found = {1: ([0], float(best[m]))}
    for k in range(2, most + 1):
        joined = join(best[:, None], block)
        choices.append(np.argmin(joined, axis=0))
        best = joined[choices[-1], np.arange(m + 1)]
        starts, end = [], m
        for choice in reversed(choices):
            end = int(choice[end])
            starts.append(end)
        found[k] = (starts[::-1], float(best[m]))
    return found


def finest_under(
    costs: Sequence[float], budget: float, order: Order, starts: Sequence[int]
) -> list[int]:
    """The first members of as many contiguous blocks as a cycle of overhead ``budget`` can pay for.

    ``starts`` are the stages where the layers to be merged begin, in order. Layers may share a
    stage, which blocks that part them then pay for each. For each number of blocks the cheapest
    boundaries are used.
    """
    begin = np.asarray(starts, dtype=int)
    m = len(begin)
    edges = np.concatenate([[0.0], np.cumsum(np.asarray(costs, dtype=float))])
    # Layers a..b-1 as a block hold the stages from the first's to the next one that is later.
    first = np.append(begin, len(costs))
    later = np.array([min([s for s in first if s > begin[a]]) for a in range(m)])
    end = np.maximum(first[None, :], later[:, None])
    own = edges[end] - edges[begin][:, None]
    after = edges[-1] - edges[end]
    price = 2 * after + 3 * own - np.asarray(costs, dtype=float)[begin][:, None]
    if order != "backward":  # its stages are carried over once more for the next block
        carried = edges[first][None, :] - edges[begin][:, None]
        price = price + np.where(np.arange(m + 1) < m, carried, 0.0)
    price = np.vstack([price, np.zeros(m + 1)])
    candidates = _partitions(price, m, np.add)
    for k in range(m, 1, -1):
        members = candidates[k][0]
        if overhead(costs, [int(begin[a]) for a in members], order) <= budget:
            return members
    return [0]
