"""Newton steps on a sample of rows: the same solutions, and a way out where they fail."""

from __future__ import annotations

import numpy as np
import pytest

from cyclade.linear import solve
from cyclade.linear.designs import as_design
from cyclade.linear.losses import Huber, get
from cyclade.linear.penalties import L1, MCP, ElasticNet
from cyclade.linear.penalty_bound import bind
from cyclade.linear.problem import Problem
from cyclade.linear.starts import minima
from cyclade.linear.subproblem.sampled import SampledNewton, sample
from cyclade.linear.tuning import Tuning

NO_PRODUCTS = {
    "calls": 0.0,
    "forecast_passes": (0.0, 0.0, 0.0, 0.0),
    "curved_calls": (0.0, 0.0),
}  # of all columns
NEVER = Tuning(sampled_tall=np.inf, **NO_PRODUCTS)
SOME = Tuning(sampled_rows=(16, 16), sampled_run=8, **NO_PRODUCTS)


def table(seed=0, n=4000, p=12, dtype=np.float64, order="F"):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) @ (np.eye(p) + 0.5) + rng.random(p)
    z = X[:, :4] @ np.array([1.0, -2.0, 0.5, 0.1])
    return np.asarray(X, dtype, order=order), z + rng.standard_normal(n), rng


def sampled_steps(monkeypatch):
    """The number of steps that were made so, and what the others of the table did."""
    from cyclade.linear.subproblem import sampled

    made, step = [], sampled.SampledNewton.step

    def counted(self, problem, state, budget, through=()):
        made.append(step(self, problem, state, budget, through))
        return made[-1]

    monkeypatch.setattr(sampled.SampledNewton, "step", counted)
    return made


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("penalty", [L1(0.3), L1(0.01), ElasticNet(0.1, 0.5), MCP(0.1, 3.0)])
def test_least_squares_end_where_all_rows_do(monkeypatch, fit_intercept, weighted, penalty):
    X, y, rng = table()
    weights = rng.random(4000) if weighted else None
    options = {"sample_weight": weights, "fit_intercept": fit_intercept, "tol": 1e-9}
    exact = solve(X, y, "squared", penalty, **options, tuning=NEVER)
    made = sampled_steps(monkeypatch)
    found = solve(X, y, "squared", penalty, **options, tuning=SOME)
    assert made
    assert found.certificate.reached
    assert found.objective == pytest.approx(exact.objective, rel=1e-8)
    np.testing.assert_allclose(found.coef, exact.coef, atol=2e-4)


@pytest.mark.parametrize("loss", ["logistic", "poisson", Huber(0.7)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_curved_losses_end_where_all_rows_do(monkeypatch, loss, order):
    X, z, rng = table(order=order)
    y = {"logistic": np.where(z > 0, 1.0, -1.0), "poisson": rng.poisson(np.exp(0.1 * z))}
    y = y.get(loss, z) if isinstance(loss, str) else z
    exact = solve(X, y, loss, L1(0.02), tol=1e-9, tuning=NEVER)
    made = sampled_steps(monkeypatch)
    found = solve(X, y, loss, L1(0.02), tol=1e-9, tuning=SOME)
    assert made
    assert found.certificate.reached
    assert found.objective == pytest.approx(exact.objective, rel=1e-8)


def test_single_precision_columns(monkeypatch):
    X, y, _ = table(n=40_000, dtype=np.float32)
    made = sampled_steps(monkeypatch)
    found = solve(X, y, "squared", L1(0.05), tol=1e-6, tuning=SOME)
    assert made
    assert found.certificate.reached
    assert found.coef.dtype == np.float32


def test_rows_of_huge_leverage_are_left_to_cycles(monkeypatch):
    """The sample misses the rows that bend the loss most, so steps from it are too long."""
    X, y, _ = table()
    X[1000:1003] *= 3e3 * np.sign(X[1000:1003])
    made = sampled_steps(monkeypatch)
    found = solve(X, y, "squared", L1(0.1), tol=1e-9, tuning=SOME)
    assert 1 <= len(made) <= 4
    exact = solve(X, y, "squared", L1(0.1), tol=1e-9, tuning=NEVER)
    assert found.certificate.reached
    assert found.objective == pytest.approx(exact.objective, rel=1e-8)


def drifting(loss, seed=0, n=12_000, p=60, drift=1e4):
    """Columns that share a component beside which all they differ by is small, and λ_max/100."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((n, p))
    z = noise[:, :3] @ np.array([1.0, -1.0, 0.5])
    X = drift * rng.standard_normal((n, 1)) + noise
    y = {
        "logistic": np.where(z + rng.logistic(size=n) > 0, 1.0, -1.0),
        "poisson": rng.poisson(np.exp(0.5 * z)) * 1.0,
    }.get(loss, z + rng.standard_normal(n))
    lam = 0.01 * float(np.abs(X.T @ (y - y.mean())).max()) / n
    return X, y, L1(lam)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "poisson", "huber", "squared"])
@pytest.mark.parametrize("seed", range(3))
def test_a_component_that_all_columns_share(monkeypatch, seed, loss, fit_intercept):
    """In float32 its square hides all that columns differ by: then products are in float64."""
    X, y, penalty = drifting(loss, seed)
    made = sampled_steps(monkeypatch)
    found = solve(X, y, loss, penalty, fit_intercept=fit_intercept, tuning=Tuning(**NO_PRODUCTS))
    assert made
    assert found.certificate.reached
    assert found.passes < 10_000
    exact = solve(X, y, loss, penalty, fit_intercept=fit_intercept, tol=1e-9, tuning=NEVER)
    assert exact.certificate.value <= 0.1 * found.certificate.tolerance
    apart = found.objective - exact.objective
    assert -exact.certificate.value - 1e-12 <= apart <= found.certificate.tolerance


def test_models_without_a_minimum_are_left_to_the_next_strategy(monkeypatch):
    """Steps that end nowhere spend few of the cycles that a fit may make."""
    X, y, _ = table()
    monkeypatch.setattr(SampledNewton, "multiply", unbounded(SampledNewton.multiply))
    made = sampled_steps(monkeypatch)
    found = solve(X, y, Huber(0.7), L1(0.02), tol=1e-9, tuning=SOME)
    assert made
    assert found.certificate.reached
    exact = solve(X, y, Huber(0.7), L1(0.02), tol=1e-9, tuning=NEVER)
    assert found.objective == pytest.approx(exact.objective, rel=1e-8)


def unbounded(multiply):
    """Products that are not positive definite, in whatever precision."""

    def bent(self, problem, w):
        multiply(self, problem, w)
        self.G -= 0.5 * np.outer(np.ones(len(self.G)), np.ones(len(self.G))) * self.G.max()

    return bent


def test_a_sample_is_spread_over_all_rows():
    rows = sample(1000, 100, 10)
    assert rows.size == 100
    assert rows[0] == 0
    assert rows[-1] == 999
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(sample(50, 60, 10), np.arange(50))


def gathered(X, dtype, fit_intercept, tuning=SOME):
    """The sample of three columns of a problem."""
    n, p = X.shape
    design, s = as_design(X), np.full(n, 1.0 / n)
    bound = bind(L1(0.1), p)
    problem = Problem(design, X[:, 0] * 1.0, s, np.zeros(n), get("squared"), bound, fit_intercept)
    problem.tuning = tuning
    newton = SampledNewton(problem)
    newton.cols = np.array([1, 4, 5])
    newton.gather(problem, dtype)
    return newton


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_samples_of_either_memory_order(order, dtype, fit_intercept):
    X, _, _ = table(n=200, order=order)
    newton = gathered(X, dtype, fit_intercept, Tuning(sampled_rows=(4, 4), sampled_run=8))
    assert newton.rows.size < 200
    A = X[np.ix_(newton.rows, newton.cols)]
    means = A.mean(axis=0) if fit_intercept else np.zeros(3)
    np.testing.assert_allclose(newton.centres, means, atol=1e-14)
    assert newton.A.dtype == dtype
    np.testing.assert_allclose(newton.A, (A - means).T, atol=1e-14 if dtype == np.float64 else 1e-6)


@pytest.mark.parametrize("scale", [1e-14, 1.0, 1e30])
def test_numbers_beyond_single_precision_take_double(scale, monkeypatch):
    X, y, _ = table()
    kinds, gather = [], SampledNewton.gather

    def watched(self, problem, dtype):
        kinds.append(dtype)
        gather(self, problem, dtype)

    monkeypatch.setattr(SampledNewton, "gather", watched)
    found = solve(scale * X, y, "squared", L1(0.1 * scale), tol=1e-8, tuning=SOME)
    plain = solve(X, y, "squared", L1(0.1), tol=1e-8, tuning=NEVER)
    assert kinds == ([np.float32] if scale == 1.0 else [np.float32, np.float64])
    assert found.certificate.reached
    assert found.objective == pytest.approx(plain.objective, rel=1e-7)


def test_the_sample_is_larger_where_a_pass_costs_more():
    sizes = [gathered(np.ones((n, 12)), np.float64, True, Tuning()).rows.size for n in (600, 4000)]
    assert sizes[0] == 600  # 192 rows per column would be more than all
    assert 192 * 12 - 256 <= sizes[1] <= 192 * 12
    wide = gathered(np.ones((2_000, 400)), np.float64, True, Tuning(sampled_run=1)).rows.size
    assert wide == 2_000


@pytest.mark.parametrize("penalty", [MCP(0.1, 3.0), MCP(0.02, 2.0)])
def test_hops_on_the_model_save_passes_and_end_no_higher(penalty, monkeypatch):
    X, y, _ = table(n=8000)
    found = solve(X, y, "squared", penalty, tol=1e-7, tuning=SOME)
    monkeypatch.setattr(minima, "leads_back", lambda *arguments: False)
    made = sampled_steps(monkeypatch)
    every = solve(X, y, "squared", penalty, tol=1e-7, tuning=SOME)
    assert made
    assert found.certificate.reached
    assert found.objective <= every.objective * (1 + 1e-9)
