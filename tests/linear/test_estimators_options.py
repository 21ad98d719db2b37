"""Options that estimators share: scaling, refits, no penalty, groups, sparse coefficients."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from estimator_cases import CASES, TIGHT, data, same_predictions
from sklearn import linear_model as sk
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from cyclade import linear

X, Y = data("real")
names = [f"f{j}" for j in range(8)]


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("name", ["lasso", "tasks", "multinomial", "mcp"])
def test_standardize_is_a_scaler_before_the_fit(name, form):
    X, y = data(CASES[name][1])
    X = X * np.logspace(-1, 1, 8)
    X[:, 5] = 0.0
    weights = np.random.default_rng(0).random(len(X))
    scaler = StandardScaler(with_mean=False).fit(X, sample_weight=weights)
    plain = clone(CASES[name][0]).set_params(tol=1e-9)
    model = clone(plain).set_params(standardize=True).fit(form(X), y, weights)
    plain.fit(scaler.transform(X), y, weights)
    np.testing.assert_allclose(model.coef_, plain.coef_ / scaler.scale_, rtol=1e-5, atol=1e-7)
    same_predictions(model.predict(X), plain.predict(scaler.transform(X)), 1e-5)
    path = model.path(form(X), y, weights, alphas=[model.alpha])
    np.testing.assert_allclose(np.squeeze(path.coefs), np.squeeze(model.coef_), atol=1e-4)


@pytest.mark.parametrize("scoring", [None, "r2"])
def test_standardized_folds_choose_as_scaled_data_do(scoring):
    scaled = StandardScaler(with_mean=False).fit_transform(X * np.logspace(-1, 1, 8))
    one = linear.LassoCV(alphas=5, cv=3, standardize=True, scoring=scoring)
    two = linear.LassoCV(alphas=5, cv=3, scoring=scoring)
    one.fit(X * np.logspace(-1, 1, 8), Y)
    np.testing.assert_allclose(one.score_path_, two.fit(scaled, Y).score_path_, rtol=1e-6)


def test_alpha_zero_is_the_fit_without_a_penalty():
    for model in (linear.Lasso, linear.ElasticNet, linear.MCPRegression, linear.SlopeRegression):
        fit = model(alpha=0, **TIGHT).fit(X, Y)
        assert fit.certificate_.kind == "distance"
        assert fit.certificate_.reached
        np.testing.assert_allclose(fit.coef_, sk.LinearRegression().fit(X, Y).coef_, atol=1e-8)
    table = data("table")[1]
    tasks = linear.MultiTaskLasso(0.0, **TIGHT).fit(X, table)
    np.testing.assert_allclose(tasks.coef_, sk.LinearRegression().fit(X, table).coef_, atol=1e-8)
    positive = linear.Lasso(0.0, positive=True, **TIGHT).fit(X, Y)
    theirs = sk.LinearRegression(positive=True).fit(X, Y)
    np.testing.assert_allclose(positive.coef_, theirs.coef_, atol=1e-8)
    counts = data("counts")[1]
    poisson = linear.GeneralizedLinear("poisson", alpha=0.0, tol=1e-9).fit(X, counts)
    theirs = sk.PoissonRegressor(alpha=0.0, solver="newton-cholesky", tol=1e-10).fit(X, counts)
    np.testing.assert_allclose(poisson.coef_, theirs.coef_, atol=1e-6)


@pytest.mark.parametrize("n", [60, 5])
@pytest.mark.parametrize("kind", ["Lasso", "SlopeRegression", "QuantileRegression", "SparseSVC"])
def test_the_tolerance_without_a_penalty_does_not_depend_on_the_start(kind, n):
    """It was a part of the gradient at the start, so a second fit could not meet it."""
    y = (np.median(Y) < Y).astype(int) if kind == "SparseSVC" else Y
    model = getattr(linear, kind)(alpha=0.0, warm_start=True).fit(X[:n], y[:n])
    first = model.certificate_
    assert first.reached
    again = model.fit(X[:n], y[:n]).certificate_
    assert again.reached
    assert again.tolerance == pytest.approx(first.tolerance)


@pytest.mark.parametrize("name", ["lasso", "lasso of several outputs", "tasks", "logistic"])
def test_relaxed_fits_have_the_features_of_the_penalty_and_none_of_its_shrinkage(name):
    X, y = data(CASES[name][1])
    plain = clone(CASES[name][0]).fit(X, y)
    relaxed = clone(CASES[name][0]).set_params(relaxed=True, tol=1e-9).fit(X, y)
    np.testing.assert_array_equal(relaxed.coef_ != 0, plain.coef_ != 0)
    assert relaxed.certificate_.reached
    if name == "lasso":
        on = plain.coef_ != 0
        assert 0 < on.sum() < 8
        expected = sk.LinearRegression().fit(X[:, on], y).coef_
        np.testing.assert_allclose(relaxed.coef_[on], expected, atol=1e-6)
        path = relaxed.path(X, y, alphas=[1e3, 0.1])
        np.testing.assert_allclose(path.coefs[:, 1], relaxed.coef_, atol=1e-6)
        assert not path.coefs[:, 0].any()


def test_relaxed_folds_are_scored_as_they_are_fitted():
    folds = [(np.arange(30), np.arange(30, 40)), (np.arange(10, 40), np.arange(10))]
    model = linear.LassoCV(alphas=[0.3, 0.05], cv=folds, relaxed=True, tol=1e-9).fit(X, Y)
    for k, (train, test) in enumerate(folds):
        for at, alpha in enumerate(model.alphas_):
            single = linear.Lasso(alpha, relaxed=True, tol=1e-9).fit(X[train], Y[train])
            error = np.mean((Y[test] - single.predict(X[test])) ** 2)
            assert model.mse_path_[at, k] == pytest.approx(error, rel=1e-5)


@pytest.mark.parametrize("kind", [linear.GroupLasso, linear.SparseGroupLasso])
def test_groups_by_label_size_or_name(kind):
    expected = kind(0.1, groups=[[0, 1, 2], [3, 4], [5, 6, 7]]).fit(X, Y).coef_
    for groups in ([3, 2, 3], np.array([3, 2, 3]), list("aaabbccc"), [5, 5, 5, 7, 7, 9, 9, 9]):
        np.testing.assert_array_equal(kind(0.1, groups=groups).fit(X, Y).coef_, expected)
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=names)
    by_name = [["f0", "f1", "f2"], ["f3", "f4"], ["f5", "f6", 7]]
    found = kind(0.1, groups=by_name).fit(table, Y).coef_
    by_number = kind(0.1, groups=[3, 2, 3]).fit(table, Y).coef_  # in the memory order of the table
    np.testing.assert_array_equal(found, by_number)
    with pytest.raises(ValueError, match="X has no feature named 'g'"):
        kind(0.1, groups=[["g"], names]).fit(table, Y)
    with pytest.raises(ValueError, match="groups miss feature 'f5'; they must cover all 8"):
        kind(0.1, groups=by_name[:2]).fit(table, Y)
    with pytest.raises(ValueError, match="sizes that add up to 8, 8 labels or lists"):
        kind(0.1, groups=[3, 3]).fit(X, Y)


@pytest.mark.parametrize("name", ["lasso", "tasks", "logistic", "multinomial"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_coefficients_may_be_kept_sparse(name, form):
    X, y = data(CASES[name][1])
    model = clone(CASES[name][0]).fit(X, y)
    coef, predicted = model.coef_.copy(), model.predict(form(X))
    np.testing.assert_array_equal(model.sparse_coef_.toarray(), np.atleast_2d(coef))
    assert sp.issparse(model.sparsify().coef_)
    assert model.summary()
    assert model.predict(form(X)).shape == predicted.shape
    same_predictions(model.predict(form(X)), predicted)
    np.testing.assert_array_equal(model.densify().densify().coef_, coef)


PRODUCTS = {"true": True, "false": False, "auto": "auto", "raw": X.T @ X,
            "centred": (X - X.mean(axis=0)).T @ (X - X.mean(axis=0))}  # fmt: skip


@pytest.mark.parametrize("given", PRODUCTS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_precompute_does_what_it_says_and_results_stay(monkeypatch, given, fit_intercept):
    from cyclade.linear.products import fits

    options = {"fit_intercept": fit_intercept, "tol": 1e-10}
    plain = linear.Lasso(0.1, **options).fit(X, Y)
    at_once, used = [], fits.solve_squares
    monkeypatch.setattr(fits, "solve_squares", lambda *args: at_once.append(1) or used(*args))
    if given == "centred" and not fit_intercept:
        with pytest.raises(ValueError, match="precompute: the matrix given is not that of X"):
            linear.Lasso(0.1, precompute=PRODUCTS[given], **options).fit(X, Y)
        return
    model = linear.Lasso(0.1, precompute=PRODUCTS[given], **options).fit(X, Y)
    assert bool(at_once) is (given != "false")
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-6)
    path = linear.ElasticNet(0.1, precompute=PRODUCTS[given], **options).path(X, Y, n_alphas=4)
    same = linear.ElasticNet(0.1, **options).path(X, Y, n_alphas=4)
    np.testing.assert_allclose(path.coefs, same.coefs, atol=1e-6)
    cv = linear.LassoCV(precompute=PRODUCTS[given], n_alphas=5, cv=3, **options).fit(X, Y)
    assert cv.alpha_ == linear.LassoCV(n_alphas=5, cv=3, **options).fit(X, Y).alpha_


def test_weighted_products_may_be_given():
    weights = np.linspace(0.5, 2.0, len(Y))
    w = weights * len(Y) / weights.sum()
    plain = linear.Lasso(0.1, tol=1e-10).fit(X, Y, sample_weight=weights)
    model = linear.Lasso(0.1, tol=1e-10, precompute=(X.T * w) @ X)
    np.testing.assert_allclose(model.fit(X, Y, sample_weight=weights).coef_, plain.coef_, atol=1e-6)
    with pytest.raises(ValueError, match="precompute: the matrix given is not that of X"):
        model.set_params(precompute=X.T @ X).fit(X, Y, sample_weight=weights)


@pytest.mark.parametrize("columns", [np.float32, np.float64])
def test_products_in_single_precision(columns):
    A = (X + 1.0).astype(np.float32)
    target = A @ np.arange(A.shape[1])
    plain = linear.Lasso(0.1).fit(A.astype(columns), target)
    given = linear.Lasso(0.1, precompute=A.T @ A).fit(A.astype(columns), target)
    assert given.certificate_.reached
    np.testing.assert_allclose(given.coef_, plain.coef_, rtol=1e-3, atol=1e-3)
    with pytest.raises(ValueError, match="precompute: the matrix given is not that of X"):
        linear.Lasso(0.1, precompute=np.eye(A.shape[1], dtype=np.float32)).fit(A, target)


@pytest.mark.parametrize(
    ("given", "said"),
    [(np.eye(3), r"shape \(3, 3\)"), ("always", "'always'"), (np.full((8, 8), np.nan), "finite"),
     (np.eye(8), "not that of X"), (None, r"shape \(\)")],
)  # fmt: skip
def test_what_precompute_may_not_be(given, said):
    with pytest.raises(ValueError, match=rf"precompute.*{said}"):
        linear.ElasticNet(0.1, precompute=given).fit(X, Y)


def test_the_best_of_several_l1_ratios():
    options = {"alphas": 6, "cv": 3}
    ratios = [0.2, 0.9, 1.0]
    model = linear.ElasticNetCV(l1_ratio=ratios, **options).fit(X, Y)
    single = [linear.ElasticNetCV(l1_ratio=r, **options).fit(X, Y) for r in ratios]
    best = max(single, key=lambda m: m.mean_score_.max())
    assert model.l1_ratio_ == best.l1_ratio == best.l1_ratio_
    assert model.l1_ratio == ratios
    assert model.cv == 3
    np.testing.assert_array_equal(model.coef_, best.coef_)
    np.testing.assert_array_equal(model.alphas_, best.alphas_)
    theirs = sk.ElasticNetCV(l1_ratio=ratios, alphas=6, cv=3, tol=1e-10).fit(X, Y)
    assert model.l1_ratio_ == theirs.l1_ratio_
    assert model.alpha_ == pytest.approx(theirs.alpha_)
    with pytest.raises(ValueError, match="l1_ratio must be a number or a list"):
        linear.ElasticNetCV(l1_ratio=[]).fit(X, Y)


@pytest.mark.parametrize("name", CASES)
def test_every_estimator_tells_its_fit_in_words_and_as_html(name):
    pandas = pytest.importorskip("pandas")
    X, y = data(CASES[name][1])
    columns = [f"column {j}" for j in range(X.shape[1])]
    model = clone(CASES[name][0]).fit(pandas.DataFrame(X, columns=columns), y)
    text, page = model.summary(), model._repr_html_()
    chosen = np.flatnonzero(np.atleast_2d(model.coef_).any(axis=0))
    assert [c for c in columns if f"  {c}: " in text] == [columns[j] for j in chosen]
    assert model.certificate_.kind in text
    assert f"{len(chosen)} of {len(columns)} features selected, alpha = {model.alpha_:g}" in text
    assert "reached" in text
    assert "and 1 more" in model.summary(limit=len(chosen) - 1)
    assert f" s, {model.n_iter_} passes" in text
    assert type(model).__name__ in page
    assert "coef_" in page
