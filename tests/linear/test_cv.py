"""Cross-validation and pictures."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from estimator_cases import data
from sklearn import linear_model as sk
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, cross_val_score

from cyclade import linear
from cyclade.linear import path
from cyclade.linear.estimators import cross_validated
from cyclade.linear.estimators.cross_validated import choose

CHOOSING = [
    (linear.LassoCV(), "real"),
    (linear.LassoCV(), "table"),
    (linear.GroupLassoCV(groups=2), "real"),
    (linear.MultiTaskLassoCV(), "table"),
    (linear.MCPRegressionCV(), "real"),
    (linear.RobustRegressionCV(), "real"),
    (linear.PoissonRegressorCV(), "counts"),
    (linear.SparseLogisticRegressionCV(), "two"),
    (linear.SparseLogisticRegressionCV(), "three"),
    (linear.SparseSVCCV(), "three"),
    (linear.GeneralizedLinearCV("huber", "scad"), "real"),
]
every_choice = pytest.mark.parametrize(
    ("model", "kind"), CHOOSING, ids=[f"{type(m).__name__} {k}" for m, k in CHOOSING]
)


def quick(model, **options):
    return clone(model).set_params(n_alphas=6, alpha_ratio=0.1, cv=3, **options)


@every_choice
def test_choices_are_consistent(model, kind):
    X, y = data(kind)
    model = quick(model).fit(X, y)
    assert model.score_path_.shape == (6, 3)
    assert model.mean_score_.shape == model.std_score_.shape == (6,)
    assert (np.diff(model.alphas_) < 0).all()
    assert model.alpha_ == model.alpha_min_ <= model.alpha_1se_
    chosen = model.mean_score_[list(model.alphas_).index(model.alpha_)]
    assert chosen == pytest.approx(model.mean_score_.max(), rel=1e-7)
    assert model.certificate_.reached
    coarse = quick(model, rule="1se").fit(X, y)
    assert coarse.alpha_ == model.alpha_1se_
    path = model.path(X, y, alphas=model.alphas_)
    k = list(model.alphas_).index(model.alpha_)
    np.testing.assert_allclose(np.squeeze(model.coef_), np.squeeze(path.coefs[..., k]), atol=1e-9)


@every_choice
def test_threads_change_nothing(model, kind):
    # Nothing but rounding: BLAS sums in another order where an array begins elsewhere in memory. A
    # digit may turn a decision of the solver, and the fit ends elsewhere within its tolerance. What
    # the tolerance leaves must be at rounding level too; a hundred times the tolerance shows it.
    X, y = data(kind)
    one, two = (quick(model, tol=1e-14, n_jobs=jobs).fit(X, y) for jobs in (None, 2))
    left = abs(one.score_path_ - quick(model, tol=1e-12).fit(X, y).score_path_)
    size = abs(one.score_path_)
    assert (left <= 1e-8 * size).all()
    assert (abs(one.score_path_ - two.score_path_) <= left + 1e-12 * size).all()
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-10, atol=1e-12)


def test_blas_has_one_thread_in_folds_that_run_side_by_side(monkeypatch):
    threads = pytest.importorskip("threadpoolctl")
    X, y = data("real")
    seen = []

    def watched(*arguments):
        found = threads.threadpool_info()
        seen.append({lib["num_threads"] for lib in found if lib["user_api"] == "blas"})
        return score(*arguments)

    score = cross_validated._scores
    monkeypatch.setattr(cross_validated, "_scores", watched)

    def now():
        return {lib["filepath"]: lib["num_threads"] for lib in threads.threadpool_info()}

    # This loads the libraries, some of which may have one thread only.
    quick(linear.MCPRegressionCV()).fit(X, y)
    seen.clear()
    with threads.threadpool_limits(2, "blas"):
        before = now()
        quick(linear.MCPRegressionCV(), n_jobs=2).fit(X, y)
        assert now() == before
    assert seen == [{1}, {1}, {1}]


@every_choice
def test_sparse_data_choose_the_same(model, kind):
    X, y = data(kind)
    one, two = quick(model, tol=1e-8).fit(X, y), quick(model, tol=1e-8).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(one.score_path_, two.score_path_, atol=1e-4)


def test_errors_are_those_of_scikit_learn():
    X, y = data("real")
    folds = KFold(4, shuffle=True, random_state=0)
    ours = linear.LassoCV(n_alphas=10, cv=folds, tol=1e-10).fit(X, y)
    theirs = sk.LassoCV(alphas=10, cv=folds, tol=1e-10, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(ours.alphas_, theirs.alphas_, rtol=1e-8)
    np.testing.assert_allclose(ours.mse_path_, theirs.mse_path_, rtol=1e-4)
    assert ours.alpha_ == pytest.approx(theirs.alpha_)


def test_scores_are_those_of_separate_fits():
    X, y = data("two")
    folds = KFold(3)
    for scoring in (None, "accuracy"):
        model = linear.SparseLogisticRegressionCV(
            alphas=[0.1, 0.02], cv=folds, scoring=scoring, tol=1e-9
        ).fit(X, y)
        single = linear.SparseLogisticRegression(0.02, tol=1e-9)
        expected = (
            cross_val_score(single, X, y, cv=folds, scoring="accuracy")
            if scoring
            else [
                -log_loss(y[test], single.fit(X[train], y[train]).predict_proba(X[test]))
                for train, test in folds.split(X)
            ]
        )
        np.testing.assert_allclose(model.score_path_[1], expected, atol=1e-4)
        assert not hasattr(model, "mse_path_")


WEIGHED = [
    linear.LassoCV(), linear.SparseGroupLassoCV(groups=2), linear.GroupLassoCV(groups=2),
    linear.ElasticNetCV(), linear.MCPRegressionCV(), linear.SCADRegressionCV(),
    linear.LogSumRegressionCV(), linear.SlopeRegressionCV(), linear.WeightedLassoCV(),
    linear.QuantileRegressionCV(), linear.RobustRegressionCV(loss="huber", scale=1.0),
    linear.GeneralizedLinearCV(),
]  # fmt: skip
OTHERS = [
    (linear.MultiTaskLassoCV(), "table"), (linear.PoissonRegressorCV(), "counts"),
    (linear.GammaRegressorCV(), "amounts"), (linear.SparseLogisticRegressionCV(), "two"),
    (linear.SparseSVCCV(alpha_ratio=0.03), "two"),  # at less, a gap says little of x
    (linear.GeneralizedLinearClassifierCV(), "two"),
]  # fmt: skip


@pytest.mark.parametrize(("model", "kind"), [(model, "real") for model in WEIGHED] + OTHERS)
def test_weights_count_in_fits_and_in_errors(model, kind):
    X, y = data(kind)
    times = np.random.default_rng(0).integers(1, 4, size=len(y))
    rows, split = np.repeat(np.arange(len(y)), times), list(KFold(3).split(X))
    repeated_split = [tuple(np.flatnonzero(np.isin(rows, part)) for part in fold) for fold in split]
    options = {"n_alphas": 8, "tol": 1e-10}
    weighted = clone(model).set_params(cv=split, **options).fit(X, y, times)
    repeated = clone(model).set_params(cv=repeated_split, **options).fit(X[rows], y[rows])
    np.testing.assert_allclose(weighted.score_path_, repeated.score_path_, rtol=1e-6)
    np.testing.assert_allclose(weighted.std_score_, repeated.std_score_, rtol=1e-5)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-5)


def test_offsets_follow_their_rows():
    X, y = data("real")
    offset = np.random.default_rng(1).standard_normal(len(y))
    one = quick(linear.LassoCV()).fit(X, y, offset=offset)
    two = quick(linear.LassoCV()).fit(X, y - offset)
    np.testing.assert_allclose(one.score_path_, two.score_path_, rtol=1e-9)


def test_the_rules_on_a_table():
    scores = np.array([[0.0, 0.0], [0.9, 0.9], [1.5, 0.5], [0.2, 0.2]])
    _, std, chosen = choose(scores, np.ones(2))
    assert chosen == {"min": 2, "1se": 1}
    np.testing.assert_allclose(std, [0.0, 0.0, 0.5, 0.0])
    assert choose(np.array([[2.0]]), np.ones(1))[1] == 0.0


def test_scores_equal_to_rounding_choose_the_largest_alpha():
    scores = np.array([[1.0], [2.0 - 1e-12], [2.0], [2.0 - 1e-13]])
    assert choose(scores, np.ones(1))[2]["min"] == 1
    X, _ = data("table")
    noise = np.random.default_rng(0).standard_normal((len(X), 2))
    X = np.c_[X[:, :1], np.zeros((len(X), 2))]  # one feature: many alphas predict the same
    alphas = [3e5, 2e5, 1e5]
    model = linear.MultiTaskLassoCV(alphas=alphas, cv=3).fit(X, noise)
    assert model.alpha_ == 3e5


def test_alphas_without_a_score_are_not_chosen():
    scores = np.array([[np.nan, 1.0], [0.5, 0.5], [0.7, 0.8]])
    assert choose(scores, np.ones(2))[2] == {"min": 2, "1se": 2}
    with pytest.raises(ValueError, match="scoring: every alpha"):
        choose(np.array([[np.nan, 1.0]]), np.ones(2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rule": "max"}, "rule must be one of min, 1se"),
        ({"cv": 100}, "n_splits=100 greater than the number of samples"),
        ({"scoring": "beauty"}, "beauty"),
    ],
)
def test_bad_choices_are_refused(options, message):
    X, y = data("real")
    with pytest.raises(ValueError, match=message):
        linear.LassoCV(**options).fit(X, y)


def test_folds_that_cannot_be_fitted_are_refused():
    X, y = data("two")
    rows = np.arange(len(y))
    folds = [(rows[y == "yes"], rows[y == "no"])]
    with pytest.raises(ValueError, match="a fold lack class"):
        linear.SparseLogisticRegressionCV(cv=folds).fit(X, y)
    weights = np.r_[np.zeros(20), np.ones(20)]
    with pytest.raises(ValueError, match="all rows of a fold have zero sample_weight"):
        linear.LassoCV(cv=KFold(2)).fit(X, (y == "yes").astype(float), weights)


def test_small_tables_have_fewer_folds_by_default():
    X, y = data("two")
    few = np.r_[np.flatnonzero(y == "yes")[:3], np.flatnonzero(y == "no")[:2]]
    model = linear.SparseSVCCV(alphas=3)
    with pytest.warns(UserWarning, match="least populated class"):
        assert model.fit(X[few], y[few]).score_path_.shape == (3, 3)
    X, y = data("real")
    assert linear.LassoCV(alphas=3).fit(X[:4], y[:4]).score_path_.shape == (3, 4)
    assert linear.LassoCV(alphas=3).fit(X, y).score_path_.shape == (3, 5)


class TestPictures:
    @pytest.fixture(autouse=True)
    def no_screen(self):
        matplotlib = pytest.importorskip("matplotlib")
        matplotlib.use("Agg")
        yield
        matplotlib.pyplot.close("all")

    def test_paths_are_drawn(self):
        import matplotlib.pyplot as plt

        for kind, model in (("real", linear.Lasso()), ("table", linear.MultiTaskLasso())):
            X, y = data(kind)
            path = model.path(X, y, n_alphas=5, alpha_ratio=0.05)
            ever = int(path.coefs.any(axis=-1).reshape(-1, X.shape[1]).any(axis=0).sum())
            outputs = 1 if kind == "real" else 3
            display = path.plot()
            assert len(display.lines_) == ever * outputs
            assert repr(display).startswith("<PathDisplay: 5 alphas; figure_.savefig(")
            _, ax = plt.subplots()
            assert linear.plot_path(path, ax=ax, alpha=0.1, label=2).ax_ is ax
            assert len(ax.get_legend().get_texts()) == 2
            assert linear.plot_path(model, X, y).figure_ is not display.figure_
        with pytest.raises(ValueError, match="an estimator needs X and y"):
            linear.plot_path(linear.Lasso())

    def test_scores_are_drawn(self):
        X, y = data("real")
        model = quick(linear.LassoCV()).fit(X, y)
        display = linear.plot_cv(model)
        np.testing.assert_array_equal(display.line_.get_ydata(), -model.mean_score_)
        assert display.ax_.get_ylabel() == "held-out mean squared error"
        scored = quick(linear.LassoCV(), scoring="r2").fit(X, y)
        assert scored.plot(ax=display.ax_).ax_.get_ylabel() == "r2"
        assert quick(linear.RobustRegressionCV()).fit(X, y).plot().name == "held-out loss"
        with pytest.raises(TypeError, match="must be a …CV estimator, got Lasso"):
            linear.plot_cv(linear.Lasso().fit(X, y))
        sizes = linear.BestSubsetCV(max_size=4).fit(X, y)
        assert ", size = " in sizes.summary()
        axes = linear.plot_cv(sizes).ax_
        assert (axes.get_xscale(), axes.get_xlabel()) == ("linear", "features")


@pytest.mark.filterwarnings("ignore:path stopped without a certificate")
def test_folds_that_stop_early_say_so_once():
    X, y = data("real")
    model = linear.LassoCV(alphas=[50.0, 1e-2, 1e-4], cv=4, max_iter=2, tol=1e-12, rule="1se")
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(X, y)
    of_folds = [str(w.message) for w in caught if "folds" in str(w.message)]
    assert len(of_folds) == 1
    missed = sum(
        not certificate.reached
        for train, _ in KFold(4).split(X)
        for certificate in path(
            X[train], y[train], "squared", "l1", alphas=model.alphas_, tol=1e-12, max_iter=2
        ).certificates
    )
    assert 0 < missed < 12
    assert of_folds[0].startswith(
        "LassoCV stopped without a certificate of optimality "
        f"(at {missed} of 12 fits on the 4 folds)"
    )
    assert {w.filename for w in caught} == {__file__}


@every_choice
def test_folds_in_threads_count_the_fits_of_all_outputs(model, kind):
    X, y = data(kind)
    with pytest.warns(ConvergenceWarning, match="stopped without") as caught:
        quick(model, max_iter=1, tol=1e-13, n_jobs=2).fit(X, y)
    text = next(str(w.message) for w in caught if "folds" in str(w.message))
    separate = 3 if (kind == "table" and "MultiTask" not in type(model).__name__) else 1
    separate = 3 if "SVC" in type(model).__name__ else separate
    assert f"of {6 * 3 * separate} fits on the 3 folds" in text


@pytest.mark.parametrize("kind", ["counts", "labels"])
def test_scorers_see_the_offset(kind):
    """Predictions without it were scored: of rates, beside counts."""
    rng = np.random.default_rng(0)
    X, offset = rng.standard_normal((150, 4)), rng.uniform(0.0, 4.0, 150)
    if kind == "counts":
        model, scoring, times = linear.PoissonRegressorCV, "neg_mean_poisson_deviance", 2.0
        y = rng.poisson(np.exp(0.5 * X[:, 0] + offset))
    else:
        model, scoring, times = linear.SparseLogisticRegressionCV, "neg_log_loss", 1.0
        y = (X[:, 0] + offset - 2.0 + rng.logistic(size=150) > 0).astype(int)
    scored = model(alphas=5, cv=3, scoring=scoring).fit(X, y, offset=offset)
    plain = model(alphas=5, cv=3).fit(X, y, offset=offset)
    np.testing.assert_allclose(scored.mean_score_, times * plain.mean_score_, rtol=1e-6)
    np.testing.assert_allclose(scored.predict(X), plain.predict(X))
