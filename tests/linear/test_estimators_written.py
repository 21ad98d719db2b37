"""Losses and penalties of the user's own, through the estimators."""

from __future__ import annotations

import math

import numpy as np
import pytest
from estimator_cases import data
from sklearn.base import clone

from cyclade import linear
from cyclade.linear.losses import Logistic, Loss
from cyclade.linear.penalties import L1


class LogCosh(Loss):
    bound = 1.0

    def value(self, y, z):
        return np.logaddexp(z - y, y - z) - np.log(2.0)

    def gradient(self, y, z):
        return np.tanh(z - y)


class Undecided:
    """l1, written by someone who knows no base class, without a word on whether it is convex."""

    def __init__(self, lam):
        self.lam = lam

    def value(self, x, j):
        return self.lam * abs(x)

    def prox(self, u, t, j):
        return math.copysign(max(abs(u) - t * self.lam, 0.0), u)

    def distance(self, x, g, j):
        if x == 0.0:
            return max(abs(g) - self.lam, 0.0)
        return abs(g + math.copysign(self.lam, x))


class Absolute(Undecided):
    convex = True


class Scaled(Absolute):
    def scaled(self, lam):
        return Scaled(lam)

    def lam_max(self, g0):
        return float(abs(g0).max())


def test_a_written_penalty_fits_like_the_shipped_one():
    X, y = data("real")
    ours = linear.GeneralizedLinear("squared", Absolute(0.1), tol=1e-9).fit(X, y)
    shipped = linear.GeneralizedLinear("squared", L1(0.1), tol=1e-9).fit(X, y)
    np.testing.assert_allclose(ours.coef_, shipped.coef_, atol=1e-6)
    assert clone(ours).penalty.lam == 0.1
    with pytest.raises(ValueError, match=r"alpha must be None: Absolute lacks scaled\(lam\)"):
        linear.GeneralizedLinear("squared", Absolute(0.1), alpha=0.2).fit(X, y)
    with pytest.raises(ValueError, match=r"Absolute lacks scaled\(lam\)"):
        linear.GeneralizedLinear("squared", Absolute(0.1)).path(X, y)
    with pytest.raises(ValueError, match="alpha must be a finite number >= 0"):
        linear.GeneralizedLinear("squared", Scaled(0.1), alpha=-1.0).fit(X, y)


def test_a_written_penalty_has_paths_and_choices():
    X, y = data("real")
    model = linear.GeneralizedLinearCV("squared", Scaled(1.0), n_alphas=4, cv=3).fit(X, y)
    shipped = linear.LassoCV(n_alphas=4, cv=3).fit(X, y)
    np.testing.assert_allclose(model.alphas_, shipped.alphas_)
    np.testing.assert_allclose(model.score_path_, shipped.score_path_, atol=1e-3)


def test_a_written_loss_fits():
    X, y = data("real")
    model = linear.GeneralizedLinear(LogCosh(), "l1", alpha=0.05, tol=1e-9).fit(X, y)
    assert model.certificate_.reached
    g = X.T @ np.tanh(model.predict(X) - y) / len(y)
    assert abs(g).max() <= 0.05 * (1 + 1e-8)
    on = model.coef_ != 0
    np.testing.assert_allclose(g[on], -0.05 * np.sign(model.coef_[on]), atol=1e-8)


def test_a_written_loss_of_labels_classifies():
    class Plain(Loss):
        bound, target = 0.25, "signs"

        def value(self, y, z):
            return Logistic().value(y, z)

        def gradient(self, y, z):
            return Logistic().gradient(y, z)

    X, y = data("two")
    model = linear.GeneralizedLinearClassifier(Plain(), "l1", alpha=0.05, tol=1e-8).fit(X, y)
    shipped = linear.SparseLogisticRegression(0.05, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.coef_, shipped.coef_, atol=1e-5)
    assert not hasattr(model, "predict_proba")


def test_what_is_missing_is_named():
    class Valued:
        def value(self, x, j):
            return 0.0

    for loss, penalty, message in (
        ("squared", Valued(), "prox"), (Valued(), "l1", "lacks gradient"),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=message):
            linear.GeneralizedLinear(loss, penalty).fit(*data("real"))


rng = np.random.default_rng(0)
X = rng.standard_normal((80, 8))
classes = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.5, 0.5])]


def test_a_penalty_must_say_whether_it_is_convex():
    with pytest.raises(TypeError, match=r"Undecided lacks convex \(True or False\)"):
        linear.solve(X, X[:, 0], "squared", Undecided(0.1))


@pytest.mark.parametrize("penalty", ["l1", "elastic_net"])
def test_classes_with_a_penalty_on_single_coefficients(penalty):
    model = linear.GeneralizedLinearClassifier("multinomial", penalty, alpha=0.02, tol=1e-9)
    model.fit(X, classes)
    assert model.certificate_.reached
    misses = model.predict_proba(X) - (classes[:, None] == model.classes_)
    gradient, x = misses.T @ X / len(X), model.coef_
    l1_ratio = 1.0 if penalty == "l1" else 0.5
    gradient += 0.02 * (1.0 - l1_ratio) * x
    lam = 0.02 * l1_ratio
    off = np.where(x == 0, np.maximum(abs(gradient) - lam, 0), abs(gradient + lam * np.sign(x)))
    assert off.max() < 1e-5
    assert 0 < np.count_nonzero(x) < x.size


def test_classes_with_l1_have_paths_and_folds():
    model = linear.GeneralizedLinearClassifierCV("multinomial", "l1", n_alphas=8, alpha_ratio=0.05)
    model.fit(X, classes)
    assert model.coef_.shape == (3, 8)
    path = linear.GeneralizedLinearClassifier("multinomial", "l1").path(X, classes, n_alphas=4)
    assert path.coefs.any(axis=(0, 1)).tolist() == [False, True, True, True]


def test_a_written_penalty_is_refused_with_classes():
    with pytest.raises(ValueError, match="penalty must be 'rows' or another shipped one"):
        linear.GeneralizedLinearClassifier("multinomial", Absolute(0.1)).fit(X, classes)
