"""The compiled cycles against `core.iterate`, literally: the same iterates, to rounding."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from rows_cases import Case

from cyclade.linear import losses, solve
from cyclade.linear.losses import BY_NAME
from cyclade.linear.penalties import L1, MCP, ElasticNet
from cyclade.rows import fit as module
from cyclade.rows import kernels
from cyclade.rows.fit import solve_rows

SCALAR = [name for name in BY_NAME if name != "multinomial"]


def targets(loss: str, z: np.ndarray) -> np.ndarray:
    kind = losses.get(loss).target
    return np.where(z > 0, 1.0, -1.0) if kind == "signs" else np.exp(z) if kind == "real" else z


def test_rows_are_drawn_without_replacement_and_uniformly() -> None:
    rng, places, counts = np.random.default_rng(0), np.arange(12), np.zeros(12)
    for _ in range(6000):
        out = np.empty(5, np.int64)
        kernels.distinct(rng, places, out)
        assert len(set(out.tolist())) == 5
        counts[out] += 1
    np.testing.assert_array_equal(places, np.arange(12))
    np.testing.assert_allclose(counts / 2500, 1.0, atol=0.06)


def literal_and_compiled(monkeypatch: Any, *args: Any, **options: Any) -> tuple[Any, Any]:
    fast = solve_rows(*args, **options)
    chosen: list[Any] = []

    def never(*_: Any) -> None:
        chosen.append(compile_them(*_))

    compile_them = module.compiled_cycles
    monkeypatch.setattr(module, "compiled_cycles", never)
    literal = solve_rows(*args, **options)
    monkeypatch.undo()
    assert chosen[0] is not None  # it would have been compiled
    return literal, fast


def same(literal: Any, fast: Any, rtol: float = 1e-9) -> None:
    assert literal.cycles == fast.cycles
    assert literal.epochs == pytest.approx(fast.epochs, rel=1e-12)
    ours, theirs = ([row["objective"] for row in fit.history] for fit in (fast, literal))
    np.testing.assert_allclose(ours, theirs, rtol=rtol)
    x, there = fast.state.state.x.view(), literal.state.state.x.view()
    np.testing.assert_allclose(x, there, rtol=rtol, atol=rtol)
    assert fast.state.hvps == pytest.approx(literal.state.hvps, rel=1e-12)


@pytest.mark.parametrize("stored", [np.ascontiguousarray, sp.csr_matrix], ids=["dense", "csr"])
@pytest.mark.parametrize("method", ["VRO-CCD", "VR-CCD", "PAGE", "SCCD", "SGD"])
@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_searched_steps_are_the_literal_ones(monkeypatch, loss, method, stored) -> None:
    case = Case(loss, n=150, seed=3)
    fits = literal_and_compiled(
        monkeypatch, stored(case.X), case.y, loss, L1(0.02), method=method, tol=0.0, seed=5,
        sample_weight=case.weight, offset=case.offset, blocks=3, epochs=6.0, every=0.7,
    )  # fmt: skip
    same(*fits)


@pytest.mark.parametrize("options", [
    {"order": "backward"},
    {"fit_intercept": False},
    {"b": 90, "b_small": 7, "p": 0.3},
    {"blocks": [[3, 0, 7], [1, 2, 4, 5, 6, 8, 9, 10]]},
    {"eta": "theory"},
    {"eta": 0.3, "method": "P-CCD"},
    {"penalty": ElasticNet(0.05, 0.5)},
    {"penalty": MCP(0.05, gamma=30.0)},
], ids=repr)  # fmt: skip
@pytest.mark.parametrize("stored", [np.ascontiguousarray, sp.csr_matrix], ids=["dense", "csr"])
def test_options_mean_the_same(monkeypatch, stored, options) -> None:
    case = Case("logistic", n=150, seed=3)
    options = {"penalty": L1(0.02)} | options
    same(*literal_and_compiled(
        monkeypatch, stored(case.X), case.y, "logistic", tol=0.0, epochs=5.0, every=0.9, **options
    ))  # fmt: skip


@pytest.mark.parametrize("loss", SCALAR)
def test_every_scalar_loss_is_compiled(monkeypatch, loss) -> None:
    case = Case("logistic", n=150, seed=3)
    y = targets(loss, case.X @ np.linspace(-0.4, 0.4, 11))
    same(*literal_and_compiled(monkeypatch, case.X, y, loss, L1(0.02), tol=0.0, epochs=4.0))


def test_float32_rows_are_read_as_they_are(monkeypatch) -> None:
    case = Case("logistic", n=150, seed=3)
    X = case.X.astype(np.float32)
    for stored in (X, sp.csr_matrix(X)):
        fits = literal_and_compiled(monkeypatch, stored, case.y, "logistic", L1(0.02), tol=0.0)
        same(*fits, rtol=1e-4)
        assert fits[1].coef.dtype == np.float32


def test_a_compiled_run_resumes_exactly() -> None:
    case = Case("logistic", n=150, seed=3)
    options = {"tol": 0.0, "every": 0.7, "seed": 2}
    whole = solve_rows(case.X, case.y, "logistic", L1(0.02), epochs=9, **options)
    half = solve_rows(case.X, case.y, "logistic", L1(0.02), epochs=4, **options)
    state = pickle.loads(pickle.dumps(half.state))
    rest = solve_rows(case.X, case.y, "logistic", L1(0.02), epochs=9, resume=state, **options)
    np.testing.assert_array_equal(whole.state.state.x.view(), rest.state.state.x.view())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("hard", ["far counts", "one steep row", "large", "heavy tails", "tiny b'"])
def test_searched_steps_never_end_above_the_start(hard: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, loss, options = rng.standard_normal((2000, 12)), "squared", {}
    y = X[:, 0] - X[:, 1] + 0.3 * rng.standard_normal(2000)
    if hard == "far counts":
        loss, y = "poisson", rng.poisson(np.exp(0.3 * y)).astype(float)
        options = {"coef": np.full(12, 1.0), "intercept": 4.0}
    elif hard == "one steep row":
        X[17] *= 1e4
    elif hard == "large":
        X, y = X.astype(np.float32), 1e8 * y
    elif hard == "heavy tails":
        X, y = X * rng.standard_cauchy((2000, 1)), rng.standard_cauchy(2000)
    else:
        options = {"b_small": 1}
    lam = 1e-3 * float(np.abs(X.T.astype(float) @ y).max()) / 2000
    fit = solve_rows(X, y, loss, L1(lam), epochs=40, seed=seed, tol=0.0, **options)
    best = solve(X, y, loss, L1(lam), tol=1e-8).objective
    first = fit.history[0]["objective"]
    assert fit.objective <= first
    assert fit.objective - best < 0.5 * (first - best) or "far too small" in fit.message
