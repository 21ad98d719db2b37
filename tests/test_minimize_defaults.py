"""Default arguments cannot hurt: every method, on sixty problems, ends no higher than it began."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from cyclade import minimize
from suite import CASES, HARD_CASES, Case, heavy, linear, residual, squared

METHODS = ["P-CCD", "SCCD", "VR-CCD", "VRO-CCD", "PAGE", "SGD"]


def check(case: Case, method: str, dtype: Any, **options: Any) -> None:
    x0 = case.start(dtype)
    n = {"n": case.n}
    res = minimize(case.fun, x0, method=method, **n, **case.options(), **options)
    first = next(f for f in res.history["fun"] if math.isfinite(f))
    rounding = 100 * float(np.finfo(dtype).eps) * max(1.0, abs(first))
    assert res.fun <= first + rounding, res
    assert math.isfinite(res.dist)
    assert "check that jac" not in res.message.lower(), res.message  # the gradients are right
    if res.success:
        assert res.dist <= max(1e-5, math.sqrt(res.squared_distance)) * 1e4


@pytest.mark.parametrize("case", HARD_CASES, ids=lambda c: c.name)
@pytest.mark.parametrize("method", ["VRO-CCD", "SGD"])
def test_a_few_cycles_on_a_hard_problem_end_no_higher(case: Case, method: str) -> None:
    check(case, method, np.float32 if len(case.name) % 2 else np.float64, max_cycles=30)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", HARD_CASES, ids=lambda c: c.name)
@pytest.mark.parametrize("method", METHODS[1:])
def test_no_run_stands_still_in_silence(case: Case, method: str, dtype: Any) -> None:
    x0, options = case.start(dtype), case.options()
    res = minimize(case.fun, x0, method=method, n=case.n, max_samples=60 * case.n, **options)
    first, full = res.history["fun"][0], minimize(case.fun, x0, max_cycles=300, **options).fun
    assert res.fun <= first + 100 * float(np.finfo(dtype).eps) * max(1.0, abs(first))
    moved = first - res.fun >= 0.05 * (first - full)
    assert res.success or moved or "steps look far too small" in res.message, res


def test_steps_that_are_far_too_short_are_told_why() -> None:
    named = {case.name: case for case in HARD_CASES}
    for name, options, why in (
        ("three terms", {"eta": "theory"}, "single terms curved so much more"),
        ("Poisson from 4", {"L": 1e15}, "the L that was given"),
    ):
        case = named[name]
        res = minimize(case.fun, case.x0, n=case.n, max_cycles=200, **case.options(), **options)
        assert res.status == "max_cycles"
        assert "steps look far too small" in res.message
        assert why in res.message


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@pytest.mark.parametrize("method", METHODS)
def test_a_short_run_ends_no_higher_than_it_began(case: Case, method: str) -> None:
    dtype = np.float32 if len(case.name) % 2 else np.float64  # both, half of the cases each
    check(case, method, dtype, max_cycles=60)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@pytest.mark.parametrize("method", METHODS)
def test_a_run_with_default_arguments_ends_no_higher_than_it_began(
    case: Case, method: str, dtype: Any
) -> None:
    check(case, method, dtype)


@pytest.mark.parametrize("seed", range(5))
def test_heavy_rows_do_not_explode(seed: int) -> None:
    case = linear("", *heavy(seed, n=1000, d=20), squared, residual)
    res = minimize(case.fun, case.x0, n=case.n, **case.options(), max_cycles=200)
    assert res.fun < 0.2 * res.history["fun"][0]


def explosive(**options: Any) -> Any:
    case = linear("", *heavy(2), squared, residual)
    return minimize(case.fun, case.x0, n=case.n, **case.options(), **options)


def test_a_run_that_diverges_says_so_and_returns_its_best_iterate() -> None:
    for options in ({"eta": 5.0, "L": 0.1}, {"method": "SGD", "eta": 3.0, "L": 0.01}):
        res = explosive(every=1, **options)
        assert not res.success
        assert res.message.startswith("diverged")
        assert res.fun == min(res.history["fun"])
        assert res.fun <= res.history["fun"][0]


def test_the_guard_halves_eta_goes_back_and_says_so() -> None:
    res = explosive(L=0.3, every=1, max_cycles=300)  # far too small a Λ, with the default η
    assert "η was halved" in res.message
    rates = np.array(res.history["eta"][1:])
    assert rates[-1] < rates[0]
    steps = rates[1:] / rates[:-1]
    assert set(np.round(np.log2(steps)).astype(int)) <= set(range(-30, 1))
    assert res.fun < res.history["fun"][0]


def test_a_given_eta_is_never_touched() -> None:
    res = explosive(eta=0.01, every=5, max_cycles=50, tol=None)
    assert set(res.history["eta"][1:]) == {0.01}
