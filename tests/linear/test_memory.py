"""What fits take beside X: measured on tables of 100 MB."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from cyclade.linear import Lasso, LassoCV, RobustRegression, SparseLogisticRegression
from cyclade.linear.kernels.sparse import column_products
from cyclade.linear.problem import as_design
from cyclade.linear.tuning import Tuning

FITS = {
    "fit": lambda X, y: Lasso(0.05).fit(X, y),
    "path": lambda X, y: Lasso().path(X, y, n_alphas=30),
    "cv": lambda X, y: LassoCV(n_alphas=30, cv=5).fit(X, y),
    "huber": lambda X, y: RobustRegression(0.05, loss="huber").fit(X, y),
    "logistic": lambda X, y: SparseLogisticRegression(0.02).fit(X, y > 0),
}


@pytest.fixture(scope="module", params=[("F", np.float64), ("C", np.float64), ("F", np.float32)])
def tall(request):
    order, dtype = request.param
    n, p = 10**8 // (200 * np.dtype(dtype).itemsize), 200
    rng = np.random.default_rng(0)
    X = np.empty((n, p), dtype, order=order)
    some = rng.standard_normal((1000, p))
    for first in range(0, n, 1000):  # the same rows again, shifted: fast to make
        X[first : first + 1000] = np.roll(some, first // 1000, axis=1)[: n - first]
    return X, X[:, 0] - X[:, 5] + rng.standard_normal(n)


def peak(fit, X, y):
    """Bytes that a second fit takes at most: in the first, kernels are compiled and loaded."""
    fit(X, y)
    tracemalloc.start()
    try:
        fit(X, y)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", FITS)
def test_tall_tables_are_not_copied(tall, name):
    assert peak(FITS[name], *tall) < 0.4 * tall[0].nbytes


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_long_columns_are_not_copied_and_folds_once(dtype):
    rng = np.random.default_rng(0)
    X = np.asfortranarray(rng.standard_normal((12_000, 400)), dtype)
    y = X[:, :5].sum(axis=1) + rng.standard_normal(len(X))
    most = {0.1: 0.15, 0.01: 0.15, 0.0: 1.3}  # of X: fits at parts of λ_max, cross-validation
    for part, limit in most.items():
        model = Lasso(part) if part else LassoCV(n_alphas=8, alpha_ratio=0.05, cv=3)
        assert peak(model.fit, X, y) < limit * X.nbytes


@pytest.mark.parametrize(("p", "limit"), [(200, 0.3), (1_000, 1.2)])
@pytest.mark.parametrize("part", [0.3, 0.01])
def test_a_tall_table_by_rows_is_turned_at_most_once(p, limit, part):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6 * 10**6 // p, p))
    y = X[:, :5].sum(axis=1) + rng.standard_normal(len(X))
    assert peak(Lasso(part).fit, X, y) < limit * X.nbytes


@pytest.mark.parametrize("part", [0.1, 0.01, 0.001])
def test_columns_of_a_small_table_are_not_copied(part):
    rng = np.random.default_rng(0)
    X = np.asfortranarray(rng.standard_normal((2_000, 500)))
    y = X[:, :5].sum(axis=1) + rng.standard_normal(len(X))
    # Where nearly all columns move, products of all are cheaper: these and their factor.
    products = 2 * 500**2 * 8 if part == 0.001 else 0
    assert peak(Lasso(part).fit, X, y) < max(0.3 * X.nbytes, 1.1 * products)
    assert peak(Lasso(part, precompute=False).fit, X, y) < 0.3 * X.nbytes


@pytest.mark.parametrize("order", ["F", "C"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("centred", [True, False])
def test_columns_read_in_blocks_are_those_of_a_copy(order, dtype, centred):
    rng = np.random.default_rng(0)
    X = np.asarray(rng.standard_normal((700, 12)) + 3.0, dtype, order=order)
    cols, chosen = np.array([1, 4, 5, 9]), np.array([0, 2, 3])
    copied, read = (
        as_design(X, tuning=Tuning(cache=0, large=least)).unweighted(cols, centred)
        for least in (2**24, 0)
    )
    assert copied.copied
    assert not read.copied
    v, V, w = rng.standard_normal(700), rng.standard_normal((700, 2)), rng.random(700) + 0.1
    x, T = rng.standard_normal(3), rng.standard_normal((3, 2))
    np.testing.assert_allclose(read.centres, copied.centres, rtol=1e-5)
    close = {"rtol": 1e-4, "atol": 1e-3} if dtype == np.float32 else {"rtol": 1e-9, "atol": 1e-9}
    for call in (
        lambda A: A.slopes(v), lambda A: A.slopes(V, chosen), lambda A: A.products(chosen, w),
        lambda A: A.products(chosen, v),
        lambda A: A.combine(chosen, x), lambda A: A.combine(chosen, T),
    ):  # fmt: skip
        np.testing.assert_allclose(call(read), call(copied), **close)


def test_sparse_columns_are_put_by_rows_in_blocks():
    rng = np.random.default_rng(0)
    n, levels = 100_000, 50
    cols = rng.integers(0, levels, (n, 12)) + levels * np.arange(12)
    starts = np.arange(0, cols.size + 1, 12)
    X = sparse.csr_matrix((np.ones(cols.size), cols.ravel(), starts)).tocsc()
    y = X @ rng.standard_normal(X.shape[1]) + rng.standard_normal(n)
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    assert peak(Lasso(1e-5).fit, X, y) < 1.5 * size


@pytest.mark.parametrize("most", [1, 7, 60, 10**6])
def test_products_of_sparse_columns_by_blocks_of_rows(most):
    rng = np.random.default_rng(0)
    X, w, cols = sparse.random(41, 9, 0.4, "csc", rng=rng), rng.random(41), np.array([7, 0, 3, 8])
    parts = X.data, X.indices.view(np.uint32), X.indptr.astype(np.uint64)
    G, A = np.full((4, 4), np.nan), X.toarray()[:, cols]
    column_products(*parts, cols, w, G, most)
    np.testing.assert_allclose(G, (A.T * w) @ A, atol=1e-14)
