"""The front door: inputs of every shape, stopping, results, interrupts and resuming."""

from __future__ import annotations

import importlib
import os
import pickle
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import cyclade
from cyclade import (
    L1,
    Backtracking,
    Curvature,
    Layout,
    NonNegative,
    Stop,
    methods,
    minimize,
)
from cyclade.run.stopping import Seen, Uniform
from small import METHODS, ORDERS, Logistic, bowl, solve, squares

PROBLEM = Logistic()


def least_squares(n: int = 40, d: int = 9) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)), rng.normal(size=n), *squares(n, d)


@pytest.mark.parametrize(
    ("method", "order"),
    [(method, "forward") for method in METHODS]
    + [(method, order) for method in ("P-CCD", "VRO-CCD") for order in ORDERS[1:]],
)
def test_every_method_reaches_a_stationary_point(method: str, order: str) -> None:
    res = solve(method=method, order=order, b=None if method == "P-CCD" else 30, max_cycles=6000)
    assert res.success, res.message
    assert res.squared_distance <= 1e-10
    assert res.distance_kind == "exact"
    assert res.fun == pytest.approx(solve(tol=1e-9).fun, abs=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_array_keeps_its_shape_and_dtype_and_x0_is_untouched(dtype: Any) -> None:
    *_, fun, jac = least_squares()
    x0 = np.zeros((3, 3), dtype=dtype)
    res = minimize(
        lambda x: fun(x.ravel()), x0, jac=lambda x: jac(x.ravel()).reshape(3, 3), blocks=[4, 5],
        tol=1e-3,
    )  # fmt: skip
    assert res.success
    assert res.x.shape == (3, 3)
    assert res.x.dtype == dtype  # whatever jac returns
    assert not x0.any()


def test_a_dict_of_torch_tensors_with_named_blocks_and_regularisers() -> None:
    A, y, *_ = least_squares()
    At, yt = torch.as_tensor(A), torch.as_tensor(y)
    x0 = {"w": torch.zeros(9, dtype=torch.float64), "c": torch.zeros((), dtype=torch.float64)}
    res = minimize(
        lambda x: 0.5 * ((At @ x["w"] + x["c"] - yt) ** 2).mean(),
        x0,
        blocks=["c", "w"],
        reg={"w": NonNegative()},
    )
    assert res.success
    assert set(res.x) == {"w", "c"}
    assert res.x["c"].shape == ()
    assert (res.x["w"] >= 0).all()
    assert not x0["w"].requires_grad


def test_jac_true_and_args_and_block_jac() -> None:
    *_, fun, jac = least_squares()
    both = minimize(lambda x: (fun(x), jac(x)), np.zeros(9), jac=True, blocks=3)
    extra = minimize(
        lambda x, a, b: fun(x) + a - b, np.zeros(9), jac=lambda x, a, b: jac(x), args=(3, 3),
        blocks=3,
    )  # fmt: skip
    block = minimize(fun, np.zeros(9), blocks=3, block_jac=lambda x, j: jac(x)[3 * j : 3 * j + 3])
    np.testing.assert_array_equal(both.x, extra.x)
    np.testing.assert_array_equal(both.x, block.x)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("order", "blocks"), [("forward", 4), ("greedy", 4), ("forward", 2)])
def test_block_jac_follows_the_same_path_as_jac(method: str, order: str, blocks: int) -> None:
    size = 12 // blocks
    buffer = np.zeros(size)  # handed out again and again: it must be copied

    def block_jac(x: Any, j: int, idx: Any) -> Any:
        assert not x.flags.writeable
        buffer[:] = PROBLEM.jac(x, idx)[size * j : size * (j + 1)]
        return buffer

    b = None if method == "P-CCD" else 9
    options: dict[str, Any] = {
        "method": method, "order": order, "b": b, "max_cycles": 12, "blocks": blocks,
    }  # fmt: skip
    by_jac = solve(tol=None, **options)
    by_block = solve(tol=None, jac=None, block_jac=block_jac, **options)
    np.testing.assert_allclose(by_jac.x, by_block.x, atol=1e-14)


def test_a_stream_from_a_callable_and_from_an_iterator() -> None:
    truth = np.array([1.0, -2.0, 0.0, 0.5])

    def draw(rng: np.random.Generator, size: int) -> Any:
        X = rng.normal(size=(size, 4))
        return X, X @ truth + 0.1 * rng.normal(size=size)

    def fun(x: Any, batch: Any) -> float:
        return 0.5 * np.mean((batch[0] @ x - batch[1]) ** 2)

    def jac(x: Any, batch: Any) -> Any:
        return batch[0].T @ (batch[0] @ x - batch[1]) / len(batch[1])

    options: dict[str, Any] = {"jac": jac, "blocks": 2, "tol": None, "max_cycles": 300, "b": 200}
    res = minimize(fun, np.zeros(4), stream=draw, returns="last", **options)
    np.testing.assert_allclose(res.x, truth, atol=0.05)
    assert res.success
    assert "estimate on 200 samples" in res.distance_kind

    def forever() -> Any:
        rng = np.random.default_rng(0)
        while True:
            X, y = draw(rng, 1)
            yield X[0], y[0]

    res = minimize(fun, np.zeros(4), stream=forever(), returns="last", **options)
    np.testing.assert_allclose(res.x, truth, atol=0.05)


def test_a_stream_that_ends_returns_what_it_has() -> None:
    res = minimize(
        lambda x, batch: 0.5 * np.mean((x - batch) ** 2), np.zeros(1), tol=None, b=10,
        jac=lambda x, batch: np.mean(x - batch, axis=0), stream=[np.ones(1)] * 100, method="SCCD",
    )  # fmt: skip
    assert not res.success
    assert "the stream ended" in res.message
    assert np.isfinite(res.x).all()


# ----------------------------------------------------------------------------- stopping and results


def test_the_history_is_a_table() -> None:
    res = solve(method="VRO-CCD", every=5, max_cycles=40, tol=None)
    table = pd.DataFrame(res.history)
    columns = ["cycle", "samples", "seconds", "fun", "squared_distance", "dist", "change", "eta"]
    assert list(table.columns) == columns
    assert list(table["cycle"]) == [0, 5, 10, 15, 20, 25, 30, 35, 40]
    assert table["samples"].is_monotonic_increasing
    assert table["fun"].iloc[-1] < table["fun"].iloc[0]


def test_samples_count_component_gradients() -> None:
    n = PROBLEM.n
    assert solve(method="P-CCD", L=5.0, max_cycles=7, tol=None).samples == 7 * n  # no rounding
    assert solve(method="SCCD", b=4, max_cycles=7, tol=None).samples == pytest.approx(28)
    assert 200 <= solve(max_samples=200, tol=None, method="SCCD", b=7).samples < 200 + 7.001
    page = solve(method="VRO-CCD", b=20, b_small=3, p=1e-12, max_cycles=7, tol=None)
    assert page.samples == pytest.approx(20 + 7 * 2 * 3)  # g_{-1}, then two points per small step
    greedy = solve(method="P-CCD", L=5.0, order="greedy", max_cycles=2, tol=None)
    assert greedy.samples == pytest.approx(2 * 4 * n)  # a whole gradient for each of 4 turns
    assert greedy.prox_calls == 2 * 4 * 5
    assert greedy.values == greedy.hvps == 0
    assert solve(method="P-CCD", max_cycles=3, tol=None).values >= 3 * 4 * n  # one a turn, or more
    assert solve(method="SCCD", max_cycles=1, tol=None).hvps > 0


def test_the_uniform_draw_is_uniform() -> None:
    rng, counts = np.random.default_rng(0), np.zeros(6)
    x = Layout.of(np.zeros(1)).point(np.zeros(1))
    for _ in range(5000):
        rule = Uniform(rng)
        for k in range(1, 6):
            rule.see(Seen(k, x, 0.0, 0.0))
        counts[rule.k] += 1
    assert np.abs(counts[1:] - 1000).max() < 120  # four standard deviations


def test_progress_shows_and_leaves_the_path_alone(capsys: pytest.CaptureFixture[str]) -> None:
    quiet, shown = solve(), solve(progress=True)
    np.testing.assert_array_equal(quiet.x, shown.x)
    assert "VRO-CCD" in capsys.readouterr().out


# ------------------------------------------------------------------------- interrupts and resuming


def test_ctrl_c_ends_after_the_cycle_with_the_best_so_far() -> None:
    def press(report: Any) -> None:
        if report.cycle == 6:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    res = solve(callback=press, tol=None, max_cycles=500, every=1)
    assert signal.getsignal(signal.SIGINT) is before
    assert not res.success
    assert "interrupted after cycle 6" in res.message
    assert res.fun == min(res.history["fun"])
    assert res.state is not None


def test_outside_the_main_thread_no_signal_is_touched() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(solve).result().success


def test_an_interrupt_in_the_middle_of_a_cycle() -> None:
    calls = iter(range(1, 10**6))

    def fun(x: Any, idx: Any) -> float:
        if next(calls) == 40:
            raise KeyboardInterrupt
        return PROBLEM.fun(x, idx)

    res = minimize(fun, np.zeros(12), jac=PROBLEM.jac, n=30, blocks=4, method="P-CCD", tol=None)
    assert not res.success
    assert f"interrupted in cycle {res.cycles + 1};" in res.message
    assert res.state is None
    assert np.isfinite(res.fun)


@pytest.mark.parametrize("L", [None, "backtracking", "search", 4.0])
@pytest.mark.parametrize("method", METHODS)
def test_resuming_is_exact(method: str, L: Any) -> None:
    b = None if method == "P-CCD" else 10
    options: dict[str, Any] = {"method": method, "order": "shuffled", "b": b, "L": L, "tol": None}
    if method == "P-CCD" and L == "search":  # it has no samples; extrapolation has a memory too
        options |= {"L": None, "accelerate": True}
    whole = solve(max_cycles=17, **options)
    half = solve(max_cycles=8, **options)
    state = pickle.loads(pickle.dumps(half.state))
    rest = solve(max_cycles=17, resume=state, **options)
    np.testing.assert_array_equal(whole.x, rest.x)
    assert rest.cycles == 17
    assert rest.samples == whole.samples
    assert rest.prox_calls == whole.prox_calls
    np.testing.assert_equal(rest.Lambda, whole.Lambda)
    again = solve(max_cycles=17, resume=half.state, **options)  # the state is not used up
    np.testing.assert_array_equal(whole.x, again.x)


# ----------------------------------------------------------------------------------------- accuracy


def test_backtracking_finds_block_constants_and_keeps_them_at_the_rounding_floor() -> None:
    A, _, fun, jac = least_squares()
    exact = [np.linalg.norm(A[:, 3 * j : 3 * j + 3], 2) ** 2 / 40 for j in range(3)]
    res = minimize(fun, np.zeros(9), jac=jac, blocks=3, L="backtracking", tol=1e-10)
    assert res.success
    assert all(0.1 * L < found <= 2 * L for found, L in zip(res.Lambda, exact, strict=True))
    res = minimize(fun, np.zeros(9), jac=jac, blocks=3, tol=None, max_cycles=3000)
    assert all(found <= 4 * L for found, L in zip(res.Lambda, exact, strict=True))


def test_an_idle_block_does_not_spoil_the_line_search() -> None:
    """A block that waits for the other one, and one that f does not see at all."""
    N = 60
    H = 2 * np.eye(N + 1) - np.eye(N + 1, k=1) - np.eye(N + 1, k=-1)
    q = np.eye(N + 1)[0]
    chain = minimize(
        lambda x: float(0.5 * x @ H @ x - q @ x), np.zeros(N + 1), jac=lambda x: H @ x - q,
        blocks=[N, 1], max_cycles=20000,
    )  # fmt: skip
    assert chain.success, chain.message
    problem = bowl(np.array([2.0, 2.0, 0.0, 0.0]), 1.0)
    unseen = minimize(x0=np.array([0.0, 0, 3, 3]), blocks=2, tol=None, max_cycles=4000, **problem)
    np.testing.assert_allclose(unseen.x, [1.0, 1.0, 3.0, 3.0], atol=1e-9)


def test_the_last_iterate_counts_when_a_run_is_cut_short() -> None:
    scale = np.array([1.0, 10.0, 100.0])
    options = bowl(scale, 1.0)
    best = minimize(x0=np.zeros(3), returns="best", max_samples=9, tol=None, L=110.0, **options)
    assert best.cycles == 9
    assert best.fun < options["fun"](np.zeros(3))
    done = minimize(x0=np.zeros(3), L=[scale], max_samples=1, **options)
    assert done.success  # reached with the last sample
    assert minimize(x0=np.ones(3), max_cycles=0, L=110.0, **options).success


def test_a_steps_object_is_not_used_up() -> None:
    steps = Backtracking([float("nan")] * 4)
    first = solve(method="P-CCD", L=steps, max_cycles=5, tol=None)
    again = solve(method="P-CCD", L=steps, max_cycles=5, tol=None)
    np.testing.assert_array_equal(first.x, again.x)


def test_an_iterator_stream_resumes_on_the_same_samples() -> None:
    def samples() -> Any:
        rng = np.random.default_rng(0)
        while True:
            yield rng.normal(size=3)

    def fun(x: Any, batch: Any) -> float:
        return float(0.5 * np.mean((batch @ x - 1) ** 2))

    options: dict[str, Any] = {
        "jac": lambda x, batch: batch.T @ (batch @ x - 1) / len(batch), "b": 16,
        "returns": "last", "tol": None, "L": 3.0, "method": "SGD",
    }  # fmt: skip
    whole = minimize(fun, np.ones(3), stream=samples(), max_cycles=8, **options)
    source = samples()
    half = minimize(fun, np.ones(3), stream=source, max_cycles=4, **options)
    rest = minimize(fun, np.ones(3), stream=source, max_cycles=8, resume=half.state, **options)
    np.testing.assert_array_equal(whole.x, rest.x)


def test_estimated_constants_are_the_block_curvatures() -> None:
    A, y, fun, jac = least_squares()
    exact = [np.linalg.norm(A[:, 3 * j : 3 * j + 3], 2) ** 2 / 40 for j in range(3)]
    At, yt = torch.as_tensor(A), torch.as_tensor(y)
    options: dict[str, Any] = {"blocks": 3, "max_cycles": 2, "tol": None}
    by_torch = minimize(
        lambda x: 0.5 * ((At @ x - yt) ** 2).mean(), torch.zeros(9, dtype=torch.float64),
        L=Curvature(3, iterations=200), **options,
    )  # fmt: skip
    np.testing.assert_allclose(by_torch.Lambda, exact, rtol=1e-3)
    by_numpy = minimize(fun, np.zeros(9), jac=jac, L="estimate", **options)
    np.testing.assert_allclose(by_numpy.Lambda, exact, rtol=0.05)


@pytest.mark.parametrize("method", ["PAGE", "SGD"])
def test_page_and_sgd_keep_every_blocks_own_regulariser_and_metric(method: str) -> None:
    problem = bowl(np.array([1.0, 1.0, 9.0, 9.0]), np.array([0.5, -0.05, -1.0, -1.0]))
    res = minimize(
        x0=np.ones(4), n=8, method=method, blocks=2, reg=[L1(0.1), NonNegative()],
        L={"0": 1.0, "1": 9.0}, **problem,
    )  # fmt: skip
    assert res.success
    np.testing.assert_allclose(res.x, [0.4, 0.0, 0.0, 0.0], atol=1e-4)


def test_ctrl_c_while_steps_are_estimated_returns_x0() -> None:
    fun, slope = squares(40, 4)
    calls = iter(range(1, 10**6))

    def jac(x: Any, idx: Any) -> Any:
        if next(calls) == 4:
            raise KeyboardInterrupt
        return slope(x, idx)

    found = minimize(fun, np.ones(4), jac=jac, n=40, blocks=2, method="SCCD", check_grad=False)
    assert not found.success
    assert found.cycles == 0
    assert "interrupted" in found.message
    np.testing.assert_array_equal(found.x, np.ones(4))


# ------------------------------------------------------- the set-up, reason codes, calls, objects


def sampled(**options: Any) -> Any:
    return solve(**{"reg": None} | options)


def test_max_seconds_limits_the_estimate_of_steps_too() -> None:
    def slow(x: Any, idx: Any) -> Any:
        time.sleep(0.001)
        return PROBLEM.jac(x, idx)

    begun = time.perf_counter()
    res = sampled(jac=slow, max_seconds=0.1)
    assert time.perf_counter() - begun < 1.0
    assert (res.success, res.status, res.cycles, res.state) == (False, "max_seconds", 0, None)
    assert "max_seconds = 0.1 reached while steps were estimated" in res.message
    np.testing.assert_array_equal(res.x, np.zeros(PROBLEM.d))
    given = sampled(jac=slow, max_seconds=0.1, L=4.0)
    assert given.cycles > 0


def test_the_estimate_of_steps_is_counted_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[int] = []

    def jac(x: Any, idx: Any) -> Any:
        calls.append(len(idx))
        return PROBLEM.jac(x, idx)

    res = sampled(jac=jac, max_cycles=1, tol=None, progress=True, eta="theory")
    shown = capsys.readouterr().out
    assert "VRO-CCD: estimating steps" in shown
    assert "product" in shown
    assert "nan" not in shown  # F is not known yet, rather than no number
    assert res.njev == len(calls) > 500
    # On 3 terms each: 1,024 products with a quarter of the Hessian, 128 with all of it.
    assert res.hvps == pytest.approx(3 * (1024 / 4 + 128))


@pytest.mark.parametrize(
    ("status", "options"),
    [
        ("stationary", {}),
        ("stationary", {"tol": None, "rtol": 1e-3}),
        ("small_change", {"tol": None, "change_tol": 1e-3}),
        ("max_cycles", {"max_cycles": 2}),
        ("max_samples", {"max_samples": 90, "tol": None}),
        ("max_seconds", {"max_seconds": 1e-9}),
        ("callback", {"callback": lambda report: True}),
        ("wrong_gradient", {"jac": lambda x, i: -PROBLEM.jac(x, i)}),
        ("no_step", {"jac": lambda x, i: PROBLEM.jac(x, i) * (1.0 if not x.any() else np.nan)}),
    ],
)
def test_why_a_run_stopped_in_a_word(status: str, options: dict[str, Any]) -> None:
    res = sampled(method="P-CCD", **options)
    assert res.status == status, res.message
    assert f"status: {status}" in str(res)
    assert res.success == (
        status in ("stationary", "small_change") or options.get("tol", 1) is None
    )


def test_what_a_function_does_has_a_word() -> None:
    assert minimize(x0=np.ones(2), L=1.0, **bowl(-2.0)).status == "unbounded"
    # Entry by entry: a product of matrices rounds otherwise on another processor, and x may circle.
    w, c = np.random.default_rng(0).uniform(1.0, 2.0, (2, 9))
    options = {"tol": 1e-300, "every": 1, "x0": np.zeros(9), "max_cycles": 5000} | bowl(w, c)
    assert minimize(L=3.0, **options).status == "still"
    assert minimize(L=0.1, **options).status == "diverged"


@pytest.mark.parametrize("how", ["jac", "block_jac", "pair", "2-point", "torch", "oracle"])
def test_calls_are_counted(how: str) -> None:
    seen = {"fun": 0, "jac": 0}

    def fun(x: Any) -> Any:
        seen["fun"] += 1
        return (x**2).sum()

    def jac(x: Any, *j: int) -> Any:
        seen["jac"] += 1
        return 2 * (x[j[0] : j[0] + 1] if j else x)

    class Oracle:
        def sweep(self, x: Any, sample: Any) -> Any:
            return SimpleNamespace(
                get=x.get, set=x.set, value=lambda: fun(x.view()), grad=lambda j: jac(x.view(), j)
            )

    def both(x: Any) -> Any:
        return fun(x), jac(x)

    x0 = torch.ones(3) if how == "torch" else np.ones(3)
    options: dict[str, Any] = {
        "jac": {"jac": jac}, "block_jac": {"block_jac": jac}, "pair": {"jac": True},
        "2-point": {"jac": "2-point"}, "torch": {}, "oracle": {},
    }[how]  # fmt: skip
    target: Any = {"pair": both, "oracle": Oracle()}.get(how, fun)
    options |= {"blocks": "coordinates", "max_cycles": 3, "tol": None}
    res = minimize(target, x0, **options)
    assert res.nfev == seen["fun"]
    if how not in ("torch", "2-point"):
        assert res.njev == seen["jac"] > 0
    rest = minimize(target, x0, resume=res.state, **options | {"max_cycles": 6})
    assert rest.nfev == seen["fun"]


RESUMED: dict[str, dict[str, Any]] = {
    "reg": {"reg": L1(0.03)}, "order": {"order": "backward"}, "L": {"L": 5.0},
    "seed": {"seed": 1}, "x0": {"x0": np.ones(12)}, "b": {"b": 11}, "b_small": {"b_small": 2},
    "p": {"p": 0.7}, "eta": {"eta": 0.1}, "returns": {"returns": "last"}, "every": {"every": 3},
}  # fmt: skip


@pytest.mark.parametrize("name", RESUMED)
def test_a_run_is_not_resumed_as_another(name: str) -> None:
    options: dict[str, Any] = {
        "x0": np.zeros(12), "L": 4.0, "b": 10, "reg": L1(0.02), "jac": PROBLEM.jac, "n": 30,
        "blocks": 4,
    }  # fmt: skip
    half = minimize(PROBLEM.fun, **options, max_cycles=3)
    with pytest.raises(ValueError, match=f"resume is a state of a run with another {name}:"):
        minimize(PROBLEM.fun, **options | RESUMED[name], resume=half.state)
    more = minimize(PROBLEM.fun, **options, resume=half.state, max_cycles=5, tol=1e-9)
    assert more.cycles == 5


def test_methods_as_objects_are_their_names_with_arguments() -> None:
    options: dict[str, Any] = {"max_cycles": 20, "tol": None, "reg": L1(0.02)}
    pairs: list[tuple[methods.Method, dict[str, Any]]] = [
        (
            methods.VROCCD(b=12, b_small=3, p=0.4, order="shuffled", steps=4.0, eta=0.2),
            {"method": "VRO-CCD", "b": 12, "b_small": 3, "p": 0.4, "order": "shuffled", "L": 4.0,
             "eta": 0.2},
        ),
        (methods.PCCD(accelerate=True), {"method": "P-CCD", "accelerate": True}),
        (methods.SGD(b=5, steps=3.0), {"method": "SGD", "b": 5, "L": 3.0}),
        (methods.VRCCD(), {"method": "VR-CCD"}),
    ]  # fmt: skip
    for given, by_name in pairs:
        one, other = sampled(method=given, **options), sampled(**by_name, **options)
        np.testing.assert_array_equal(one.x, other.x)
        assert one.method == other.method
    with pytest.raises(ValueError, match="b is an option of the method given as an object"):
        sampled(method=methods.VROCCD(), b=3)
    with pytest.raises(ValueError, match="order is an option of the method given as an object"):
        sampled(method=methods.VROCCD(order="backward"), order="forward")
    with pytest.raises(TypeError, match="b_small"):
        methods.SCCD(b_small=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"or an object of cyclade\.methods"):
        sampled(method=methods.VROCCD)


def test_limits_as_an_object() -> None:
    by_object = sampled(stop=Stop(tol=None, rtol=1e-2, max_cycles=500))
    by_name = sampled(tol=None, rtol=1e-2, max_cycles=500)
    np.testing.assert_array_equal(by_object.x, by_name.x)
    assert sampled(stop=Stop(max_cycles=2)).status == "max_cycles"
    with pytest.raises(ValueError, match="tol is an option of stop: set it there"):
        sampled(stop=Stop(), tol=1e-3)
    with pytest.raises(TypeError, match=r"stop must be a cyclade\.Stop, got dict"):
        sampled(stop={"tol": 1e-3})
    with pytest.raises(ValueError, match="nothing would stop the run"):
        sampled(stop=Stop(tol=None, max_cycles=None))


def test_no_module_has_the_name_of_a_public_function() -> None:
    for name in cyclade.__all__:
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(f"cyclade.{name}")
