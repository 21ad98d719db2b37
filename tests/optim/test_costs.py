"""Predicted costs reproduce the figures known for LeNet."""

from __future__ import annotations

import itertools

import models
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_stages_cut import images

from cyclade.optim.blocks.costs import (
    balance,
    cycle_cost,
    finest_under,
    overhead,
    sgd_cost,
    stage_costs,
)
from cyclade.optim.stages import Inputs, cut

LENET = [352_800.0, 240_000.0, 48_000.0, 10_080.0, 840.0]


def test_stage_costs_of_lenet() -> None:
    model = models.LeNet()
    inputs = images(32)
    assert stage_costs(cut(model), inputs) == [3 * c for c in LENET]


def test_counting_touches_nothing() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout())
    state = torch.get_rng_state()
    assert stage_costs(cut(model), Inputs((torch.randn(5, 6),)))[0] == 5 * 24
    assert model[1].num_batches_tracked == 0
    torch.set_rng_state(state)
    x = torch.randn(5, 6)
    after = torch.get_rng_state()
    stage_costs(cut(model), Inputs((x,)))
    assert torch.equal(after, torch.get_rng_state())


def test_attention_is_counted() -> None:
    model = models.GPT(depth=1)
    idx = torch.randint(0, 31, (2, 8))
    chain = cut(model)
    costs = dict(
        zip([s.name for s in chain.stages], stage_costs(chain, Inputs((idx,))), strict=True)
    )
    assert costs["blocks.0.attn.qkv"] == 16 * 16 * 48 + 2 * (2 * 2 * 8 * 8 * 8)
    assert costs["lm_head"] == 16 * 16 * 31


def test_the_figures_of_lenet() -> None:
    starts = range(5)
    total = sum(c * (2 * i + 3) for i, c in enumerate(LENET))
    assert sgd_cost(LENET) == 3 * sum(LENET) - LENET[0]
    assert cycle_cost(LENET, starts, "forward") == total - LENET[-1]
    assert cycle_cost(LENET, starts, "backward") == total - LENET[-1]
    assert overhead(LENET, starts, "forward") == pytest.approx(1.68, abs=5e-3)
    assert overhead(LENET, [0]) == 1.0


def test_orders() -> None:
    starts = [0, 1, 3]
    forward = cycle_cost(LENET, starts, "forward")
    assert cycle_cost(LENET, starts, [0, 1, 2]) == forward
    low = min(cycle_cost(LENET, starts, o) for o in itertools.permutations(range(3)))
    assert low == cycle_cost(LENET, starts, "backward")
    assert low <= cycle_cost(LENET, starts, "shuffled") <= 2 * forward
    assert cycle_cost(LENET, starts, [1]) < forward / 2


def test_frozen_layers_below_the_first_block() -> None:
    # Two frozen stages: their forward is paid once, nothing is formed for them.
    assert sgd_cost(LENET, 2) == sum(LENET) + 2 * sum(LENET[2:]) - LENET[2]
    assert overhead(LENET, [2]) == 1.0


def partitions(m: int, k: int) -> list[list[int]]:
    return [[0, *rest] for rest in itertools.combinations(range(1, m), k - 1)]


def largest(costs: list[float], starts: list[int]) -> float:
    return max(sum(costs[s:e]) for s, e in zip(starts, [*starts[1:], len(costs)], strict=True))


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 50).map(float), min_size=1, max_size=7), st.data())
def test_balance_is_best(costs: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(costs)))
    found = balance(costs, k)
    assert len(found) == k
    best = min(largest(costs, p) for p in partitions(len(costs), k))
    assert largest(costs, found) == best


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(0, 50).map(float), min_size=1, max_size=7),
    st.floats(1.0, 4.0),
    st.sampled_from(["forward", "backward"]),
)
def test_finest_is_finest(costs: list[float], budget: float, order: str) -> None:
    m = len(costs)
    found = finest_under(costs, budget, order, range(m))
    assert overhead(costs, found, order) <= budget
    cheapest = min(overhead(costs, p, order) for p in partitions(m, len(found)))
    assert overhead(costs, found, order) == pytest.approx(cheapest)
    if len(found) < m:
        finer = partitions(m, len(found) + 1)
        assert min(overhead(costs, p, order) for p in finer) > budget


def test_budgets_on_lenet() -> None:
    assert finest_under(LENET, 2.0, "forward", range(5)) == [0, 1, 2, 3, 4]
    assert finest_under(LENET, 1.0, "forward", range(5)) == [0]
    assert finest_under(LENET, 1.5, "forward", range(5)) == [0, 2, 3, 4]
    assert finest_under(LENET, 1.7, "backward", range(5)) == [0, 1, 2, 3, 4]
