"""The problems: gradients, bounds, certificates, what each should find, and what it refuses."""

import numpy as np
import pytest
import scipy.sparse

from cyclade import L1
from cyclade.methods import VROCCD
from cyclade.problems import (
    GemanMcClure,
    LinearProblem,
    LogisticRegression,
    PhaseRetrieval,
    PLQuadratic,
    Squared,
    Tukey,
    Welsch,
)
from cyclade.theory import L_hat, L_tilde, quadratic_Q

RNG = np.random.default_rng(7)
A = RNG.normal(size=(30, 7))
LABELS = np.sign(A[:, 0] + 0.5 * RNG.normal(size=30))
TARGETS = A @ np.array([2.0, 0, 0, -1.0, 0, 0, 0.5]) + 0.1 * RNG.normal(size=30)
TARGETS[:4] = 40.0
SIGNAL = RNG.normal(size=7)
SPARSE = scipy.sparse.csr_matrix(np.where(np.abs(A) > 0.5, A, 0.0))
CASES = {
    "logistic": lambda: LogisticRegression(A, LABELS, alpha=0.05, blocks=3, reg=L1(0.01)),
    "logistic, sparse": lambda: LogisticRegression(SPARSE, LABELS, blocks=3, reg=L1(0.02)),
    "logistic, index blocks": lambda: LogisticRegression(
        A, LABELS, blocks=[[0, 6], [1, 3, 5], [2, 4]], reg=L1(0.02)
    ),
    "Welsch": lambda: LinearProblem(A, TARGETS, Welsch(), blocks=3, reg=L1(0.01)),
    "Geman-McClure": lambda: LinearProblem(A, TARGETS, GemanMcClure(), blocks=3, reg=L1(0.01)),
    "Tukey": lambda: LinearProblem(A, TARGETS, Tukey(), blocks="coordinates", reg=L1(0.01)),
    "squared": lambda: LinearProblem(A, TARGETS, Squared(), alpha=0.1, blocks=[2, 5]),
    "phase retrieval": lambda: PhaseRetrieval(A, (A @ SIGNAL) ** 2, blocks=3),
    "PL quadratic": PLQuadratic.random,
}
SAMPLES = {"none": None, "all": "all", "three": np.array([0, 3, 4]), "one": np.array([5])}


@pytest.fixture(params=CASES, name="problem")
def _problem(request):
    return CASES[request.param]()


def somewhere(problem, seed, scale=1.0):
    """A random point."""
    return scale * np.random.default_rng(seed).normal(size=problem.d)


@pytest.mark.parametrize("sample", SAMPLES)
def test_gradients_are_those_of_the_value_whole_and_by_blocks(problem, sample):
    idx, x, h = SAMPLES[sample], somewhere(problem, 1), 1e-6
    idx = np.arange(problem.n) if sample == "all" else idx
    gradient = problem.jac(x, idx)
    for t, e in enumerate(np.eye(len(x)) * h):
        slope = (problem.fun(x + e, idx) - problem.fun(x - e, idx)) / (2 * h)
        assert slope == pytest.approx(gradient[t], rel=1e-5, abs=1e-7)
    for j, part in enumerate(problem.layout.split(gradient)):
        np.testing.assert_allclose(problem.block_jac(x, j, idx), part, rtol=1e-10, atol=1e-12)


def test_the_mean_over_a_partition_of_the_terms_is_f(problem):
    x = somewhere(problem, 3)
    terms = [problem.fun(x, np.array([i])) for i in range(problem.n)]
    assert np.mean(terms) == pytest.approx(problem.fun(x), rel=1e-12)
    gradients = [problem.jac(x, np.array([i])) for i in range(problem.n)]
    np.testing.assert_allclose(np.mean(gradients, axis=0), problem.jac(x), rtol=1e-9, atol=1e-12)


def test_two_samples_in_turn_are_not_confused(problem):
    x, idx = somewhere(problem, 3), np.array([6, 7])
    first = problem.jac(x, idx)
    problem.jac(x, np.array([2, 3]))
    assert (problem.jac(x, idx) == first).all()
    idx[:] = [4, 5]  # a caller may reuse its buffer
    assert not (problem.jac(x, idx) == first).all()


@pytest.mark.parametrize("scale", [0.01, 1.0, 10.0])
@pytest.mark.parametrize("name", [name for name in CASES if name != "phase retrieval"])
def test_L_bounds_the_curvature_of_every_block(name, scale):
    problem, rng = CASES[name](), np.random.default_rng(5)
    largest = 0.0
    for seed in range(10):
        x = problem.layout.point(somewhere(problem, seed, scale))
        for j, L in enumerate(problem.L):
            y = x.copy()
            y.set(j, y.get(j) + scale * rng.normal(size=y.get(j).shape) * rng.choice([0.01, 1.0]))
            bend = problem.block_jac(y.whole(), j) - problem.block_jac(x.whole(), j)
            ratio = np.linalg.norm(bend) / (L * np.linalg.norm(y.get(j) - x.get(j)))
            assert ratio <= 1 + 1e-6  # Assumption 2
            largest = max(largest, ratio)
    if scale == 0.01:
        assert largest > 0.25  # a bound that means something


def test_a_certificate_is_reached_from_an_untouched_start(problem):
    x0 = problem.x0(0)
    kept = x0.copy()
    result = problem.minimize(x0, tol=1e-5, max_cycles=20_000)
    assert result.success, result.message
    assert result.squared_distance <= 1e-10
    assert result.distance_kind == "exact"
    assert (x0 == kept).all()
    assert np.all(np.diff(result.history["fun"]) <= 1e-12)


def test_a_method_as_an_object_is_the_one_by_name():
    problem = PLQuadratic.random(n=40, d=12, rank=6, blocks=4)
    by_name = problem.minimize(method="VRO-CCD", b=20, order="greedy", max_cycles=30)
    as_object = problem.minimize(method=VROCCD(b=20, order="greedy"), max_cycles=30)
    np.testing.assert_array_equal(as_object.x, by_name.x)
    own = problem.minimize(method=VROCCD(b=20, steps="scaled"), max_cycles=30)
    assert own.fun != by_name.fun  # steps of one's own stay


def test_sparse_and_dense_agree():
    sparse = CASES["logistic, sparse"]()
    dense = LogisticRegression(sparse.A.toarray(), sparse.y, blocks=3, reg=sparse.reg)
    assert pytest.approx(sparse.L) == dense.L
    for method in ("P-CCD", "VRO-CCD"):
        options = {"method": method, "tol": None, "max_cycles": 15, "returns": "last"}
        ours, theirs = dense.minimize(**options), sparse.minimize(**options)
        np.testing.assert_allclose(ours.x, theirs.x, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("loss", [Welsch(), GemanMcClure(), Tukey()])
def test_robust_regression_ignores_outliers(loss):
    rng = np.random.default_rng(0)
    rows, truth = rng.normal(size=(200, 10)), np.zeros(10)
    truth[:3] = [3.0, -2.0, 1.0]
    y = rows @ truth + 0.1 * rng.normal(size=200)
    y[:30] += 50.0
    found = LinearProblem(rows, y, loss, reg=L1(0.02)).minimize(tol=1e-7)
    assert found.success
    np.testing.assert_allclose(found.x, truth, atol=0.1)
    plain = LinearProblem(rows, y, Squared()).minimize(tol=1e-7).x
    assert np.abs(plain - truth).max() > 0.5


@pytest.mark.parametrize("seed", range(5))
def test_phase_retrieval_finds_the_signal_up_to_sign(seed):
    rng = np.random.default_rng(seed)
    rows, signal = rng.normal(size=(200, 20)), rng.normal(size=20)
    problem = PhaseRetrieval(rows, (rows @ signal) ** 2, blocks=4)
    assert not problem.jac(np.zeros(20)).any()  # stationary; so the start is another point
    found = problem.minimize(problem.x0(seed), tol=1e-8, max_cycles=5000)
    assert found.success
    assert min(np.abs(found.x - signal).max(), np.abs(found.x + signal).max()) < 1e-6


def test_pl_constants_are_exact():
    problem = PLQuadratic.random(n=30, d=10, rank=5, blocks=[3, 3, 4], rng=2)
    eigenvalues = np.linalg.eigvalsh(problem.hessian)
    assert np.sum(eigenvalues > 1e-10) == 5  # singular: not strongly convex
    weights = np.repeat(problem.L, problem.sizes)

    def ratio(x):
        return np.sum(problem.jac(x) ** 2 / weights) / (2 * (problem.fun(x) - problem.f_star))

    ratios = [ratio(somewhere(problem, seed, 3.0)) for seed in range(200)]
    assert min(ratios) >= problem.mu * (1 - 1e-9)
    root = np.sqrt(weights)
    values, vectors = np.linalg.eigh(problem.hessian / (root[:, None] * root))
    x = problem.x_star + vectors[:, values > 1e-10][:, 0] / root  # where PŁ is an equality
    assert ratio(x) == pytest.approx(problem.mu, rel=1e-8)


def test_pl_minimum_and_constants_agree_with_the_theory():
    problem = PLQuadratic.random(rng=3)
    assert np.abs(problem.jac(problem.x_star)).max() < 1e-12
    Q = quadratic_Q(problem.hessian, problem.L, problem.sizes)
    assert problem.constants.L_hat == pytest.approx(L_hat(Q, problem.L, problem.sizes))
    assert problem.constants.L_tilde == pytest.approx(L_tilde(Q, problem.L, problem.sizes))
    Lambda, expected = problem.expected
    assert all(ours >= f for ours, f in zip(Lambda, problem.L, strict=True))
    assert expected.L_hat >= 1


A22 = np.ones((2, 2))
REFUSED = {
    "y must have 2 entries": lambda: LogisticRegression(A22, [1.0]),
    "Logistic: y must hold labels -1 and 1": lambda: LogisticRegression(A22, [0.0, 1.0]),
    "A contains NaN": lambda: LinearProblem([[np.nan, 1.0]], [1.0], "squared"),
    "A must be a non-empty 2-D array": lambda: LinearProblem([1.0, 2.0], [1.0, 2.0], "squared"),
    "loss: there is no 'cubed'": lambda: LinearProblem(A22, [1.0, 2.0], "cubed"),
    r"loss: give an object, Squared\(...\)": lambda: LinearProblem(A22, [1.0, 2.0], Squared),
    "has several outputs": lambda: LinearProblem(A22, [0, 1], "multinomial"),
    "Poisson: y must hold finite numbers >= 0": lambda: LinearProblem(A22, [-1, 1], "poisson"),
    "alpha must be at least 0": lambda: LogisticRegression(A22, [1.0, 1.0], alpha=-1.0),
    "intensities, at least 0": lambda: PhaseRetrieval(A22, [1.0, -1.0]),
    "rank must be between 1 and min": lambda: PLQuadratic.random(n=3, d=2, rank=3),
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_data_are_refused_at_once(message):
    with pytest.raises(ValueError, match=message):
        REFUSED[message]()


def test_a_pl_quadratic_needs_dense_data():
    with pytest.raises(TypeError, match="dense"):
        PLQuadratic(SPARSE, TARGETS)
