"""What every estimator must do: optimality, and equalities between ways of saying the same."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from estimator_cases import (
    CASES,
    POSITIVE,
    TIGHT,
    data,
    distances,
    objective,
    same_predictions,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from cyclade import linear

every_case = pytest.mark.parametrize("name", CASES)
# Where F has several minima, only runs that take the same steps end in the same one.
CONVEX = [
    name
    for name in CASES
    if not any(
        word in name
        for word in ("mcp", "scad", "log-sum", "cauchy", "welsch", "mcclure", "tukey", "pair")
    )
]
every_convex_case = pytest.mark.parametrize("name", CONVEX)


def fitted(name, X, y, **options):
    return tight(name).fit(X, y, **options)


def tight(name):
    """Distances are of the order of the square root of what gaps are."""
    model = clone((CASES | POSITIVE)[name][0])
    return model.set_params(tol=1e-12 if name.removeprefix("positive ") in CONVEX else 1e-7)


def same(a, b, atol=1e-6):
    np.testing.assert_allclose(a.coef_, b.coef_, atol=atol)
    np.testing.assert_allclose(a.intercept_, b.intercept_, atol=atol)


@pytest.mark.parametrize("name", [*CASES, *POSITIVE])
def test_solutions_are_optimal_and_the_certificate_is_true(name):
    X, y = data((CASES | POSITIVE)[name][1])
    before = X.copy()
    model = fitted(name, X, y)
    assert model.certificate_.reached
    assert model.objective_ == pytest.approx(objective(model, X, y), rel=1e-10)
    found = distances(model, X, y)
    if model.certificate_.kind == "distance":
        assert found <= 1.01 * model.certificate_.tolerance + 1e-13
    assert found <= 1e-5
    assert model.coef_.any()
    assert name in CASES or model.coef_.min() == 0.0
    np.testing.assert_array_equal(X, before)


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(sorted(CASES)),
    seed=st.integers(0, 10_000),
    n=st.integers(25, 40),
    weighted=st.booleans(),
    shifted=st.booleans(),
)
def test_random_problems_meet_their_optimality_conditions(name, seed, n, weighted, shifted):
    rng = np.random.default_rng(seed)
    X, y = data(CASES[name][1], n=n, seed=seed)
    weights = rng.random(n) + 0.1 if weighted else None
    offset = 0.3 * rng.standard_normal(n) if shifted else None
    model = fitted(name, X, y, sample_weight=weights, offset=offset)
    assert model.certificate_.reached
    assert distances(model, X, y, weights, offset) <= 1e-4


@every_convex_case
@pytest.mark.parametrize("form", ["csr", "csc", "int64 indices", "Fortran", "strided"])
def test_every_form_of_X_gives_the_same_model(name, form):
    X, y = data(CASES[name][1])
    X[:, 5] = 0.0  # an empty column
    forms = {
        "csr": lambda: sp.csr_array(X),
        "csc": lambda: sp.csc_matrix(X),
        "int64 indices": lambda: wide(sp.csc_array(X)),
        "Fortran": lambda: np.asfortranarray(X),
        "strided": lambda: np.repeat(X, 2, axis=1)[:, ::2],
    }
    other = forms[form]()
    model = fitted(name, other, y)
    same(model, fitted(name, X, y))
    same_predictions(model.predict(X), model.predict(other), 1e-12)
    assert not model.coef_[..., 5].any()


def wide(X):
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


@every_case
def test_weights_are_repetitions(name):
    X, y = data(CASES[name][1])
    times = np.random.default_rng(1).integers(0, 4, size=len(X))
    weighted = fitted(name, X, y, sample_weight=times)
    repeated = fitted(name, X.repeat(times, axis=0), y.repeat(times, axis=0))
    same(weighted, repeated)
    scaled = fitted(name, X, y, sample_weight=7.3 * times)
    same(weighted, scaled)


@pytest.mark.parametrize("kind", ["RobustRegression", "QuantileRegression"])
@pytest.mark.parametrize("weight", [0.1, 1e-9, 1e9])
def test_equal_weights_are_none_where_a_spread_is_measured(kind, weight):
    """Half of the weight was missed by the rounding of a sum, and the median was another row."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((442, 3)), rng.standard_normal(442)
    plain = getattr(linear, kind)().fit(X, y)
    weighted = getattr(linear, kind)().fit(X, y, np.full(442, weight))
    name = "scale_" if kind == "RobustRegression" else "smoothing_"
    assert getattr(weighted, name) == getattr(plain, name)
    np.testing.assert_allclose(weighted.coef_, plain.coef_, rtol=1e-10)


@every_convex_case
def test_warm_starts_end_where_cold_starts_do(name):
    X, y = data(CASES[name][1])
    model = tight(name).set_params(warm_start=True, alpha=0.2).fit(X, y)
    first = model.coef_.copy()
    model.set_params(alpha=CASES[name][0].alpha).fit(X, y)
    same(model, fitted(name, X, y))
    assert abs(model.coef_ - first).max() > 1e-3
    again = model.fit(X, y)
    assert again.n_iter_ <= 5
    other = data(CASES[name][1], p=6)[0]  # another shape starts afresh
    if "weighted" not in name and "sparse groups" not in name:
        assert model.fit(other, y).coef_.shape[-1] == 6


@every_convex_case
def test_paths_are_single_fits(name):
    X, y = data(CASES[name][1])
    model = tight(name)
    alphas = [0.3, 0.05, 0.1]
    path = model.path(X, y, alphas=alphas)
    np.testing.assert_array_equal(path.alphas, [0.3, 0.1, 0.05])
    assert all(certificate.reached for certificate in path.certificates)
    for k, alpha in enumerate(path.alphas):
        single = clone(model).set_params(alpha=alpha).fit(X, y)
        for along, alone in (
            (path.coefs[..., k], single.coef_), (path.intercepts[..., k], single.intercept_),
        ):  # fmt: skip
            np.testing.assert_allclose(along, np.reshape(alone, along.shape), atol=1e-6)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("name", [n for n in CASES | POSITIVE if "ridge" not in n])
def test_paths_begin_at_zero(name):
    model, kind = (CASES | POSITIVE)[name]
    X, y = data(kind)
    path = model.path(X, y, n_alphas=4, alpha_ratio=0.2)
    assert path.alphas[0] > path.alphas[-1] == pytest.approx(0.2 * path.alphas[0])
    assert abs(path.coefs[..., 0]).max() < 1e-8
    assert path.coefs[..., -1].any()
    assert path.l1_norms.shape == (4,)


@every_convex_case
def test_float32_is_sane(name):
    X, y = data(CASES[name][1])
    small = clone(CASES[name][0]).set_params(tol=1e-5)
    small.fit(X.astype(np.float32), y)
    assert small.certificate_.reached
    same(small, fitted(name, X, y), atol=2e-2)
    assert small.predict(X.astype(np.float32)).shape == y.shape


@pytest.mark.parametrize("name", ["lasso", "tasks", "multinomial", "pair of labels"])
def test_models_survive_pickle_and_clone(name):
    X, y = data(CASES[name][1])
    model = fitted(name, X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    assert not hasattr(clone(model), "coef_")


@pytest.mark.parametrize("name", ["lasso", "groups", "tasks"])
def test_an_offset_of_least_squares_is_a_shift_of_y(name):
    X, y = data(CASES[name][1])
    offset = np.random.default_rng(2).standard_normal(y.shape)
    same(fitted(name, X, y, offset=offset), fitted(name, X, y - offset))


@pytest.mark.parametrize("name", ["poisson", "gamma", "logistic", "multinomial"])
def test_a_constant_offset_only_moves_the_intercept(name):
    X, y = data(CASES[name][1])
    plain, moved = fitted(name, X, y), fitted(name, X, y, offset=np.full(len(X), 0.7))
    np.testing.assert_allclose(plain.coef_, moved.coef_, atol=1e-6)
    predict = "predict_proba" if hasattr(plain, "predict_proba") else "predict"
    offset = None if name == "multinomial" else np.full(len(X), 0.7)
    there = getattr(moved, predict)(X, offset=offset)
    np.testing.assert_allclose(there, getattr(plain, predict)(X), atol=1e-5)


def test_every_estimator_with_positive_is_tested():
    tested = {type(model).__name__ for model, _ in POSITIVE.values()}
    named = [getattr(linear, name) for name in linear.__all__ if not name.endswith("CV")]
    have = {one.__name__ for one in named if "positive" in getattr(one, "__dataclass_fields__", {})}
    assert have - {"SqrtLasso"} == tested  # which has a file of its own


def test_rows_of_classes_and_sorted_coefficients_have_no_positive():
    X, y = data("three")
    with pytest.raises(ValueError, match="positive must be False for rows of more than two"):
        linear.SparseLogisticRegression(0.1, positive=True).fit(X, y)
    model = linear.SparseLogisticRegression(0.01, l1_ratio=1.0, positive=True).fit(X, y)
    assert model.coef_.min() == 0.0
    with pytest.raises(TypeError, match=r"penalty 'slope' cannot be built .*positive"):
        linear.penalties.get("slope", 0.1, positive=True)


@pytest.mark.parametrize("kind", ["two", "three"])
def test_classes_keep_their_names_and_probabilities_add_up(kind):
    X, y = data(kind)
    model = linear.SparseLogisticRegression(0.02).fit(X, y)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
    assert set(model.predict(X)) <= set(y)
    assert model.coef_.shape == (1 if kind == "two" else 3, X.shape[1])
    assert model.score(X, y) > 0.7
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), p)
    far = model.predict_log_proba(1e4 * X)  # probabilities underflow
    assert np.isfinite(far).all()
    assert far.min() < -800


@pytest.mark.parametrize("method", ["predict_proba", "predict_log_proba"])
def test_losses_without_a_mean_have_no_probabilities(method):
    for loss in ("squared_hinge", "nonsense"):
        assert not hasattr(linear.GeneralizedLinearClassifier(loss), method)
    assert not hasattr(linear.SparseSVC(), method)


def test_offsets_of_classifiers_may_be_columns_or_shared_by_classes():
    X, y = data("two")
    offset = np.linspace(-1, 1, len(X))
    two = linear.SparseLogisticRegression(0.05).fit(X, y)
    np.testing.assert_array_equal(
        two.decision_function(X, offset=offset[:, None]), two.decision_function(X, offset=offset)
    )
    three = linear.SparseLogisticRegression(0.05).fit(*data("three"))
    np.testing.assert_allclose(  # the same for all classes: no probability changes
        three.predict_proba(X, offset=offset), three.predict_proba(X), atol=1e-12
    )


def test_one_against_the_rest_with_probabilities():
    X, y = data("three")
    model = linear.GeneralizedLinearClassifier("logistic", "l1", alpha=0.02).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert model.coef_.shape == (3, X.shape[1])
    rows = linear.GeneralizedLinearClassifier("multinomial", "rows", alpha=0.05, **TIGHT).fit(X, y)
    same(rows, linear.SparseLogisticRegression(0.05, **TIGHT).fit(X, y), atol=1e-12)


def test_class_weights_multiply_row_weights():
    X, y = data("two")
    rng = np.random.default_rng(3)
    weights = rng.random(len(y))
    by_class = linear.SparseLogisticRegression(0.02, class_weight={"yes": 3.0, "no": 1.0}, **TIGHT)
    by_row = linear.SparseLogisticRegression(0.02, **TIGHT)
    by_row.fit(X, y, weights * np.where(y == "yes", 3.0, 1.0))
    same(by_class.fit(X, y, weights), by_row)


def test_robust_fits_ignore_gross_outliers():
    X, y = data("real")
    spoiled = y.copy()
    spoiled[:4] += 1e4
    for loss in ("cauchy", "welsch", "geman_mcclure", "tukey"):
        model = linear.RobustRegression(0.01, loss=loss, scale=2.0)
        clean = clone(model).fit(X[4:], y[4:])
        np.testing.assert_allclose(model.fit(X, spoiled).coef_, clean.coef_, atol=0.05)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_feature_names_are_kept(library):
    frames = pytest.importorskip(library)
    X, y = data("real")
    names = [f"f{j}" for j in range(X.shape[1])]
    table = frames.DataFrame(dict(zip(names, X.T, strict=True)))
    assert list(linear.Lasso(0.1).fit(table, y).feature_names_in_) == names
    assert list(linear.Lasso(0.1).path(table, y, n_alphas=3).feature_names) == names


CONSTANT = [linear.ElasticNet, linear.Lasso, linear.LogSumRegression, linear.MCPRegression,
            linear.SCADRegression, linear.WeightedLasso, linear.GammaRegressor,
            linear.PoissonRegressor, linear.QuantileRegression, linear.RobustRegression,
            linear.GeneralizedLinear, linear.GroupLasso, linear.SparseGroupLasso,
            linear.SlopeRegression]  # fmt: skip


@pytest.mark.parametrize("kind", CONSTANT)
@pytest.mark.parametrize("value", [1.0, 0.1, 3.3, 3e5, 1e8 / 3])
@pytest.mark.parametrize("alpha", [None, 0.0])
def test_constant_targets_and_default_arguments(kind, value, alpha):
    """Nothing is to be selected: no warning, whatever rounding leaves of loss and gradient."""
    X = np.random.default_rng(0).standard_normal((80, 6))
    y = np.full(80, value)
    model = (kind() if alpha is None else kind(alpha=alpha)).fit(X, y)
    assert model.certificate_.reached
    if alpha == 0.0:
        np.testing.assert_allclose(model.predict(X), y, rtol=1e-6)
        return
    assert not model.coef_.any()
    np.testing.assert_allclose(model.predict(X), y, rtol=1e-6)
    assert not kind().path(X, y, n_alphas=3).coefs.any()
    if kind in (linear.GammaRegressor, linear.PoissonRegressor):
        assert model.score(X, y) == 1.0
        assert model.score(X, 2.0 * y) == 0.0
