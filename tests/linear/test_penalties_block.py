"""Block penalties: prox against random trial points and optimality; distances; lam_max; totals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cyclade.linear.penalties import L1, MCP, SCAD, GroupL2, GroupMCP, GroupSCAD, Rows, SparseGroup

GROUPS = [[3, 0, 4], [1], [2, 5]]
PENALTIES = {
    "group": GroupL2(0.6, GROUPS),
    "group weighted": GroupL2(0.6, GROUPS, [1.0, 0.0, 2.0]),
    "sparse group": SparseGroup(0.8, 0.3, GROUPS),
    "sparse group weighted": SparseGroup(0.8, 0.3, GROUPS, [1.0, 0.0, 2.0]),
    "lasso as sparse group": SparseGroup(0.8, 1.0, GROUPS),
    "rows": Rows(0.6),
    "positive group": GroupL2(0.6, GROUPS, positive=True),
    "positive sparse group": SparseGroup(0.8, 0.3, GROUPS, positive=True),
    "group mcp": GroupMCP(0.6, 2.0, GROUPS),
    "group scad": GroupSCAD(0.6, 2.5, GROUPS),
    "positive group mcp": GroupMCP(0.6, 2.0, GROUPS, positive=True),
}
each_penalty = pytest.mark.parametrize("name", PENALTIES)
seeds = st.integers(0, 10_000)


def block(seed, size, scale=1.0):
    rng = np.random.default_rng(seed)
    return scale * rng.standard_normal(size) * (rng.random(size) < 0.8)


def size_of(name, k):
    return 3 if name == "rows" else len(GROUPS[k])


@each_penalty
@given(seed=seeds, k=st.integers(0, 2), t=st.floats(0.05, 5.0), scale=st.sampled_from([0.3, 3.0]))
def test_prox_is_stationary_and_beats_trial_points(name, seed, k, t, scale):
    penalty = PENALTIES[name]
    u = block(seed, size_of(name, k), scale)
    v = penalty.prox(u, t, k)
    assert penalty.distance(v, (v - u) / t, k) <= 1e-12 * (1 + np.linalg.norm(u) / t)

    def objective(w):
        return penalty.value(w, k) + np.sum((w - u) ** 2) / (2 * t)

    rng = np.random.default_rng(seed + 1)
    for size in (1.0, 1e-2, 1e-4):
        for _ in range(5):
            trial = v + size * rng.standard_normal(u.shape)
            assert objective(v) <= objective(trial) + 1e-12 * (1 + objective(trial))
    assert objective(v) <= objective(np.zeros_like(u)) + 1e-12


@each_penalty
@given(seed=seeds, k=st.integers(0, 2), at_zero=st.booleans())
def test_distance_is_attained_by_the_least_residual(name, seed, k, at_zero):
    """dist(−g, ∂r(x)) is the limit of ‖x − prox(x − tg)‖/t as t falls, and bounds it from above."""
    penalty = PENALTIES[name]
    size = size_of(name, k)
    x = np.zeros(size) if at_zero else block(seed, size)
    x = np.abs(x) if penalty.positive else x
    g = block(seed + 1, size, 2.0)
    distance = penalty.distance(x, g, k)
    t = 1e-7
    residual = np.linalg.norm(x - penalty.prox(x - t * g, t, k)) / t
    assert residual == pytest.approx(distance, abs=1e-4)


@each_penalty
@given(seed=seeds)
def test_lam_max_is_the_smallest_that_keeps_zero(name, seed):
    penalty = PENALTIES[name]
    g0 = block(seed, (6, 3) if name == "rows" else 6, 2.0)
    lam_max = penalty.lam_max(g0)
    order, starts = penalty.partition(6)
    ks = range(len(starts) - 1)
    if name == "group weighted":
        ks = [0, 2]  # the group without a weight is not penalised
    members = [order[starts[k] : starts[k + 1]] for k in ks]

    def pull(lam):
        at = penalty.scaled(lam)
        pairs = zip(ks, members, strict=True)
        return max(at.distance(np.zeros_like(g0[m]), g0[m], k) for k, m in pairs)

    if lam_max > 1e-6:
        assert pull(lam_max * (1 + 1e-9)) == 0.0
        assert pull(lam_max * (1 - 1e-6)) > 0.0


def test_extremes_of_the_sparse_group():
    g0 = np.array([1.0, -2.0, 0.5, 3.0, -0.25, 0.0])
    assert SparseGroup(1.0, 1.0, GROUPS).lam_max(g0) == pytest.approx(L1(1.0).lam_max(g0))
    assert SparseGroup(1.0, 0.0, GROUPS).lam_max(g0) == pytest.approx(
        GroupL2(1.0, GROUPS).lam_max(g0)
    )
    assert SparseGroup(1.0, 0.5, GROUPS).lam_max(np.zeros(6)) == 0.0


@each_penalty
def test_totals_and_tables(name):
    penalty = PENALTIES[name]
    x = block(3, (6, 2) if name == "rows" else 6)
    x = np.abs(x) if penalty.positive else x
    order, starts = penalty.partition(6)
    table = penalty.parameters(6)
    assert table.shape == (len(starts) - 1, 5)
    total = 0.0
    for k in range(len(starts) - 1):
        part = x[order[starts[k] : starts[k + 1]]]
        l2, gamma, low, l1, _ = table[k]
        of_norm = {"mcp": MCP, "scad": SCAD}.get(name.split()[-1])
        norm = float(np.linalg.norm(part))
        inside = of_norm(l2, gamma).value(norm, 0) if of_norm else l2 * norm
        assert penalty.value(part, k) == pytest.approx(inside + l1 * np.abs(part).sum())
        if penalty.positive:
            assert low == 0.0
            assert penalty.value(-part, k) == np.inf or not part.any()
        total += penalty.value(part, k)
    assert penalty.total(x) == pytest.approx(total)
