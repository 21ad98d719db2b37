"""The compiled cycles over blocks against `core.cycle`, cycle by cycle, and against one another."""

import numpy as np
import pytest
import scipy.sparse as sp

from cyclade.blocks import Layout
from cyclade.blocks.layout import NoEstimate
from cyclade.core import cycle
from cyclade.linear.panels.group import GroupPanel, OutputPanel
from cyclade.linear.penalties import L1, MCP, GroupL2, Rows, SparseGroup
from cyclade.linear.penalty_bound import BoundEntries, BoundGroups
from cyclade.linear.problem import as_design
from cyclade.linear.subproblem.group import Descent
from cyclade.linear.tuning import DEFAULT, Tuning
from cyclade.regularisers import GroupL2 as CoreGroupL2
from cyclade.steps import Fixed

CYCLES = 15
DEPTH = DEFAULT.burst
NONE = np.empty(0, np.int64)
GROUPS = [[0, 5, 2], [1], [3, 4, 6, 11], [7, 8], [9, 10]]


class Quadratic:
    """½ Σ_it w_it (τ_it − (A x)_it)² by blocks, in plain NumPy: a sweep of `core.cycle`."""

    def __init__(self, gradient, x):
        self.gradient, self.x = gradient, x

    def get(self, j):
        return self.x.get(j)

    def set(self, j, u):
        self.x.set(j, u)

    def grad(self, j):
        return self.gradient(self.x.whole(), j)


def literal(blocks, gradient, prox, steps, x0):
    """Points after each cycle of the literal algorithm."""
    layout = Layout.of(x0, blocks)
    x = layout.point(x0)
    now = Quadratic(gradient, x)

    class Reg:
        def prox(self, j, u, t):
            return prox(j, u, t)

    for k in range(CYCLES):
        steps.begin(k)
        cycle(range(layout.m), now, NoEstimate(), NoEstimate(), Reg(), steps, True)
        yield x.whole().copy()


def problem(seed=0, n=30, p=12, T=None):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, p)) @ (np.eye(p) + 0.3) + 0.5
    tau = rng.standard_normal((n,) if T is None else (n, T)) * 3
    x0 = rng.standard_normal((p,) if T is None else (p, T)) * (rng.random(p) < 0.5).reshape(
        (p,) if T is None else (p, 1)
    )
    return A, tau, x0


def stored(A, storage, tuning=DEFAULT):
    """A design of these columns."""
    X = sp.csc_array(A) if storage == "sparse" else np.asarray(A, order=storage)
    return as_design(X, tuning=tuning)


def groups(A, storage, reg, w, intercept, tuning=DEFAULT):
    """A panel of groups."""
    columns = stored(A, storage, tuning).panel(NONE, w, intercept)
    return GroupPanel(columns, reg.columns, reg.starts, reg.rotated)


def run(panel, reg, x, residual, w):
    """Points after each compiled cycle, one call for each, and the residuals t − z there."""
    blocks, root = np.arange(reg.starts.size - 1), np.sqrt(w)
    if residual.ndim > w.ndim:
        root = root[:, None]
    panel.include(blocks)
    panel.start(root * residual, np.ascontiguousarray(x).reshape(-1).copy())
    for _ in range(CYCLES):
        past = np.empty((0, *panel.x.shape)), np.empty((0, *panel.R.shape))
        panel.cycles(blocks, reg.table, 1, 0.0, past)
        yield panel.x.reshape(-1).copy(), panel.residual() / root


def centre(A, w, intercept):
    return A - (w @ A) / w.sum() if intercept else A


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("storage", ["C", "F", "sparse"])
def test_groups_follow_the_core_in_their_eigenbases(weighted, intercept, storage):
    """The exact step on a group is the core's diagonal step once the group is rotated."""
    A, tau, x0 = problem()
    penalty = GroupL2(2.0, GROUPS, [1.0, 2.0, 0.5, 1.0, 3.0])
    n = len(A)
    w = np.random.default_rng(1).random(n) + 0.1 if weighted else np.full(n, 0.25)
    reg = BoundGroups(penalty, 12, 1)
    B = centre(A, w, intercept)[:, reg.columns]
    starts = reg.starts
    rotations, bends = [], []
    for k in range(len(starts) - 1):
        own = B[:, starts[k] : starts[k + 1]]
        d, Q = np.linalg.eigh(own.T @ (w[:, None] * own))
        rotations.append(Q)
        bends.append(d)
        B[:, starts[k] : starts[k + 1]] = own @ Q
    sets = [list(range(starts[k], starts[k + 1])) for k in range(len(starts) - 1)]
    level = [CoreGroupL2(lam) for lam in reg.table[:, 0]]

    def gradient(x, j):
        return (B.T @ (w * (B @ x - target)))[sets[j]]

    target = tau - (w @ tau) / w.sum() if intercept else tau
    rotated = np.concatenate(
        [Q.T @ x0[reg.columns][own] for Q, own in zip(rotations, sets, strict=True)]
    )
    steps = Fixed([np.maximum(d, 1e-300) for d in bends])
    slow = literal(sets, gradient, lambda j, u, t: level[j].prox(u, t), steps, rotated)
    panel = groups(A, storage, reg, w, intercept)
    fast = run(panel, reg, x0[reg.columns], target - B @ rotated, w)
    for (x, R), theirs in zip(fast, slow, strict=True):
        pairs = zip(rotations, sets, strict=True)
        expected = np.concatenate([Q @ theirs[own] for Q, own in pairs])
        np.testing.assert_allclose(x, expected, atol=1e-10)
        np.testing.assert_array_equal(x == 0, expected == 0)
        np.testing.assert_allclose(R, target - B @ theirs, atol=1e-9)


@pytest.mark.parametrize("storage", ["F", "sparse"])
def test_sparse_groups_with_one_step_follow_the_core(storage):
    A, tau, x0 = problem(1)
    penalty = SparseGroup(2.0, 0.3, GROUPS)
    reg = BoundGroups(penalty, 12, 1)
    w = np.full(len(A), 0.25)
    B = A[:, reg.columns]
    sets = [list(range(reg.starts[k], reg.starts[k + 1])) for k in range(len(GROUPS))]
    L = [np.linalg.eigvalsh(0.25 * B[:, own].T @ B[:, own])[-1] for own in sets]
    slow = literal(
        sets,
        lambda x, j: (0.25 * B.T @ (B @ x - tau))[sets[j]],
        lambda j, u, t: penalty.prox(u, float(t), j),
        Fixed(L),
        x0[reg.columns],
    )
    panel = groups(A, storage, reg, w, False, Tuning(group_inner_steps=1))
    fast = run(panel, reg, x0[reg.columns], tau - A @ x0, w)
    for (x, _), theirs in zip(fast, slow, strict=True):
        np.testing.assert_allclose(x, theirs, atol=1e-10)
        np.testing.assert_array_equal(x == 0, theirs == 0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("storage", ["C", "F", "sparse"])
def test_rows_with_shared_weights_follow_the_core(weighted, intercept, storage):
    A, tau, x0 = problem(2, T=3)
    n, p = A.shape
    w = np.random.default_rng(1).random(n) + 0.1 if weighted else np.full(n, 0.25)
    reg = BoundGroups(Rows(4.0), p, 3)
    B = centre(A, w, intercept)
    target = tau - (w @ tau) / w.sum() if intercept else tau
    slow = literal(
        [list(range(3 * j, 3 * j + 3)) for j in range(p)],
        lambda x, j: B[:, j] @ (w[:, None] * (B @ x.reshape(p, 3) - target)),
        lambda j, u, t: Rows(4.0).prox(u, float(t), j),
        Fixed([float(w @ B[:, j] ** 2) for j in range(p)]),
        x0.reshape(-1),
    )
    columns = stored(A, storage).panel(NONE, w, intercept)
    panel = GroupPanel(columns, reg.columns, reg.starts, reg.rotated, 3)
    for (x, R), theirs in zip(run(panel, reg, x0, target - B @ x0, w), slow, strict=True):
        np.testing.assert_allclose(x, theirs, atol=1e-10)
        np.testing.assert_array_equal(x == 0, theirs == 0)
        np.testing.assert_allclose(R, target - B @ theirs.reshape(p, 3), atol=1e-9)


@pytest.mark.parametrize("penalty", [Rows(1.0), L1(0.7), MCP(0.7, 2.0)], ids=repr)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("storage", ["C", "F", "sparse"])
def test_rows_with_weights_by_output_follow_the_core(penalty, intercept, storage):
    A, tau, x0 = problem(3, T=3)
    n, p = A.shape
    W = np.random.default_rng(1).random((n, 3)) + 0.1
    reg = BoundGroups(penalty, p, 3) if isinstance(penalty, Rows) else BoundEntries(penalty, p, 3)
    means = (W.T @ A / W.sum(0)[:, None]).T * intercept  # (p, T)
    target = tau - (W * tau).sum(0) / W.sum(0) * intercept
    B = [A - means[:, t] for t in range(3)]  # centred by output
    core = CoreGroupL2(1.0)

    def at(x):
        return np.stack([B[t] @ x[:, t] for t in range(3)], axis=1)

    def gradient(x, j):
        R = W * (at(x.reshape(p, 3)) - target)
        return np.array([B[t][:, j] @ R[:, t] for t in range(3)])

    def prox(j, u, t):
        if reg.entrywise:
            pairs = zip(u, t, strict=True)
            return np.array([penalty.prox(float(a), float(b), j) for a, b in pairs])
        return core.prox(u, t)

    D = [np.array([W[:, t] @ B[t][:, j] ** 2 for t in range(3)]) for j in range(p)]
    slow = literal([list(range(3 * j, 3 * j + 3)) for j in range(p)], gradient, prox, Fixed(D),
                   x0.reshape(-1))  # fmt: skip
    panel = OutputPanel(stored(A, storage), W, intercept, reg)
    for (x, R), theirs in zip(run(panel, reg, x0, target - at(x0), W), slow, strict=True):
        np.testing.assert_allclose(x, theirs, atol=1e-10)
        np.testing.assert_array_equal(x == 0, theirs == 0)
        np.testing.assert_allclose(R, target - at(theirs.reshape(p, 3)), atol=1e-9)


def test_an_extrapolation_that_is_no_lower_is_taken_back(monkeypatch):
    A, tau, x0 = problem()
    reg = BoundGroups(GroupL2(0.01, GROUPS), 12, 1)
    w, blocks = np.full(len(A), 0.25), np.arange(5)
    panel = groups(A, "F", reg, w, False)
    panel.include(blocks)
    ends = []
    for value in (lambda self, blocks: 0.0, None):  # never lower, and as it is
        panel.start(np.sqrt(w) * (tau - A @ x0), x0[reg.columns].copy())
        descent = Descent(panel, reg)
        if value is not None:
            monkeypatch.setattr(Descent, "value", value)
        assert descent.burst(blocks, DEPTH, 0.0)[0] == DEPTH
        monkeypatch.undo()
        ends.append((panel.x.copy(), panel.R.copy(), descent))
    x, R, descent = ends[0]
    np.testing.assert_array_equal(x, descent.past[0][-1])
    np.testing.assert_array_equal(R, descent.past[1][-1])
    assert not np.array_equal(ends[1][0], x)  # here it was lower


@pytest.mark.parametrize("intercept", [False, True])
def test_from_a_known_gradient_single_precision_rounds_only_what_changes(intercept):
    A, tau, _ = problem(4, n=60)
    reg = BoundGroups(GroupL2(0.5, GROUPS), 12, 1)
    w, x = np.full(60, 1 / 60), np.zeros(12)
    B = centre(A, w, intercept)[:, reg.columns]
    target = tau - (w @ tau) / w.sum() if intercept else tau
    panel = GroupPanel(
        stored(A, "F").panel(NONE, w, intercept, np.float32), reg.columns, reg.starts, True
    )
    blocks = np.arange(5)
    panel.include(blocks)
    for far in (3e-6, 1e-11):  # each start goes on where float32 has left off
        g = B.T @ (w * (B @ x - target))
        panel.start(np.sqrt(w) * (target - B @ x), x, (g, 0.0))
        Descent(panel, reg).run(blocks, 0.3 * far, 5_000)
        x = panel.x
        g = B.T @ (w * (B @ x - target))
        assert reg.distances(blocks, x, g).max() < far
    assert panel.R.dtype == np.float32
    np.testing.assert_allclose(panel.residual(), np.sqrt(w) * (target - B @ x), atol=1e-7)
