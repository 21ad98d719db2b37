"""Oracles: what sweeps answer, what they remember, and what a user's own must have."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from cyclade import L1, Fixed, Forward, Full, Layout, Page, PerBlock, iterate, minimize, start
from cyclade.oracles.autograd import Autograd
from cyclade.oracles.callables import CallableOracle, FiniteDifferences, Jacobian, Pair
from cyclade.oracles.counting import Counting
from cyclade.oracles.user import UserOracle
from cyclade.sampling.samplers import ALL
from small import Logistic

PROBLEM = Logistic()
BLOCKS = [3, 4, 5]
CUTS = [slice(0, 3), slice(3, 7), slice(7, 12)]
KINDS = ("jac", "block_jac", "both", "pair", "autograd", "2-point", "user")
X0 = np.linspace(-1, 1, PROBLEM.d)


class Calls:
    """The problem's functions, counted."""

    def __init__(self) -> None:
        self.fun = self.jac = self.block = 0

    def value(self, x: Any, idx: Any) -> float:
        self.fun += 1
        return PROBLEM.fun(x, idx)

    def gradient(self, x: Any, idx: Any) -> Any:
        self.jac += 1
        return PROBLEM.jac(x, idx)

    def block_jac(self, x: Any, j: int, idx: Any) -> Any:
        self.block += 1
        return PROBLEM.jac(x, idx)[CUTS[j]]

    def pair(self, x: Any, idx: Any) -> Any:
        return self.value(x, idx), PROBLEM.jac(x, idx)


class OwnOracle:
    """A user's oracle, with nothing but what is asked of it."""

    def sweep(self, x: Any, sample: Any) -> Any:
        return OwnSweep(x, np.arange(PROBLEM.n) if sample is ALL else sample)


class OwnSweep:
    def __init__(self, x: Any, idx: Any) -> None:
        self.x, self.idx = x, idx

    def get(self, j: int) -> Any:
        return self.x.get(j)

    def set(self, j: int, u: Any) -> None:
        self.x.set(j, u)

    def grad(self, j: int) -> Any:
        return PROBLEM.jac(self.x.view(), self.idx)[CUTS[j]]

    def value(self) -> float:
        return PROBLEM.fun(self.x.view(), self.idx)


def oracle_of(kind: str, calls: Calls | None = None, blocks: Any = BLOCKS) -> tuple[Any, Any]:
    """The same problem through each kind of oracle, and its starting point."""
    calls = calls or Calls()
    x0: Any = torch.as_tensor(X0) if kind == "autograd" else X0
    layout = Layout.of(x0, blocks)
    x = layout.point(x0)
    derivatives: Any = {
        "jac": lambda: Jacobian(calls.value, calls.gradient),
        "block_jac": lambda: Jacobian(calls.value, None, calls.block_jac),
        "both": lambda: Jacobian(calls.value, calls.gradient, calls.block_jac),
        "pair": lambda: Pair(calls.pair),
        "autograd": lambda: Autograd(PROBLEM.torch_fun),
        "2-point": lambda: FiniteDifferences(calls.value),
    }
    if kind == "user":
        return UserOracle(OwnOracle(), layout), x
    return CallableOracle(layout, derivatives[kind](), PROBLEM.n, x.leaves[0]), x


def exact(x: Any, idx: Any = None) -> tuple[float, Any]:
    rows = np.arange(PROBLEM.n) if idx is None else idx
    whole = np.asarray(x.whole())
    return PROBLEM.fun(whole, rows), PROBLEM.jac(whole, rows)


@pytest.mark.parametrize("sample", [ALL, np.array([2, 3, 5, 7])], ids=["all", "some"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_oracle_answers_the_same(kind: str, sample: Any) -> None:
    oracle, x = oracle_of(kind)
    idx = None if sample is ALL else sample
    accuracy = {"atol": 1e-6} if kind == "2-point" else {"atol": 1e-13}
    value, gradient = exact(x, idx)
    f, blocks = oracle.evaluate(x, sample)
    assert f == pytest.approx(value, abs=1e-13)
    np.testing.assert_allclose(np.concatenate(blocks), gradient, **accuracy)
    at = oracle.sweep(x, sample)
    assert at.value() == pytest.approx(value, abs=1e-13)
    for j, cut in enumerate(CUTS):
        np.testing.assert_allclose(at.grad(j), gradient[cut], **accuracy)
        u = at.get(j) * 0.5 + 0.1
        there = x.copy()
        there.set(j, u)
        value_there, gradient_there = exact(there, idx)
        assert at.trial(j, u) == pytest.approx(value_there, abs=1e-13)
        np.testing.assert_allclose(at.trial_grad(j, u), gradient_there[cut], **accuracy)
        v = 0 * u + 1.0
        h = 1e-4
        ahead, behind = x.copy(), x.copy()
        ahead.set(j, x.get(j) + h * v)
        behind.set(j, x.get(j) - h * v)
        bent = (exact(ahead, idx)[1] - exact(behind, idx)[1])[cut] / (2 * h)
        np.testing.assert_allclose(at.hvp(j, v), bent, atol=1e-3 if kind == "2-point" else 1e-6)
    np.testing.assert_array_equal(x.whole(), X0)  # trials left the point where it was


@pytest.mark.parametrize("kind", KINDS)
def test_a_move_to_where_a_trial_was_is_right(kind: str) -> None:
    oracle, x = oracle_of(kind)
    at = oracle.sweep(x, ALL)
    for j in (1, 2, 0):
        u = at.get(j) - 0.3 * at.grad(j)
        other = at.get(j) + 1.0
        at.trial(j, other)
        there = at.trial(j, u)
        at.trial_grad(j, u)
        at.set(j, u)
        assert at.value() == there
        value, gradient = exact(x)
        assert there == pytest.approx(value, abs=1e-13)
        np.testing.assert_allclose(
            at.grad(j), gradient[CUTS[j]], atol=1e-6 if kind == "2-point" else 1e-13
        )
        at.trial(j, other)
        at.set(j, u + 1e-9)  # not where the trial was
        assert at.value() == pytest.approx(exact(x)[0], abs=1e-13)


def test_a_search_over_one_block_costs_one_value_and_one_gradient_a_cycle() -> None:
    calls = Calls()
    oracle, x = oracle_of("jac", calls, blocks=1)
    oracle.evaluate(x, ALL)
    for k in range(1, 6):
        at = oracle.sweep(x, ALL)
        before, g = at.value(), at.grad(0)
        u = at.get(0) - 0.5 * g
        assert at.trial(0, u) < before
        at.set(0, u)
        oracle.evaluate(x, ALL)
        oracle.evaluate(x.copy(), ALL)  # a copy is at the same place
        assert (calls.fun, calls.jac) == (1 + k, 1 + k)


def test_minimize_calls_a_pair_once_a_cycle() -> None:
    seen = []

    def pair(x: Any) -> Any:
        seen.append(x)
        return PROBLEM.fun(x, np.arange(30)), PROBLEM.jac(x, np.arange(30))

    minimize(pair, X0, jac=True, L=5.0, max_cycles=10, every=1, tol=None)
    assert len(seen) == 11
    assert len({x.tobytes() for x in seen}) == 11


@pytest.mark.parametrize("kind", ["jac", "block_jac", "both", "pair", "autograd", "2-point"])
def test_what_is_remembered_belongs_to_the_point_and_the_sample(kind: str) -> None:
    oracle, x = oracle_of(kind)
    atol = 1e-6 if kind == "2-point" else 1e-13
    some = np.array([1, 2])
    for sample in (ALL, some, ALL):
        found = oracle.evaluate(x, sample)
        assert found[0] == pytest.approx(exact(x, None if sample is ALL else some)[0])
    at, twin = oracle.sweep(x, ALL), oracle.sweep(x.copy(), ALL)
    at.set(0, at.get(0) + 1)  # the twin, on a copy, does not move with it
    np.testing.assert_allclose(twin.grad(0), PROBLEM.jac(X0, np.arange(30))[CUTS[0]], atol=atol)
    np.testing.assert_allclose(at.grad(0), exact(x)[1][CUTS[0]], atol=atol)
    x.set(1, x.get(1) + 1)  # moved behind the sweep's back
    np.testing.assert_allclose(at.grad(0), exact(x)[1][CUTS[0]], atol=atol)
    assert at.value() == pytest.approx(exact(x)[0])


@pytest.mark.parametrize("method", ["trial", "trial_grad"])
def test_a_trial_that_fails_leaves_the_point_alone(method: str) -> None:
    def bad(x: Any, *_: Any) -> Any:
        if x[0] > 5:
            raise KeyboardInterrupt
        return float(x @ x)

    layout = Layout.of(X0, BLOCKS)
    x = layout.point(X0)
    oracle = CallableOracle(layout, Jacobian(bad, lambda x: 2 * x + bad(x)), None, X0)
    at = oracle.sweep(x, ALL)
    value, stamp = at.value(), x.stamp
    with pytest.raises(KeyboardInterrupt):
        getattr(at, method)(0, np.full(3, 9.0))
    np.testing.assert_array_equal(x.whole(), X0)
    assert x.stamp is stamp
    assert at.value() == value


def test_a_gradient_buffer_that_is_used_again_does_no_harm() -> None:
    buffer = np.zeros(PROBLEM.d)

    def shared(x: Any, idx: Any) -> Any:
        buffer[:] = PROBLEM.jac(x, idx)
        return buffer

    layout = Layout.of(X0, BLOCKS)
    oracle = CallableOracle(layout, Jacobian(PROBLEM.fun, shared), PROBLEM.n, X0)
    at = oracle.sweep(layout.point(X0), ALL)
    first = at.grad(0)
    at.trial_grad(0, at.get(0) + 1)
    np.testing.assert_array_equal(first, PROBLEM.jac(X0, np.arange(30))[CUTS[0]])
    np.testing.assert_array_equal(at.grad(1), PROBLEM.jac(X0, np.arange(30))[CUTS[1]])


def test_functions_may_keep_and_change_the_x_they_are_given() -> None:
    kept: list[Any] = []

    def fun(x: Any) -> float:
        value = float(x @ x)
        kept.append(x)
        x += 100.0
        return value

    def jac(x: Any) -> Any:
        kept.append(x)
        x *= 2
        return x

    res = minimize(fun, X0, jac=jac, blocks=BLOCKS, L=4.0, max_cycles=3, every=1, tol=None)
    np.testing.assert_allclose(res.x, X0 / 8, rtol=1e-12)
    assert not any(np.shares_memory(a, b) for a, b in pairwise(kept))


def test_evaluations_do_not_change_the_path() -> None:
    """`jac` and `block_jac` may round differently: sweeps use what sweeps asked for."""
    paths = []
    for watched in (False, True):
        oracle, x = oracle_of("both")
        wrong = Jacobian(PROBLEM.fun, lambda x, idx: 3 * PROBLEM.jac(x, idx), Calls().block_jac)
        oracle.derivatives = wrong
        state = start(oracle, x, Full(PROBLEM.n), np.random.default_rng(0))
        cycles = iterate(
            state, oracle, PerBlock([L1(0.01)] * 3), Fixed([4.0] * 3), Full(PROBLEM.n), Forward()
        )
        for _ in range(5):
            next(cycles)
            if watched:
                oracle.evaluate(state.x, ALL)
        paths.append(state.x.whole())
    np.testing.assert_array_equal(*paths)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_two_point_gradients_fit_the_dtype_and_the_scale_of_x(dtype: Any, scale: float) -> None:
    x0 = (scale * np.array([[1.0, -2.0], [0.0, 3.0]])).astype(dtype)
    layout = Layout.of(x0)
    x = layout.point(x0)

    def fun(x: Any) -> Any:
        return 0.5 * ((x / dtype(scale) - 1) ** 2).sum()

    oracle = CallableOracle(layout, FiniteDifferences(fun), None, x.leaves[0])
    _, (g,) = oracle.evaluate(x, ALL)
    exact = (x0 / scale - 1) / scale
    assert g.shape == (2, 2)
    assert g.dtype == dtype
    step = np.sqrt(np.finfo(dtype).eps) * max(1.0, 1 / scale)  # curvature 1 / scale²
    np.testing.assert_allclose(g, exact, atol=10 * step / scale)


# ------------------------------------------------------------------------------- all rows, any m


def test_all_rows_go_without_saying_where_idx_has_a_default() -> None:
    told: dict[str, list[Any]] = {"fun": [], "jac": [], "block_jac": []}

    def fun(x: Any, idx: Any = None) -> float:
        told["fun"].append(idx)
        return PROBLEM.fun(x, slice(None) if idx is None else idx)

    def jac(x: Any, idx: Any = None) -> Any:
        told["jac"].append(idx)
        return PROBLEM.jac(x, np.arange(30) if idx is None else idx)

    def block_jac(x: Any, j: int, idx: Any = None) -> Any:
        told["block_jac"].append(idx)
        return PROBLEM.jac(x, np.arange(30) if idx is None else idx)[CUTS[j]]

    options: dict[str, Any] = {"n": 30, "blocks": BLOCKS, "tol": None, "max_cycles": 4, "L": 4.0}
    minimize(fun, X0, jac=jac, block_jac=block_jac, method="P-CCD", **options)
    assert {idx for seen in told.values() for idx in seen} == {None}
    minimize(fun, X0, jac=jac, method="SCCD", b=5, **options)
    assert {len(idx) for idx in told["jac"] if idx is not None} == {5}
    without = Calls()
    minimize(without.value, X0, jac=without.gradient, method="P-CCD", **options)  # idx as before
    assert without.jac > 0


@pytest.mark.parametrize(("order", "by_blocks"), [("forward", True), ("greedy", False)])
def test_greedy_turns_look_at_all_blocks_which_one_call_of_jac_gives(
    order: Any, by_blocks: bool
) -> None:
    calls = Calls()
    minimize(
        calls.value, X0, jac=calls.gradient, block_jac=calls.block_jac, n=PROBLEM.n, blocks=BLOCKS,
        method="P-CCD", L=9.0, order=order, tol=None, max_cycles=3,
    )  # fmt: skip
    assert (calls.block > 0) == by_blocks


# ------------------------------------------------------------------------------- a user's own


@pytest.mark.parametrize("sampler", [Full(30), Page(30, 16, 4, 0.3)], ids=["P-CCD", "VRO-CCD"])
def test_a_users_sweep_walks_the_same_path(sampler: Any) -> None:
    paths = []
    for kind in ("block_jac", "user"):
        oracle, x = oracle_of(kind)
        counted = Counting(oracle, sampler, oracle.layout.shares())
        state = start(counted, x, sampler, np.random.default_rng(0))
        cycles = iterate(
            state, counted, PerBlock([L1(0.01)] * 3), Fixed([4.0] * 3, 0.5), sampler, Forward()
        )
        paths.append([next(cycles).x.whole() for _ in range(12)])
    np.testing.assert_array_equal(*paths)


class Changed:
    """A user's oracle whose sweeps have some methods replaced."""

    def __init__(self, **methods: Any) -> None:
        self.sweep_of = type("Odd", (OwnSweep,), methods)

    def sweep(self, x: Any, sample: Any) -> Any:
        return self.sweep_of(x, np.arange(30))


@pytest.mark.parametrize(
    ("methods", "error"),
    [
        *(
            ({name: None}, rf"sweep Odd of the oracle lacks {name}\(")
            for name in ("get", "set", "grad", "value")
        ),
        ({"set": lambda self, j, u: None}, r"set\(j, u\) of the sweep Odd did not move block 2"),
        ({"grad": lambda self, j: np.zeros(2)}, "grad returned shape"),
        ({"grad": lambda self, j: np.zeros(5) + 0j}, "grad must return real numbers"),
    ],
)
def test_what_is_wrong_with_a_users_sweep_is_named(methods: Any, error: str) -> None:
    layout = Layout.of(X0, BLOCKS)
    oracle = UserOracle(Changed(**methods), layout)
    for ask in (oracle.sweep, oracle.evaluate):
        with pytest.raises((ValueError, TypeError), match=error):
            ask(layout.point(X0), ALL)


# ------------------------------------------------------------------------------- counting
