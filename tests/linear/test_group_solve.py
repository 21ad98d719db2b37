"""Fits with penalties on blocks: optimality measured in plain NumPy, and what must not matter."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from cyclade.linear import RowChunks, losses, path, solve
from cyclade.linear.penalties import (
    L1,
    MCP,
    SCAD,
    ElasticNet,
    GroupL2,
    GroupMCP,
    GroupSCAD,
    Rows,
    SparseGroup,
    WeightedL1,
)

GROUPS = [[0, 5, 2], [1], [3, 4, 6, 11], [7, 8], [9, 10]]
BLOCK = {
    "group": lambda lam: GroupL2(lam, GROUPS),
    "group with weights": lambda lam: GroupL2(lam, GROUPS, [1.0, 0.5, 2.0, 0.0, 1.0]),
    "sparse group": lambda lam: SparseGroup(lam, 0.4, GROUPS),
    "equal groups": lambda lam: GroupL2(lam, 3),
    "positive groups": lambda lam: GroupL2(lam, GROUPS, positive=True),
    "positive sparse groups": lambda lam: SparseGroup(lam, 0.4, GROUPS, positive=True),
    "group mcp": lambda lam: GroupMCP(lam, 3.0, GROUPS),
    "group scad": lambda lam: GroupSCAD(lam, 3.7, GROUPS, [1.0, 0.5, 2.0, 1.0, 1.0]),
    "positive group mcp": lambda lam: GroupMCP(lam, 3.0, GROUPS, positive=True),
}
OUTPUTS = {
    "rows": Rows,
    "l1": L1,
    "elastic net": lambda lam: ElasticNet(lam, 0.7),
    "weighted l1": lambda lam: WeightedL1(lam, np.linspace(0.5, 1.5, 12)),
    "mcp": lambda lam: MCP(lam, 3.0),
}
TARGETS = {
    "squared": lambda z: z,
    "huber": lambda z: z,
    "cauchy": lambda z: z,
    "logistic": lambda z: np.where(z > 0, 1.0, -1.0),
    "squared_hinge": lambda z: np.where(z > 0, 1.0, -1.0),
    "poisson": lambda z: np.floor(np.exp(np.clip(z, -3, 2)) + 0.5),
}


def data(seed, n=40, p=12, T=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 0.3
    shape = (p,) if T is None else (p, T)
    truth = rng.standard_normal(shape) * (rng.random(p) < 0.5).reshape(-1, *[1] * (len(shape) - 1))
    noise = rng.standard_normal((n,) if T is None else (n, T))
    return X, X @ truth + 0.5 * noise + 1.0


def stationarity(X, y, loss, penalty, fit, s=None, offset=0.0, free=True):
    """dist(∂F, 0), largest over blocks and intercepts, in plain NumPy; and F."""
    loss = losses.get(loss)
    s = np.ones(len(y)) if s is None else np.asarray(s, float)
    s = s / s.sum()
    coef = np.asarray(fit.coef, float)
    z = X @ coef + fit.intercept + offset
    u = loss.gradient(y, z)
    g = X.T @ (s * u if u.ndim == 1 else s[:, None] * u)
    worst = np.abs(s @ u).max() if free else 0.0
    if hasattr(penalty, "partition"):
        order, starts = penalty.partition(len(coef))
        for k in range(len(starts) - 1):
            own = order[starts[k] : starts[k + 1]]
            worst = max(worst, penalty.distance(coef[own].ravel(), g[own].ravel(), k))
        r = penalty.total(coef)
    else:
        pairs = [(j, x, v) for j in range(len(coef)) for x, v in zip(coef[j], g[j], strict=True)]
        worst = max(worst, *(penalty.distance(float(x), float(v), j) for j, x, v in pairs))
        r = sum(penalty.value(float(x), j) for j, x, _ in pairs)
    return worst, float(s @ loss.value(y, z)) + r


def labels(z, seed=0):
    """Classes that no plane separates, or nonconvex penalties would have no minimum."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(len(z)) < 0.3, rng.integers(0, z.shape[1], len(z)), z.argmax(1))


def check(X, y, loss, penalty, tolerance=1e-5, **options):
    fit = solve(X, y, loss, penalty, tol=1e-11, **options)
    assert fit.certificate.reached
    dense = X.toarray() if sp.issparse(X) else X
    worst, F = stationarity(
        dense, y, loss, penalty, fit, options.get("sample_weight"), options.get("offset", 0.0)
    )
    assert worst <= tolerance
    assert fit.objective == pytest.approx(F, rel=1e-10, abs=1e-12)
    return fit


def problem(kind, seed, lam, n=40):
    """Data, a loss and a penalty: on groups, on rows or on entries."""
    X, y = data(seed, n, T=None if kind in BLOCK else 3)
    loss = "multinomial" if kind == "multinomial" else "squared"
    y = labels(y) if kind == "multinomial" else y
    return X, y, loss, BLOCK[kind](lam) if kind in BLOCK else (L1 if kind == "l1" else Rows)(lam)


@pytest.mark.parametrize("loss", TARGETS)
@pytest.mark.parametrize("name", BLOCK)
def test_groups_with_every_kind_of_loss(loss, name):
    X, z = data(1)
    y = TARGETS[loss](z)
    weight = np.random.default_rng(2).random(len(y))
    offset = 0.1 * np.sin(np.arange(len(y)))
    penalty = BLOCK[name](0.03)
    fit = check(X, y, loss, penalty, sample_weight=weight, offset=offset)
    sparse = check(sp.csc_array(X), y, loss, penalty, sample_weight=weight, offset=offset)
    if losses.get(loss).convex and penalty.convex:
        np.testing.assert_allclose(sparse.coef, fit.coef, atol=1e-5)
    assert np.isscalar(fit.intercept)
    assert fit.coef.shape == (12,)


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize("sparse", [False, True])
def test_multinomial(name, sparse):
    X, z = data(3, n=150, T=3)
    y = labels(z)
    penalty = OUTPUTS[name](0.02)
    weight = np.random.default_rng(2).random(len(y))
    fit = check(sp.csc_array(X) if sparse else X, y, "multinomial", penalty, sample_weight=weight)
    assert fit.coef.shape == (12, 3)
    assert fit.intercept.shape == (3,)


@pytest.mark.parametrize("name", sorted(set(BLOCK) - {"group with weights"}))
@pytest.mark.parametrize("loss", ["squared", "huber", "multinomial"])
@pytest.mark.parametrize("store", [np.asarray, sp.csc_array, RowChunks])
def test_groups_of_features_over_several_outputs(name, loss, store):
    X, y = data(4, n=150, T=3)
    y, penalty = labels(y) if loss == "multinomial" else y, BLOCK[name](0.03)
    weight = np.random.default_rng(2).random(len(y))
    fit = solve(store(X), y, loss, penalty, sample_weight=weight, tol=1e-10)
    assert fit.certificate.reached
    worst, F = stationarity(X, y, loss, penalty, fit, weight)
    assert worst <= 1e-5
    assert fit.objective == pytest.approx(F, rel=1e-9)
    assert fit.coef.shape == (12, 3)


def test_groups_of_one_over_several_outputs_are_rows():
    X, y = data(4, T=3)
    found, rows = (path(X, y, "squared", r, n_alphas=5) for r in (GroupL2(1.0, 1), Rows(1.0)))
    np.testing.assert_allclose(found.alphas, rows.alphas)
    np.testing.assert_allclose(found.coefs, rows.coefs, atol=1e-4)


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize("loss", ["squared", "huber"])
@pytest.mark.parametrize("sparse", [False, True])
def test_several_outputs(name, loss, sparse):
    X, y = data(4, T=3)
    penalty = OUTPUTS[name](0.05)
    weight = np.random.default_rng(2).random(len(y))
    offset = 0.1 * np.sin(np.arange(y.size)).reshape(y.shape)
    check(
        sp.csc_array(X) if sparse else X, y, loss, penalty, sample_weight=weight, offset=offset
    )  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    lam=st.floats(1e-2, 1.0),
    n=st.integers(5, 30),
    intercept=st.booleans(),
    name=st.sampled_from(sorted(BLOCK)),
)
def test_random_group_problems(seed, lam, n, intercept, name):
    X, y = data(seed, n)
    X[:, 3] = 0.0
    X[:, 7] = 1.0  # constant
    X[:, 9] = X[:, 10]  # twins
    penalty = BLOCK[name](lam)
    fit = solve(X, y, "squared", penalty, fit_intercept=intercept, tol=1e-9)
    assert fit.certificate.reached
    worst, _ = stationarity(X, y, "squared", penalty, fit, free=intercept)
    assert worst <= 1e-3 * (1 + lam)


def test_agrees_with_scikit_learn_on_several_tasks():
    from sklearn.linear_model import MultiTaskLasso

    X, y = data(5, n=60, p=20, T=4)
    theirs = MultiTaskLasso(alpha=0.1, tol=1e-12, max_iter=100_000).fit(X, y)
    for X_ in (X, np.asfortranarray(X), sp.csr_array(X)):
        ours = solve(X_, y, "squared", Rows(0.1), tol=1e-12)
        np.testing.assert_allclose(ours.coef, theirs.coef_.T, atol=1e-7)
        np.testing.assert_allclose(ours.intercept, theirs.intercept_, atol=1e-7)


@pytest.mark.parametrize("loss", ["squared", "logistic", "cauchy"])
@pytest.mark.parametrize("sparse", [False, True])
def test_one_output_as_a_column_is_one_output(loss, sparse):
    X, y = data(4, T=1)
    y = TARGETS[loss](y)
    X = sp.csc_array(X) if sparse else X
    column = solve(X, y, loss, Rows(0.05), tol=1e-10)
    flat = solve(X, y[:, 0], loss, GroupL2(0.05, 1), tol=1e-10)
    assert column.coef.shape == (12, 1)
    np.testing.assert_allclose(column.coef[:, 0], flat.coef, atol=1e-6)
    np.testing.assert_allclose(column.intercept, [flat.intercept], atol=1e-6)


@pytest.mark.parametrize(
    ("groups", "alone"), [(GroupMCP(0.1, 2.5), MCP(0.1, 2.5)), (GroupSCAD(0.1), SCAD(0.1))]
)
def test_concave_groups_of_one_are_penalties_on_coordinates(groups, alone):
    X, y = data(7, n=200)
    found, other = (path(X, y, "squared", r, n_alphas=20, tol=1e-10) for r in (groups, alone))
    np.testing.assert_allclose(found.objectives, other.objectives, rtol=1e-6)


def test_concave_groups_leave_large_ones_as_least_squares_has_them():
    """On orthonormal columns the solution is the prox of least squares, group by group."""
    Q = np.sqrt(60.0) * np.linalg.qr(np.random.default_rng(0).standard_normal((60, 12)))[0]
    b = np.r_[3.0 * np.ones(3), np.zeros(3), 0.4 * np.ones(3), 0.2 * np.ones(3)]
    for penalty in (GroupMCP(0.3, 3.0, 3), GroupSCAD(0.3, 3.7, 3)):
        coef = solve(Q, Q @ b, "squared", penalty, fit_intercept=False, tol=1e-10).coef
        by_group = [penalty.prox(b[3 * k : 3 * k + 3], 1.0, k) for k in range(4)]
        np.testing.assert_allclose(coef, np.concatenate(by_group), atol=1e-8)
        np.testing.assert_allclose(coef[:3], b[:3], atol=1e-8)


def test_groups_of_one_are_the_lasso():
    X, y = data(6)
    lasso = solve(X, y, "squared", L1(0.1), tol=1e-12)
    group = solve(X, y, "squared", GroupL2(0.1, 1), tol=1e-12)
    np.testing.assert_allclose(group.coef, lasso.coef, atol=1e-7)
    sparse_group = solve(X, y, "squared", SparseGroup(0.1, 1.0, GROUPS), tol=1e-12)
    np.testing.assert_allclose(sparse_group.coef, lasso.coef, atol=1e-7)


@pytest.mark.parametrize("layout", ["C", "F", "csc", "csr", "int64"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["group", "rows"])
def test_storage_does_not_matter(layout, weighted, kind):
    X, y = data(7, T=None if kind == "group" else 3)
    penalty = GroupL2(0.1, GROUPS) if kind == "group" else Rows(0.1)
    weight = np.random.default_rng(1).random(len(y)) if weighted else None
    expected = solve(X, y, "squared", penalty, sample_weight=weight, tol=1e-13)
    stored = {"C": np.ascontiguousarray, "F": np.asfortranarray, "csc": sp.csc_array}
    stored |= {"csr": sp.csr_array, "int64": _int64}
    original = X.copy()
    fit = solve(stored[layout](X), y, "squared", penalty, sample_weight=weight, tol=1e-13)
    np.testing.assert_allclose(fit.coef, expected.coef, atol=1e-6)
    np.testing.assert_array_equal(X, original)


def _int64(X):
    A = sp.csc_array(X)
    A.indices, A.indptr = A.indices.astype(np.int64), A.indptr.astype(np.int64)
    return A


@pytest.mark.parametrize(
    "kind", ["group", "sparse group", "positive groups", "group mcp", "rows", "multinomial"]
)
def test_weights_equal_repetition(kind):
    X, y, loss, penalty = problem(kind, 8, 0.05)
    times = np.random.default_rng(1).integers(0, 4, len(y))
    if kind == "multinomial":
        times[:6] = 1  # every class stays
    weighted = solve(X, y, loss, penalty, sample_weight=times, tol=1e-12)
    repeated = solve(np.repeat(X, times, 0), np.repeat(y, times, 0), loss, penalty, tol=1e-12)
    np.testing.assert_allclose(weighted.coef, repeated.coef, atol=2e-6)


@pytest.mark.parametrize("kind", ["group", "sparse group", "rows", "multinomial"])
def test_warm_start_ends_where_a_cold_one_does(kind):
    X, y, loss, penalty = problem(kind, 9, 0.05)
    cold = solve(X, y, loss, penalty, tol=1e-12)
    rng = np.random.default_rng(0)
    far = rng.standard_normal(cold.coef.shape)
    given_far = far.copy()
    warm = solve(X, y, loss, penalty, tol=1e-12, coef=far, intercept=cold.intercept)
    np.testing.assert_allclose(warm.coef, cold.coef, atol=2e-6)
    np.testing.assert_array_equal(far, given_far)
    again = solve(X, y, loss, penalty, tol=1e-10, coef=cold.coef, intercept=cold.intercept)
    assert again.passes == 0


@pytest.mark.parametrize("kind", ["group", "sparse group", "rows", "multinomial", "l1"])
def test_path_equals_single_fits(kind):
    X, y, loss, penalty = problem(kind, 10, 1.0)
    found = path(X, y, loss, penalty, n_alphas=6, alpha_ratio=0.05, tol=1e-12)
    assert found.reached
    assert found.coefs.shape == ((12, 6) if kind in BLOCK else (12, 3, 6))
    assert not found.coefs[..., 0].any()
    assert found.coefs[..., 1].any()
    for i in (2, 5):
        fit = solve(X, y, loss, penalty.scaled(found.alphas[i]), tol=1e-12)
        np.testing.assert_allclose(found.coefs[..., i], fit.coef, atol=2e-6)
        np.testing.assert_allclose(found.intercepts[..., i], fit.intercept, atol=2e-6)


@pytest.mark.parametrize("penalty", [GroupL2(1.0, 4), SparseGroup(1.0, 0.4, 4), Rows(1.0)])
def test_a_path_is_near_stationary_whatever_the_gap_lets_go(penalty):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((30, 60)) + 2.0 * rng.standard_normal((30, 1))
    y = X[:, :6] @ rng.standard_normal((6, 3) if isinstance(penalty, Rows) else 6)
    found = path(X, y, "squared", penalty, n_alphas=30, alpha_ratio=0.01, tol=1e-2)
    fits = [solve(X, y, "squared", penalty.scaled(lam), tol=1e-12) for lam in found.alphas]
    least = np.array([fit.objective for fit in fits])
    assert (found.objectives - least <= 6e-8 * least).all()  # gaps are a million times larger


@pytest.mark.parametrize("kind", ["group", "rows"])
def test_single_precision_is_sane(kind):
    X, y = data(11, n=100, T=None if kind == "group" else 3)
    penalty = GroupL2(0.1, GROUPS) if kind == "group" else Rows(0.1)
    double = solve(X, y, "squared", penalty, tol=1e-10)
    single = solve(X.astype(np.float32), y, "squared", penalty, tol=1e-5)
    assert single.coef.dtype == np.float32
    assert single.certificate.reached
    np.testing.assert_allclose(single.coef, double.coef, atol=1e-2)
    assert single.objective == pytest.approx(double.objective, rel=1e-4)


@pytest.mark.parametrize("kind", ["group", "sparse group", "rows", "multinomial"])
def test_what_precision_cannot_reach_is_given_up(kind):
    X, y, loss, penalty = problem(kind, 17, 0.05, n=60)
    fit = solve(X, y, loss, penalty, tol=0.0)
    assert fit.passes < 20_000
    worst, _ = stationarity(X, y, loss, penalty, fit)
    assert worst < 1e-7


def test_overflow_is_said():
    X, y = data(16)
    with np.errstate(all="ignore"), pytest.raises(FloatingPointError, match="too large"):
        solve(X * 1e200, y * 1e200, "squared", GroupL2(0.1, GROUPS))


def test_zero_is_found_above_lam_max():
    X, y = data(12)
    g0 = (X - X.mean(0)).T @ (y - y.mean()) / len(y)
    top = GroupL2(1.0, GROUPS).lam_max(g0)
    assert not solve(X, y, "squared", GroupL2(1.001 * top, GROUPS)).coef.any()
    assert solve(X, y, "squared", GroupL2(0.99 * top, GROUPS)).coef.any()


def test_a_group_too_large_for_a_hessian():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 600))
    y = X[:, :5].sum(1) + 0.1 * rng.standard_normal(50)
    groups = [list(range(550)), list(range(550, 600))]
    for X_ in (X, sp.csc_array(X)):
        fit = solve(X_, y, "squared", GroupL2(0.05, groups), tol=1e-8)
        assert fit.certificate.reached
        worst, _ = stationarity(X, y, "squared", GroupL2(0.05, groups), fit)
        assert worst < 1e-3


def test_extremes_of_shape():
    assert solve(np.ones((1, 1)), np.array([2.0]), "squared", GroupL2(0.1, 1)).certificate.reached
    one = solve(np.array([[2.0]]), np.array([3.0]), "squared", GroupL2(0.5, 1), fit_intercept=False)
    assert one.coef[0] == pytest.approx((6.0 - 0.5) / 4.0, rel=1e-3)
    empty = sp.csc_array((5, 3))
    assert not solve(empty, np.arange(5.0), "squared", GroupL2(0.1, 3)).coef.any()
    assert not solve(empty, np.ones((5, 2)), "squared", Rows(0.1)).coef.any()


@pytest.mark.filterwarnings("ignore:.* stopped without a certificate")
def test_passes_are_limited_and_said_so():
    X, y = data(13)
    fit = solve(X, y, "squared", GroupL2(1e-4, GROUPS), tol=1e-14, max_iter=3)
    assert fit.passes <= 3
    assert not fit.certificate.reached


def test_refusals():
    X, y = data(14, T=3)
    with pytest.raises(ValueError, match="groups miss feature 4"):
        solve(X, y[:, 0], "squared", GroupL2(0.1, [[0, 1, 2, 3]]))
    with pytest.raises(ValueError, match="intercept: there are 3 outputs, got 2"):
        solve(X, y, "squared", Rows(0.1), intercept=np.zeros(2))
    with pytest.raises(ValueError, match="coef: a start must have shape"):
        solve(X, y, "squared", Rows(0.1), coef=np.zeros((12, 2)))
    with pytest.raises(ValueError, match="offset: there are 3 outputs"):
        solve(X, y, "squared", Rows(0.1), offset=np.zeros((len(y), 2)))
