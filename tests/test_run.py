"""The Runner: when F is evaluated, and what does not end a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cyclade import FiniteSum, minimize
from cyclade.methods import as_method, make_sampler
from cyclade.run.arguments import looks
from cyclade.run.stopping import EveryCycles, EverySamples
from suite import linear, residual, squared


def test_every_so_many_cycles() -> None:
    pace = EveryCycles(3)
    assert [k for k in range(1, 10) if pace.due(k, 0.0, [0.0])] == [3, 6, 9]


@pytest.mark.parametrize("cost", [1.0, 7.0, 30.0, 250.0])
def test_every_so_many_samples(cost: float) -> None:
    pace, seen, samples = EverySamples(100.0), [40.0], 40.0
    for k in range(1, 60):
        before, samples = samples, samples + cost
        passed = any(40.0 + 100.0 * i <= samples for i in range(1, 300) if 40 + 100.0 * i > before)
        assert pace.due(k, samples, seen) == passed
        if passed:
            seen.append(samples)


def test_evaluations_in_between_do_not_shift_the_others() -> None:
    pace = EverySamples(100.0)
    assert not pace.due(2, 199.0, [0.0, 110.0, 150.0])
    assert pace.due(2, 200.0, [0.0, 110.0, 150.0])
    tenths = sum([10.0 * 0.1] * 10)  # shares of a cycle: 9.999…
    assert EverySamples(10.0).due(1, tenths, [0.0])


@pytest.mark.parametrize("method", ["SCCD", "SGD"])
def test_a_minibatch_that_moves_nothing_does_not_end_the_run(method: str) -> None:
    a = np.zeros((400, 2))
    a[::20] = 1.0  # most batches of 4 see no such row
    case = linear("", a, 3 * a[:, 0], squared, residual)
    res = minimize(
        case.fun, np.zeros(2), jac=case.jac, n=400, method=method, b=4, L=4.0, eta=0.5, every=1,
        tol=1e-12, max_cycles=200, blocks=2,
    )  # fmt: skip
    assert res.cycles == 200
    assert res.fun < case.fun(np.zeros(2))


@pytest.mark.parametrize(
    ("method", "options", "cycles"),
    [
        ("P-CCD", {}, 10),
        ("SCCD", {"b": 10}, 100),  # a pass over the terms
        ("PAGE", {"b": 100, "b_small": 10, "p": 0.1}, 36),  # 10 + 0.9 · 20 terms a cycle
        ("SGD", {"b": 1000}, 1),
    ],
)
def test_F_is_evaluated_about_once_a_pass(method: str, options: Any, cycles: int) -> None:
    chosen = as_method(method, True, **options)
    sampler = make_sampler(chosen, FiniteSum(1000), **chosen.batches)
    assert looks(None, chosen, sampler, np.random.default_rng(0)) == EveryCycles(cycles)
