"""The stochastic estimators: the same solutions as the exact ones, tables and streams."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from estimator_cases import data
from rows_cases import halved

from cyclade import linear


@pytest.mark.parametrize("kind", ["real", "table"])
def test_tables_end_where_the_exact_solver_does(kind):
    X, y = data(kind, n=60)
    options = {"alpha": 0.1, "tol": 1e-10}
    ours = linear.StochasticLinear("squared", "elastic_net", max_iter=1000, **options).fit(X, y)
    exact = linear.GeneralizedLinear("squared", "elastic_net", **options).fit(X, y)
    assert ours.certificate_.reached
    np.testing.assert_allclose(ours.coef_, exact.coef_, atol=1e-4)
    again = linear.StochasticLinear("squared", "elastic_net", max_iter=1000, **options).fit(X, y)
    np.testing.assert_array_equal(ours.coef_, again.coef_)
    warm = ours.set_params(warm_start=True).fit(X, y)
    assert warm.n_iter_ <= 2


def test_paths_by_rows():
    X, y = data("real", n=60)
    options = {"alpha": 0.1, "tol": 1e-8}
    ours = linear.StochasticLinear("squared", "elastic_net", max_iter=500, **options)
    exact = linear.GeneralizedLinear("squared", "elastic_net", **options)
    grid = {"n_alphas": 4, "alpha_ratio": 0.1}
    one, two = ours.path(X, y, **grid), exact.path(X, y, **grid)
    np.testing.assert_allclose(one.alphas, two.alphas)
    np.testing.assert_allclose(one.coefs, two.coefs, atol=1e-3)


def test_streams_learn_and_do_not_mind_how_they_are_cut():
    X, y = data("real", n=3000)
    whole = linear.StochasticLinear(alpha=0.1, batch_size=100).partial_fit(X, y)
    parts = linear.StochasticLinear(alpha=0.1, batch_size=100)
    for start in range(0, 3000, 250):
        rows = slice(start, start + 250)
        parts.partial_fit(X[rows], y[rows])
        parts = pickle.loads(pickle.dumps(parts))
    np.testing.assert_allclose(whole.coef_, parts.coef_, rtol=1e-12)
    assert 2000 < whole.n_rows_used_ <= 3000
    assert whole.alpha_ == 0.1
    own = linear.StochasticLinear(batch_size=100).partial_fit(X[:500], y[:500]).alpha_
    assert own == pytest.approx(linear.Lasso(None).fit(X[:500], y[:500]).alpha_)
    exact = linear.Lasso(0.1).fit(X, y)
    assert np.linalg.norm(whole.coef_ - exact.coef_) < 0.3
    assert whole.score(X, y) > 0.8


@pytest.mark.parametrize(("kind", "loss", "penalty"), [
    ("two", "logistic", "l1"),
    ("three", "logistic", "l1"),
    ("three", "multinomial", "rows"),
])  # fmt: skip
def test_streams_of_labels(kind, loss, penalty):
    X, y = data(kind, n=1500)
    model = linear.StochasticLinearClassifier(loss, penalty, alpha=0.01, batch_size=64)
    classes = np.unique(y)
    first = y == classes[0]
    model.partial_fit(sp.csr_array(X[first][:10]), y[first][:10], classes)  # one class at first
    model.partial_fit(sp.csr_array(X), y)
    np.testing.assert_array_equal(model.classes_, classes)
    table = linear.StochasticLinearClassifier(loss, penalty, alpha=0.01).fit(X, y)
    assert model.score(X, y) > table.score(X, y) - 0.1
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.parametrize("kind", [linear.StochasticLinear, linear.StochasticLinearClassifier])
def test_defaults_are_those_of_the_guide(kind):
    model = kind()
    assert (model.max_iter, model.tol, model.random_state) == (50, 1e-4, 0)
    assert model.loss == ("squared" if kind is linear.StochasticLinear else "logistic")


def test_bad_streams_are_refused():
    X, y = data("two")
    model = linear.StochasticLinearClassifier(alpha=0.1)
    with pytest.raises(ValueError, match="classes must be given in the first call"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="y holds 'yes', which is not in classes"):
        linear.StochasticLinearClassifier(alpha=0.1).partial_fit(X, y, ["no", "perhaps"])
    model.partial_fit(X, y, ["yes", "no"])
    with pytest.raises(ValueError, match="classes must stay what they were"):
        model.partial_fit(X, y, ["yes", "no", "perhaps"])
    with pytest.raises(ValueError, match="8 features"):
        model.partial_fit(X[:, :3], y)
    with pytest.raises(ValueError, match="class_weight must be None for partial_fit"):
        linear.StochasticLinearClassifier(class_weight="balanced").partial_fit(X, y, ["yes", "no"])
    with pytest.raises(ValueError, match="alpha must be a finite number >= 0"):
        linear.StochasticLinear(alpha=-1.0).partial_fit(*data("real"))


@pytest.mark.parametrize("stored", ["csr", "csc"])
@pytest.mark.parametrize("method", ["VRO-CCD", "SGD"])
def test_entries_given_twice_are_added(method, stored):
    X, y = data("real", n=300)
    twice, before = halved(X, stored), halved(X, stored).nnz
    options = {"alpha": 0.1, "method": method, "tol": 0.1, "batch_size": 50}
    for call in ("fit", "partial_fit"):
        one = getattr(linear.StochasticLinear(**options), call)(X, y)
        two = getattr(linear.StochasticLinear(**options), call)(twice, y)
        np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-9, atol=1e-12)
    assert twice.nnz == before  # left as it was


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("value", [0.0, 1.0, 1e4])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_constant_columns(form, value, fit_intercept):
    X, y = data("real", n=200)
    X[:, 5] = value
    options = {"alpha": 0.1, "fit_intercept": fit_intercept, "tol": 1e-5}
    model = linear.StochasticLinear(max_iter=200, **options).fit(form(X), y + 1.0)
    exact = linear.Lasso(**options).fit(X, y + 1.0)
    assert model.certificate_.reached
    assert model.objective_ <= exact.objective_ * (1 + 1e-3)
    np.testing.assert_allclose(model.predict(X), exact.predict(X), atol=0.05)


def test_streams_take_no_second_look_at_rows():
    for option in ("standardize", "relaxed"):
        with pytest.raises(ValueError, match="must be False for partial_fit"):
            linear.StochasticLinear(alpha=0.1, **{option: True}).partial_fit(*data("real"))
