"""The tape of the lagged point: short, and exact to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cyclade import L1, Fixed, Layout, Page, PerBlock, iterate, start
from cyclade.blocks.lag import Lag
from cyclade.oracles.callables import CallableOracle, Jacobian
from cyclade.sampling.orders import ORDERS, Custom, as_order
from small import Logistic


def states(order: Any, m: int, cycles: int, resample: str = "cycle", lag: Any = Lag) -> Any:
    """The states of VRO-CCD (or VR-CCD) on m blocks."""
    problem = Logistic(d=m)
    layout = Layout.of(np.zeros(m), "coordinates")
    x = layout.point(np.linspace(-1, 1, m))
    oracle = CallableOracle(layout, Jacobian(problem.fun, problem.jac), problem.n, x.leaves[0])
    sampler = Page(problem.n, 16, 4, 0.2)
    state = start(oracle, x, sampler, np.random.default_rng(1))
    state.lag = lag(state.x)
    Lambda = problem.lipschitz([np.array([j]) for j in range(m)])
    steps, regs = Fixed(Lambda, 0.3), PerBlock([L1(0.02)] * m)
    for _ in range(cycles):
        yield next(iterate(state, oracle, regs, steps, sampler, order, resample))  # type: ignore[arg-type]


class Uncut(Lag):
    """The slow twin: a tape on which nothing is merged."""

    def _merge(self) -> None:
        pass


class Lazy:
    """An order that leaves the last blocks alone for long."""

    def __init__(self) -> None:
        self.cycle = 0

    def turns(self, m: int, rng: Any, score: Any) -> Any:
        self.cycle += 1
        rare = range(m) if self.cycle % 60 == 0 else [0, 1, 2] * m
        return iter(list(rare)[:m])


def order_of(name: str, m: int) -> Any:
    return Lazy() if name == "lazy" else as_order(name, m)


@pytest.mark.parametrize("name", ["greedy", "random", "lazy"])
def test_the_tape_stays_short(name: str) -> None:
    m = 12
    lengths = [len(state.lag.tape) for state in states(order_of(name, m), m, 400)]
    assert m <= max(lengths) <= 10 * m


@pytest.mark.parametrize("resample", ["cycle", "block"])
@pytest.mark.parametrize("name", [*ORDERS, "lazy"])
def test_merging_changes_no_bit(name: str, resample: str) -> None:
    m, merges = 6, 0

    class Watched(Lag):
        def _merge(self) -> None:
            nonlocal merges
            merges += 1
            super()._merge()

    short = states(order_of(name, m), m, 200, resample, Watched)
    long = states(order_of(name, m), m, 200, resample, Uncut)
    for a, b in zip(short, long, strict=True):
        np.testing.assert_array_equal(a.x.whole(), b.x.whole())
        np.testing.assert_array_equal(np.concatenate(a.g.arrays), np.concatenate(b.g.arrays))
    assert (merges > 0) == (name in ("greedy", "random", "lazy"))


def test_a_fixed_order_needs_one_cycle_of_tape() -> None:
    for state in states(Custom([2, 0, 1]), 3, 20):
        assert len(state.lag.tape) == 3
