"""Inference, deviances and residuals against statsmodels, literal twins and their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

from cyclade import linear
from cyclade.linear import (
    Inference,
    d2_score,
    deviance,
    distributions,
    inference,
    losses,
    penalties,
    residuals,
)
from cyclade.linear.statistics.deviances import expected_curvature
from cyclade.linear.statistics.intervals import nodewise

sm = pytest.importorskip("statsmodels.api")
LINKS = sm.families.links
LOG = {"link": LINKS.Log()}
TIGHT = {"tol": 1e-14, "maxiter": 300}
# A model without a penalty, the same family of statsmodels, and how targets are drawn from means.
FAMILIES: dict[str, tuple[Any, Any, Any]] = {
    "gaussian": (linear.Lasso(0.0), sm.families.Gaussian(), lambda r, m: r.normal(m)),
    "poisson": (linear.PoissonRegressor(0.0), sm.families.Poisson(), lambda r, m: r.poisson(m)),
    "gamma": (linear.GammaRegressor(0.0), sm.families.Gamma(**LOG), lambda r, m: r.gamma(2, m / 2)),
    "tweedie": (
        linear.GeneralizedLinear("tweedie", alpha=0.0),
        sm.families.Tweedie(**LOG, var_power=1.5, eql=True),
        lambda r, m: r.gamma(2, m / 2) * (r.random(m.size) < 0.8),
    ),
    "negative binomial": (
        linear.GeneralizedLinear(distributions.NegativeBinomial(0.7), alpha=0.0),
        sm.families.NegativeBinomial(**LOG, alpha=0.7),
        lambda r, m: r.poisson(m * r.gamma(1 / 0.7, 0.7, m.size)),
    ),
    "inverse gaussian": (
        linear.GeneralizedLinear("inverse_gaussian", alpha=0.0),
        sm.families.InverseGaussian(**LOG),
        lambda r, m: r.wald(m, 4.0),
    ),
    "shares": (
        linear.GeneralizedLinear("binomial", alpha=0.0),
        sm.families.Binomial(),
        lambda r, m: r.binomial(8, m / (1 + m)) / 8,
    ),
    "logit": (linear.SparseLogisticRegression(0.0), sm.families.Binomial(), None),
    "probit": (
        linear.GeneralizedLinearClassifier("probit", alpha=0.0),
        sm.families.Binomial(LINKS.Probit()),
        None,
    ),
    "cloglog": (
        linear.GeneralizedLinearClassifier("cloglog", alpha=0.0),
        sm.families.Binomial(LINKS.CLogLog()),
        None,
    ),
}


def draw(
    name: str, n: int = 250, seed: int = 0, s: Any = None, b: Any = None
) -> tuple[Any, np.ndarray, np.ndarray, Any]:
    """The fitted model, its rows, and the results of statsmodels."""
    model, family, target = FAMILIES[name]
    model = clone(model).set_params(tol=1e-12)
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4)) + 0.5
    z = 0.5 * X[:, 0] - 0.4 * X[:, 1] + 0.2
    mean = z if name == "gaussian" else np.exp(z)
    y = (z + rng.logistic(size=n) > 0) if target is None else target(rng, mean)
    y = y.astype(float)
    found = sm.GLM(y, sm.add_constant(X), family, freq_weights=s, offset=b).fit(**TIGHT)
    return model.fit(X, y, s, offset=b), X, y, found


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_fits_and_the_classical_table_are_those_of_statsmodels(name, weighted):
    rng = np.random.default_rng(1)
    s = rng.integers(1, 4, 250).astype(float) if weighted else None
    b = 0.2 * rng.standard_normal(250) if weighted else None
    model, X, y, peer = draw(name, s=s, b=b)
    if name == "gaussian":  # by the t distribution
        rows, D = np.repeat(np.arange(250), 1 if s is None else s.astype(int)), sm.add_constant(X)
        peer = sm.OLS((y if b is None else y - b)[rows], D[rows]).fit()
    ours = inference(model, X, y, s, offset=b)
    assert ours.method == "classical"
    np.testing.assert_allclose(np.ravel(model.coef_), peer.params[1:], atol=1e-6)
    np.testing.assert_allclose(ours.estimate, peer.params[1:], atol=1e-8)
    np.testing.assert_allclose(ours.std_error, peer.bse[1:], rtol=1e-8)
    np.testing.assert_allclose(ours.p_value, peer.pvalues[1:], atol=1e-8)
    np.testing.assert_allclose(ours.interval(0.9), peer.conf_int(0.1)[1:], atol=1e-8)
    np.testing.assert_allclose(ours.intercept, (peer.params[0], peer.bse[0]), atol=1e-8)


@pytest.mark.parametrize("name", FAMILIES)
def test_deviance_and_residuals_are_those_of_statsmodels(name):
    model, X, y, peer = draw(name)
    assert deviance(model, X, y) == pytest.approx(peer.deviance, rel=1e-6)
    null = np.nansum(peer.null_deviance)
    assert d2_score(model, X, y) == pytest.approx(1.0 - peer.deviance / null, abs=1e-5)
    for kind in ("response", "pearson", "deviance", "working"):
        theirs = getattr(peer, f"resid_{kind}")
        np.testing.assert_allclose(residuals(model, X, y, kind), theirs, atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("name", FAMILIES)
def test_expected_curvature_is_a_mean_over_draws(name):
    model, _, y, _ = draw(name)
    loss = getattr(model, "loss_", None) or model._loss(y, None)
    rng, z = np.random.default_rng(1), 0.3
    mean = loss.mean(np.array([z]))[0]
    many = np.full(200_000, mean)
    if loss.target == "signs":
        target = np.where(rng.random(many.size) < mean, 1.0, -1.0)
    else:
        target = FAMILIES[name][2](rng, many)
        target = target * (mean / target.mean())  # the mean alone counts
    found = loss.second_derivative(target.astype(float), np.full(many.size, z)).mean()
    assert expected_curvature(loss, np.array([z]))[0] == pytest.approx(found, rel=2e-2)


def test_the_sandwich_is_that_of_statsmodels():
    for name in ("gaussian", "poisson", "logit"):
        model, X, y, _ = draw(name)
        peer = sm.GLM(y, sm.add_constant(X), FAMILIES[name][1]).fit(cov_type="HC0", tol=1e-14)
        ours = inference(model, X, y, covariance="sandwich")
        np.testing.assert_allclose(ours.std_error, peer.bse[1:], rtol=1e-8)


def test_a_robust_loss_has_the_sandwich():
    _, X, y, _ = draw("gaussian")
    model = linear.RobustRegression(0.0, loss="huber", scale=1.0).fit(X, y)
    found = inference(model, X, y)
    D, x = np.c_[np.ones(len(y)), X], np.r_[found.intercept[0], found.estimate]
    loss = losses.Huber(1.0)
    slope, bend = loss.gradient(y, D @ x), loss.curvature(y, D @ x)
    inverse = np.linalg.inv(D.T @ (D * bend[:, None]))
    expected = np.sqrt(np.diag(inverse @ (D.T @ (D * (slope**2)[:, None])) @ inverse))
    np.testing.assert_allclose(np.r_[found.intercept[1], found.std_error], expected, rtol=1e-8)
    assert abs(D.T @ slope).max() < 1e-9
    with pytest.raises(ValueError, match="covariance must be 'sandwich'"):
        inference(model, X, y, covariance="model")


@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_cox_models_have_the_table_and_residuals_of_statsmodels(ties):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    time = np.ceil(8 * rng.exponential(np.exp(-X[:, 0]))) / 8
    event, strata = rng.random(200) < 0.7, np.arange(200) % 2
    entry = np.where(rng.random(200) < 0.5, 0.9 * time * rng.random(200), 0.0)
    y = linear.survival(time, event, strata=strata)
    model = linear.CoxRegression(0.0, ties=ties, tol=1e-10)
    late = linear.survival(time, event, strata=strata, entry=entry)
    peer = sm.PHReg(time, X, event, ties=ties, strata=strata, entry=entry).fit()
    np.testing.assert_allclose(model.fit(X, late).coef_, peer.params, rtol=1e-7)
    peer = sm.PHReg(time, X, event, ties=ties, strata=strata).fit()
    found = inference(model.fit(X, y), X, y)
    np.testing.assert_allclose(found.std_error, peer.bse, rtol=1e-8)
    np.testing.assert_allclose(found.p_value, peer.pvalues, atol=1e-8)
    if ties == "breslow":
        hazard = np.empty(200)  # a martingale residual is an event less the hazard gone through
        for k, (steps, total) in enumerate(model.baseline_):
            hazard[strata == k] = np.r_[0.0, total][
                np.searchsorted(steps, time[strata == k], side="right")
            ]
        expected = event - np.exp(model.predict(X)) * hazard
        np.testing.assert_allclose(residuals(model, X, y, "response"), expected, atol=1e-9)
    left = residuals(model, X, y, "response")
    assert left.sum() == pytest.approx(0.0, abs=1e-9)
    assert np.sign(residuals(model, X, y)) == pytest.approx(np.sign(left))
    assert 0.0 < d2_score(model, X, y) < 1.0


@pytest.mark.parametrize("method", ["classical", "debiased"])
def test_weights_are_repetitions_and_sparse_is_dense(method):
    for name in ("gaussian", "poisson", "logit"):
        model, X, y, _ = draw(name, n=80)
        X, times = X * (abs(X) > 0.3), 1 + np.arange(80) % 3
        model.set_params(alpha=0.0 if method == "classical" else 0.02, tol=1e-12)
        again = np.repeat(X, times, axis=0), np.repeat(y, times)
        reference = inference(model.fit(*again), *again, method=method)
        model.fit(X, y, sample_weight=times)
        for form in (np.asarray, sparse.csr_array, sparse.csc_array):
            found = inference(model, form(X), y, times, method=method)
            np.testing.assert_allclose(found.estimate, reference.estimate, atol=1e-7)
            np.testing.assert_allclose(found.std_error, reference.std_error, rtol=1e-6)


def literal_nodewise(A: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lassos of every column on the others, by `solve` on rows."""
    n, p = A.shape
    bias = np.sqrt(2 * np.log(p))
    shift, variance = np.zeros(p), np.zeros(p)
    for j in range(p):
        others, lam, reference = np.delete(np.arange(p), j), bias / np.sqrt(n), None
        for _ in range(30):
            fit = linear.solve(A[:, others], A[:, j], penalty=penalties.L1(lam), tol=1e-12,
                               fit_intercept=False)  # fmt: skip
            z = A[:, j] - A[:, others] @ fit.coef
            c = z @ A[:, j] / n
            spread = z @ z / n / c**2
            if reference is not None and spread > 1.25**2 * reference:
                break
            shift[j], variance[j] = (g[j] - fit.coef @ g[others]) / c, spread
            if reference is None and abs(A[:, others].T @ z).max() <= bias * np.linalg.norm(z):
                reference = spread
            lam *= 0.85
    return shift, variance


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 999), p=st.integers(3, 30), rho=st.floats(0.0, 0.8))
def test_lassos_of_columns_are_those_on_rows(seed, p, rho):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((25, p)) + rho * rng.standard_normal((25, 1))
    A = A / np.sqrt((A * A).mean(axis=0))
    g = rng.standard_normal(p)
    shift, variance = nodewise(A.T @ A / 25, g, 25.0, 2)
    expected = literal_nodewise(A, g)
    np.testing.assert_allclose(variance, expected[1], rtol=2e-2)
    np.testing.assert_allclose(shift, expected[0], rtol=5e-2, atol=5e-2)


def test_debiased_intervals_cover_and_find():
    rng = np.random.default_rng(1)
    X, truth = rng.standard_normal((200, 200)), np.zeros(200)
    truth[:4] = 1.0
    for noise in (0.5, 1.0):
        y = X @ truth + noise * rng.standard_normal(200)
        found = linear.LassoCV(rule="1se").fit(X, y).inference(X, y, n_jobs=2)
        low, high = found.interval(0.95).T
        assert 0.9 <= np.mean((low <= truth) & (truth <= high)) <= 0.99
        assert set(range(4)) <= set(found.discoveries(0.1))
        assert len(found.discoveries(0.1)) <= 6
        assert found.dispersion == pytest.approx(noise**2, rel=0.4)


def test_units_do_not_matter():
    model, X, y, _ = draw("poisson")
    one = inference(model.set_params(alpha=0.02).fit(X, y), X, y, method="debiased")
    scales = np.array([0.1, 1.0, 30.0, 7.0])
    model.set_params(penalty_weights=1.0 / scales, tol=1e-12)
    other = inference(model.fit(X / scales, y), X / scales, y, method="debiased")
    model.set_params(penalty_weights=None)
    np.testing.assert_allclose(one.estimate, other.estimate / scales, rtol=1e-4)
    np.testing.assert_allclose(one.std_error, other.std_error / scales, rtol=1e-4)


def test_benjamini_and_hochberg_by_definition():
    p = np.random.default_rng(0).random(40) ** 3
    found = Inference(np.arange(40), np.ones(40), np.ones(40), "debiased", 1.0)
    object.__setattr__(found, "p_value", p)
    order = np.argsort(p)
    passed = np.flatnonzero(p[order] <= 0.2 * np.arange(1, 41) / 40)
    assert set(found.discoveries(0.2)) == set(order[: passed.max() + 1])


def test_tables_have_names():
    pd = pytest.importorskip("pandas")
    _, X, y, _ = draw("gaussian")
    frame = pd.DataFrame(X, columns=list("abcd"))
    found = linear.Lasso(0.0).fit(frame, y).inference(frame, y)
    table, shown = found.table(), str(found).splitlines()
    assert shown[0] == "classical inference"
    assert shown[1].split() == " ".join(table.columns).split()
    assert shown[3].split()[:2] == ["a", f"{found.estimate[0]:.4g}"]
    assert list(table.index) == list("abcd")
    assert {"coef", "std err", "p", "q", "lower", "upper"} <= set(table.columns)


@pytest.mark.parametrize("alpha", [0.0, 0.05])
def test_other_rows_than_those_of_the_fit_are_refused(alpha):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 4))
    y, times = X[:, 0] + rng.standard_normal(120), rng.exponential(np.exp(-X[:, 0]))
    weights = rng.integers(1, 4, 120).astype(float)
    free = linear.Lasso(alpha, fit_intercept=False)
    cases = [(linear.Lasso(alpha), y), (linear.SparseLogisticRegression(alpha), y > 0)]
    cases += [(linear.CoxRegression(alpha), times), (free, y)] if alpha == 0.0 else []
    for model, target in cases:
        inference(model.fit(X, target), X, target)
        others = [(X + 1.0, target), (X[:80], target[:80]), (X, target, weights)]
        others = [(X[::-1], target), others[1]] if alpha == 0.0 else others
        for other in others:
            with pytest.raises(ValueError, match="fitted to other rows"):
                inference(model, *other)
        order = rng.permutation(120)
        inference(model, X[order], target[order])


def test_dependent_columns_are_named():
    rng = np.random.default_rng(0)
    levels, age = rng.integers(0, 3, 120), rng.standard_normal((120, 1))
    X, y = np.c_[age, np.eye(3)[levels]], age[:, 0] + rng.standard_normal(120)
    with pytest.warns(UserWarning, match=r"columns 1, 2, 3 are dependent"):
        inference(linear.Lasso(0.05).fit(X, y), X, y)
    inference(linear.Lasso(0.05).fit(X[:, :3], y), X[:, :3], y)  # a warning would be an error


def test_what_has_no_inference_is_named():
    _, X, y, _ = draw("gaussian", n=40)
    wide = np.random.default_rng(0).standard_normal((40, 60))
    twice = np.c_[X, X[:, 0]]
    cases = [
        (linear.Lasso(0.0), wide, y, {}, "more rows than columns"),
        (linear.Lasso(0.0), twice, y, {}, "columns are dependent"),
        (linear.Lasso(1e-9), wide, y, {}, "as many coefficients as there are rows"),
        (linear.Lasso(0.1), np.c_[X, np.ones(40)], y, {}, "feature 4 is constant"),
        (linear.RobustRegression(0.1), X, y, {}, "'debiased' is for losses of distributions"),
        (linear.Lasso(0.1), X, np.c_[y, y], {}, "one target"),
        (linear.SparseLogisticRegression(0.01), X, np.arange(40) % 3, {}, "one target"),
        (linear.Lasso(0.1), X, y, {"method": "exact"}, "method"),
    ]
    for model, rows, target, options, message in cases:
        with pytest.raises(ValueError, match=message):
            inference(model.fit(rows, target), rows, target, **options)
    with pytest.raises(ValueError, match="is not the loss of a distribution"):
        deviance(linear.RobustRegression(0.1).fit(X, y), X, y)
