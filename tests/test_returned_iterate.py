"""What a run returns (by callback, by limit, by tolerance), and when F is evaluated."""

from __future__ import annotations

import copy
import time
from typing import Any

import numpy as np
import pytest
import torch

from cyclade import Backtracking, FiniteSum, Layout, NonNegative, minimize
from cyclade.methods import as_method, make_sampler
from cyclade.run.arguments import looks
from cyclade.run.stopping import Best, EveryCycles, EverySamples, Seen, Uniform
from small import bowl, solve
from suite import linear, residual, squared


@pytest.mark.parametrize("method", ["P-CCD", "VRO-CCD", "SGD"])
@pytest.mark.parametrize("returns", ["best", "last", "paper"])
def test_a_stop_by_callback_returns_what_satisfied_it(method: str, returns: str) -> None:
    seen: list[Any] = []

    def low_enough(report: Any) -> bool:
        seen.append(report.x)
        return report.cycle >= 7

    res = solve(method=method, returns=returns, callback=low_enough, tol=None, b=None)
    np.testing.assert_array_equal(res.x, seen[-1])
    assert "callback" in res.message
    assert res.cycles == 7


TRUE = [True, np.bool_(True), np.array(True), torch.tensor(True), StopIteration()]
NOT_TRUE = [None, 0.5, "yes", [1], np.bool_(False), np.zeros(3)]


@pytest.mark.parametrize("answer", TRUE + NOT_TRUE, ids=repr)
def test_any_true_and_StopIteration_stop_and_nothing_else_does(answer: Any) -> None:
    def callback(report: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    stops = any(answer is one for one in TRUE)
    assert solve(callback=callback, tol=None, max_cycles=3).cycles == (1 if stops else 3)


def test_at_a_limit_the_best_iterate_is_returned_and_named() -> None:
    options: dict[str, Any] = {"method": "SGD", "b": 2, "eta": 1.0, "L": 1.0, "every": 1}
    res = solve(max_cycles=50, tol=None, **options)
    assert res.fun == min(res.history["fun"])
    assert res.best.fun == res.fun
    assert res.history["fun"][res.best.cycle] == res.fun
    assert "the best iterate seen is returned" in res.message
    last = solve(max_cycles=50, tol=None, returns="last", **options)
    assert last.fun == last.history["fun"][-1]
    assert "the last iterate is returned" in last.message
    assert last.best.fun <= last.fun
    np.testing.assert_array_equal(last.best.x, res.x)


def squares(x: Any, *batch: Any) -> float:
    return float(np.sum((x - 1.0) ** 2))


def turning(calls: int) -> Any:
    """A gradient that is right at first and has the wrong sign later: the line search stops."""
    left = iter([1.0] * calls)
    return lambda x: 2 * (x - 1) * next(left, -1.0)


def interrupting(calls: int) -> Any:
    """Ctrl-C in the middle of a cycle, once."""
    left = iter([False] * calls + [True])

    def jac(x: Any) -> Any:
        if next(left, False):
            raise KeyboardInterrupt
        return 2 * (x - 1)

    return jac


BY_SAMPLES: dict[str, Any] = {"jac": lambda x, i: 2 * (x - 1), "L": 8.0, "b": 1}
ENDS: dict[str, dict[str, Any]] = {
    "an error": {"jac": turning(9), "L": Backtracking([8.0, 8.0], shrink=1.0)},
    "an interrupt": {"jac": interrupting(9), "L": 8.0},
    "a callback": {"L": 8.0, "callback": lambda report: report.cycle == 5},
    "max_samples": {"L": 8.0, "max_samples": 5},
    "max_seconds": {"L": 8.0, "max_seconds": 1e-9},
    "change_tol": {"L": 8.0, "change_tol": 1.0},
    "rounding": {"L": 2.1, "every": 1},
    "the end of a stream": {**BY_SAMPLES, "stream": iter(np.zeros(140)), "method": "SCCD"},
}


@pytest.mark.parametrize("returns", ["best", "last", "paper"])
@pytest.mark.parametrize("end", ENDS)
def test_best_is_the_point_of_its_value_however_a_run_ends(end: str, returns: Any) -> None:
    options: dict[str, Any] = {"jac": lambda x: 2 * (x - 1), "tol": None, "every": 1000}
    res = minimize(
        squares, np.zeros(4), blocks=2, returns=returns, **copy.deepcopy({**options, **ENDS[end]})
    )
    assert squares(res.best.x) == res.best.fun
    assert res.best.fun <= res.fun == squares(res.x)


def test_of_values_that_agree_to_rounding_the_last_is_best_and_none_drifts_up() -> None:
    best, x = Best(), Layout.of(np.zeros(1)).point(np.zeros(1))
    eps = float(np.finfo(float).eps)
    for k, ulps in enumerate([0, 4, 8, 3]):
        best.see(Seen(k, x, np.nan, 1.0 + ulps * eps))
    assert (best.k, best.fun) == (3, 1.0 + 3 * eps)
    best.see(Seen(4, x, np.nan, 1.0 + 6 * eps))
    assert best.k == 3


@pytest.mark.parametrize("limit", [{"max_cycles": 5}, {"max_samples": 150}, {"max_seconds": 1e-9}])
def test_a_rule_sees_every_iterate_once(limit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second look at the last iterate would draw it more often than the others."""
    cycles: list[int] = []
    monkeypatch.setattr(Uniform, "see", lambda self, seen: cycles.append(seen.k))
    res = solve(method="SGD", b=30, L=1.0, returns="paper", every=1000, tol=None, **limit)
    assert cycles == list(range(1, res.cycles + 1))


@pytest.mark.parametrize("options", [{}, {"every": 1}, {"returns": "last"}, {"change_tol": 9.0}])
def test_a_block_min_that_leaves_the_domain_is_named(options: Any) -> None:
    """The point before the cycle is returned, where F is finite."""
    res = minimize(
        x0=np.ones(4), blocks=2, block_min=lambda j, x: np.zeros(2) - j, reg=NonNegative(),
        **bowl(2.0, -1.0), **options,
    )  # fmt: skip
    assert not res.success
    assert np.isfinite([res.fun, res.best.fun]).all()
    assert "block_min left the domain of its regulariser in block '1'" in res.message


def test_max_seconds_counts_everything() -> None:
    def slow(x: Any) -> float:
        time.sleep(0.01)
        return squares(x)

    options: dict[str, Any] = {"L": 1000.0, "every": 1, "max_cycles": None, "tol": 1e-300}
    begun = time.perf_counter()
    res = minimize(slow, np.ones(3) / 2, jac=lambda x: 2 * (x - 1), max_seconds=0.2, **options)
    assert time.perf_counter() - begun < 0.6
    assert "max_seconds" in res.message


def test_resume_refuses_another_n() -> None:
    half = solve(max_cycles=3, tol=None)
    with pytest.raises(ValueError, match="resume is a state of a sum of n = 30 terms, not 31"):
        solve(resume=half.state, n=31)


def test_the_repr_is_short() -> None:
    res = minimize(x0=np.ones(2000), blocks="coordinates", L=2.0, **bowl(2.0))
    assert len(repr(res)) < 400


@pytest.mark.parametrize("order", ["rotated", "reflected"])
def test_orders_that_turn_visit_every_block(order: str) -> None:
    """ "paper" is the smallest change in them too, and change_tol may be asked for."""
    options: dict[str, Any] = {"method": "P-CCD", "L": 8.0, "order": order, "tol": None}
    res = solve(returns="paper", max_cycles=5, **options)
    assert "the iterate with the smallest change is returned" in res.message
    assert solve(change_tol=1e-3, **options).success


# ------------------------------------------------------------------- when F is evaluated


@pytest.mark.parametrize("cost", [1.0, 7.0, 30.0, 250.0])
def test_every_so_many_samples(cost: float) -> None:
    pace, seen, samples = EverySamples(100.0), [40.0], 40.0
    for k in range(1, 60):
        before, samples = samples, samples + cost
        passed = any(40.0 + 100.0 * i <= samples for i in range(1, 300) if 40 + 100.0 * i > before)
        assert pace.due(k, samples, seen) == passed
        assert pace.due(k, samples, [*seen, before]) == passed  # evaluations between shift nothing
        if passed:
            seen.append(samples)


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
