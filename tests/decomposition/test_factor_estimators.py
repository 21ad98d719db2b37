"""The estimators as their users know them: beside scikit-learn, missing entries, bad input."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF as SklearnNMF
from sklearn.decomposition import sparse_encode
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from cyclade import decomposition
from cyclade.decomposition import CP, NMF, DictionaryLearning, MatrixCompletion

DIGITS = load_digits().data[:300] / 16.0


class Completion(MatrixCompletion):
    """Without `predict`, which takes rows and columns, not an X."""

    predict = property()


@pytest.mark.filterwarnings("default")
@parametrize_with_checks([NMF(), Completion(), DictionaryLearning(n_components=2)])
def test_estimators_keep_the_manners_of_scikit_learn(estimator, check):
    check(estimator)


def holes(X, share=0.3, seed=0):
    Y = X.copy()
    Y[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return Y


# ------------------------------------------------------------------------------------ NMF


@pytest.mark.parametrize(
    "penalties",
    [{}, {"alpha_W": 0.002}, {"alpha_W": 0.001, "alpha_H": 0.003, "l1_ratio": 0.5},
     {"alpha_W": 0.001, "alpha_H": 0.002, "l1_ratio": 1.0}],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Maximum number of iterations")  # of theirs
@pytest.mark.parametrize("init", ["custom", "nndsvd", "nndsvda", None])
def test_nmf_ends_as_low_as_scikit_learn(init, penalties):
    rng = np.random.default_rng(0)
    start = {"W": rng.random((300, 5)), "H": rng.random((5, 64))} if init == "custom" else {}
    ours = NMF(5, init=init, tol=1e-5, random_state=0, **penalties)
    W = ours.fit_transform(DIGITS, **start)
    theirs = SklearnNMF(5, init=init, tol=1e-6, max_iter=5000, random_state=0, **penalties)
    V = theirs.fit_transform(DIGITS, **{name: Z.copy() for name, Z in start.items()})

    def F(W, H):  # scikit-learn's docstring
        a_W, a_H = penalties.get("alpha_W", 0.0), penalties.get("alpha_H", "same")
        a_H = a_W if a_H == "same" else a_H
        ratio, (n, p) = penalties.get("l1_ratio", 0.0), DIGITS.shape
        return (
            0.5 * np.sum((DIGITS - W @ H) ** 2)
            + ratio * (a_W * p * abs(W).sum() + a_H * n * abs(H).sum())
            + 0.5 * (1 - ratio) * (a_W * p * np.sum(W**2) + a_H * n * np.sum(H**2))
        )

    assert ours.certificate_.reached
    assert ours.objective_ == pytest.approx(F(W, ours.components_), rel=1e-10)
    assert ours.objective_ <= 1.03 * F(V, theirs.components_)
    np.testing.assert_allclose(
        ours.reconstruction_err_, np.linalg.norm(DIGITS - W @ ours.components_)
    )
    assert min(W.min(), ours.components_.min()) >= 0


@pytest.mark.filterwarnings("ignore:Maximum number of iterations")
def test_nmf_transforms_rows_as_scikit_learn():
    ours, new = NMF(6, random_state=0, tol=1e-6, alpha_W=0.002).fit(DIGITS[:200]), DIGITS[200:]
    theirs = SklearnNMF(6, random_state=0, tol=1e-10, alpha_W=0.002, max_iter=10).fit(DIGITS[:200])
    theirs.set_params(max_iter=1000).components_ = ours.components_
    W = ours.transform(new)
    np.testing.assert_allclose(W, theirs.transform(new), atol=1e-3)
    np.testing.assert_array_equal(ours.inverse_transform(W), W @ ours.components_)
    assert ours.get_feature_names_out().tolist() == [f"nmf{t}" for t in range(6)]


@pytest.mark.parametrize("make", [NMF, MatrixCompletion])
def test_missing_entries_are_those_of_weight_zero(make):
    X, W = holes(DIGITS), np.random.default_rng(1).random(DIGITS.shape)
    seen = ~np.isnan(X)
    model = make(3, max_iter=10, tol=0, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        missing = model.fit_transform(X)
        for weights in (seen, seen.astype(float), sparse.csr_matrix(seen)):
            np.testing.assert_array_equal(model.fit_transform(DIGITS, weights=weights), missing)
        known = np.where(seen, DIGITS, 7.0)  # what is not seen does not matter
        np.testing.assert_array_equal(model.fit_transform(known, weights=seen), missing)
        both = model.fit_transform(X, weights=W)
        np.testing.assert_array_equal(model.fit_transform(DIGITS, weights=W * seen), both)
        assert abs(both - missing).max() > 1e-3


@pytest.mark.parametrize("model", [NMF(4), DictionaryLearning(4, alpha=0.2)])
def test_dense_is_sparse(model):
    model.set_params(random_state=0)
    dense = model.fit_transform(DIGITS)
    now = model.n_iter_, model.components_, model.objective_, model.transform(DIGITS[:9])
    for make in (sparse.csr_matrix, sparse.csc_matrix, sparse.csr_array):
        np.testing.assert_allclose(model.fit_transform(make(DIGITS)), dense, atol=1e-6)
        assert model.n_iter_ == now[0]
        np.testing.assert_allclose(model.components_, now[1], atol=1e-6)
        assert model.objective_ == pytest.approx(now[2], rel=1e-8)
        np.testing.assert_allclose(model.transform(make(DIGITS[:9])), now[3], atol=1e-6)


def test_equal_weights_are_none():
    model = NMF(3, random_state=0, tol=1e-7, init="random")
    weighted = model.fit_transform(DIGITS, weights=np.ones(DIGITS.shape))
    np.testing.assert_array_equal(model.fit_transform(DIGITS), weighted)


@pytest.mark.parametrize("rank", [2, 3])
def test_nmf_fills_in_what_is_missing(rank):
    rng = np.random.default_rng(rank)
    X = rng.random((60, rank)) @ rng.random((rank, 40))
    Y = holes(X, 0.4)
    model = NMF(rank, tol=1e-7, max_iter=20_000, random_state=0).fit(Y)
    filled = model.inverse_transform(model.transform(Y))
    assert np.linalg.norm((filled - X)[np.isnan(Y)]) < 0.05 * np.linalg.norm(X[np.isnan(Y)])


# ------------------------------------------------------------------------ the other three


@pytest.mark.parametrize("kind", ["dense", "sparse", "weights"])
def test_completion_predicts_what_was_not_seen(kind):
    rng = np.random.default_rng(1)
    M = rng.normal(size=(50, 2)) @ rng.normal(size=(2, 40))
    Y = holes(M, 0.4)
    rows, cols = np.nonzero(np.isnan(Y))
    model = MatrixCompletion(2, alpha=1e-4, tol=1e-7, random_state=0)
    if kind == "dense":
        U = model.fit_transform(Y)
    elif kind == "sparse":
        at = np.nonzero(~np.isnan(Y))
        U = model.fit_transform(sparse.coo_matrix((M[at], at), M.shape))
    else:
        U = model.fit_transform(M, weights=~np.isnan(Y))
    np.testing.assert_allclose(model.predict(rows, cols), M[rows, cols], atol=0.02)
    np.testing.assert_array_equal(U, model.row_factors_)
    np.testing.assert_allclose(model.transform(Y), U, atol=1e-4)
    fallen = 0.5 * np.nansum((Y - U @ model.components_) ** 2)
    squares = np.sum(U**2) + np.sum(model.components_**2)
    assert model.objective_ == pytest.approx(fallen + 0.5e-4 * squares)


def test_a_stored_zero_is_seen_and_an_absent_entry_is_not():
    rows, cols = np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 1, 0])
    X = sparse.csr_matrix((np.array([1.0, 0.0, 2.0, 0.0, 3.0]), (rows, cols)), (3, 2))
    model = MatrixCompletion(1, alpha=1e-6, tol=1e-8, random_state=0).fit(X)
    np.testing.assert_allclose(model.predict([2, 0], [1, 1]), 0.0, atol=1e-3)
    only = MatrixCompletion(1, alpha=1e-6, random_state=0, tol=1e-8)
    only.fit(X, weights=np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 5.0]]))
    assert only.objective_ < 1e-3  # the weight of (2, 1), which X does not store, says nothing


def test_completion_penalty_is_the_nuclear_norm_at_the_minimum():
    model = MatrixCompletion(6, alpha=2.0, tol=1e-7, max_iter=5000, random_state=0).fit(DIGITS)
    U, s, Vt = np.linalg.svd(DIGITS, full_matrices=False)
    best = (U * np.maximum(s - 2.0, 0)) @ Vt
    assert (s > 2.0).sum() > 6  # so the rank binds, and the six largest are kept
    best = (U[:, :6] * (s[:6] - 2.0)) @ Vt[:6]
    np.testing.assert_allclose(model.row_factors_ @ model.components_, best, atol=1e-3)
    nuclear = 0.5 * np.sum((DIGITS - best) ** 2) + 2.0 * (s[:6] - 2.0).sum()
    assert model.objective_ == pytest.approx(nuclear, rel=1e-6)


def test_completion_starts_where_a_product_of_wrong_signs_is_far():
    rows, cols = np.array([0, 0, 1, 1, 2, 3, 3]), np.array([0, 1, 0, 2, 1, 1, 2])
    stars = np.array([5.0, 3.0, 4.0, 1.0, 4.0, 2.0, 1.0])
    X = sparse.coo_matrix((stars, (rows, cols)), shape=(4, 3))
    for seed in range(5):  # random signs end at -23.5 from some
        model = MatrixCompletion(1, alpha=0.1, random_state=seed).fit(X)
        assert 0 < model.predict([2], [0])[0] < 10


def test_codes_are_lassos_on_atoms_of_length_at_most_one():
    model = DictionaryLearning(10, alpha=0.3, tol=1e-6, random_state=0, max_iter=5000)
    U = model.fit_transform(DIGITS)
    assert model.certificate_.reached
    assert np.linalg.norm(model.components_, axis=1).max() <= 1 + 1e-12
    F = 0.5 * np.sum((DIGITS - U @ model.components_) ** 2) + 0.3 * abs(U).sum()
    assert model.objective_ == pytest.approx(F)
    exact = sparse_encode(DIGITS, model.components_, algorithm="lasso_lars", alpha=0.3)
    np.testing.assert_allclose(model.transform(DIGITS), exact, atol=1e-3)
    start = DictionaryLearning(10, alpha=0.3, tol=1e-6, dict_init=model.components_, max_iter=5000)
    assert start.fit(DIGITS).objective_ == pytest.approx(F, rel=1e-4)


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("init", ["svd", "random"])
def test_cp_finds_the_factors_of_a_tensor(init, nonnegative):
    rng = np.random.default_rng(2)
    true = [rng.random((size, 3)) for size in (8, 7, 6)]
    X = np.einsum("ir,jr,kr->ijk", *true)
    model = CP(3, nonnegative=nonnegative, init=init, tol=1e-7, max_iter=20_000, random_state=1)
    model.fit(X)
    assert model.reconstruction_err_ < 1e-3 * np.linalg.norm(X)
    np.testing.assert_allclose(
        np.linalg.norm(model.reconstruct() - X), model.reconstruction_err_, rtol=1e-6, atol=1e-12
    )
    for A, B in zip(model.factors_, true, strict=True):  # CP is unique up to order and scale
        A, B = A / np.linalg.norm(A, axis=0), B / np.linalg.norm(B, axis=0)
        assert (abs(A.T @ B).max(axis=0) > 0.999).all()
    assert not nonnegative or min(A.min() for A in model.factors_) >= 0
    again = CP(3, nonnegative=nonnegative, init=model.factors_, max_iter=5).fit(X)
    assert again.objective_ <= model.objective_ * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize(
    ("model", "X"),
    [(NMF(3), DIGITS), (NMF(3), holes(DIGITS)), (MatrixCompletion(3), holes(DIGITS)),
     (DictionaryLearning(3, alpha=0.2, tol=1e-4), DIGITS), (CP(2), DIGITS.reshape(300, 8, 8))],
)  # fmt: skip
def test_single_precision_stays_single(model, X):
    model.set_params(random_state=0)
    double = model.fit(X).objective_
    single = model.fit(X.astype(np.float32))
    found = single.factors_[0] if isinstance(model, CP) else single.components_
    assert found.dtype == np.float32
    assert single.objective_ == pytest.approx(double, rel=1e-2)
    assert single.certificate_.reached


def test_a_fit_that_ends_too_early_says_so():
    with pytest.warns(
        ConvergenceWarning, match=r"NMF stopped after 3 cycles without a cert.*max_iter"
    ):
        model = NMF(4, max_iter=3, tol=1e-9, random_state=0).fit(DIGITS)
    assert not model.certificate_.reached
    assert model.n_iter_ == 3
    with pytest.warns(ConvergenceWarning, match="CP stopped"):
        CP(2, max_iter=1, tol=0).fit(DIGITS.reshape(300, 8, 8))


def test_the_start_is_left_alone_and_seeds_repeat():
    W, H = np.ones((300, 3)), np.random.default_rng(0).random((3, 64))
    kept = H.copy()
    NMF(3, init="custom").fit(DIGITS, W=W, H=H)
    assert (W == 1).all()
    np.testing.assert_array_equal(H, kept)
    for model in (NMF(3, init="random"), MatrixCompletion(3), DictionaryLearning(3)):
        model.set_params(random_state=5)
        np.testing.assert_array_equal(model.fit_transform(DIGITS), model.fit_transform(DIGITS))


ONES, CUBE = np.ones((4, 3)), np.ones((4, 3, 2))
HOLE = np.where(np.eye(4, 3), np.nan, 1.0)

REFUSED = {
    "Negative values in data passed to NMF: X must": lambda: NMF(1).fit(-ONES),
    "n_components must be an integer >= 1, got 0": lambda: NMF(0).fit(ONES),
    "init must be None or one of 'random'": lambda: NMF(1, init="zeros").fit(ONES),
    "init='nndsvd' needs n_components <= min": lambda: NMF(9, init="nndsvd").fit(ONES),
    "init='nndsvda' needs .* no missing": lambda: NMF(1, init="nndsvda").fit(HOLE),
    r"W must be an array of shape \(4, 1\)": lambda: NMF(1, init="custom").fit(ONES, H=ONES[:1]),
    r"H must be an array of shape \(1, 3\)": lambda: NMF(1, init="custom").fit(
        ONES, W=ONES[:, :1], H=-ONES[:1]
    ),
    "W must be None unless init='custom'": lambda: NMF(1).fit(ONES, W=ONES[:, :1]),
    "alpha_W must be a finite number >= 0": lambda: NMF(1, alpha_W=-1).fit(ONES),
    "alpha_H must be a finite number >= 0": lambda: NMF(1, alpha_H="all").fit(ONES),
    "l1_ratio must be between 0 and 1": lambda: NMF(1, l1_ratio=2).fit(ONES),
    "tol must be a finite number >= 0": lambda: NMF(1, tol=-1).fit(ONES),
    "max_iter must be an integer >= 1": lambda: NMF(1, max_iter=0).fit(ONES),
    "infinity": lambda: NMF(1).fit(np.where(np.eye(4, 3), np.inf, 1.0)),
    "a sparse X must not hold NaN": lambda: NMF(1).fit(sparse.csr_matrix(HOLE)),
    r"weights must be of the shape \(4, 3\)": lambda: NMF(1).fit(ONES, weights=[1.0, 2.0]),
    "weights must be finite numbers >= 0": lambda: NMF(1).fit(ONES, weights=-ONES),
    "weights must be an array of real numbers": lambda: NMF(1).fit(ONES, weights="all"),
    "X must have an entry that .* weights > 0": lambda: NMF(1).fit(ONES, weights=0 * ONES),
    "X must have an entry that is not missing": lambda: MatrixCompletion(1).fit(np.nan * ONES),
    "rank must be an integer between 1 and 3, got 4": lambda: MatrixCompletion(4).fit(ONES),
    "alpha must be a finite number >= 0": lambda: MatrixCompletion(1, alpha=-1).fit(ONES),
    "rows must be a vector of integers between 0 and 3": lambda: (
        MatrixCompletion(1).fit(ONES).predict([4], [0])
    ),
    r"cols must be of the shape \(2,\) of rows": lambda: (
        MatrixCompletion(1).fit(ONES).predict([1, 2], [0])
    ),
    "X contains NaN": lambda: DictionaryLearning(1).fit(HOLE),
    "alpha must be a finite number >= 0, got 'a'": lambda: DictionaryLearning(1, alpha="a").fit(
        ONES
    ),
    r"dict_init must be an array of shape \(2, 3\)": lambda: DictionaryLearning(
        2, dict_init=ONES
    ).fit(ONES),
    "X must be a tensor of 3 or more ways": lambda: CP(1).fit(ONES),
    "X must be a tensor of finite numbers": lambda: CP(1).fit(CUBE * np.nan),
    "X must be an array of real numbers": lambda: CP(1).fit([[["a"]]]),
    "rank must be an integer >= 1": lambda: CP(0).fit(CUBE),
    "init must be 'svd', 'random' or factors": lambda: CP(1, init="qr").fit(CUBE),
    r"init must be .* arrays of shapes \[\(4, 1\)": lambda: CP(1, init=[ONES]).fit(CUBE),
    "init must be factors >= 0": lambda: CP(
        1, nonnegative=True, init=[-np.ones((size, 1)) for size in CUBE.shape]
    ).fit(CUBE),
    "nonnegative must be True or False": lambda: CP(1, nonnegative="yes").fit(CUBE),
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_input_is_refused_by_name(message):
    with pytest.raises(ValueError, match=message):
        REFUSED[message]()


def test_names_are_those_that_are_exported():
    assert [getattr(decomposition, name).__name__ for name in decomposition.__all__]
    with pytest.raises(AttributeError, match="no attribute 'PCA'"):
        _ = decomposition.PCA
