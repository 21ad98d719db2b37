"""Overlapping groups: fits on copied columns, held against those made by hand and the dual norm."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from cyclade.linear import (
    CoxRegression,
    GeneralizedLinear,
    GeneralizedLinearCV,
    RowChunks,
    losses,
    path,
    solve,
)
from cyclade.linear.penalties import GroupL2, OverlappingGroups
from cyclade.rows.fit import solve_rows

GROUPS = [[0, 1, 2], [2, 3], [3, 4, 5], [0, 5], [6, 7]]
COLUMNS = np.concatenate(GROUPS)
APART = np.split(np.arange(COLUMNS.size), np.cumsum([len(g) for g in GROUPS])[:-1])


def data(seed, loss="squared", n=80):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 8))
    z = X[:, 0] + X[:, 1] - X[:, 2] + 0.5 * rng.standard_normal(n)
    y = {"squared": z, "huber": z, "logistic": np.where(z > 0, 1.0, -1.0),
         "poisson": rng.poisson(np.exp(0.3 * z)).astype(float)}[loss]  # fmt: skip
    return X, y


@pytest.mark.parametrize("loss", ["squared", "huber", "logistic", "poisson"])
@pytest.mark.parametrize("store", [np.asarray, np.asfortranarray, sparse.csr_array, RowChunks])
def test_fits_are_those_of_copied_columns(loss, store):
    X, y = data(0, loss)
    found = solve(store(X), y, loss, OverlappingGroups(0.05, GROUPS), tol=1e-10)
    twin = solve(X[:, COLUMNS], y, loss, GroupL2(0.05, APART), tol=1e-10)
    by_hand = np.zeros(8)
    np.add.at(by_hand, COLUMNS, twin.coef)
    assert found.certificate.reached
    np.testing.assert_allclose(found.coef, by_hand, atol=1e-5)
    assert found.objective == pytest.approx(twin.objective, rel=1e-8)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    lam=st.floats(0.01, 0.5),
    loss=st.sampled_from(["squared", "logistic"]),
)
def test_the_solution_is_optimal_under_the_latent_norm(seed, lam, loss):
    """−g is in the unit ball of the dual norm, max_k ‖g_{G_k}‖ / w_k, and −g·x = r(x)."""
    X, y = data(seed, loss)
    fit = solve(X, y, loss, OverlappingGroups(lam, GROUPS), tol=1e-11)
    kind = losses.get(loss)
    z = X @ fit.coef + fit.intercept
    g = X.T @ kind.gradient(y, z) / len(y)
    weights = [np.sqrt(len(group)) for group in GROUPS]
    dual = max(np.linalg.norm(g[group]) / w for group, w in zip(GROUPS, weights, strict=True))
    assert dual <= lam * (1 + 1e-3)
    r = fit.objective - kind.value(y, z).mean()
    assert -g @ fit.coef == pytest.approx(r, rel=1e-3, abs=1e-6)


def test_paths_estimators_and_starts_take_them():
    X, y = data(1)
    along = path(X, y, "squared", OverlappingGroups(1.0, GROUPS), n_alphas=6, tol=1e-9)
    single = solve(X, y, "squared", OverlappingGroups(along.alphas[3], GROUPS), tol=1e-9)
    assert not along.coefs[:, 0].any()
    np.testing.assert_allclose(along.coefs[:, 3], single.coef, atol=1e-4)
    options = {"coef": single.coef, "intercept": single.intercept, "tol": 1e-9}
    again = solve(X, y, "squared", OverlappingGroups(along.alphas[3], GROUPS), **options)
    np.testing.assert_allclose(again.coef, single.coef, atol=1e-4)
    names = [[f"x{j}" for j in group] for group in GROUPS]
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(8)])
    by_name = GeneralizedLinear("huber", OverlappingGroups(0.1, names)).fit(frame, y)
    by_number = GeneralizedLinear("huber", "overlapping_groups", 0.1, groups=GROUPS).fit(X, y)
    np.testing.assert_allclose(by_name.coef_, by_number.coef_, atol=1e-6)
    chosen = GeneralizedLinearCV("squared", "overlapping_groups", groups=GROUPS, n_alphas=8)
    assert chosen.fit(X, y).score(X, y) > 0.8
    hazards = CoxRegression(0.05, penalty="overlapping_groups", groups=GROUPS).fit(X, np.exp(-y))
    assert hazards.certificate_.reached


def test_refusals():
    X, y = data(3)
    for groups, message in (
        ([[0, 1]], "feature 2 is in none of the groups"),
        ([[0, 9]], "feature 9 is out of range for 8 features"),
        ([["a"]], "groups hold names"),
        ([0, 1], "a list of lists of features"),
    ):
        with pytest.raises(ValueError, match=message):
            solve(X, y, "squared", OverlappingGroups(0.1, groups))
    for blocks in (None, 2):
        with pytest.raises(TypeError, match="OverlappingGroups needs copies of columns"):
            solve_rows(X, y, "squared", OverlappingGroups(0.1, GROUPS), blocks=blocks)
