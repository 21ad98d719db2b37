"""One block: the compiled minimisers satisfy its optimality conditions."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cyclade.linear.kernels.dense import add_rows
from cyclade.linear.kernels.group import (
    Blocks,
    anderson_combine,
    anderson_weights,
    diagonal_solve,
    rotated_step,
    sparse_step,
)
from cyclade.linear.kernels.storage import Stored, dot, subtract
from cyclade.linear.panels.group import largest_eigenvalue
from cyclade.linear.penalties import GroupL2, SparseGroup
from cyclade.linear.penalties.joined import norm_table
from cyclade.linear.penalty_bound import BoundGroups

seeds = st.integers(0, 10_000)


def block(seed, m, rank):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((rank, m)) * np.geomspace(1, 10 ** rng.uniform(0, 2), m)
    x = rng.standard_normal(m) * (rng.random() < 0.7)
    return A.T @ A, A.T @ rng.standard_normal(rank) * 3, x


def one_block(Q, d, lam, nu, rotated, steps):
    ends = np.array([0, d.size]), Q.ravel(), np.array([0, Q.size])
    return Blocks(*ends, d, norm_table(np.array([lam]), nu), rotated, steps)


@settings(deadline=None)
@given(seed=seeds, m=st.integers(1, 8), short=st.booleans(), lam=st.sampled_from([0, 0.1, 1, 30]))
def test_exact_step_is_stationary(seed, m, short, lam):
    H, g, x = block(seed, m, max(m - 2, 1) if short else m + 3)
    d, Q = np.linalg.eigh(H)
    d = np.maximum(d, 0.0)
    d[d < 1e-12 * d.max()] = 0.0
    c, now, move = np.empty(m), np.empty(m), np.empty(m)
    rotated_step(g, x, 0, one_block(Q, d, float(lam), 0.0, True, 1), c, now, move)
    v = x + move
    slope = H @ (v - x) - g
    penalty = GroupL2(float(lam), [list(range(m))], [1.0])
    scale = np.linalg.norm(g) + np.abs(d).max() * (np.linalg.norm(x) + np.linalg.norm(v))
    assert penalty.distance(v, slope, 0) <= 1e-9 * (1 + scale)


@settings(deadline=None)
@given(seed=seeds, m=st.integers(1, 8), ratio=st.floats(0, 1), lam=st.sampled_from([0.1, 1.0, 30]))
@example(seed=275, m=8, ratio=1.0, lam=30)  # the first step lands on zero, which is no minimum
@example(seed=299, m=4, ratio=0.3, lam=30)
def test_proximal_steps_never_climb_and_approach_the_minimum(seed, m, ratio, lam):
    H, g, x = block(seed, m, m + 3)
    L = float(np.linalg.eigvalsh(H)[-1])
    penalty = SparseGroup(float(lam), ratio, [list(range(m))], [1.0])
    level, nu = lam * (1 - ratio), lam * ratio

    def value(v):
        return 0.5 * (v - x) @ H @ (v - x) - g @ (v - x) + penalty.value(v, 0)

    best = accelerated(lambda v: penalty.prox(v - (H @ (v - x) - g) / L, 1 / L, 0), x)
    distance = penalty.distance(best, H @ (best - x) - g, 0)
    assert distance <= 1e-6 * (1 + np.linalg.norm(g) + L * np.linalg.norm(x))
    last = value(x)
    for steps in (1, 5, 100, 20_000):
        v, move = np.empty(m), np.empty(m)
        blocks = one_block(H, np.full(m, L), level, nu, False, steps)
        sparse_step(g, x, 0, blocks, L, v, move)
        if steps == 1:
            np.testing.assert_allclose(x + move, penalty.prox(x + g / L, 1 / L, 0), atol=1e-12)
        rounding = 1e-12 * (1 + abs(value(x)))
        assert value(x + move) <= last + rounding
        last = value(x + move)
        assert last - value(best) <= L * np.sum((x - best) ** 2) / (2 * steps) + rounding


def accelerated(step, v, count=20_000):
    """Proximal steps with momentum, literally; they restart where that points uphill."""
    last, momentum = v, 1.0
    for _ in range(count):
        new = step(v)
        uphill = (v - new) @ (new - last) > 0
        following = 1.0 if uphill else 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        beta = 0.0 if uphill else (momentum - 1.0) / following
        if np.abs(new - v).max() <= 1e-13 * np.abs(new).max():
            return new
        v, last, momentum = new + beta * (new - last), new, following
    return last


def test_flat_directions_stay_without_a_penalty():
    c, x = np.array([1.0, 0.0]), np.array([5.0, 7.0])
    diagonal_solve(c, x, np.array([2.0, 0.0]), 0, 2, 0.0, float(np.linalg.norm(x)))
    assert c.tolist() == [0.5, 7.0]
    c = np.zeros(2)
    diagonal_solve(c, x, np.zeros(2), 0, 2, 1.0, float(np.linalg.norm(x)))
    assert c.tolist() == [0.0, 0.0]


def combination(points):
    """The weights of `extrapolation.weights`, literally."""
    steps = np.diff(points, axis=0)
    gram = steps @ steps.T
    size = np.trace(gram)
    if not size > 0.0:
        return None
    c = np.linalg.solve(gram + 1e-12 * size * np.eye(len(gram)), np.ones(len(gram)))
    return c / c.sum()


def test_extrapolation_finds_the_fixed_point_of_a_linear_iteration():
    rng = np.random.default_rng(0)
    M = 0.9 * np.linalg.qr(rng.standard_normal((3, 3)))[0]
    fixed = rng.standard_normal(3)
    points = [rng.standard_normal(3)]
    for _ in range(4):
        points.append(fixed + M @ (points[-1] - fixed))
    c, starts, blocks = np.empty(4), np.array([0, 3]), np.array([0])
    assert anderson_weights(np.array(points), starts, blocks, c)
    np.testing.assert_allclose(c @ np.array(points[1:]), fixed, atol=1e-4)
    assert not anderson_weights(np.ones((5, 3)), starts, blocks, c)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extrapolation_follows_its_slow_twin_on_the_blocks_that_moved(dtype):
    rng = np.random.default_rng(1)
    starts, blocks = np.array([0, 3, 5, 9]), np.array([0, 2])
    past_x = rng.standard_normal((5, 9)).cumsum(axis=0)
    past_x[:, 3:5] = past_x[0, 3:5]  # the block that stood still
    past_R = rng.standard_normal((5, 6)).astype(dtype)
    c, x, R = np.empty(4), past_x[-1].copy(), past_R[-1].copy()
    assert anderson_weights(past_x, starts, blocks, c)
    np.testing.assert_allclose(c, combination(past_x), rtol=1e-8)
    anderson_combine(past_x, past_R, starts, blocks, c, x, R)
    np.testing.assert_allclose(x, c @ past_x[1:], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(R, c @ past_R[1:], rtol=1e-5, atol=1e-5)
    assert R.dtype == dtype


def test_largest_eigenvalue_is_bounded_from_above():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40, 30))
    H = A.T @ A
    true = np.linalg.eigvalsh(H)[-1]
    assert true <= largest_eigenvalue(lambda v: H @ v, 30) <= 1.06 * true
    assert largest_eigenvalue(lambda v: 0 * v, 30) == pytest.approx(0.0)


@pytest.mark.parametrize("dense", [True, False])
def test_columns_of_either_storage_are_those_of_the_matrix(dense):
    rng = np.random.default_rng(2)
    A = rng.standard_normal((6, 7)) * (rng.random((6, 7)) < 0.6)
    root, d = np.sqrt(rng.random(7) + 0.1), rng.standard_normal(6)
    mass = float(root @ root)
    means = np.zeros(6) if dense else A @ root / mass
    centred = A - np.outer(means, root)
    sparse = sp.csr_array(A)
    at, rows = sparse.indptr.astype(np.uint64), sparse.indices.astype(np.uint32)
    X = Stored(dense, A, sparse.data, rows, at, means * mass, mass, np.empty(0), 1.0)
    R = rng.standard_normal(7) if dense else np.append(rng.standard_normal(7), 0.3)
    true = R.copy() if dense else R[:-1] + R[-1] * root
    true -= 0.0 if dense else root * (root @ true) / mass  # as for a profiled intercept
    R = R if dense else np.append(true, 0.0)
    found = [dot(X, j, R) for j in range(6)]
    np.testing.assert_allclose(found, centred @ true, atol=1e-12)
    for j in range(6):
        subtract(X, j, d[j], R)
    left = true - d @ centred
    np.testing.assert_allclose(R if dense else R[:-1] + R[-1] * root, left, atol=1e-12)
    if dense:
        add_rows(A, np.arange(6), d, R, 0)
        np.testing.assert_allclose(R, true, atol=1e-12)


@pytest.mark.parametrize("groups", [2, [[3, 1], [0], [5, 4, 2]]])
def test_the_dual_norm_is_that_of_the_penalty(groups):
    g = np.random.default_rng(3).standard_normal(6)
    penalty = GroupL2(0.7, groups)
    bound = BoundGroups(penalty, 6, 1)
    assert bound.excess(bound.by_blocks(g)) == pytest.approx(penalty.lam_max(g) / 0.7)
