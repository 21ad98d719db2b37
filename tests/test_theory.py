"""The executable theory against brute force, the paper's definitions and its own proofs."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cyclade import theory
from cyclade.theory import (
    Budget,
    c0,
    c0_pl,
    estimate_constants,
    lemma1_variance,
    max_eta,
    max_eta_pl,
    pl_bound,
    pl_vr_bound,
    plan_finite_sum,
    plan_finite_sum_pl,
    plan_infinite_sum,
    plan_infinite_sum_pl,
    q_hat,
    q_tilde,
    quadratic_constants,
    quadratic_Lambda,
    quadratic_Q,
    theorem1_bound,
    theorem2_bound,
    variance_recursion,
)

SIZES = [[5], [2, 3], [1, 1, 3], [1, 1, 1, 1, 1]]
examples = settings(max_examples=100, deadline=None)


@pytest.fixture
def rng():
    return np.random.default_rng(20240)


def symmetric(rng, *shape):
    M = rng.standard_normal(shape)
    return M + np.swapaxes(M, -1, -2)


def blocks(sizes):
    ends = np.cumsum(sizes)
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def diagonal_of(Lambda, sizes):
    return np.concatenate([np.broadcast_to(v, s) for v, s in zip(Lambda, sizes, strict=True)])


# --- constants ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", SIZES)
def test_q_hat_and_q_tilde_element_by_element(rng, sizes):
    Q = symmetric(rng, 5, 5)
    for j in range(1, len(sizes) + 1):
        before = sum(sizes[: j - 1])
        hat, tilde = q_hat(Q, j, sizes), q_tilde(Q, j, sizes)
        for t, k in itertools.product(range(1, 6), repeat=2):  # 1-based, as in the paper
            assert hat[t - 1, k - 1] == (Q[t - 1, k - 1] if min(t, k) > before else 0)
            assert tilde[t - 1, k - 1] == (Q[t - 1, k - 1] if max(t, k) <= before else 0)


@pytest.mark.parametrize("sizes", SIZES)
def test_L_hat_and_L_tilde_are_sharp_in_the_inequalities_that_define_them(rng, sizes):
    """Σ_j (x − y cut)ᵀ Q^j (x − y cut) ≤ L̂ ‖x − y‖²_Λ, with equality at the top eigenvector."""
    W = rng.standard_normal((len(sizes), 5, 5))
    Q = W @ np.swapaxes(W, 1, 2)
    Lambda = rng.uniform(0.5, 2, 5)
    for cut, constant in ((q_hat, theory.L_hat), (q_tilde, theory.L_tilde)):
        total = sum(cut(Qj, j, sizes) for j, Qj in enumerate(Q, start=1))
        L = constant(Q, Lambda, sizes)
        eigenvalues = np.linalg.eigvals(total / Lambda[:, None])  # of Λ⁻¹ΣQ, similar to the scaled
        assert eigenvalues.real.max() == pytest.approx(L, abs=1e-12)
        for z in rng.standard_normal((20, 5)):
            assert z @ total @ z <= L * (z**2 @ Lambda) * (1 + 1e-12)


@pytest.mark.parametrize("sizes", SIZES)
def test_worst_case_L_hat_is_m_and_L_tilde_m_minus_1(sizes):
    m, Q = len(sizes), [3.0 * np.eye(5)] * len(sizes)
    assert theory.L_hat(Q, 3.0, sizes) == pytest.approx(m)
    assert theory.L_tilde(Q, 3.0, sizes) == pytest.approx(m - 1)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("shape", [(5, 5), (4, 5, 5)])
def test_invariants_of_quadratics_with_the_smallest_Lambda(rng, sizes, shape):
    A = symmetric(rng, *shape)
    Lambda = quadratic_Lambda(A, sizes)
    L_hat, L_tilde = quadratic_constants(A, Lambda, sizes)
    scaled = quadratic_Q(A, Lambda, sizes) / np.sqrt(np.outer(*[np.repeat(Lambda, sizes)] * 2))
    above = sum(np.linalg.norm(Qj, 2) for Qj in scaled)
    assert 1 - 1e-12 <= L_hat <= above * (1 + 1e-12)
    # U = D + S in the scaled triangles, and ‖D‖ = 1 exactly for a single quadratic
    if len(shape) == 2:
        assert math.sqrt(L_hat) <= 1 + math.sqrt(L_tilde) + 1e-12
    # Λ → tΛ scales both constants by 1/t²
    doubled = quadratic_constants(A, 2 * Lambda, sizes)
    assert doubled == pytest.approx((L_hat / 4, L_tilde / 4))


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("shape", [(5, 5), (4, 5, 5)])
def test_quadratic_constants_equal_the_definitions(rng, sizes, shape):
    A, Lambda = symmetric(rng, *shape), rng.uniform(0.5, 2, 5)
    Q = quadratic_Q(A, Lambda, sizes)
    expected = theory.L_hat(Q, Lambda, sizes), theory.L_tilde(Q, Lambda, sizes)
    assert quadratic_constants(A, Lambda, sizes) == pytest.approx(expected)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("n", [None, 4])
def test_assumptions_3_and_7_hold_with_equality(rng, sizes, n):
    A = symmetric(rng, *((n,) if n else ()), 5, 5)
    Lambda = rng.uniform(0.5, 2, 5)
    Q = quadratic_Q(A, Lambda, sizes)
    assert Q.shape == (len(sizes), 5, 5)
    for z in rng.standard_normal((10, 5)):
        for Qj, block in zip(Q, blocks(sizes), strict=True):
            squares = [(Ai @ z)[block] ** 2 @ (1 / Lambda[block]) for Ai in A.reshape(-1, 5, 5)]
            assert np.mean(squares) == pytest.approx(z @ Qj @ z)


@pytest.mark.parametrize("sizes", SIZES)
def test_assumption_2_holds_and_its_L_j_is_the_smallest(rng, sizes):
    A = symmetric(rng, 5, 5)
    for L, block in zip(quadratic_Lambda(A, sizes), blocks(sizes), strict=True):
        Ajj = A[block, block]
        for u in rng.standard_normal((20, len(Ajj))):
            assert np.linalg.norm(Ajj @ u) <= L * np.linalg.norm(u) * (1 + 1e-12)
        top = np.linalg.svd(Ajj)[2][0]
        assert np.linalg.norm(Ajj @ top) == pytest.approx(L)


@pytest.mark.parametrize("sizes", SIZES)
def test_assumption_6_holds_and_so_does_2_for_the_mean(rng, sizes):
    A = symmetric(rng, 4, 5, 5)
    Lambda = quadratic_Lambda(A, sizes)
    assert np.all(Lambda >= quadratic_Lambda(A.mean(axis=0), sizes) - 1e-12)
    for L, block in zip(Lambda, blocks(sizes), strict=True):
        stack = A[:, block, block]
        for u in rng.standard_normal((20, stack.shape[1])):
            assert np.mean(np.linalg.norm(stack @ u, axis=1)) <= L * np.linalg.norm(u) * (1 + 1e-12)
        mean_square = np.mean(stack @ stack, axis=0)
        assert np.linalg.norm(mean_square, 2) == pytest.approx(L**2)


def test_every_way_to_give_Lambda(rng):
    A, sizes = symmetric(rng, 5, 5), [2, 3]
    full = np.array([2.0, 2.0, 3.0, 3.0, 3.0])
    expected = quadratic_Q(A, full, sizes)
    for Lambda in ([2, 3], np.array([2.0, 3.0]), (np.full(2, 2.0), np.full(3, 3.0)), list(full)):
        np.testing.assert_array_equal(quadratic_Q(A, Lambda, sizes), expected)
    np.testing.assert_array_equal(quadratic_Q(A, 2, sizes), quadratic_Q(A, [2.0] * 5, sizes))
    np.testing.assert_array_equal(
        quadratic_Q(A, np.array(2.0), [5]), quadratic_Q(A, [np.full(5, 2.0)], [5])
    )


@pytest.mark.parametrize("sizes", SIZES)
def test_estimates_are_exact_on_quadratics_and_never_above(rng, sizes):
    A, Lambda = symmetric(rng, 5, 5), rng.uniform(0.5, 2, 5)
    exact = quadratic_constants(A, Lambda, sizes)
    common = {"points": 1, "rng": 3}
    full = estimate_constants(
        lambda z, v: A @ v, np.ones(5), Lambda, sizes, iterations=3000, tol=0, **common
    )
    assert full == pytest.approx(exact, rel=1e-6)
    rough = estimate_constants(
        lambda z, v: A @ v, np.ones(5), Lambda, sizes, iterations=2, **common
    )
    for low, high in ((rough, exact), (full, exact)):
        assert low.L_hat <= high.L_hat * (1 + 1e-12)
        assert low.L_tilde <= high.L_tilde * (1 + 1e-12)


def test_estimates_of_a_finite_sum_of_quadratics(rng):
    A, sizes = symmetric(rng, 3, 5, 5), [2, 2, 1]
    Lambda = quadratic_Lambda(A, sizes)
    hvps = [lambda z, v, Ai=Ai: Ai @ v for Ai in A]
    found = estimate_constants(hvps, np.zeros(5), Lambda, sizes, points=0, iterations=3000, tol=0)
    assert found == pytest.approx(quadratic_constants(A, Lambda, sizes), rel=1e-6)


def test_estimates_take_the_largest_over_the_points():
    """f(x) = Σ x_t⁴/12 + x_1 x_2 x_3: the Hessian grows away from the origin."""

    def hessian(z):
        off = np.array([[0, z[2], z[1]], [z[2], 0, z[0]], [z[1], z[0], 0]])
        return np.diag(z**2) + off

    def hvp(z, v):
        return hessian(z) @ v

    x = np.array([[0.1, 0.2, 0.3], [3.0, 2.0, 1.0]])
    exact = [quadratic_constants(hessian(z), 1.0, [1, 2]) for z in x]
    found = estimate_constants(hvp, x, 1.0, [1, 2], points=0, iterations=500)
    assert found == pytest.approx(tuple(np.max(exact, axis=0)), rel=1e-5)
    wide = estimate_constants(hvp, x[0], 1.0, [1, 2], points=20, radius=3.0)
    narrow = estimate_constants(hvp, x[0], 1.0, [1, 2], points=20, radius=0.0)
    assert wide.L_hat > narrow.L_hat == pytest.approx(exact[0].L_hat, rel=1e-5)
    assert wide == estimate_constants(hvp, x[0], 1.0, [1, 2], points=20, radius=3.0)
    assert wide == estimate_constants(
        hvp, x[0], 1.0, [1, 2], points=20, radius=3.0, rng=np.random.default_rng(0)
    )


# --- variance -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 5, 6])
@pytest.mark.parametrize("weights", [np.ones(3), np.array([0.2, 1.0, 7.0])], ids=["I", "Lambda"])
def test_lemma_1_over_all_subsets(rng, n, weights):
    gradients = rng.standard_normal((n, 3))
    mean = gradients.mean(axis=0)

    def squared(u):
        return u**2 @ weights

    sigma2_x = np.mean([squared(g - mean) for g in gradients])
    for b in range(1, n + 1):
        subsets = itertools.combinations(range(n), b)
        exact = np.mean([squared(gradients[list(B)].mean(axis=0) - mean) for B in subsets])
        assert lemma1_variance(n, b, sigma2_x) == pytest.approx(exact, abs=1e-14)


def test_limits_of_the_batch_factor():
    assert lemma1_variance(math.inf, 8, 4.0) == 0.5
    assert lemma1_variance(10**12, 8, 4.0) == pytest.approx(0.5)
    assert lemma1_variance(1, 1, 4.0) == 0
    for function in (c0, c0_pl, max_eta):
        large = function(2.0, 0.5, 10**12, 8, 3, 0.3)
        assert function(2.0, 0.5, math.inf, 8, 3, 0.3) == pytest.approx(large)


def test_lemma_4_conditional_step_over_all_draws(rng):
    """One cycle of line 6, with every coin and every sample, on a finite sum of quadratics."""
    n, b, b_small, p, sizes = 4, 3, 2, 0.4, [1, 2]
    A, c = symmetric(rng, n, 3, 3), rng.standard_normal((n, 3))
    Lambda = quadratic_Lambda(A, sizes)
    diagonal = diagonal_of(Lambda, sizes)
    L_hat, L_tilde = quadratic_constants(A, Lambda, sizes)
    x_lag, x_old, x = rng.standard_normal((3, 3))  # x_{k−2}, x_{k−1} and any x_k

    def gradients(z, block):
        return A[:, block] @ z - c[:, block]

    def norm2(u, block):
        return u**2 @ (1 / diagonal[block])

    g = A.mean(axis=0) @ x_lag + rng.standard_normal(3)  # any g_{k−2}
    u, u_prev = 0.0, 0.0
    for block in blocks(sizes):
        start = block.start
        now = np.concatenate([x[:start], x_old[start:]])  # x_{k−1,j}
        lag = np.concatenate([x_old[:start], x_lag[start:]])  # x_{k−2,j}
        at_now, at_lag = gradients(now, block), gradients(lag, block)
        truth = at_now.mean(axis=0)

        def error(terms, size, shift, block=block):
            """The mean of ‖shift + mean of a sample‖² over all samples of a size."""
            samples = itertools.combinations(range(n), size)
            return np.mean([norm2(shift + terms[list(B)].mean(axis=0), block) for B in samples])

        large = error(at_now, b, -truth)
        small = error(at_now - at_lag, b_small, g[block] - truth)
        u += p * large + (1 - p) * small
        u_prev += norm2(g[block] - at_lag.mean(axis=0), block)

    everything = slice(0, 3)
    spread = gradients(x_old, everything)
    sigma2 = np.mean([norm2(s - spread.mean(axis=0), everything) for s in spread])
    bound = variance_recursion(
        u_prev,
        (x - x_old) ** 2 @ diagonal,
        (x_old - x_lag) ** 2 @ diagonal,
        L_hat=L_hat, L_tilde=L_tilde, n=n, b=b, b_small=b_small, p=p, sigma2=sigma2,
    )  # fmt: skip
    assert u <= bound


# --- step sizes -----------------------------------------------------------------------------------

constants = st.floats(1e-3, 1e3)
probabilities = st.floats(1e-3, 1.0)


@st.composite
def batches(draw):
    b = draw(st.integers(1, 400))
    n = draw(st.one_of(st.just(math.inf), st.integers(b, 10 * b)))
    return n, b, draw(st.integers(1, b))


@examples
@given(constants, st.floats(0, 1e3), batches(), probabilities, constants)
def test_max_eta_solves_its_quadratic_and_telescopes(L_hat, L_tilde, batch, p, mu):
    n, b, b_small = batch
    rho = 0.0 if n == 1 else (1 / b if n == math.inf else (n - b) / (b * (n - 1)))
    noise = (p * rho + (1 - p) / b_small) / p

    c, eta = c0(L_hat, L_tilde, n, b, b_small, p), max_eta(L_hat, L_tilde, n, b, b_small, p)
    expected = 2 * (1 - p) * L_hat / (p * b_small) + L_hat + 2 * noise * L_tilde
    assert c == pytest.approx(expected)
    assert c * eta**2 + eta == pytest.approx(1)
    assert 0 < eta <= 1
    # the condition of the proof, with equality at the largest η
    left = 1 / eta - 1 - L_hat * eta - 2 * noise * L_tilde * eta
    assert left == pytest.approx(2 * (1 - p) * L_hat * eta / (p * b_small), abs=1e-9 / eta)

    c = c0_pl(L_hat, L_tilde, n, b, b_small, p)
    eta_pl = max_eta_pl(L_hat, L_tilde, mu, n, b, b_small, p)
    assert c == pytest.approx(L_hat + 4 * L_hat / (p * b_small) + 4 * noise * L_tilde)
    assert 0 < eta_pl <= eta
    # the two conditions of the PŁ proof
    growth = 1 + eta_pl * mu / 2
    assert (2 - p) / 2 >= growth * (1 - p) * (1 - 1e-12)
    right = (1 / eta_pl - 1 - L_hat * eta_pl) / 2 - 2 * eta_pl * L_tilde * noise
    assert growth * 2 * eta_pl * L_hat * (1 - p) / (p * b_small) <= right + 1e-9 / eta_pl


def test_max_eta_is_stable_and_tends_to_1():
    assert max_eta(1e-300, 0.0, 10, 10, 1, 1.0) == 1.0
    assert max_eta(1e-12, 0.0, 10, 10, 1, 1.0) == pytest.approx(1 - 1e-12, abs=1e-15)
    assert max_eta(1e200, 0.0, 10, 10, 1, 1.0) == pytest.approx(1e-100)


def test_p_equal_to_1_drops_the_recursion():
    assert c0(2.0, 0.5, 10, 10, 3, 1.0) == 2.0
    assert c0(2.0, 0.5, math.inf, 10, 3, 1.0) == pytest.approx(2.0 + 2 * 0.5 / 10)
    c = c0_pl(2.0, 0.5, 10, 10, 3, 1.0)
    assert max_eta_pl(2.0, 0.5, 1e9, 10, 10, 3, 1.0) == pytest.approx(
        2 / (1 + math.sqrt(1 + 4 * c))
    )
    assert max_eta_pl(2.0, 0.5, 1e9, 10, 10, 3, 0.5) == pytest.approx(1e-9)


# --- bounds ---------------------------------------------------------------------------------------


def test_bounds_are_the_papers_expressions():
    L_hat, mu, gap, eta, K, p, n, b, sigma2 = 1.3, 0.2, 2.5, 0.3, 17, 0.25, 50, 20, 4.0
    noise = (n - b) * sigma2 / (b * (n - 1))
    assert theorem1_bound(L_hat, gap, K) == pytest.approx(4 * (L_hat + 1) * gap / K)
    q = 2 * (L_hat + 1) / (2 * (L_hat + 1) + mu)
    assert pl_bound(L_hat, mu, gap, K) == pytest.approx(q**K * gap)
    assert theorem2_bound(gap, eta, K, p, n, b, sigma2) == pytest.approx(
        4 * gap / (eta * K) + 2 * (1 - p) * noise / (p * K) + 4 * noise
    )
    assert pl_vr_bound(gap, eta, mu, K, p, n, b, sigma2) == pytest.approx(
        (1 + eta * mu / 2) ** -K * (gap + eta * (1 - p) * noise / p) + 4 * noise / mu
    )


def test_bounds_in_their_limits():
    assert pl_bound(1.0, 0.5, 3.0, 0) == 3.0
    assert pl_vr_bound(3.0, 0.1, 0.5, 0, 0.5, 10, 10, 9.0) == 3.0
    assert theorem2_bound(3.0, 0.5, 4, 0.5, 10, 10, 9.0) == 6.0  # b = n: no variance
    assert theorem2_bound(3.0, 0.5, 4, 0.5, 1, 1, 9.0) == 6.0  # n = 1
    assert theorem2_bound(3.0, 0.5, 4, 1.0, math.inf, 9, 9.0) == 10.0  # p = 1
    args = (3.0, 0.5, 4, 0.5)
    assert theorem2_bound(*args, math.inf, 9, 9.0) == pytest.approx(
        theorem2_bound(*args, 10**13, 9, 9.0)
    )
    values = [pl_vr_bound(3.0, 0.1, 0.5, K, 0.5, math.inf, 10, 9.0) for K in (1, 10, 100, 10**6)]
    assert values == sorted(values, reverse=True)
    assert values[-1] == pytest.approx(4 * 9.0 / (10 * 0.5))


# --- plans ----------------------------------------------------------------------------------------

gaps = st.one_of(st.just(0.0), st.floats(1e-6, 1e6))
targets = st.floats(1e-4, 1e2)
variances = st.one_of(st.just(0.0), st.floats(1e-4, 1e4))
caps = st.one_of(st.just(math.inf), st.integers(1, 10**9))


def check_shape(plan):
    assert plan.b_small == math.ceil(math.sqrt(plan.b)) <= plan.b
    assert plan.p == plan.b_small / (plan.b + plan.b_small)
    work = plan.p * plan.b + (1 - plan.p) * plan.b_small
    assert plan.evaluations_paper == pytest.approx(plan.b + plan.K * work)
    harmonic = plan.b * plan.b_small / (plan.b + plan.b_small)
    assert plan.evaluations == pytest.approx(plan.b + 3 * plan.K * harmonic)


@examples
@given(st.integers(1, 10**9), constants, st.floats(0, 1e3), gaps, targets)
def test_finite_sum_plan(n, L_hat, L_tilde, gap, epsilon):
    plan = plan_finite_sum(n, L_hat, L_tilde, gap, epsilon)
    check_shape(plan)
    assert plan.b == n
    assert plan.eta == max_eta(L_hat, L_tilde, n, plan.b, plan.b_small, plan.p)
    for sigma2 in (0.0, 1e6):  # b = n: the variance plays no part
        assert theorem2_bound(gap, plan.eta, plan.K, plan.p, n, n, sigma2) <= epsilon**2
    fewer = int((plan.K - 2) * (1 - 1e-11))  # K is at most one more than the smallest, or rounding
    if fewer > 0:
        assert theorem2_bound(gap, plan.eta, fewer, plan.p, n, n, 0.0) > epsilon**2
    c = c0(L_hat, L_tilde, n, n, plan.b_small, plan.p)
    assert c <= (3 * L_hat + 2 * L_tilde) * (1 + 1e-12)
    cycles = 2 * (math.sqrt(1 + 4 * c) + 1) * gap / epsilon**2
    assert plan.evaluations_paper <= (n + 2 * plan.b_small * (cycles + 1)) * (1 + 1e-9)


@examples
@given(variances, constants, st.floats(0, 1e3), gaps, targets, caps)
def test_infinite_sum_plan(sigma2, L_hat, L_tilde, gap, epsilon, n):
    plan = plan_infinite_sum(sigma2, L_hat, L_tilde, gap, epsilon, n)
    check_shape(plan)
    assert plan.b <= n
    assert plan.b == n or plan.b >= 12 * sigma2 / epsilon**2 * (1 - 1e-12)
    assert plan.eta == max_eta(L_hat, L_tilde, n, plan.b, plan.b_small, plan.p)
    assert theorem2_bound(gap, plan.eta, plan.K, plan.p, n, plan.b, sigma2) <= epsilon**2
    c = c0(L_hat, L_tilde, n, plan.b, plan.b_small, plan.p)
    assert c <= (3 * L_hat + 4 * L_tilde) * (1 + 1e-12)
    needed = 12 * gap / (epsilon**2 * plan.eta) + 1 / (2 * plan.p)
    assert needed * (1 - 1e-12) <= plan.K <= (needed + 1) * (1 + 1e-9)


@examples
@given(st.integers(1, 10**9), constants, st.floats(0, 1e3), constants, gaps, targets)
def test_finite_sum_plan_under_pl(n, L_hat, L_tilde, mu, gap, epsilon):
    plan = plan_finite_sum_pl(n, L_hat, L_tilde, mu, gap, epsilon)
    check_shape(plan)
    assert plan.b == n
    assert plan.eta == max_eta_pl(L_hat, L_tilde, mu, n, n, plan.b_small, plan.p)
    assert pl_vr_bound(gap, plan.eta, mu, plan.K, plan.p, n, n, 1e6) <= epsilon
    c = c0_pl(L_hat, L_tilde, n, n, plan.b_small, plan.p)
    assert c <= (9 * L_hat + 8 * L_tilde) * (1 + 1e-12)
    rate = 1 + 2 / (plan.eta * mu)
    needed = rate * math.log(gap / epsilon) if gap > epsilon else 0.0
    assert (needed + 1) * (1 + 1e-9) >= plan.K


@examples
@given(variances, constants, st.floats(0, 1e3), constants, gaps, targets, caps)
def test_infinite_sum_plan_under_pl(sigma2, L_hat, L_tilde, mu, gap, epsilon, n):
    plan = plan_infinite_sum_pl(sigma2, L_hat, L_tilde, mu, gap, epsilon, n)
    check_shape(plan)
    assert plan.eta == max_eta_pl(L_hat, L_tilde, mu, n, plan.b, plan.b_small, plan.p)
    bound = pl_vr_bound(gap, plan.eta, mu, plan.K, plan.p, n, plan.b, sigma2)
    assert bound <= 0.75 * epsilon * (1 + 1e-9)  # ε/3 + ε/12 + ε/3: a quarter is left over
    c = c0_pl(L_hat, L_tilde, n, plan.b, plan.b_small, plan.p)
    assert c <= (9 * L_hat + 16 * L_tilde) * (1 + 1e-12)


def test_the_stated_order_of_the_cost_supposes_that_Lambda_is_tight():
    """Λ → tΛ divides L̂ and L̃ by t², yet K ≥ 4Δ_0/ε², so no O(√(n(L̂+L̃))) covers all Λ."""
    n, epsilon = 10**4, 0.01
    ratios = []
    for L in (1.0, 1e-4, 1e-8):
        plan = plan_finite_sum(n, L, L, 1.0, epsilon)
        assert plan.K * epsilon**2 >= 4
        ratios.append((plan.evaluations_paper - n) / (math.sqrt(n * 2 * L) / epsilon**2))
    assert ratios == pytest.approx([15.6, 560, 56010], rel=0.01)


def test_rounding_errors_do_not_break_the_promise():
    """4Δ_0/(ε²η) is 2500 here, but in floating point the bound at 2500 lies just above ε²."""
    plan = plan_finite_sum(256, 2.0, 0.0, 3.0, 0.12)
    assert theorem2_bound(3.0, plan.eta, 2500, plan.p, 256, 256, 0.0) > 0.12 * 0.12
    assert theorem2_bound(3.0, plan.eta, plan.K, plan.p, 256, 256, 0.0) <= 0.12 * 0.12
    assert plan.K == 2501


def test_plans_survive_large_numbers():
    assert plan_finite_sum(100, 1.0, 1.0, 1.0, 1e200).K == 1
    plan = plan_infinite_sum(1.0, 1.0, 1.0, 1.0, 1e-9, n=np.int64(10**18))
    assert theorem2_bound(1.0, plan.eta, plan.K, plan.p, 10**18, plan.b, 1.0) <= 1e-9**2
    plan = plan_finite_sum(10**18, 1e3, 1e3, 1e6, 1e-9)
    assert theorem2_bound(1e6, plan.eta, plan.K, plan.p, 10**18, plan.b, 0.0) <= 1e-9**2
    plan = plan_finite_sum_pl(10**18, 1e3, 1e3, 1e-12, 1e6, 1e-12)
    assert pl_vr_bound(1e6, plan.eta, 1e-12, plan.K, plan.p, 10**18, plan.b, 0.0) <= 1e-12


# --- bad input ------------------------------------------------------------------------------------

EYE = np.eye(3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theorem1_bound(1.0, -1.0, 5), "gap must be a finite number >= 0, got -1.0"),
        (lambda: theorem2_bound(1, 0, 5, 0.5, 10, 5, 1), "eta must be a finite number > 0, got 0"),
        (lambda: lemma1_variance(10, 11, 1.0), "b must be at most n=10, got 11"),
        (lambda: theory.descent_gap(math.nan, 1.0, 1.0), "F_prev must be .* number, got nan"),
        (lambda: plan_finite_sum(math.inf, 1, 1, 1, 0.1), "n must be an integer >= 1, got inf"),
        (lambda: plan_finite_sum(10, 1, 1, 1, 1e-200), "epsilon must be large .* K, got 1e-200"),
        (lambda: plan_infinite_sum(1, 1, 1, 1, 1e-200), "epsilon must be large .* b, got 1e-200"),
        (lambda: Budget(4, 5, 0.5, 0.1, 3), "b_small must be at most b=4, got 5"),
        (lambda: q_hat(EYE, 0, [1, 2]), "j must be an integer between 1 and 2, got 0"),
        (lambda: q_hat(EYE, 1, [1, 1]), r"Q must be of shape \(2, 2\), got \(3, 3\)"),
        (lambda: q_hat(EYE, 1, []), r"sizes must be a non-empty sequence .*, got \[\]"),
        (lambda: q_hat(EYE, 1, [3, 0]), r"sizes\[1\] must be an integer >= 1, got 0"),
        (lambda: theory.L_hat([EYE], 1.0, [1, 2]), r"Q must be of shape \(2, 3, 3\), got \(1, 3,"),
        (lambda: theory.L_hat([EYE] * 2, 0.0, [1, 2]), "Lambda must be finite and > 0, got 0.0"),
        (lambda: theory.L_hat([EYE] * 2, [1.0] * 4, [1, 2]), r"Lambda must be one number, m=2 .*"),
        (lambda: theory.L_hat([EYE] * 2, [[1, 1], [1, 1]], [1, 2]), r"of lengths \[1, 2\]"),
        (lambda: theory.L_hat([np.triu(np.ones((3, 3)))], 1.0, [3]), "Q must be symmetric, got"),
        (lambda: quadratic_Q(np.eye(4), 1.0, [3]), r"A must be of shape \(3, 3\) or \(n, 3, 3\)"),
        (lambda: quadratic_Q(EYE * math.nan, 1.0, [3]), "A must be finite, got array.*nan"),
        (lambda: quadratic_constants([[0, 1], [0, 0]], 1.0, [2]), "A must be symmetric"),
        (lambda: quadratic_Lambda([[1, 1], [1, 0]], [1, 1]), "A must be non-zero .* block j=2"),
        (lambda: estimate(x=np.zeros(2)), r"x must be of shape \(3,\) or \(k, 3\), got \(2,\)"),
        (lambda: estimate(x=[0, 0, math.inf]), "x must be finite"),
        (lambda: estimate(hvp=[]), "hvp must be a function or a non-empty sequence"),
        (lambda: estimate(hvp=lambda z, v: v[:2]), r"hvp\(point, v\) must be of shape \(3,\)"),
        (lambda: estimate(hvp=lambda z, v: v * math.nan), r"hvp\(point, v\) must be finite"),
    ],
)  # fmt: skip
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def estimate(hvp=lambda z, v: v, x=(0.0, 0.0, 0.0), **options):
    return estimate_constants(hvp, x, 1.0, [1, 2], **options)
