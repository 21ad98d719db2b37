"""What holds for every problem: gradients, block gradients, curvature bounds, a certificate."""

import copy

import numpy as np
import pytest
import torch
from problem_cases import CASES, flat, somewhere, structured

import cyclade
from cyclade.problems import NMF, LinearProblem, LogisticRegression, Problem


@pytest.fixture(params=CASES, name="problem")
def _problem(request):
    return CASES[request.param]()


SAMPLES = [None, "all", np.array([0, 3, 4]), np.array([5])]


def _idx(problem, sample):
    return np.arange(problem.n) if isinstance(sample, str) else sample


@pytest.mark.parametrize("sample", SAMPLES, ids=["none", "all", "three", "one"])
def test_the_gradient_is_that_of_the_value(problem, sample):
    idx, x = _idx(problem, sample), somewhere(problem, 1)
    v, gradient = flat(problem, x), flat(problem, problem.jac(x, idx))
    h = 1e-6
    for t, e in enumerate(np.eye(len(v)) * h):
        up = problem.fun(structured(problem, v + e), idx)
        down = problem.fun(structured(problem, v - e), idx)
        assert (up - down) / (2 * h) == pytest.approx(gradient[t], rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("sample", SAMPLES, ids=["none", "all", "three", "one"])
def test_block_gradients_are_blocks_of_the_gradient(problem, sample):
    idx, x = _idx(problem, sample), somewhere(problem, 2)
    whole = problem.layout.split(problem.jac(x, idx))
    for j, part in enumerate(whole):
        np.testing.assert_allclose(problem.block_jac(x, j, idx), part, rtol=1e-10, atol=1e-12)
        assert problem.block_jac(x, j, idx).shape == problem.layout.block_shapes[j]


def test_the_mean_over_a_partition_of_the_terms_is_f(problem):
    x = somewhere(problem, 3)
    terms = [problem.fun(x, np.array([i])) for i in range(problem.n)]
    assert np.mean(terms) == pytest.approx(problem.fun(x), rel=1e-12)
    gradients = [flat(problem, problem.jac(x, np.array([i]))) for i in range(problem.n)]
    np.testing.assert_allclose(
        np.mean(gradients, axis=0), flat(problem, problem.jac(x)), rtol=1e-9, atol=1e-12
    )


def test_two_samples_in_turn_are_not_confused(problem):
    x, idx = somewhere(problem, 3), np.array([6, 7])
    first = flat(problem, problem.jac(x, idx))
    problem.jac(x, np.array([2, 3]))
    assert (flat(problem, problem.jac(x, idx)) == first).all()
    idx[:] = [4, 5]  # a caller may reuse its buffer
    assert not (flat(problem, problem.jac(x, idx)) == first).all()


@pytest.mark.parametrize("scale", [0.01, 1.0, 10.0])
def test_L_bounds_the_curvature_of_every_block(problem, scale):
    rng = np.random.default_rng(5)
    largest = np.zeros(problem.layout.m)
    for seed in range(10):
        x = problem.layout.point(somewhere(problem, seed, scale))
        for j in range(problem.layout.m):
            y = x.copy()
            y.set(j, y.get(j) + scale * rng.normal(size=y.get(j).shape) * rng.choice([0.01, 1.0]))
            bend = problem.block_jac(y.whole(), j) - problem.block_jac(x.whole(), j)
            apart = y.get(j) - x.get(j)
            Lambda = _Lambda(problem, j, x)
            if Lambda is None:
                return
            ratio = np.sqrt(np.sum(bend**2 / Lambda) / np.sum(Lambda * apart**2))
            assert ratio <= 1 + 1e-6  # Assumption 2
            largest[j] = max(largest[j], ratio)
    if scale == 0.01:
        assert largest.max() > 0.25  # a bound that means something


def _Lambda(problem, j, x):
    return problem.local_L(j, x) if problem.L is None else problem.L[j]


def test_a_certificate_is_reached_from_an_untouched_start(problem):
    x0 = problem.x0(0)
    kept = copy.deepcopy(x0)
    result = problem.minimize(x0, tol=1e-5, max_cycles=20_000)
    assert result.success, result.message
    assert result.squared_distance <= 1e-10
    assert result.distance_kind == "exact"
    assert (flat(problem, x0) == flat(problem, kept)).all()
    assert np.all(np.diff(result.history["fun"]) <= 1e-12)


@pytest.mark.parametrize("method", ["SCCD", "VR-CCD", "VRO-CCD", "PAGE", "SGD"])
def test_every_method_makes_progress(problem, method):
    eta = 0.2 if problem.L is not None and isinstance(problem, LinearProblem) else 0.02
    L = "estimate" if problem.L is None else None
    result = problem.minimize(method=method, eta=eta, L=L, max_cycles=60, returns="best")
    assert result.fun < result.history["fun"][0]
    assert result.samples > 0


@pytest.mark.parametrize("name", ["logistic", "Tukey", "phase retrieval", "NMF, factors"])
def test_greedy_agrees_with_and_without_block_gradients(name):
    problem = CASES[name]()
    fast = problem.minimize(order="greedy", max_cycles=5, tol=None)
    slow = problem.minimize(order="greedy", max_cycles=5, tol=None, block_jac=problem.block_jac)
    np.testing.assert_allclose(flat(problem, fast.x), flat(problem, slow.x), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", [n for n in CASES if "sparse" not in n and "nuclear" not in n])
def test_torch_differentiates_its_twin_to_the_same_gradient(name):
    problem = CASES[name]()
    x, idx = somewhere(problem, 4), np.array([1, 2, 6])
    leaves = [torch.tensor(a, requires_grad=True) for a in _leaves(x)]
    value = problem.torch_fun(problem.layout.structured(leaves), torch.tensor(idx))
    assert value.item() == pytest.approx(problem.fun(x, idx), rel=1e-12)
    found = torch.autograd.grad(value, leaves)
    gradient = np.concatenate([g.numpy().ravel() for g in found])
    np.testing.assert_allclose(gradient, flat(problem, problem.jac(x, idx)), rtol=1e-9, atol=1e-12)


def _leaves(x):
    return list(x.values()) if isinstance(x, dict) else [x]


def test_torch_and_numpy_follow_the_same_trajectory():
    problem = CASES["logistic"]()
    options = {"method": "VRO-CCD", "max_cycles": 20, "tol": None, "eta": 0.3, "returns": "last"}
    ours = problem.minimize(**options)
    theirs = cyclade.minimize(
        problem.torch_fun, torch.zeros(7, dtype=torch.float64), n=problem.n, blocks=problem.blocks,
        reg=problem.reg, L=problem.L, **options,
    )  # fmt: skip
    np.testing.assert_allclose(theirs.x.numpy(), ours.x, rtol=1e-10, atol=1e-13)


def test_sparse_and_dense_agree():
    sparse = CASES["logistic, sparse"]()
    dense = LogisticRegression(sparse.A.toarray(), sparse.y, blocks=3, reg=sparse.reg)
    assert pytest.approx(sparse.L) == dense.L
    for method in ("P-CCD", "VRO-CCD"):
        options = {"method": method, "tol": None, "max_cycles": 15, "returns": "last"}
        ours, theirs = dense.minimize(**options), sparse.minimize(**options)
        np.testing.assert_allclose(ours.x, theirs.x, rtol=1e-9, atol=1e-12)


def test_a_problem_needs_only_values_and_gradients():
    class Plain(NMF):
        block_jac = Problem.block_jac
        local_L = Problem.local_L

    plain = Plain(np.outer([1.0, 2.0], [1.0, 3.0]) + 0.1, 1)
    result = plain.minimize(tol=1e-6)
    assert result.success
