"""Tests of the tests: each way of breaking the loop is caught by the checks that should."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import watched
from cyclade import Backtracking, Curvature, core, minimize, orders, returned_iterate
from cyclade.lag import Lag
from cyclade.regularisers import matrix
from cyclade.regularisers.joined import Joined
from cyclade.run import Runner
from cyclade.steps import choosing
from regulariser_checks import check_joined_distances, check_rank_of_the_nuclear_norm

Check = Callable[[], None]


def drop_the_lag(
    turns: Iterable[int], now: Any, lag: Any, g: Any, reg: Any, steps: Any, refresh: bool
) -> None:
    """Line 6 without its last term: g grows instead of following the gradient."""
    for j in turns:
        gj = now.grad(j)
        if not refresh:
            gj = g.get(j) + 0.5 * gj
        _finish(j, gj, now, lag, g, reg, steps)


def never_correct(
    turns: Iterable[int], now: Any, lag: Any, g: Any, reg: Any, steps: Any, refresh: bool
) -> None:
    """Without the correction: g stays what the last refresh made it."""
    for j in turns:
        gj = now.grad(j) if refresh else g.get(j)
        _finish(j, gj, now, lag, g, reg, steps)


def stale_gradient(
    turns: Iterable[int], now: Any, lag: Any, g: Any, reg: Any, steps: Any, refresh: bool
) -> None:
    """All gradients from the start of the cycle: Jacobi in place of Gauss–Seidel."""
    order = list(turns)
    at_start = {j: now.grad(j) for j in order}
    for j in order:
        gj = at_start[j]
        if not refresh:
            gj = g.get(j) + (gj - lag.grad(j))
        _finish(j, gj, now, lag, g, reg, steps)


def forget_the_estimate(
    turns: Iterable[int], now: Any, lag: Any, g: Any, reg: Any, steps: Any, refresh: bool
) -> None:
    """A small batch treated as if it were a large one: no variance reduction at all."""
    for j in turns:
        _finish(j, now.grad(j), now, lag, g, reg, steps)


def double_step(
    turns: Iterable[int], now: Any, lag: Any, g: Any, reg: Any, steps: Any, refresh: bool
) -> None:
    """The prox with half the step that the gradient took."""
    for j in turns:
        gj = now.grad(j)
        if not refresh:
            gj = g.get(j) + (gj - lag.grad(j))
        g.set(j, gj)
        xj, (dj, t) = now.get(j), steps.at(j, now, gj, reg)
        u = reg.prox(j, xj - 2.2 * t * dj, t)
        lag.follow(j, xj, u)
        now.set(j, u)


def _finish(j: int, gj: Any, now: Any, lag: Any, g: Any, reg: Any, steps: Any) -> None:
    g.set(j, gj)
    xj, (dj, t) = now.get(j), steps.at(j, now, gj, reg)
    u = reg.prox(j, xj - t * dj, t)
    lag.follow(j, xj, u)
    now.set(j, u)


CYCLES: list[tuple[Any, list[Check]]] = [
    (
        drop_the_lag,
        [
            watched.check_trajectories,
            watched.check_exact_when_full,
            watched.check_variance_recursion,
        ],
    ),
    (never_correct, [watched.check_trajectories, watched.check_exact_when_full]),
    (
        stale_gradient,
        [watched.check_trajectories, watched.check_descent, watched.check_exact_when_full],
    ),
    (forget_the_estimate, [watched.check_trajectories, watched.check_variance_recursion]),
    (double_step, [watched.check_trajectories, watched.check_descent, watched.check_theorem_1]),
]


@pytest.mark.parametrize(
    ("mutant", "check"),
    [(mutant, check) for mutant, checks in CYCLES for check in checks],
    ids=lambda f: f.__name__,
)
def test_a_broken_cycle_is_caught(
    mutant: Any, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "cycle", mutant)
    with pytest.raises(AssertionError):
        check()


def adding_distances(self: Joined, u: Any, v: Any, w: Any) -> float:
    """Distances added in place of their squares."""
    parts = [(index, reg) for index, _, reg in self.parts]
    return sum(reg.distance(u[index], v[index], w) for index, reg in parts)


def test_distances_of_parts_that_are_added_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Joined, "_distance", adding_distances)
    with pytest.raises(AssertionError):
        check_joined_distances()


@pytest.mark.parametrize("factor", [1e6, 16.0, 1 / 16])
def test_another_tolerance_of_the_rank_is_caught(
    factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "_RANK_ULPS", factor * matrix._RANK_ULPS)
    with pytest.raises(AssertionError):
        check_rank_of_the_nuclear_norm()


class OneCycleBehind(Lag):
    """The lagged point that is right only in a fixed order: always one cycle behind."""

    def grad(self, j: int) -> Any:
        return self._at.grad(j)

    def follow(self, j: int, old: Any, new: Any) -> None:
        self._at.set(j, old)

    def trim(self) -> None:
        self._at = self.point


class NeverMoves(Lag):
    """A lagged point that stays at x_0."""

    def follow(self, j: int, old: Any, new: Any) -> None:
        pass


@pytest.mark.parametrize("lag", [OneCycleBehind, NeverMoves])
@pytest.mark.parametrize("check", [watched.check_trajectories, watched.check_exact_when_full])
def test_a_broken_lag_is_caught(lag: Any, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "Lag", lag)
    with pytest.raises(AssertionError):
        check()


def test_one_cycle_behind_is_right_in_a_fixed_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two points of the design are enough there, and the tape does the same."""
    from small import Logistic, both, largest_difference

    monkeypatch.setattr(core, "Lag", OneCycleBehind)
    for order in ("forward", "backward"):
        iterates, reference = both(Logistic(), "VRO-CCD", order, b=16, b_small=4, p=0.3)
        assert largest_difference(iterates, reference) < 1e-13


class FirstAlways:
    """An order that says it is greedy and never looks."""

    def turns(self, m: int, rng: Any, score: Any) -> Any:
        return iter([0] * m)


@pytest.mark.parametrize(
    ("name", "mutant"),
    [
        ("forward", orders.Backward),
        ("backward", orders.Forward),
        ("shuffled", orders.Forward),
        ("shuffled", orders.Random),
        ("random", orders.Shuffled),
        ("greedy", FirstAlways),
        ("greedy", orders.Forward),
    ],
)
def test_a_broken_order_is_caught(name: str, mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference takes its turns from the same orders, so they have a check of their own."""
    watched.check_orders()
    monkeypatch.setitem(orders.ORDERS, name, mutant)
    with pytest.raises(AssertionError):
        watched.check_orders()


# ------------------------------------------------------------------- line search, rules, defaults


def check_line_search() -> None:
    """f is quadratic with curvature 8: a step passes with L = 8, and not with L = 4."""
    steps = Backtracking([4.0], shrink=1.0)
    res = minimize(
        lambda x: 4.0 * float(x @ x), np.array([1.0, -2.0]), jac=lambda x: 8.0 * x, L=steps,
        max_cycles=1, tol=None,
    )  # fmt: skip
    np.testing.assert_allclose(res.x, 0.0, atol=1e-12)


def check_paper_rule() -> None:
    """Algorithm 1, line 8: the smallest ‖x_k − x_{k−1}‖_Λ, here not that of the last cycle.

    η falls for one cycle, so that it moves least.
    """
    scale, Lambda = np.array([1.0, 50.0]), [1.0, 400.0]
    iterates: list[Any] = [np.array([0.0, 3.0])]
    rates = iter([1.0, 0.01, 1.0, 1.0])
    res = minimize(
        lambda x: 0.5 * float(scale @ (x - 1) ** 2), iterates[0], jac=lambda x: scale * (x - 1),
        blocks="coordinates", L=Lambda, eta=lambda k: next(rates), max_cycles=4, tol=None,
        returns="paper", every=1, callback=lambda report: iterates.append(report.x),
    )  # fmt: skip
    changes = [math.sqrt(Lambda @ (b - a) ** 2) for a, b in pairwise(iterates)]
    np.testing.assert_allclose(res.history["change"][1:], changes)
    smallest = int(np.argmin(changes))
    assert smallest < 3  # or the last iterate would do
    np.testing.assert_array_equal(res.x, iterates[1 + smallest])


def check_safety() -> None:
    """Curvature(safety=3) is three times Curvature()."""
    plain, safe = (
        minimize(
            lambda x: 4.0 * float(x @ x), np.ones(2), jac=lambda x: 8.0 * x, tol=None,
            L=Curvature(1, safety=safety), max_cycles=1,
        ).Lambda[0]
        for safety in (1.0, 3.0)
    )  # fmt: skip
    assert safe == pytest.approx(3 * plain)


def check_default_eta() -> None:
    """With Λ given, the recursive methods start from η = 0.15."""
    res = minimize(
        lambda x, i: float(x @ x), np.ones(2), jac=lambda x, i: 2 * x, n=9, L=2.0, max_cycles=2,
        tol=None, every=1,
    )  # fmt: skip
    assert res.history["eta"][1:] == [0.15, 0.15]


def half_the_curvature(self: Any, j: int, now: Any, xj: Any, u: Any, slope: Any, value: Any) -> Any:
    self.L[j] *= 2.0
    try:
        return TRY(self, j, now, xj, u, slope, value)
    finally:
        self.L[j] /= 2.0


TRY = Backtracking._try


def unweighted(self: Any, before: Any) -> float:
    pairs = zip(self.state.x.leaves, before.leaves, strict=True)
    return math.sqrt(sum(float(((a - b) ** 2).sum()) for a, b in pairs))


def unsafe(self: Any, j: int, now: Any) -> None:
    MEASURE(self, j, now)
    self.L[j] /= self.safety


MEASURE = Curvature.measure


def half_as_default(*args: Any, **kwargs: Any) -> Any:
    steps = AS_STEPS(*args, **kwargs)
    steps.eta = lambda k: 0.5
    return steps


AS_STEPS = choosing.as_steps


@pytest.mark.parametrize(
    ("where", "name", "mutant", "check"),
    [
        (Backtracking, "_try", half_the_curvature, check_line_search),
        (returned_iterate.SmallestChange, "see", returned_iterate.Last.see, check_paper_rule),
        (Runner, "_change", unweighted, check_paper_rule),
        (Curvature, "measure", unsafe, check_safety),
        (sys.modules["cyclade.minimize"], "as_steps", half_as_default, check_default_eta),
    ],
    ids=["half the curvature", "the last iterate", "without Λ", "without safety", "another η"],
)
def test_a_broken_step_or_rule_is_caught(
    where: Any, name: str, mutant: Any, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    check()
    monkeypatch.setattr(where, name, mutant)
    with pytest.raises(AssertionError):
        check()
