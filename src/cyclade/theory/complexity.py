"""The four complexity corollaries as plans: b, b', p, η, K and what a run will cost.

All four take b' = √b and p = b'/(b + b'). Batches being integers, b' is √b **rounded up**: then
b/b'² ≤ 1, which keeps c_0 at most what the proofs allow (3L̂ + 2L̃ for a finite sum). p is computed
from the integer b', η is the largest that its theorem allows for these very numbers, and K is the
paper's K rounded up, at least 1. Before a plan is returned, the bound it rests on is evaluated and
K raised until it meets the target, so that rounding errors cannot break the promise.

The guarantees hold with the stated constants; docs/design/algorithm.md has the slips that were met.
log(Δ_0/ε) is negative when Δ_0 < ε: then K = 1. The costs O(√(n(L̂+L̃)) …) suppose that L̂ + L̃ is
bounded below, as it is where Λ is tight (see :func:`~cyclade.theory.quadratic_Lambda`): a larger Λ
drives both to 0, but K ≥ 4Δ_0/ε² always.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from cyclade._checks import (
    each,
    non_negative,
    number_of_terms,
    positive,
    require,
    sampling,
    whole_number,
)

from .bounds import max_eta, max_eta_pl, pl_vr_bound, theorem2_bound

_TINY = 1e-290
"""Products below this lose digits, and with them the promise."""


@dataclass(frozen=True)
class Budget:
    """How to run VR-CCD, and what it costs in expectation.

    ``evaluations`` counts component gradients, each over all d coordinates once:
    b + K(pb + (1−p)·2b'), the first batch included. A small step looks at two points,
    x_{k−1,j} and x_{k−2,j}, and so costs 2b'. ``evaluations_paper`` counts it as b', as the
    paper does: b + K(pb + (1−p)b'). Both are the cost whether each block draws its own sample
    (VR-CCD) or all share one (VRO-CCD); the former touches up to m times as many data.

    >>> Budget(b=100, b_small=10, p=1 / 11, eta=0.25, K=11)
    Budget(b=100, b_small=10, p=0.0909, eta=0.25, K=11, evaluations=400.0, evaluations_paper=300.0)
    """

    b: int
    b_small: int
    p: float
    eta: float
    K: int
    evaluations: float = field(init=False)
    evaluations_paper: float = field(init=False)

    def __post_init__(self) -> None:
        sampling(math.inf, self.b, self.b_small, self.p)
        positive("eta", self.eta)
        whole_number("K", self.K, 1)
        large, small = self.p * self.b, (1 - self.p) * self.b_small
        object.__setattr__(self, "evaluations", self.b + self.K * (large + 2 * small))
        object.__setattr__(self, "evaluations_paper", self.b + self.K * (large + small))


def plan_finite_sum(n: int, L_hat: float, L_tilde: float, gap: float, epsilon: float) -> Budget:
    """Corollary 2 (finite sum, ``cor:finite-sum``): E[dist²(∂F(x̂_K), 0)] ≤ ε².

    b = n, b' = ⌈√n⌉, p = b'/(b+b'), K = ⌈4Δ_0/(ε²η)⌉; O(nd + Δ_0 d √(n(L̂+L̃))/ε²) operations.

    >>> plan = plan_finite_sum(n=10_000, L_hat=1.5, L_tilde=0.5, gap=1.0, epsilon=0.1)
    >>> plan.b, plan.b_small, plan.K
    (10000, 100, 1160)
    >>> theorem2_bound(1.0, plan.eta, plan.K, plan.p, 10_000, plan.b, sigma2=1.0) <= 0.1**2
    True
    """
    L_hat, L_tilde, gap, epsilon, _ = _checked(L_hat, L_tilde, gap, epsilon)
    b, b_small, p = _batches(whole_number("n", n, 1))
    eta = max_eta(L_hat, L_tilde, n, b, b_small, p)
    bound = partial(theorem2_bound, gap, eta, p=p, n=n, b=b, sigma2=0.0)
    K = _cycles(4 * gap / eta / epsilon / epsilon, epsilon, epsilon * epsilon, bound)
    return Budget(b, b_small, p, eta, K)


def plan_infinite_sum(
    sigma2: float, L_hat: float, L_tilde: float, gap: float, epsilon: float, n: float = math.inf
) -> Budget:
    """Corollary 3 (infinite sum, ``cor:online``): E[dist²(∂F(x̂_K), 0)] ≤ ε².

    b = min{⌈12σ²/ε²⌉, n}, b' = ⌈√b⌉, p = b'/(b+b'), K = ⌈12Δ_0/(ε²η) + 1/(2p)⌉;
    O(bd + Δ_0 d √(b(L̂+L̃))/ε²) operations. The three terms of Theorem 2 are at most ε²/3 each:
    the second because K ≥ 1/(2p) makes it 4(1−p)σ²/b. σ² = 0 gives b = 1.

    >>> plan = plan_infinite_sum(sigma2=4.0, L_hat=1.5, L_tilde=0.5, gap=1.0, epsilon=0.1)
    >>> plan.b, plan.b_small, plan.K
    (4800, 70, 3492)
    >>> theorem2_bound(1.0, plan.eta, plan.K, plan.p, math.inf, plan.b, sigma2=4.0) <= 0.1**2
    True
    """
    n, sigma2 = number_of_terms("n", n), non_negative("sigma2", sigma2)
    L_hat, L_tilde, gap, epsilon, _ = _checked(L_hat, L_tilde, gap, epsilon)
    b, b_small, p = _batches(_capped(12 * sigma2 / epsilon / epsilon, n, epsilon))
    eta = max_eta(L_hat, L_tilde, n, b, b_small, p)
    K = 12 * gap / eta / epsilon / epsilon + 1 / (2 * p)
    bound = partial(theorem2_bound, gap, eta, p=p, n=n, b=b, sigma2=sigma2)
    return Budget(b, b_small, p, eta, _cycles(K, epsilon, epsilon * epsilon, bound))


def plan_finite_sum_pl(
    n: int, L_hat: float, L_tilde: float, mu: float, gap: float, epsilon: float
) -> Budget:
    """Corollary 5 (finite sum under PŁ): E[F(x_K) − F(x*)] ≤ ε.

    b = n, b' = ⌈√n⌉, p = b'/(b+b'), K = ⌈(1 + 2/(ημ)) log(Δ_0/ε)⌉;
    O(nd + (√(n(L̂+L̃))/μ + n) d log(Δ_0/ε)) operations.

    >>> plan = plan_finite_sum_pl(n=10_000, L_hat=1.5, L_tilde=0.5, mu=0.1, gap=1.0, epsilon=1e-6)
    >>> plan.b, plan.b_small, plan.K
    (10000, 100, 2777)
    >>> pl_vr_bound(1.0, plan.eta, 0.1, plan.K, plan.p, 10_000, plan.b, sigma2=1.0) <= 1e-6
    True
    """
    L_hat, L_tilde, gap, epsilon, mu = _checked(L_hat, L_tilde, gap, epsilon, mu)
    b, b_small, p = _batches(whole_number("n", n, 1))
    eta = max_eta_pl(L_hat, L_tilde, mu, n, b, b_small, p)
    K = _pl_cycles(eta, mu, gap, epsilon)
    bound = partial(pl_vr_bound, gap, eta, mu, p=p, n=n, b=b, sigma2=0.0)
    return Budget(b, b_small, p, eta, _cycles(K, epsilon, epsilon, bound))


def plan_infinite_sum_pl(
    sigma2: float,
    L_hat: float,
    L_tilde: float,
    mu: float,
    gap: float,
    epsilon: float,
    n: float = math.inf,
) -> Budget:
    """Corollary 6 (infinite sum under PŁ): E[F(x_K) − F(x*)] ≤ ε.

    b = min{⌈12σ²/(με)⌉, n}, b' = ⌈√b⌉, p = b'/(b+b'), K = ⌈(1 + 2/(ημ)) log(3Δ_0/ε)⌉;
    O(bd + (√(b(L̂+L̃))/μ + b) d log(Δ_0/ε)) operations. σ² = 0 gives b = 1.

    >>> plan = plan_infinite_sum_pl(4.0, L_hat=1.5, L_tilde=0.5, mu=0.1, gap=1.0, epsilon=0.1)
    >>> plan.b, plan.b_small, plan.K
    (4800, 70, 470)
    >>> pl_vr_bound(1.0, plan.eta, 0.1, plan.K, plan.p, math.inf, plan.b, sigma2=4.0) <= 0.1
    True
    """
    n, sigma2 = number_of_terms("n", n), non_negative("sigma2", sigma2)
    L_hat, L_tilde, gap, epsilon, mu = _checked(L_hat, L_tilde, gap, epsilon, mu)
    b, b_small, p = _batches(_capped(12 * sigma2 / mu / epsilon, n, epsilon))
    eta = max_eta_pl(L_hat, L_tilde, mu, n, b, b_small, p)
    K = _pl_cycles(eta, mu, 3 * gap, epsilon)
    bound = partial(pl_vr_bound, gap, eta, mu, p=p, n=n, b=b, sigma2=sigma2)
    return Budget(b, b_small, p, eta, _cycles(K, epsilon, epsilon, bound))


def _checked(
    L_hat: float, L_tilde: float, gap: float, epsilon: float, mu: float = 1.0
) -> tuple[float, float, float, float, float]:
    L_hat, mu, epsilon = each(positive, L_hat=L_hat, mu=mu, epsilon=epsilon)
    L_tilde, gap = each(non_negative, L_tilde=L_tilde, gap=gap)
    return L_hat, L_tilde, gap, epsilon, mu


def _capped(b: float, n: float, epsilon: float) -> int:
    """min{⌈b⌉, n}, at least 1."""
    require(min(b, n) < math.inf, "epsilon", epsilon, "large enough for a finite b")
    return max(1, math.ceil(min(b, n)))


def _batches(b: int) -> tuple[int, int, float]:
    """(b, b', p) with b' = ⌈√b⌉ and p = b'/(b + b')."""
    b_small = math.isqrt(b - 1) + 1
    return b, b_small, b_small / (b + b_small)


def _pl_cycles(eta: float, mu: float, start: float, epsilon: float) -> float:
    """(1 + 2/(ημ)) log(start/ε), or 0 where that is negative."""
    require(eta * mu > _TINY, "mu", mu, "such that η and ημ do not vanish in rounding")
    return (1 + 2 / (eta * mu)) * math.log(start / epsilon) if start > epsilon else 0.0


def _cycles(K: float, epsilon: float, target: float, bound: Callable[[int], float]) -> int:
    """⌈K⌉, at least 1, and more where rounding errors leave bound(⌈K⌉) > target."""
    ok = math.isfinite(K) and target > 0
    require(ok, "epsilon", epsilon, "large enough for a finite K")
    cycles = max(1, math.ceil(K))
    while bound(cycles) > target:
        cycles += max(1, cycles >> 40)
    return cycles
