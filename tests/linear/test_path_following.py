"""Compiled parts of paths and of quadratic models, against slow ones."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from cyclade.linear import losses, solve
from cyclade.linear.kernels import gram, linalg
from cyclade.linear.loss_at import loss_at
from cyclade.linear.penalties import L1, Box, ElasticNet, WeightedL1
from cyclade.linear.penalty_bound import bind
from cyclade.linear.problem import as_design
from cyclade.linear.starts import lams_between
from cyclade.linear.subproblem.gram import Gram
from cyclade.linear.tuning import Tuning

CONVEX = [
    L1(0.3), L1(0.3, positive=True), ElasticNet(0.5, 0.5),
    WeightedL1(0.3, np.linspace(0.0, 2.0, 21)), Box(-0.2, 0.3, 0.1),
]  # fmt: skip


def model(p=21, n=30):
    """Products of correlated columns, and slopes."""
    rng = np.random.default_rng(3)
    A = rng.standard_normal((n, p)) + 0.7 * rng.standard_normal((n, 1))
    return A.T @ A / n, A.T @ (A[:, :3].sum(axis=1) + rng.standard_normal(n)) / n


@pytest.mark.parametrize("penalty", CONVEX, ids=repr)
def test_a_model_minimised_in_one_call_follows_its_slow_twin(penalty):
    slow = Tuning(small_gram=0)  # columns: the twin goes step by step
    G, b = model()
    p = b.size
    known, cols, L = bind(penalty, p), np.arange(p), G.diagonal().copy()
    for most in (1, 2, 3, 4):  # cycles alone
        x, c = np.zeros(p), b.copy()
        done = gram.minimise(
            G, c, x, L, cols, known.parameters, known.zero_threshold, 0.0, most, False
        )
        twin = Gram.of(G, b.copy(), np.zeros(p), cols, known)
        known.functions["gram_cycles"](G, twin.c, twin.x, L, cols, known.parameters, most, 0.0)
        assert done == most
        np.testing.assert_allclose(x, twin.x, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(c, b - G @ x, atol=1e-12)
    x, c = np.zeros(p), b.copy()  # and with Newton steps
    done = gram.minimise(
        G, c, x, L, cols, known.parameters, known.zero_threshold, 1e-13, 5_000, False
    )
    twin = Gram.of(G, b.copy(), np.zeros(p), cols, known, slow)
    twin.minimise(1e-13, 5_000)
    np.testing.assert_allclose(x, twin.x, atol=1e-10)
    assert known.distances(cols, x, G @ x - b).max() < 1e-11
    assert done < 200


@pytest.mark.parametrize("penalty", CONVEX, ids=repr)
def test_a_last_newton_step_makes_a_rough_minimum_exact(penalty):
    G, b = model()
    p = b.size
    known, cols, L = bind(penalty, p), np.arange(p), G.diagonal().copy()
    far = []
    for exact in (False, True):
        x, c = np.zeros(p), b.copy()
        gram.minimise(G, c, x, L, cols, known.parameters, known.zero_threshold, 1e-2, 5_000, exact)
        np.testing.assert_allclose(c, b - G @ x, atol=1e-12)
        far.append(known.distances(cols, x, G @ x - b).max())
    assert far[1] < 1e-10 < 1e-5 < far[0]


def test_a_matrix_that_is_not_positive_definite_is_told():
    assert not linalg.factor(np.array([[1.0, 2.0], [2.0, 1.0]]))
    H = np.array([[4.0, 0.0], [2.0, 5.0]])
    assert linalg.factor(H)
    b = np.array([8.0, 9.0])
    linalg.substitute(H, b, 2)
    np.testing.assert_allclose(np.array([[4.0, 2.0], [2.0, 5.0]]) @ b, [8.0, 9.0])


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("many", [4, 37])
def test_products_of_a_panel_are_the_same_in_either_way(even, centred, many):
    """A few columns one by one, and many from the columns by rows."""
    rng = np.random.default_rng(3)
    A = rng.standard_normal((60, 40)) * (rng.random((60, 40)) < 0.1)
    w = np.full(60, 1 / 60) if even else rng.random(60)
    old, new = np.array([5, 2]), np.setdiff1d(rng.permutation(40), [5, 2])[:many]
    m = w @ A / w.sum() if centred else np.zeros(40)
    B = ((A - m) * np.sqrt(w)[:, None])[:, [5, 2, *new]]
    design = as_design(sp.csc_matrix(A), tuning=Tuning(long_run=0))
    panel = design.growing_panel(w, centred) if even else design.panel(np.arange(40), w, centred)
    panel.extend(np.arange(40) if even else np.arange(0))
    G = panel.products(old, new, panel.products(old[:0], old, np.empty((0, 0))))
    np.testing.assert_allclose(G, B.T @ B, atol=1e-13)


def test_a_start_ahead_goes_on_as_coefficients_went_and_keeps_its_slopes():
    rng = np.random.default_rng(5)
    A = rng.standard_normal((9, 5))
    G, b = A.T @ A, rng.standard_normal(5)
    x, before = np.zeros(8), np.zeros(8)
    cols = np.array([1, 2, 4, 5, 7])
    x[cols], before[cols] = [2.0, 0.0, -1.0, 0.5, 3.0], [1.0, 1.0, -3.0, 0.5, 0.0]
    c, new = b - G @ x[cols], np.full(5, np.nan)
    gram.extrapolate(x, before, 0.5, cols, G, c, new)
    np.testing.assert_array_equal(new, [2.5, 0.0, 0.0, 0.5, 4.5])  # the third stops at zero
    np.testing.assert_allclose(c, b - G @ new, rtol=0, atol=1e-12)


def test_a_row_much_larger_than_the_others_is_no_hindrance():
    rng = np.random.default_rng(0)
    X = rng.poisson(0.05, (200, 300)).astype(float)
    X[7] = rng.poisson(20.0, 300)  # sent to and fro by φ'' at its ends
    y = np.where(X @ rng.standard_normal(300) + rng.standard_normal(200) > 0, 1.0, -1.0)
    top = np.abs(X.T @ y).max() / 400
    found = solve(
        sp.csc_array(X), y, "logistic", "l1", alpha=0.01 * top, fit_intercept=False, tol=1e-9
    )
    g = X.T @ (-y / (1 + np.exp(y * (X @ found.coef)))) / 200
    assert found.certificate.reached
    assert np.abs(g).max() <= 0.01 * top * (1 + 1e-3)


@pytest.mark.parametrize("shrink", [1.0, 1.0 - 1e-15, 0.999, 0.3])
def test_the_dual_of_a_look_at_the_logistic_loss(shrink):
    z = np.concatenate([np.linspace(-40, 40, 101), [-800.0, 800.0, 0.0]])
    y = np.where(np.arange(z.size) % 2 == 0, 1.0, -1.0)
    s, loss = np.full(z.size, 1 / z.size), losses.get("logistic")
    there = loss_at(loss, y, s, z)
    slow = -s @ loss.conjugate(y, shrink * loss.gradient(y, z))
    assert there.dual(shrink) == pytest.approx(slow, abs=1e-14)


def test_a_last_stage_is_not_added_by_rounding():
    for step in (0.1, 0.3):
        for k in (1, 2, 3):
            for rounding in (1 - 1e-13, 1.0, 1 + 1e-13):
                assert len(lams_between(1.0, step**k * rounding, step)) == k - 1
