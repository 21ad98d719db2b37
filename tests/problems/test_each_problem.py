"""What is particular to each problem: what it should find, and what it refuses."""

import numpy as np
import pytest
import torch
from problem_cases import CASES, somewhere
from sklearn.datasets import load_digits

from cyclade import L1
from cyclade.problems import (
    NMF,
    GemanMcClure,
    LinearProblem,
    LogisticRegression,
    MatrixCompletion,
    NuclearCompletion,
    PhaseRetrieval,
    PLQuadratic,
    Squared,
    Tukey,
    Welsch,
)
from cyclade.theory import L_hat, L_tilde, pl_bound, quadratic_Q


@pytest.mark.parametrize("loss", [Welsch(), GemanMcClure(), Tukey()])
def test_robust_regression_ignores_outliers(loss):
    rng = np.random.default_rng(0)
    A, truth = rng.normal(size=(200, 10)), np.zeros(10)
    truth[:3] = [3.0, -2.0, 1.0]
    y = A @ truth + 0.1 * rng.normal(size=200)
    y[:30] += 50.0
    found = LinearProblem(A, y, loss, reg=L1(0.02)).minimize(tol=1e-7)
    assert found.success
    np.testing.assert_allclose(found.x, truth, atol=0.1)
    plain = LinearProblem(A, y, Squared()).minimize(tol=1e-7).x
    assert np.abs(plain - truth).max() > 0.5


@pytest.mark.parametrize("seed", range(5))
def test_phase_retrieval_finds_the_signal_up_to_sign(seed):
    rng = np.random.default_rng(seed)
    A, signal = rng.normal(size=(200, 20)), rng.normal(size=20)
    problem = PhaseRetrieval(A, (A @ signal) ** 2, blocks=4)
    found = problem.minimize(problem.x0(seed), tol=1e-8, max_cycles=5000)
    assert found.success
    assert min(np.abs(found.x - signal).max(), np.abs(found.x + signal).max()) < 1e-6


def test_the_origin_is_stationary_in_phase_retrieval_but_the_start_is_not():
    problem = CASES["phase retrieval"]()
    assert not problem.jac(np.zeros(problem.d)).any()
    assert np.linalg.norm(problem.x0()) > 0.1


DIGITS = load_digits().data[:300] / 16.0


@pytest.mark.parametrize(("blocks", "factor"), [("factors", 1.15), ("components", 1.03)])
def test_nmf_is_monotone_and_as_good_as_scikit_learn(blocks, factor):
    from sklearn.decomposition import NMF as SklearnNMF

    theirs = SklearnNMF(6, solver="cd", init="random", random_state=0, max_iter=100, tol=0)
    theirs.fit(DIGITS)
    problem = NMF(DIGITS, 6, blocks=blocks)
    result = problem.minimize(max_cycles=100, tol=None, every=1)
    assert np.all(np.diff(result.history["fun"]) <= 1e-12)
    W, H = problem.factors(result.x)
    assert min(W.min(), H.min()) >= 0
    ours = np.linalg.norm(DIGITS - W @ H)
    assert result.fun == pytest.approx(ours**2 / (2 * len(DIGITS)), rel=1e-10)
    assert ours**2 <= factor * theirs.reconstruction_err_**2


def test_nmf_by_components_is_hals():
    problem = NMF(DIGITS, 4, blocks="components")
    x0 = problem.x0(3)
    W, H = (np.array(a) for a in problem.factors(x0))
    for _ in range(5):
        for r in range(4):
            W[:, r] = np.maximum(0, W[:, r] + (DIGITS - W @ H) @ H[r] / (H[r] @ H[r]))
        for r in range(4):
            H[r] = np.maximum(0, H[r] + W[:, r] @ (DIGITS - W @ H) / (W[:, r] @ W[:, r]))
    result = problem.minimize(x0, max_cycles=5, tol=None, returns="last")
    for ours, theirs in zip(problem.factors(result.x), (W, H), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("make", [MatrixCompletion, NuclearCompletion])
def test_completion_predicts_what_was_not_seen(make):
    rng = np.random.default_rng(1)
    M = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 30))
    seen = rng.random(M.shape) < 0.6
    rows, columns = np.nonzero(seen)
    if make is MatrixCompletion:
        problem = make(rows, columns, M[seen], M.shape, 2, lam=1e-7)
        X = problem.matrix(problem.minimize(max_cycles=1000, tol=1e-6).x)
    else:
        problem = make(rows, columns, M[seen], M.shape, lam=1e-3)
        X = problem.minimize(max_cycles=300, tol=1e-6).x
    error = np.linalg.norm((X - M)[~seen]) / np.linalg.norm(M[~seen])
    assert error < 0.1


def test_pl_constants_are_exact():
    problem = PLQuadratic.random(n=30, d=10, rank=5, blocks=[3, 3, 4], rng=2)
    eigenvalues = np.linalg.eigvalsh(problem.hessian)
    assert np.sum(eigenvalues > 1e-10) == 5  # singular: not strongly convex
    weights = np.repeat(problem.L, problem.sizes)
    ratios = []
    for seed in range(200):
        x = somewhere(problem, seed, 3.0)
        gap = problem.fun(x) - problem.f_star
        ratios.append(np.sum(problem.jac(x) ** 2 / weights) / (2 * gap))
    assert min(ratios) >= problem.mu * (1 - 1e-9)
    root = np.sqrt(weights)
    values, vectors = np.linalg.eigh(problem.hessian / (root[:, None] * root))
    x = problem.x_star + vectors[:, values > 1e-10][:, 0] / root  # where PŁ is an equality
    gap = problem.fun(x) - problem.f_star
    equality = np.sum(problem.jac(x) ** 2 / weights) / (2 * gap)
    assert equality == pytest.approx(problem.mu, rel=1e-8)


def test_pl_minimum_and_constants_agree_with_the_theory():
    problem = PLQuadratic.random(rng=3)
    assert np.abs(problem.jac(problem.x_star)).max() < 1e-12
    Q = quadratic_Q(problem.hessian, problem.L, problem.sizes)
    assert problem.constants.L_hat == pytest.approx(L_hat(Q, problem.L, problem.sizes))
    assert problem.constants.L_tilde == pytest.approx(L_tilde(Q, problem.L, problem.sizes))
    Lambda, expected = problem.expected
    assert all(ours >= f for ours, f in zip(Lambda, problem.L, strict=True))
    assert expected.L_hat >= 1


def test_p_ccd_obeys_the_linear_rate():
    problem = PLQuadratic.random(rng=4)
    result = problem.minimize(problem.x_star + 1.0, max_cycles=50, tol=None, every=1)
    gaps = np.array(result.history["fun"]) - problem.f_star
    for k, gap in enumerate(gaps):
        assert gap <= pl_bound(problem.constants.L_hat, problem.mu, gaps[0], k) + 1e-14


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
    "V must not be negative": lambda: NMF(-A22, 1),
    "rank must be at least 1, got 0": lambda: NMF(A22, 0),
    "blocks must be 'factors' or 'components'": lambda: NMF(A22, 1, blocks="rows"),
    "rows must be integers between 0 and 1": lambda: MatrixCompletion([2], [0], [1.0], (2, 2), 1),
    "columns must have 1 entries": lambda: MatrixCompletion([1], [0, 1], [1.0], (2, 2), 1),
    "rank must be between 1 and min": lambda: PLQuadratic.random(n=3, d=2, rank=3),
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_data_are_refused_at_once(message):
    with pytest.raises(ValueError, match=message):
        REFUSED[message]()


def test_what_needs_dense_data_says_so():
    problem = CASES["logistic, sparse"]()
    with pytest.raises(TypeError, match="dense"):
        problem.torch_fun(torch.zeros(7))
    with pytest.raises(TypeError, match="dense"):
        PLQuadratic(problem.A, problem.y)
