"""Compiled cycles over clusters against the literal twin, cycle by cycle."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import slope_twin as twin
from hypothesis import given, settings
from hypothesis import strategies as st

from cyclade.linear.problem import as_design
from cyclade.linear.subproblem.sorted_l1 import Descent


def problem(seed, n, p, integers):
    """Columns with zeros and correlation, a target, weights, and a start with clusters."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 0.5 * rng.standard_normal((n, 1))
    X[1:][rng.random((n - 1, p)) < 0.3] = 0.0  # no column is zero: under λ_k = 0 it may be anywhere
    w = rng.random(n) + 0.1
    lam = np.sort(rng.random(p))[::-1] * rng.choice([0.3, 1.0, 3.0])
    if integers:  # steps then end on other clusters more often
        lam = np.round(4 * lam) / 4
    x = rng.integers(-2, 3, p) * rng.choice([0.5, 1.0])
    return X, X @ (x * (rng.random(p) < 0.5)) + rng.standard_normal(n), w, lam, x.astype(float)


def weighted(X, y, w, centred):
    """Columns as rows, and the target, as panels have them."""
    root = np.sqrt(w)
    if centred:
        X, y = X - w @ X / w.sum(), y - w @ y / w.sum()
    return (X * root[:, None]).T.copy(), y * root


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(3, 25),
    p=st.integers(1, 15),
    centred=st.booleans(),
    sparse=st.booleans(),
    integers=st.booleans(),
)
def test_many_cycles_follow_the_twin(seed, n, p, centred, sparse, integers):
    X, y, w, lam, x = problem(seed, n, p, integers)
    A, t = weighted(X, y, w, centred)
    design = as_design(sp.csc_array(X) if sparse else np.asfortranarray(X))
    descent = Descent(design.panel(np.arange(p), w, centred), lam)
    descent.panel.start(t - x @ A, x)
    literal = x
    for _ in range(25):
        x, done = descent.cycle(x, 1, 0.0)
        literal = twin.cycle(A, t, literal, lam)
        assert done == 1
        np.testing.assert_allclose(x, literal, atol=1e-9)
        np.testing.assert_allclose(descent.panel.residual(), t - x @ A, atol=1e-9)
        shapes = [len(set(np.abs(v[v != 0]))) for v in (x, literal)]
        assert shapes[0] == shapes[1]


@pytest.mark.parametrize("seed", range(5))
def test_cycles_in_one_call_are_cycles_one_by_one(seed):
    X, y, w, lam, x = problem(seed, 30, 20, False)
    A, t = weighted(X, y, w, True)
    ends = []
    for calls in (1, 12):
        descent = Descent(as_design(X).panel(np.arange(20), w, True), lam)
        descent.panel.start(t - x @ A, x)
        end = x
        for _ in range(calls):
            end, _ = descent.cycle(end, 12 // calls, 0.0)
        ends.append(end)
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_every_kind_of_step_lowers_the_objective(seed):
    X, y, w, lam, x = problem(seed, 30, 12, False)
    A, t = weighted(X, y, w, False)
    descent = Descent(as_design(X).panel(np.arange(12), w, False), lam)
    descent.panel.start(t - x @ A, x)

    def F(x):
        return 0.5 * np.sum((t - x @ A) ** 2) + twin.value(x, lam)

    for _ in range(6):
        for step in (
            lambda x: descent.split(x, descent.panel.correlations()[:12]),
            lambda x: descent.cycle(x, 2, 0.0)[0],
            descent.newton,
        ):
            new = step(x) if x.any() else descent.cycle(x, 1, 0.0)[0]
            assert F(new) <= F(x) + 1e-12 * (1 + F(x))
            np.testing.assert_allclose(descent.panel.residual(), t - new @ A, atol=1e-9)
            x = new


@pytest.mark.parametrize("seed", range(8))
def test_minimising_ends_at_a_stationary_point_of_the_twin(seed):
    X, y, w, lam, x = problem(seed, 15, 30, False)
    A, t = weighted(X, y, w, True)
    descent = Descent(as_design(X).panel(np.arange(30), w, True), lam + 0.1)
    x, passes = descent.minimise(t - x @ A, x, 1e-10, 10_000)
    assert passes < 10_000
    assert np.abs(twin.distances(x, -A @ (t - x @ A), lam + 0.1)).max() <= 1e-9
