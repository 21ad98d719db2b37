"""Newton's equations from a factor that is used again, against a fresh solution every time."""

from __future__ import annotations

import numpy as np
import pytest

from cyclade.linear import path
from cyclade.linear.subproblem.gram import Factor
from cyclade.linear.tuning import CostModel, Tuning


def supports(rng, p, k, changes):
    """Sets of names that differ by some columns in and some out, in no order."""
    cols = rng.permutation(p)[:k]
    yield cols
    for some in changes:
        outside = np.setdiff1d(np.arange(p), cols)
        kept = rng.permutation(cols)[some // 2 :]
        cols = np.concatenate([kept, rng.permutation(outside)[: some - some // 2]])
        yield cols


@pytest.mark.parametrize("small", [1, 10**6])
def test_solutions_are_those_of_fresh_factors(small):
    tuning = Tuning(small_gram=small, cost=CostModel(product=3 / 8))
    rng = np.random.default_rng(0)
    A = rng.standard_normal((120, 80))
    whole, ridge, kept = A.T @ A, np.linspace(0.0, 1.0, 80), Factor(tuning)
    for cols in supports(rng, 80, 40, [0, 1, 2, 5, 3, 30, 2, 1]):
        # G holds more columns than those asked for, and not always all that the factor is of.
        held = np.concatenate([cols, np.setdiff1d(np.arange(80), cols)[: rng.integers(20)]])
        held = rng.permutation(held)
        G = whole[np.ix_(held, held)]
        S = np.flatnonzero(np.isin(held, cols))
        b = rng.standard_normal(S.size)
        H = G[np.ix_(S, S)] + np.diag(ridge[held[S]])
        found = kept.solve(G, S, held[S], ridge[held[S]], b)
        np.testing.assert_allclose(found, np.linalg.solve(H, b), rtol=1e-9, atol=1e-12)


def test_equations_without_a_solution_are_refused():
    every = np.arange(3)
    assert Factor().solve(-np.eye(3), every, every, np.zeros(3), np.ones(3)) is None


def test_a_path_is_the_same_with_old_factors():
    rng = np.random.default_rng(2)
    X = np.asfortranarray(rng.standard_normal((160, 400)) + rng.standard_normal((160, 1)))
    y = X[:, :60] @ rng.standard_normal(60) + rng.standard_normal(160)
    found = []
    for small in (20, 10**6):
        tuning = Tuning(small_gram=small)
        found.append(path(X, y, n_alphas=25, alpha_ratio=1e-2, tol=1e-10, tuning=tuning))
    assert all(f.reached for f in found)
    np.testing.assert_allclose(found[0].coefs, found[1].coefs, atol=1e-4)
    np.testing.assert_allclose(found[0].objectives, found[1].objectives, rtol=1e-9)
