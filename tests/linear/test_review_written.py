"""Pairs of losses and penalties that users may ask for, and what they may forget."""

from __future__ import annotations

import numpy as np
import pytest

from cyclade.linear import (
    GeneralizedLinear,
    GeneralizedLinearClassifier,
    GeneralizedLinearClassifierCV,
    solve,
)

rng = np.random.default_rng(0)
X = rng.standard_normal((80, 8))
classes = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.5, 0.5])]


class Undecided:
    """λ|x|, without a word on whether it is convex."""

    def value(self, x, j):
        return 0.1 * abs(x)

    def prox(self, u, t, j):
        return max(u - 0.1 * t, 0.0) if u > 0.0 else min(u + 0.1 * t, 0.0)

    def distance(self, x, g, j):
        return max(abs(g) - 0.1, 0.0) if x == 0.0 else abs(g + (0.1 if x > 0.0 else -0.1))


def test_a_penalty_must_say_whether_it_is_convex():
    with pytest.raises(TypeError, match=r"Undecided lacks convex \(True or False\)"):
        solve(X, X[:, 0], "squared", Undecided())
    with pytest.raises(TypeError, match=r"Undecided lacks convex \(True or False\)"):
        GeneralizedLinear("squared", Undecided()).fit(X, X[:, 0])


@pytest.mark.parametrize("penalty", ["l1", "elastic_net"])
def test_classes_with_a_penalty_on_single_coefficients(penalty):
    model = GeneralizedLinearClassifier("multinomial", penalty, alpha=0.02, tol=1e-9)
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
    model = GeneralizedLinearClassifierCV("multinomial", "l1", n_alphas=8, alpha_ratio=0.05)
    model.fit(X, classes)
    assert model.coef_.shape == (3, 8)
    path = GeneralizedLinearClassifier("multinomial", "l1").path(X, classes, n_alphas=4)
    assert path.coefs.any(axis=(0, 1)).tolist() == [False, True, True, True]


def test_a_written_penalty_is_refused_with_classes():
    written = Undecided()
    written.convex = True
    with pytest.raises(ValueError, match="penalty must be 'rows' or another shipped one"):
        GeneralizedLinearClassifier("multinomial", written).fit(X, classes)
