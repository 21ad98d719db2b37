"""What the guide promises of any fit: certificates of what is returned, in any units; warnings."""

from __future__ import annotations

import builtins

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from cyclade import linear
from cyclade.linear import losses, path, penalties, solve


def table(n=200, p=11, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, 5 * X[:, 0] + X[:, 1] + 0.1 * rng.standard_normal(n)


@pytest.mark.filterwarnings("ignore:.* stopped without a certificate")
def test_the_certificate_of_a_float32_fit_is_that_of_the_point_returned():
    rng = np.random.default_rng(0)
    X = (1e3 * rng.standard_normal((66, 25))).astype("f4")
    y = X[:, 0] / 1e3 + rng.standard_normal(66)
    loss, penalty = losses.Quantile(0.4, 0.002), penalties.MCP(20.0)
    options = {"fit_intercept": False, "tol": 1e-6}
    found = [solve(X, y, loss, penalty, **options)]
    found.append(path(X, y, loss, penalty, alphas=[20.0], **options).at(0))
    for fit in found:
        assert fit.coef.dtype == np.float32
        x = fit.coef.astype(float)
        g = X.T.astype(float) @ loss.gradient(y, X.astype(float) @ x) / 66
        far = max(penalty.distance(xj, gj, 0) for xj, gj in zip(x, g, strict=True))
        assert fit.certificate.value == pytest.approx(far, rel=1e-6)
        assert fit.certificate.reached == (far <= fit.certificate.tolerance)


def test_float32_coefficients_keep_to_their_box():
    X, y = table()
    X = X.astype("f4")
    for loss in ("squared", "cauchy"):
        fit = solve(X, y, loss, penalties.Box(-0.1, 0.7), tol=1e-6)
        assert fit.certificate.reached
        assert -0.1 <= float(fit.coef.min()) < float(fit.coef.max()) <= 0.7
        assert float(fit.coef.max()) == pytest.approx(0.7, rel=1e-6)  # at its bound
    point = penalties.Box(0.1, 0.1).within_float32()
    assert point.prox(3.0, 1.0, 0) == np.float32(0.1)


@pytest.mark.parametrize("scale", [1e-12, 1e-8, 1e-3, 1e8])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array])
def test_the_units_of_an_unpenalised_column_change_nothing(scale, storage):
    X, y = table()
    for penalty in (
        penalties.WeightedL1(0.1, np.r_[0.0, np.ones(10)]),
        penalties.GroupL2(0.1, [[0], [*range(1, 6)], [*range(6, 11)]], [0.0, 1.0, 1.0]),
    ):
        same = solve(X, y, "huber", penalty, tol=1e-9)
        Z = X.copy()
        Z[:, 0] *= scale
        fit = solve(storage(Z), y, "huber", penalty, tol=1e-9)
        np.testing.assert_allclose(fit.coef * np.r_[scale, np.ones(10)], same.coef, atol=1e-6)


def test_without_a_penalty_the_units_of_all_columns_change_nothing():
    X, y = table()
    scales = np.logspace(-3, 3, 11)
    free = solve(X, y, "cauchy", penalties.L1(0.0), tol=1e-8)
    fit = solve(X * scales, y, "cauchy", penalties.L1(0.0), tol=1e-8)
    np.testing.assert_allclose(fit.coef * scales, free.coef, atol=1e-5)


def test_solve_and_path_warn_of_what_they_did_not_reach():
    X, y = table()
    y = np.sign(y)
    with pytest.warns(ConvergenceWarning, match="solve stopped without a certificate") as caught:
        solve(X, y, "logistic", alpha=1e-3, tol=1e-12, max_iter=1)
    assert caught[0].filename == __file__
    with pytest.warns(ConvergenceWarning, match=r"path stopped without .*at \d+ of 5 λ"):
        path(X, y, "logistic", n_alphas=5, tol=1e-12, max_iter=1)
    with pytest.warns(ConvergenceWarning) as caught:
        linear.SparseLogisticRegression(1e-3, tol=1e-12, max_iter=1).fit(X, y)
    assert len(caught) == 1  # the estimator's own


def test_estimators_of_the_same_problem_have_the_same_tolerance():
    X, y = load_iris(return_X_y=True)
    two = np.where(y == 2, "yes", "no")
    pairs = [
        (linear.SparseLogisticRegression(0.02),
         linear.GeneralizedLinearClassifier("logistic"), two),
        (linear.SparseSVC(0.02), linear.GeneralizedLinearClassifier("squared_hinge"), two),
        (linear.GroupLasso(0.02, groups=2),
         linear.GeneralizedLinear("squared", penalties.GroupL2(1.0, 2)), X[:, 0]),
        (linear.RobustRegression(0.02, loss="huber", scale=1.345),
         linear.GeneralizedLinear("huber"), X[:, 0]),
    ]  # fmt: skip
    for one, other, target in pairs:
        other.set_params(alpha=0.02)
        tolerances = [m.fit(X, target).certificate_.tolerance for m in (one, other)]
        assert tolerances[0] == pytest.approx(tolerances[1], rel=1e-12), one


def test_stochastic_fits_without_a_penalty():
    X, y = table()
    model = linear.StochasticLinear("cauchy", "l1", alpha=0.0).fit(X, y)
    assert model.certificate_.reached
    assert model.coef_[0] == pytest.approx(5.0, abs=0.1)


@pytest.mark.parametrize("loss", ["squared", "huber", "cauchy"])
def test_a_constant_column_does_not_stall_a_stochastic_fit(loss):
    X, y = table(1000, 10)
    X[:, 3] = 5.0
    model = linear.StochasticLinear(loss, "l1", alpha=0.01).fit(X, y - 5 * X[:, 0] + X[:, 0])
    assert model.certificate_.reached
    assert abs(model.coef_[3]) < 1e-2


def test_the_l1_ratio_of_several_classes_has_one_meaning():
    X, y = load_iris(return_X_y=True)
    one, nearly = (
        linear.SparseLogisticRegression(0.01, l1_ratio=ratio).fit(X, y) for ratio in (1.0, 0.9999)
    )
    np.testing.assert_allclose(one.coef_, nearly.coef_, atol=0.02)
    assert one.coef_.any(axis=0).sum() > (one.coef_ != 0).all(axis=0).sum()  # entries, not rows
    rows = linear.SparseLogisticRegression(0.01).fit(X, y)
    np.testing.assert_array_equal(rows.coef_.any(axis=0), (rows.coef_ != 0).all(axis=0))


@pytest.mark.parametrize("loss", ["squared", "logistic", "huber"])
def test_storage_does_not_choose_among_minima(loss):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((60, 150))
        y = X[:, :10] @ rng.standard_normal(10) + rng.standard_normal(60)
        y = np.sign(y) if loss == "logistic" else y
        penalty = penalties.MCP(0.05 * np.abs(X.T @ y).max() / 60)
        dense, csc = (solve(Z, y, loss, penalty) for Z in (X, sparse.csc_array(X)))
        np.testing.assert_allclose(csc.coef, dense.coef, rtol=1e-5, atol=1e-8)


class Backwards(losses.Loss):
    bound = 1.0

    def value(self, y, z):
        return 0.5 * (z - y) ** 2

    def gradient(self, y, z):
        return y - z


class BackwardsSigns(losses.Loss):
    bound, target = 0.25, "signs"

    def value(self, y, z):
        return np.logaddexp(0.0, -y * z)

    def gradient(self, y, z):
        return y / (1.0 + np.exp(y * z))


def test_a_gradient_of_the_wrong_sign_is_named():
    X, y = table()
    bare = type("Bare", (), {**vars(Backwards)})()  # the same mistake without the base class
    for loss, name in ((Backwards(), "Backwards"), (bare, "Bare")):
        with pytest.raises(ValueError, match=rf"gradient\(y, z\) of {name} has the wrong sign"):
            linear.GeneralizedLinear(loss, alpha=0.1).fit(X, y)
    with pytest.raises(ValueError, match="wrong sign"):
        solve(X, np.sign(y), BackwardsSigns(), alpha=0.1)


@pytest.mark.parametrize(
    ("model", "target"),
    [
        (linear.Lasso(0.1), lambda y: y),
        (linear.PoissonRegressor(0.1), lambda y: np.exp(0.1 * y)),
        (linear.SparseLogisticRegression(0.1), lambda y: y > 0),
    ],
    ids=["real", "counts", "labels"],
)
def test_a_score_without_the_offset_of_the_fit_is_an_error(model, target):
    X, y = table()
    offset, y = 2.0 * X[:, 2], target(y)
    model.fit(X, y, offset=offset)
    with pytest.raises(ValueError, match="score: the model was fitted with an offset"):
        model.score(X, y)
    assert model.score(X, y, offset=offset) > model.score(X, y, offset=np.zeros(len(y))) - 1.0
    model.fit(X, y)
    assert model.score(X, y) > 0.3


def test_plots_without_matplotlib_say_what_to_install(monkeypatch):
    X, y = table()
    found, real = linear.Lasso().path(X, y, n_alphas=3), builtins.__import__

    def lacking(name, *rest):
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", lacking)
    with pytest.raises(ModuleNotFoundError, match="pip install matplotlib"):
        linear.plot_path(found)


def test_columns_of_unlike_scales_are_told():
    X, y = table()
    X[:, 2] *= 1e4
    with pytest.warns(UserWarning, match=r"columns of X differ by 1e\+04 in scale") as caught:
        linear.Lasso(0.1).fit(X, y)
    assert caught[0].filename == __file__
    linear.Lasso(0.1, standardize=True).fit(X, y)  # no warning, or it would be an error
    linear.Lasso(0.0).fit(X, y)
    linear.Lasso(0.1).fit(sparse.csc_array(X), y)
    with pytest.warns(UserWarning, match="in scale"):
        linear.LassoCV(n_alphas=3).fit(X, y)


def test_features_are_ranked_by_coefficient_times_deviation():
    pd = pytest.importorskip("pandas")
    X, y = table()
    X[:, 1] /= 10.0  # y = 5 a + b, and b has the larger coefficient now
    frame = pd.DataFrame(X, columns=list("abcdefghijk"))
    model = linear.LassoCV(n_alphas=20, cv=4, rule="1se", standardize=True).fit(frame, y)
    found = model.coef_table()
    assert list(found.index[:2]) == ["a", "b"]
    assert found.coef["b"] > found.coef["a"]
    np.testing.assert_allclose(found["std"]["a"], X[:, 0].std(), rtol=1e-12)
    np.testing.assert_allclose(found.effect, abs(found.coef) * found["std"])
    text = model.summary()
    assert text.index("  a: ") < text.index("  b: ")
    assert 'rule "1se", 4 folds, 20 alphas' in text
    assert "(minus the mean squared error)" in text
    labels = linear.SparseLogisticRegression(0.01).fit(frame, np.digitize(y, [-3.0, 3.0]))
    assert list(labels.coef_table().columns) == ["coef 0", "coef 1", "coef 2", "std", "effect"]
    same = linear.Lasso(0.1).fit(sparse.csr_array(X), y)._deviations
    np.testing.assert_allclose(same, X.std(axis=0), rtol=1e-10)
