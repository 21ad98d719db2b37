"""`solve_rows`: where it ends, how it stops and resumes, and the steps it makes for itself."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from rows_cases import Case

from cyclade.linear import solve
from cyclade.linear.losses import Squared
from cyclade.linear.penalties import L1, MCP, GroupL2, Rows
from cyclade.rows.fit import solve_rows
from cyclade.rows.oracle import Features, LinearOracle
from cyclade.rows.steps import diagonal
from cyclade.sampling.samplers import ALL


def data(n: int = 600, p: int = 15, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * rng.uniform(0.2, 3.0, size=p) * (rng.random((n, p)) < 0.6)
    return X, X[:, 0] - X[:, 1] + 0.5 + 0.5 * rng.normal(size=n)


@pytest.mark.parametrize("stored", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("method", ["VRO-CCD", "VR-CCD", "PAGE", "P-CCD"])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_it_ends_where_the_engine_ends(loss: str, method: str, stored: type) -> None:
    X, y = data()
    y = np.sign(y) if loss == "logistic" else y
    best = solve(X, y, loss, L1(0.02), tol=1e-10)
    fit = solve_rows(stored(X), y, loss, L1(0.02), method=method, tol=1e-5, epochs=300)
    assert fit.certificate.kind == "gap"
    assert fit.certificate.reached
    assert best.objective - 1e-9 <= fit.objective <= best.objective + fit.certificate.value
    np.testing.assert_allclose(fit.coef, best.coef, atol=0.02)
    assert fit.intercept == pytest.approx(best.intercept, abs=0.02)


@pytest.mark.parametrize("penalty", [L1(0.02), Rows(0.02), GroupL2(0.02, groups=3)], ids=repr)
@pytest.mark.parametrize("with_offset", [False, True])
def test_certificates_are_those_of_the_engine(penalty: Any, with_offset: bool) -> None:
    """At a solution of `solve` the same kind, tolerance and objective; several outputs included."""
    X, y = data(120, 6)
    targets = y if isinstance(penalty, GroupL2) else np.stack([y, X[:, 2] - y, X[:, 3]], axis=1)
    offset = np.linspace(-1.0, 1.0, 120) if with_offset else None
    best = solve(X, targets, "squared", penalty, offset=offset, tol=1e-8)
    at = {"coef": best.coef, "intercept": best.intercept}
    fit = solve_rows(X, targets, "squared", penalty, offset=offset, tol=1e-8, epochs=0, **at)
    assert fit.certificate.kind == best.certificate.kind == "gap"
    assert fit.certificate.reached
    assert fit.certificate.tolerance == pytest.approx(best.certificate.tolerance)
    assert fit.objective == pytest.approx(best.objective, rel=1e-12)


def test_weights_offsets_groups_outputs_and_nonconvexity() -> None:
    X, y = data()
    s, offset = np.random.default_rng(1).uniform(0.2, 3.0, size=(2, 600))
    options = {"sample_weight": s, "offset": offset}
    best = solve(X, y, "squared", L1(0.02), tol=1e-10, **options)
    fit = solve_rows(X, y, "squared", L1(0.02), tol=1e-6, epochs=300, **options)
    assert fit.objective == pytest.approx(best.objective, rel=1e-5)
    groups = GroupL2(0.05, groups=3)
    grouped = solve_rows(X, y, "squared", groups, tol=1e-6, epochs=300)
    assert grouped.certificate.kind == "gap"
    assert grouped.certificate.reached
    assert grouped.objective == pytest.approx(solve(X, y, "squared", groups).objective, rel=1e-5)
    curved = solve_rows(X, y, "cauchy", MCP(0.05, 3.0), tol=1e-3, epochs=300)
    assert curved.certificate.kind == "distance"
    assert curved.certificate.reached
    case = Case("multinomial", n=200, T=3)
    many = solve_rows(case.X, case.y, "multinomial", Rows(0.02), tol=1e-2, epochs=300)
    assert many.certificate.kind == "gap"
    assert many.certificate.reached
    assert many.coef.shape == (11, 3)
    assert many.intercept.shape == (3,)


def test_integers_do_not_overflow() -> None:
    X = np.random.default_rng(0).integers(0, 256, size=(100, 5)).astype(np.uint8)
    options = {"tol": 0.0, "epochs": 4}
    fits = [
        solve_rows(table, X[:, 0] * 0.1, "squared", L1(0.1), **options)
        for table in (X, sp.csr_matrix(X), X.astype(float))
    ]
    for fit in fits[:2]:
        np.testing.assert_allclose(fit.coef, fits[2].coef, atol=1e-12)


def test_the_intercept_begins_at_the_null_model() -> None:
    X, y = data()
    s = np.random.default_rng(1).uniform(0.2, 3.0, size=600)
    begun = solve_rows(X, y, "squared", L1(0.02), sample_weight=s, epochs=0)
    assert begun.intercept == pytest.approx(float(np.average(y, weights=s)))
    signs = np.where(y > 1, 1.0, -1.0)
    begun = solve_rows(X, signs, "logistic", L1(0.02), epochs=0)
    ratio = float((signs > 0).sum() / (signs < 0).sum())
    assert begun.intercept == pytest.approx(np.log(ratio))
    one_class = solve_rows(X, np.ones(600), "logistic", L1(0.02), epochs=0)
    assert one_class.intercept == 0.0
    given = solve_rows(X, y, "squared", L1(0.02), coef=np.zeros(15), epochs=0)
    assert given.intercept == 0.0


def test_diagonals_bound_samples_on_average() -> None:
    """E_S of the curvature of f_S, squared, is below Λ's: ‖H_S v‖²_{Λ^{−1}} ≤ vᵀH v on average."""
    X, y = data()
    X[:, 3] = 0.0
    X[::60, 4] = 30.0  # a rare, large feature
    features = Features(15, [15])
    oracle = LinearOracle(X, y, Squared(), features)
    rng = np.random.default_rng(0)
    for b in (1, 10, 600):
        Lambda = diagonal(oracle.rows(ALL), 0, 1.0, b, n=600)
        H = X.T @ X / 600
        assert np.linalg.eigvalsh(np.diag(Lambda) - H)[0] > -1e-10
        second = np.zeros_like(H)
        for _ in range(400):
            rows = X[rng.choice(600, b, replace=False)]
            part = rows.T @ rows / b
            second += part @ (part / Lambda[:, None]) / 400
        moving = np.arange(15) != 3
        bend = np.linalg.eigvals(np.linalg.solve(H[moving][:, moving], second[moving][:, moving]))
        assert bend.real.max() < 1.2  # 1 but for the 400 samples


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "ADMM"}, "is unknown"),
        ({"b": 10_000}, "b must be between"),
        ({"p": 2.0}, "p must be in"),
        ({"blocks": 99}, "number of blocks"),
        ({"epochs": -1.0}, "epochs: must be at least 0"),
        ({"every": 0.0}, "every: must be a positive number of epochs"),
        ({"penalty": "l1"}, "alpha"),
        ({"sample_weight": np.full(600, -1.0)}, "sample_weight"),
        ({"eta": "paper"}, "eta: must be a number, a function or 'theory'"),
        ({"method": "SCCD", "b_small": 4}, "b_small means nothing"),
    ],
)
def test_bad_input_is_named(options: dict[str, object], message: str) -> None:
    X, y = data()
    arguments = {"loss": "squared", "penalty": L1(0.1)} | options
    with pytest.raises(ValueError, match=message):
        solve_rows(X, y, **arguments)


def test_a_state_of_another_method_is_refused() -> None:
    X, y = data()
    fit = solve_rows(X, y, "squared", L1(0.1), epochs=1)
    with pytest.raises(ValueError, match="resume is a state of VRO-CCD"):
        solve_rows(X, y, "squared", L1(0.1), method="SCCD", resume=fit.state)
    with pytest.raises(TypeError, match="resume must be the `state`"):
        solve_rows(X, y, "squared", L1(0.1), resume={"x": 1})
    with pytest.raises(ValueError, match="resume has blocks of shapes"):
        solve_rows(X, y, "squared", L1(0.1), blocks=3, resume=fit.state)
    with pytest.raises(ValueError, match="resume is a state of a sum of n = 600 terms"):
        solve_rows(X[:500], y[:500], "squared", L1(0.1), resume=fit.state)


@pytest.mark.parametrize(("loss", "every", "half"), [("squared", 0.7, 5.3), ("poisson", 1.0, 5.0)])
@pytest.mark.parametrize("method", ["VRO-CCD", "VR-CCD", "SCCD"])
def test_a_resumed_run_is_one_that_did_not_stop(
    method: str, loss: str, every: float, half: float
) -> None:
    X, y = data()
    y = np.floor(np.abs(y)) if loss == "poisson" else y
    options = {"tol": 0.0, "every": every, "order": "shuffled", "method": method}
    whole = solve_rows(X, y, loss, L1(0.02), epochs=12, **options)
    first = solve_rows(X, y, loss, L1(0.02), epochs=half, **options)
    extra = first.history[-1]  # a run looks at its last iterate in any case
    for state in (pickle.loads(pickle.dumps(first.state)), first.state):
        rest = solve_rows(X, y, loss, L1(0.02), epochs=12, resume=state, **options)
        seen = [row for row in rest.history if row != extra or row in whole.history]
        assert seen == whole.history
        np.testing.assert_array_equal(rest.state.state.x.view(), whole.state.state.x.view())


def test_a_callback_hears_of_evaluations_and_stops_where_it_stands() -> None:
    X, y = data()
    heard: list[dict[str, float]] = []

    def callback(row: dict[str, float]) -> Any:
        heard.append(row)
        return np.bool_(len(heard) == 3)

    fit = solve_rows(X, y, "squared", L1(0.02), tol=0.0, every=2.0, callback=callback)
    assert heard == fit.history[1:]
    assert len(heard) == 3
    assert "callback" in fit.message
    assert fit.objective == heard[-1]["objective"]
    told: list[float] = []
    ended = solve_rows(
        X, y, "squared", L1(0.02), tol=0.0, every=2.0, epochs=5.0,
        callback=lambda row: told.append(row["epochs"]),
    )  # fmt: skip
    assert told == [row["epochs"] for row in ended.history[1:]]
    assert told[-1] == ended.epochs
    assert "max_samples" in ended.message


@pytest.mark.parametrize("eta", [30.0, 1e9, 1e60, 1e306, 1e308])  # in the last g overflows
@pytest.mark.parametrize("method", ["SGD", "VRO-CCD"])
def test_a_run_that_diverges_says_so_and_returns_its_best(method: str, eta: float) -> None:
    X = np.random.default_rng(0).normal(size=(600, 15))
    fit = solve_rows(
        X, X[:, 0], "squared", L1(0.02), method=method, eta=eta, tol=0.0, every=1e-9, epochs=60
    )  # fmt: skip
    assert "diverged" in fit.message
    assert fit.state is None
    assert fit.objective == min(row["objective"] for row in fit.history)
    assert np.isfinite(fit.coef).all()
