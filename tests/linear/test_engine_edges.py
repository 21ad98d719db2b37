"""Small, degenerate and bad input."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from cyclade.linear import losses, path, solve
from cyclade.linear.penalties import L1, Box, WeightedL1


def data(n=20, p=8):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    return X, X[:, 0] + 0.1 * rng.standard_normal(n)


@pytest.mark.filterwarnings("ignore:.* stopped without a certificate")
@pytest.mark.parametrize("storage", [np.asarray, sp.csc_matrix])
@pytest.mark.parametrize("loss", ["squared", "logistic", "cauchy"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (2, 3)])
def test_tiny(storage, loss, shape):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal(shape), np.where(np.arange(shape[0]) % 2, 1.0, -1.0)
    for intercept in (True, False):
        fit = solve(storage(X), y, loss, L1(0.01), fit_intercept=intercept)
        # One class alone has no best intercept: its loss only tends to zero.
        if not (loss == "logistic" and intercept and shape[0] == 1):
            assert fit.certificate.reached


@pytest.mark.parametrize("storage", [np.asfortranarray, sp.csc_matrix, sp.csr_matrix])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_zero_and_constant_columns_stay_out(storage, loss):
    X, y = data()
    X[:, 3], X[:, 4] = 0.0, 2.0
    y = np.where(y > 0, 1.0, -1.0)
    fit = solve(storage(X), y, loss, L1(0.01), tol=1e-9)
    assert fit.certificate.reached
    assert fit.coef[3] == fit.coef[4] == 0.0


def in_halves(X):
    """Unsorted entries, each stored twice."""
    rows, columns = np.nonzero(X)
    half = 0.5 * X[rows, columns]
    return sp.coo_matrix((np.r_[half, half], (np.r_[rows, rows], np.r_[columns, columns])))


def with_wide_indices(X):
    wide = sp.csc_matrix(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    return wide


@pytest.mark.parametrize(
    "form", [in_halves, with_wide_indices, lambda X: np.repeat(X, 2, axis=1)[:, ::2]]
)
def test_other_forms_of_the_same_table(form):
    X, y = data()
    X[:, 2:5] = 0.0
    a, b = solve(X, y, "squared", L1(0.01)), solve(form(X), y, "squared", "l1", alpha=0.01)
    np.testing.assert_allclose(a.coef, b.coef, atol=1e-4)
    assert solve((10 * X).astype(int), y, "squared", L1(0.1)).coef.dtype == np.float64


def test_tables_without_an_entry():
    _, y = data()
    assert solve(sp.csc_matrix((20, 4)), y, "squared", L1(0.01)).coef.tolist() == [0.0] * 4


def test_a_constant_target_needs_no_columns():
    X, _ = data()
    fit = solve(X, np.full(20, 3.0), "squared", L1(0.01))
    assert fit.certificate.reached
    assert not fit.coef.any()
    assert fit.intercept == pytest.approx(3.0)


def test_a_domain_without_zero_and_coordinates_without_penalty():
    X, y = data()
    fit = solve(X, y, "squared", Box(0.5, 2.0), tol=1e-8)
    assert (fit.coef >= 0.5).all()
    assert fit.certificate.reached
    free = solve(X, y, "squared", WeightedL1(0.1, np.r_[0.0, np.ones(7)]), tol=1e-9)
    assert free.certificate.kind == "distance"
    assert free.certificate.reached


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.ones(3)}, "X: must have two dimensions"),
        ({"X": np.ones((0, 3)), "y": np.ones(0)}, "at least one row"),
        ({"X": np.full((20, 8), np.nan)}, "X: must hold finite"),
        ({"X": np.where(np.eye(20, 8) > 0, np.inf, 1.0)}, "X: must hold finite"),
        ({"X": sp.csc_matrix(np.where(np.eye(20, 8) > 0, np.nan, 1.0))}, "X: must hold finite"),
        ({"X": np.full((20, 8), "a")}, "real numbers"),
        ({"X": np.ones((20, 8), complex)}, "real numbers"),
        ({"y": np.ones(19)}, "y: X has 20 rows"),
        ({"y": np.full(20, np.inf)}, "y must hold finite"),
        ({"sample_weight": -np.ones(20)}, "sample_weight"),
        ({"sample_weight": np.zeros(20)}, "sample_weight"),
        ({"sample_weight": np.full(20, np.nan)}, "sample_weight"),
        ({"sample_weight": np.ones(3)}, "sample_weight"),
        ({"offset": np.ones(3)}, "offset"),
        ({"coef": np.ones(3)}, "coef"),
        ({"coef": np.full(8, np.nan)}, "coef"),
        ({"intercept": np.nan}, "intercept"),
        ({"tol": -1.0}, "tol"),
        ({"max_iter": 0}, "max_iter"),
        ({"penalty": "l1"}, "alpha"),
        ({"penalty": L1}, "not the class"),
        ({"alpha": 1.0}, "alpha"),
        ({"loss": "cosine"}, "cosine"),
        ({"loss": "logistic"}, "Logistic"),
        ({"penalty": WeightedL1(0.1, np.ones(5))}, "8 columns"),
    ],
)
def test_bad_input_is_named(change, message):
    X, y = data()
    arguments = {"X": X, "y": y, "loss": "squared", "penalty": L1(0.1)} | change
    with pytest.raises(ValueError, match=message):
        solve(**arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alphas": []}, "alphas"),
        ({"alphas": [0.0]}, "alphas"),
        ({"n_alphas": 0}, "n_alphas"),
        ({"alpha_ratio": 2.0}, "alpha_ratio"),
    ],
)
def test_bad_paths_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        path(*data(), "squared", "l1", **options)


@pytest.mark.parametrize("loss", ["logistic", "poisson", "gamma"])
@pytest.mark.parametrize("at", [0.0, -1.5])
def test_the_best_intercept_of_a_null_model_leaves_no_slope(loss, at):
    from cyclade.linear.problem import as_design, as_problems

    rng, n = np.random.default_rng(0), 400
    y = {"logistic": np.where(rng.random(n) < 0.2, 1.0, -1.0), "gamma": rng.gamma(2.0, 3.0, n)}
    y, s = y.get(loss, rng.poisson(0.7, n).astype(float)), rng.random(n)
    uneven = at + np.where(np.arange(n) == 0, 1e-9, 0.0)  # no closed form
    found = []
    for z in (np.full(n, at), uneven):
        data = s, z, True
        (problem,) = as_problems(as_design(np.ones((n, 1))), y, losses.get(loss), L1(0.1), data)
        found.append(problem.null.c)
        slopes = s * losses.get(loss).gradient(y, z + found[-1])
        assert abs(slopes.sum()) <= 1e-13 * np.abs(slopes).sum()
    assert found[0] == pytest.approx(found[1], abs=1e-8)


def test_the_best_intercept_of_many_rows_takes_a_few_evaluations():
    """The loss of 50,000 rows is rounded too coarsely for a line search by values alone."""
    from cyclade.linear.problem import as_design, as_problems

    rng, n = np.random.default_rng(0), 50_000
    y = np.where(rng.random(n) < 0.03, 1.0, -1.0)
    design = as_design(rng.standard_normal((n, 1)))
    (problem,) = as_problems(design, y, losses.get("logistic"), L1(0.1), (None, None, True))
    calls, evaluate = [], problem.loss_at
    problem.loss_at = lambda z: calls.append(0) or evaluate(z)
    z = np.zeros(n)
    best = problem.shifted(z, 0.0, evaluate(z))[1]
    assert len(calls) <= 10
    for off in (1e-6, 2e-7, 1e-7, 5e-8, 2e-8):
        calls.clear()
        z = np.full(n, best + off)
        shift = problem.shifted(z, 0.0, evaluate(z))[1]
        assert shift == pytest.approx(-off, rel=1e-5)
        assert len(calls) <= 4


def test_targets_that_are_strided_or_read_only_need_no_new_kernels():
    from cyclade.linear.kernels.curved_path import fit as compiled

    X, y = data()
    y = np.where(y > 0, 1.0, -1.0)
    fixed, strided = y.copy(), np.stack([y, y], axis=1)[:, 0]
    fixed.flags.writeable = False
    usual = path(X, y, "logistic", "l1", offset=y)
    known = len(compiled.signatures)
    for other in (fixed, strided):
        found = path(X, other, "logistic", "l1", offset=other)
        assert (found.at(-1).coef == usual.at(-1).coef).all()
    assert len(compiled.signatures) == known > 0
