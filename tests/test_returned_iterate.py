"""What the user gets back: the iterate that was asked for, by callback, by limit, by tolerance."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import torch

from cyclade import L1, minimize
from small import Logistic

PROBLEM = Logistic()


def solve(**options: Any) -> Any:
    settings: dict[str, Any] = {"jac": PROBLEM.jac, "n": PROBLEM.n, "blocks": 4, "reg": L1(0.02)}
    return minimize(PROBLEM.fun, np.zeros(PROBLEM.d), **{**settings, **options})


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


@pytest.mark.parametrize(
    "answer", [True, np.bool_(True), np.array(True), torch.tensor(True)], ids=type
)
def test_any_true_stops(answer: Any) -> None:
    assert solve(callback=lambda report: answer, tol=None).cycles == 1


def test_raising_StopIteration_stops_as_in_scipy() -> None:
    def stop(report: Any) -> None:
        raise StopIteration

    assert solve(callback=stop, tol=None).cycles == 1


@pytest.mark.parametrize("answer", [None, 0.5, "yes", [1], np.bool_(False), np.zeros(3)], ids=repr)
def test_anything_else_does_not(answer: Any) -> None:
    assert solve(callback=lambda report: answer, tol=None, max_cycles=3).cycles == 3


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


def test_max_seconds_counts_everything() -> None:
    def slow(x: Any) -> float:
        time.sleep(0.01)
        return float(x @ x)

    begun = time.perf_counter()
    res = minimize(
        slow, np.ones(3), jac=lambda x: 2 * x, L=1000.0, every=1, max_seconds=0.2, max_cycles=None,
        tol=1e-300,
    )  # fmt: skip
    assert time.perf_counter() - begun < 0.6
    assert "max_seconds" in res.message


def test_resume_refuses_another_n() -> None:
    half = solve(max_cycles=3, tol=None)
    with pytest.raises(ValueError, match="resume is a state of a sum of n = 30 terms, not 31"):
        solve(resume=half.state, n=PROBLEM.n + 1)


def test_a_resumed_run_keeps_estimates_and_guard() -> None:
    whole = solve(max_cycles=30, tol=None, returns="last")
    half = solve(max_cycles=11, tol=None, returns="last")
    rest = solve(max_cycles=30, tol=None, returns="last", resume=half.state)
    np.testing.assert_array_equal(whole.x, rest.x)
    assert whole.Lambda == rest.Lambda


def test_the_repr_is_short() -> None:
    res = minimize(
        lambda x: float(x @ x), np.ones(2000), jac=lambda x: 2 * x, blocks="coordinates", L=2.0
    )
    assert len(repr(res)) < 400
