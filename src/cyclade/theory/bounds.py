"""Step sizes and right-hand sides: the lemmas, Theorems 1 and 2, and the two PŁ corollaries."""

from __future__ import annotations

import math

from cyclade._checks import (
    each,
    finite_number,
    non_negative,
    positive,
    require,
    sampling,
    whole_number,
)

# --- variance -------------------------------------------------------------------------------------


def lemma1_variance(n: float, b: int, sigma2_x: float) -> float:
    """Lemma 1 (``lem:batch-vr``): the variance of a batch of b out of n, without replacement.

    E_B‖(1/b) Σ_{i∈B} ∇^j f_i(x) − ∇^j f(x)‖² = (n−b)/(b(n−1)) · E_i‖∇^j f_i(x) − ∇^j f(x)‖²,

    an equality, in any norm from an inner product. ``sigma2_x`` is the last expectation.
    n = ``math.inf`` gives 1/b in place of the factor, and n = 1, where it reads 0/0, gives 0.

    >>> lemma1_variance(n=11, b=1, sigma2_x=3.0), lemma1_variance(n=11, b=6, sigma2_x=3.0)
    (3.0, 0.25)
    >>> lemma1_variance(math.inf, b=6, sigma2_x=3.0), lemma1_variance(n=6, b=6, sigma2_x=3.0)
    (0.5, 0.0)
    """
    n, b, _, _ = sampling(n, b)
    sigma2_x = non_negative("sigma2_x", sigma2_x)
    return _batch_factor(n, b) * sigma2_x


def variance_recursion(
    u_prev: float,
    v: float,
    v_prev: float,
    *,
    L_hat: float,
    L_tilde: float,
    n: float,
    b: int,
    b_small: int,
    p: float,
    sigma2: float,
) -> float:
    """Lemma 4 (``lem:vr``): the bound on E[u_k] from E[u_{k−1}], E[v_k] and E[v_{k−1}].

    E[u_k] ≤ 2p(n−b)σ²/(b(n−1)) + 2(p(n−b)/(b(n−1)) + (1−p)/b') L̃ E[v_k]
             + (1−p) E[u_{k−1}] + (2(1−p)L̂/b') E[v_{k−1}],

    with u_k = Σ_j ‖g_{k−1}^j − ∇^j f(x_{k−1,j})‖²_{Λ_j⁻¹} and v_k = ‖x_k − x_{k−1}‖²_Λ. It starts
    from v_0 = 0 and E[u_0] ≤ (n−b)σ²/(b(n−1)), which is :func:`lemma1_variance`.

    The paper's proof divides a second moment by b' where Lemma 1 must come first.

    >>> common = dict(L_hat=1.0, L_tilde=0.5, n=100, b=100, b_small=10, p=0.5, sigma2=4.0)
    >>> variance_recursion(u_prev=2.0, v=0.0, v_prev=0.0, **common)
    1.0
    >>> variance_recursion(u_prev=2.0, v=1.0, v_prev=1.0, **common)
    1.15
    """
    u_prev, v, v_prev = each(non_negative, u_prev=u_prev, v=v, v_prev=v_prev)
    L_tilde, sigma2 = each(non_negative, L_tilde=L_tilde, sigma2=sigma2)
    L_hat = positive("L_hat", L_hat)
    n, b, b_small, p = sampling(n, b, b_small, p)
    large, small = p * _batch_factor(n, b), (1 - p) / b_small
    return (
        2 * large * sigma2
        + 2 * (large + small) * L_tilde * v
        + (1 - p) * u_prev
        + 2 * small * L_hat * v_prev
    )


# --- P-CCD ----------------------------------------------------------------------------------------


def lemma2_bound(L_hat: float, v: float) -> float:
    """Lemma 2 (``lem:ccd-grad``), for P-CCD: dist²(∂F(x_k), 0) ≤ 2(L̂ + 1) v_k.

    Here v_k = ‖x_k − x_{k−1}‖²_Λ.

    >>> lemma2_bound(L_hat=1.5, v=0.2)
    1.0
    """
    L_hat = positive("L_hat", L_hat)
    v = non_negative("v", v)
    return 2 * (L_hat + 1) * v


def descent_gap(F_prev: float, F: float, v: float) -> float:
    """F(x_{k−1}) − F(x_k) − ½ v_k, which P-CCD keeps ≥ 0 (the step behind Lemma 3).

    Lemma 3 (``lem:ccd-descent``), Σ_k v_k ≤ 2Δ_0, is the sum over the cycles.

    >>> descent_gap(F_prev=3.0, F=1.0, v=2.5)
    0.75
    """
    F_prev, F = each(finite_number, F_prev=F_prev, F=F)
    v = non_negative("v", v)
    return F_prev - F - v / 2


def theorem1_bound(L_hat: float, gap: float, K: int) -> float:
    """Theorem 1 (P-CCD, ``thm:ccd``): min_{k≤K} dist²(∂F(x_k), 0) ≤ 4(L̂ + 1)Δ_0/K.

    It holds as well at the iterate that Algorithm 1 returns, the one with the smallest v_k.

    >>> theorem1_bound(L_hat=1.5, gap=2.0, K=10)
    2.0
    """
    L_hat = positive("L_hat", L_hat)
    gap = non_negative("gap", gap)
    K = whole_number("K", K, 1)
    return 4 * (L_hat + 1) * gap / K


def pl_bound(L_hat: float, mu: float, gap: float, K: int) -> float:
    """Corollary 1, the PŁ corollary of Theorem 1 (``thm:ccd-pl``), for P-CCD.

    F(x_K) − F(x*) ≤ (2(L̂+1)/(2(L̂+1) + μ))^K Δ_0, with μ as in Assumption 4.

    >>> pl_bound(L_hat=1.0, mu=4.0, gap=8.0, K=3)
    1.0
    """
    L_hat, mu = each(positive, L_hat=L_hat, mu=mu)
    gap = non_negative("gap", gap)
    K = whole_number("K", K, 0)
    return math.exp(-K * math.log1p(mu / (2 * (L_hat + 1)))) * gap


# --- VR-CCD ---------------------------------------------------------------------------------------


def c0(L_hat: float, L_tilde: float, n: float, b: int, b_small: int, p: float) -> float:
    """The constant c_0 of Theorem 2 (VR-CCD, ``thm:vr-main-result``).

    c_0 = 2(1−p)L̂/(pb') + L̂ + 2(p(n−b)/(b(n−1)) + (1−p)/b') L̃/p.

    With b = n, b' = √n and p = b'/(b+b') it is 3L̂ + 2L̃:

    >>> c0(L_hat=2.0, L_tilde=0.5, n=100, b=100, b_small=10, p=10 / 110)
    7.0
    """
    return _c0(2, L_hat, L_tilde, n, b, b_small, p)


def max_eta(L_hat: float, L_tilde: float, n: float, b: int, b_small: int, p: float) -> float:
    """The largest η of Theorem 2 (VR-CCD): (−1 + √(1+4c_0))/(2c_0), the root of c_0η² + η = 1.

    Computed as 2/(1 + √(1+4c_0)), the same number without cancellation, which tends to 1 as
    c_0 → 0. See :func:`c0`.

    >>> max_eta(L_hat=2.0, L_tilde=0.0, n=100, b=100, b_small=10, p=10 / 110)  # c_0 = 6
    0.3333
    >>> max_eta(L_hat=1e-30, L_tilde=0.0, n=100, b=100, b_small=10, p=1.0)
    1.0
    """
    return _root(c0(L_hat, L_tilde, n, b, b_small, p))


def theorem2_bound(
    gap: float, eta: float, K: int, p: float, n: float, b: int, sigma2: float
) -> float:
    """Theorem 2 (VR-CCD, ``thm:vr-main-result``): the bound on E[dist²(∂F(x̂_K), 0)].

    4Δ_0/(ηK) + 2(1−p)(n−b)σ²/(pb(n−1)K) + 4(n−b)σ²/(b(n−1)),

    for x̂_K drawn uniformly from x_1, …, x_K and 0 < η ≤ :func:`max_eta`.

    >>> theorem2_bound(gap=1.0, eta=0.5, K=8, p=0.5, n=100, b=100, sigma2=7.0)
    1.0
    >>> theorem2_bound(gap=1.0, eta=0.5, K=8, p=0.5, n=math.inf, b=100, sigma2=8.0)
    1.34
    """
    gap, sigma2 = each(non_negative, gap=gap, sigma2=sigma2)
    eta = positive("eta", eta)
    K = whole_number("K", K, 1)
    n, b, _, p = sampling(n, b, p=p)
    variance = _batch_factor(n, b) * sigma2
    return 4 * gap / (eta * K) + 2 * (1 - p) * variance / (p * K) + 4 * variance


def c0_pl(L_hat: float, L_tilde: float, n: float, b: int, b_small: int, p: float) -> float:
    """The constant c_0 of Corollary 4, the PŁ corollary of Theorem 2 (``thm:ccd-vr-pl``).

    c_0 = L̂ + 4L̂/(pb') + (4L̃/p)(p(n−b)/(b(n−1)) + (1−p)/b').

    >>> c0_pl(L_hat=2.0, L_tilde=0.5, n=100, b=100, b_small=10, p=10 / 110)
    12.80
    """
    return _c0(4, L_hat, L_tilde, n, b, b_small, p)


def max_eta_pl(
    L_hat: float, L_tilde: float, mu: float, n: float, b: int, b_small: int, p: float
) -> float:
    """The largest η of Corollary 4: min{p/(μ(1−p)), (−1 + √(1+4c_0))/(2c_0)}, c_0 of :func:`c0_pl`.

    With p = 1 only the second term remains.

    >>> max_eta_pl(L_hat=2.0, L_tilde=0.5, mu=0.1, n=100, b=100, b_small=10, p=10 / 110)
    0.243
    >>> max_eta_pl(L_hat=2.0, L_tilde=0.5, mu=1.0, n=100, b=100, b_small=10, p=10 / 110)
    0.1
    """
    eta = _root(c0_pl(L_hat, L_tilde, n, b, b_small, p))
    mu, p = each(positive, mu=mu, p=p)
    return eta if p == 1 else min(p / mu / (1 - p), eta)


def pl_vr_bound(
    gap: float, eta: float, mu: float, K: int, p: float, n: float, b: int, sigma2: float
) -> float:
    """Corollary 4, the PŁ corollary of Theorem 2 (``thm:ccd-vr-pl``), for VR-CCD.

    E[F(x_K) − F(x*)] ≤ (1 + ημ/2)^{−K} (Δ_0 + σ²η(1−p)(n−b)/(pb(n−1))) + 4(n−b)σ²/(bμ(n−1)),

    for 0 < η ≤ :func:`max_eta_pl`.

    >>> pl_vr_bound(gap=8.0, eta=0.5, mu=4.0, K=3, p=0.5, n=100, b=100, sigma2=7.0)
    1.0
    """
    gap, sigma2 = each(non_negative, gap=gap, sigma2=sigma2)
    eta, mu = each(positive, eta=eta, mu=mu)
    K = whole_number("K", K, 0)
    n, b, _, p = sampling(n, b, p=p)
    variance = _batch_factor(n, b) * sigma2
    decay = math.exp(-K * math.log1p(eta * mu / 2))
    return decay * (gap + eta * (1 - p) * variance / p) + 4 * variance / mu


def _batch_factor(n: float, b: int) -> float:
    """(n−b)/(b(n−1)), with its limits 1/b for n = ∞ and 0 for n = 1."""
    if n == math.inf:
        return 1 / b
    return 0.0 if n == 1 else float((n - b) / (n - 1) / b)


def _c0(
    factor: int, L_hat: float, L_tilde: float, n: float, b: int, b_small: int, p: float
) -> float:
    """c_0 with factor 2 (Theorem 2), or 4 (Corollary 4, whose recursion has no 1 − p)."""
    L_hat, L_tilde = positive("L_hat", L_hat), non_negative("L_tilde", L_tilde)
    n, b, b_small, p = sampling(n, b, b_small, p)
    noise = _batch_factor(n, b) + (1 - p) / (p * b_small)
    recursion = (1 - p if factor == 2 else 1) / (p * b_small)
    c = L_hat + factor * (recursion * L_hat + noise * L_tilde)
    given = {"L_hat": L_hat, "L_tilde": L_tilde, "p": p}
    require(math.isfinite(c), "L_hat, L_tilde and p", given, "such that c_0 is finite")
    return c


def _root(c: float) -> float:
    """The positive root η of cη² + η − 1 = 0, for any finite c ≥ 0."""
    return 1 / (0.5 + math.sqrt(0.25 + c))
