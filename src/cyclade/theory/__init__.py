"""The paper's theory, executable: constants, step sizes, bounds and complexity.

The letters are the paper's. f is smooth, r is block-separable, F = f + r; x has m blocks of sizes
d^1, …, d^m; Λ = diag(Λ_1, …, Λ_m) is diagonal and positive; Q^1, …, Q^m are the matrices of
Assumption 3 (deterministic) or Assumption 7 (finite or infinite sum). Blocks are counted from 1
here, as in the paper. Δ_0 = F(x_0) − F(x*) is called ``gap``, b' is ``b_small``, and
s(x) = dist²(∂F(x), 0) is measured in the norm ‖·‖_{Λ⁻¹}.

Theorems, lemmas, corollaries and assumptions are numbered in order of appearance, each kind on
its own counter:

========================================  ============================================
Lemma 1 (``lem:batch-vr``)                :func:`lemma1_variance`
Lemma 2 (``lem:ccd-grad``)                :func:`lemma2_bound`
Lemma 3 (``lem:ccd-descent``)             :func:`descent_gap`
Lemma 4 (``lem:vr``)                      :func:`variance_recursion`
Theorem 1 (``thm:ccd``)                   :func:`theorem1_bound`
Corollary 1 (``thm:ccd-pl``)              :func:`pl_bound`
Theorem 2 (``thm:vr-main-result``)        :func:`c0`, :func:`max_eta`, :func:`theorem2_bound`
Corollary 2 (``cor:finite-sum``)          :func:`plan_finite_sum`
Corollary 3 (``cor:online``)              :func:`plan_infinite_sum`
Corollary 4 (``thm:ccd-vr-pl``)           :func:`c0_pl`, :func:`max_eta_pl`, :func:`pl_vr_bound`
Corollary 5 (finite sum, PŁ)              :func:`plan_finite_sum_pl`
Corollary 6 (infinite sum, PŁ)            :func:`plan_infinite_sum_pl`
========================================  ============================================

Everything here is NumPy and plain arithmetic. Bad input raises :class:`ValueError` before any work.
"""

from .bounds import (
    c0,
    c0_pl,
    descent_gap,
    lemma1_variance,
    lemma2_bound,
    max_eta,
    max_eta_pl,
    pl_bound,
    pl_vr_bound,
    theorem1_bound,
    theorem2_bound,
    variance_recursion,
)
from .complexity import (
    Budget,
    plan_finite_sum,
    plan_finite_sum_pl,
    plan_infinite_sum,
    plan_infinite_sum_pl,
)
from .constants import (
    Constants,
    L_hat,
    L_tilde,
    estimate_constants,
    q_hat,
    q_tilde,
    quadratic_constants,
    quadratic_Lambda,
    quadratic_Q,
)

__all__ = [
    "Budget",
    "Constants",
    "L_hat",
    "L_tilde",
    "c0",
    "c0_pl",
    "descent_gap",
    "estimate_constants",
    "lemma1_variance",
    "lemma2_bound",
    "max_eta",
    "max_eta_pl",
    "pl_bound",
    "pl_vr_bound",
    "plan_finite_sum",
    "plan_finite_sum_pl",
    "plan_infinite_sum",
    "plan_infinite_sum_pl",
    "q_hat",
    "q_tilde",
    "quadratic_Lambda",
    "quadratic_Q",
    "quadratic_constants",
    "theorem1_bound",
    "theorem2_bound",
    "variance_recursion",
]
