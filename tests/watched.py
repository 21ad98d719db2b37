"""Runs of the real loop with the paper's quantities u_k, v_k, s_k measured along the way.

Each `check_…` asserts something the theory promises. They look at `cyclade.core` only through its
public functions, so that a test may break the loop and see them fail.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cyclade import Fixed, Full, Layout, Page, core, theory
from cyclade._arrays import norm2
from cyclade.blocks.layout import Stored
from cyclade.certificates import squared_distance
from cyclade.oracles.callables import CallableOracle, Jacobian
from cyclade.regularisers import L1, per_block
from cyclade.sampling.orders import as_order
from small import METHODS, ORDERS, Logistic, both, largest_difference


@dataclass
class Quadratics:
    """f_i(x) = ½ xᵀA_i x − b_i·x with A_i symmetric, each indefinite, their mean positive.

    With `rank` < d the mean is singular: F satisfies the PŁ condition but is not strongly convex.
    """

    n: int = 24
    d: int = 8
    rank: int = 8
    spread: float = 0.5
    seed: int = 0
    sizes: tuple[int, ...] = (2, 3, 3)
    A: Any = field(init=False)
    b: Any = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        basis = rng.normal(size=(self.d, self.rank))
        mean = basis @ basis.T / self.d
        noise = rng.normal(size=(self.n, self.d, self.d)) * self.spread
        noise = noise + noise.transpose(0, 2, 1)
        noise -= noise.mean(axis=0)
        self.A = mean + noise
        self.b = (mean @ rng.normal(size=self.d)) + self.spread * _centred(rng, (self.n, self.d))
        self.mean = mean

    def fun(self, x: Any, idx: Any) -> float:
        A, b = self.A[idx].mean(axis=0), self.b[idx].mean(axis=0)
        return float(0.5 * x @ A @ x - b @ x)

    def jac(self, x: Any, idx: Any) -> Any:
        return self.A[idx].mean(axis=0) @ x - self.b[idx].mean(axis=0)

    def variance(self, x: Any, weights: Any) -> float:
        """E_i ‖∇f_i(x) − ∇f(x)‖² in the norm of Λ^{−1}."""
        gradients = self.A @ x - self.b
        return float(np.mean(np.sum((gradients - gradients.mean(0)) ** 2 * weights, axis=1)))


def _centred(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    noise = rng.normal(size=shape)
    return noise - noise.mean(axis=0)


@dataclass
class Watched:
    """F(x_k), u_k, v_k, s_k and σ²(x_{k−1}) of one run; entry 0 belongs to x_0."""

    F: list[float]
    u: list[float]
    v: list[float]
    s: list[float]
    sigma2: list[float]
    x: Any = None


class _WatchedEstimates(Stored):
    """g, remembering how far each new estimate is from the exact gradient at that very moment."""

    def __init__(self, arrays: Any, error: Any) -> None:
        super().__init__(arrays)
        self.error = error
        self.errors = [error(j, g) for j, g in enumerate(self.arrays)]

    def set(self, j: int, u: Any) -> None:
        super().set(j, u)
        self.errors[j] = self.error(j, u)


def watch(
    problem: Any, sampler: Any, Lambda: Any, *, eta: float, K: int, seed: int, lam: float = 0.0,
    order: str = "forward", resample: str = "block",
) -> Watched:  # fmt: skip
    sizes = problem.sizes
    layout = Layout.of(np.zeros(problem.d), list(sizes))
    x0 = layout.point(np.linspace(-1, 1, problem.d))
    oracle = CallableOracle(layout, Jacobian(problem.fun, problem.jac), problem.n, x0.leaves[0])
    regs = per_block(L1(lam), layout.m)
    steps = Fixed(Lambda, eta)
    every = np.arange(problem.n)
    weights = np.repeat(1 / np.asarray(Lambda), sizes)
    state = core.start(oracle, x0, sampler, np.random.default_rng(seed))

    def exact(x: Any) -> Any:
        return layout.split(problem.jac(x.whole(), every))

    def error(j: int, g: Any) -> float:
        return norm2(g - exact(state.x)[j], 1 / Lambda[j])

    state.g = _WatchedEstimates(state.g.arrays if sampler.recursive else exact(state.x), error)

    def look() -> tuple[float, float]:
        blocks = state.x.blocks()
        F = problem.fun(state.x.whole(), every) + sum(map(regs.value, range(layout.m), blocks))
        return F, squared_distance(blocks, exact(state.x), regs, steps.metric)

    F, s = look()
    seen = Watched([F], [sum(state.g.errors)], [0.0], [s], [])
    cycles = core.iterate(state, oracle, regs, steps, sampler, as_order(order, layout.m), resample)
    for _ in range(K):
        before = state.x.whole()
        seen.sigma2.append(problem.variance(before, weights))
        next(cycles)
        F, s = look()
        seen.F.append(F)
        seen.s.append(s)
        seen.u.append(sum(state.g.errors))
        seen.v.append(float(np.sum((state.x.whole() - before) ** 2 / weights)))
    seen.x = state.x.whole()
    return seen


def optimum(problem: Any, lam: float) -> float:
    """F(x*), by a long proximal gradient run."""
    A, b, L = problem.A.mean(axis=0), problem.b.mean(axis=0), float(np.linalg.norm(problem.mean, 2))
    x = np.zeros(problem.d)
    for _ in range(20_000):
        y = x - (A @ x - b) / L
        x = np.sign(y) * np.maximum(np.abs(y) - lam / L, 0)
    return problem.fun(x, np.arange(problem.n)) + lam * float(np.abs(x).sum())


def deterministic_constants(problem: Any) -> tuple[list[float], float]:
    Lambda = list(map(float, theory.quadratic_Lambda(problem.mean, problem.sizes)))
    Q = theory.quadratic_Q(problem.mean, Lambda, problem.sizes)
    return Lambda, theory.L_hat(Q, Lambda, problem.sizes)


def stochastic_constants(problem: Any) -> tuple[list[float], float, float]:
    Lambda = list(map(float, theory.quadratic_Lambda(problem.A, problem.sizes)))
    Q = theory.quadratic_Q(problem.A, Lambda, problem.sizes)
    return (
        Lambda,
        theory.L_hat(Q, Lambda, problem.sizes),
        theory.L_tilde(Q, Lambda, problem.sizes),
    )


def pl_constant(problem: Any, Lambda: list[float]) -> float:
    """μ: the smallest positive eigenvalue of Λ^{−1/2} A Λ^{−1/2}."""
    root = np.repeat(np.sqrt(Lambda), problem.sizes)
    eigenvalues = np.linalg.eigvalsh(problem.mean / root / root[:, None])
    return float(min(value for value in eigenvalues if value > 1e-9))


# ------------------------------------------------------------------------------------------------


def check_trajectories() -> None:
    """The loop follows the reference, for every method and order."""
    for method in METHODS:
        for order in ORDERS:
            iterates, reference = both(
                Logistic(), method, order, reg=L1(0.01), b=16, b_small=4, p=0.3, K=8
            )
            assert largest_difference(iterates, reference) < 1e-13, (method, order)


def check_orders() -> None:
    """The turns that every order really takes, from the blocks that moved in the reference."""
    m, K = 4, 12
    turns = {}
    for order in ORDERS:
        _, reference = both(Logistic(), "P-CCD", order, m=m, K=K)
        turns[order] = reference.turns
    assert turns["forward"] == [[0, 1, 2, 3]] * K
    assert turns["backward"] == [[3, 2, 1, 0]] * K
    assert all(sorted(cycle) == [0, 1, 2, 3] for cycle in turns["shuffled"])
    assert len({tuple(cycle) for cycle in turns["shuffled"]}) > 6  # 24 permutations, 12 draws
    assert len({tuple(sorted(cycle)) for cycle in turns["random"]}) > 6  # some blocks twice
    assert {j for cycle in turns["random"] for j in cycle} == {0, 1, 2, 3}
    _check_greedy(turns["greedy"], m)


def _check_greedy(turns: list[list[int]], m: int) -> None:
    """Every turn goes to the block with the longest step from where the point is."""
    problem = Logistic()
    cuts = np.split(np.arange(problem.d), m)
    Lambda, every = problem.lipschitz(cuts), np.arange(problem.n)
    x = np.linspace(-1, 1, problem.d)
    for cycle in turns:
        for j in cycle:
            moves = [
                0.5 / L * problem.jac(x, every)[cut] for L, cut in zip(Lambda, cuts, strict=True)
            ]
            lengths = [norm2(u, L / 0.5) for L, u in zip(Lambda, moves, strict=True)]
            assert lengths[j] >= max(lengths) * (1 - 1e-9)
            x[cuts[j]] -= moves[j]


def check_descent() -> None:
    """F(x_k) ≤ F(x_{k−1}) − ½ ‖x_k − x_{k−1}‖²_Λ at every cycle of P-CCD."""
    for seed in range(5):
        problem = Quadratics(seed=seed)
        Lambda, _ = deterministic_constants(problem)
        for order in ("forward", "backward", "shuffled"):
            seen = watch(problem, Full(problem.n), Lambda, eta=1.0, K=40, seed=0, lam=0.05,
                         order=order, resample="cycle")  # fmt: skip
            for before, after, v in zip(seen.F[:-1], seen.F[1:], seen.v[1:], strict=True):
                assert theory.descent_gap(before, after, v) >= -1e-12, (seed, order)


def check_theorem_1() -> None:
    """Lemma 2 at every cycle, and Theorem 1 for every K."""
    for seed in range(5):
        problem = Quadratics(seed=seed)
        Lambda, L_hat = deterministic_constants(problem)
        seen = watch(problem, Full(problem.n), Lambda, eta=1.0, K=40, seed=0, lam=0.05,
                     resample="cycle")  # fmt: skip
        gap = seen.F[0] - optimum(problem, 0.05)
        for K in range(1, 41):
            assert seen.s[K] <= theory.lemma2_bound(L_hat, seen.v[K]) + 1e-12
            assert min(seen.s[1 : K + 1]) <= theory.theorem1_bound(L_hat, gap, K)


def check_linear_rate() -> None:
    """The PŁ corollary of Theorem 1 on quadratics that are not strongly convex."""
    for seed in range(5):
        problem = Quadratics(seed=seed, rank=5)
        Lambda, L_hat = deterministic_constants(problem)
        mu = pl_constant(problem, Lambda)
        seen = watch(problem, Full(problem.n), Lambda, eta=1.0, K=60, seed=0, resample="cycle")
        least = optimum(problem, 0.0)
        for K in range(1, 61):
            bound = theory.pl_bound(L_hat, mu, seen.F[0] - least, K)
            assert seen.F[K] - least <= bound + 1e-12


def check_exact_when_full() -> None:
    """With b = b' = n the estimates are exact at every moment: u_k = 0, in every order."""
    problem = Quadratics()
    Lambda, *_ = stochastic_constants(problem)
    for order in ORDERS:
        for resample in ("cycle", "block"):
            sampler = Page(problem.n, problem.n, problem.n, 0.2)
            seen = watch(problem, sampler, Lambda, eta=0.5, K=15, seed=1, order=order,
                         resample=resample)  # fmt: skip
            assert max(seen.u) < 1e-20, (order, resample)


def vr_runs(b: int, seeds: int = 60, K: int = 25) -> tuple[Any, Any, list[Watched], dict[str, Any]]:
    """Many VR-CCD runs at the largest step of Theorem 2, with all their constants."""
    problem = Quadratics(rank=6, spread=0.3)
    Lambda, L_hat, L_tilde = stochastic_constants(problem)
    sampler = Page(problem.n, b, 3, 0.25)
    sizes = {"n": problem.n, "b": sampler.b, "b_small": sampler.b_small, "p": sampler.p}
    eta = theory.max_eta(L_hat, L_tilde, **sizes)
    runs = [watch(problem, sampler, Lambda, eta=eta, K=K, seed=s) for s in range(seeds)]
    constants = {
        "L_hat": L_hat, "L_tilde": L_tilde, "eta": eta, "Lambda": Lambda,
        "sigma2": max(max(run.sigma2) for run in runs), **sizes,
    }  # fmt: skip
    return problem, sampler, runs, constants


def check_variance_recursion() -> None:
    """The Lemma on the estimator's variance, averaged over seeds, at every cycle."""
    for b in (8, 24):  # with b = n the error must vanish with the steps
        _check_variance_recursion(b)


def _check_variance_recursion(b: int) -> None:
    _, _, runs, c = vr_runs(b)
    u, v = (np.mean([getattr(run, name) for run in runs], axis=0) for name in "uv")
    for k in range(1, len(u)):
        bound = theory.variance_recursion(
            u[k - 1], v[k], v[k - 1], L_hat=c["L_hat"], L_tilde=c["L_tilde"], n=c["n"], b=c["b"],
            b_small=c["b_small"], p=c["p"], sigma2=c["sigma2"],
        )  # fmt: skip
        assert u[k] <= bound, k
    assert min(u[1:]) > 0  # there was an error to bound


def check_theorem_2() -> None:
    """Theorem 2, averaged over seeds and over the uniform draw of the iterate."""
    problem, _, runs, c = vr_runs(8)
    gap = runs[0].F[0] - optimum(problem, 0.0)
    s = np.mean([run.s for run in runs], axis=0)
    for K in range(1, len(s)):
        bound = theory.theorem2_bound(gap, c["eta"], K, c["p"], c["n"], c["b"], c["sigma2"])
        assert np.mean(s[1 : K + 1]) <= bound


def check_vr_linear_rate() -> None:
    """The PŁ corollary of Theorem 2, averaged over seeds, with full large batches."""
    problem = Quadratics(rank=6, spread=0.2)
    Lambda, L_hat, L_tilde = stochastic_constants(problem)
    mu = pl_constant(problem, Lambda)
    sizes = {"n": problem.n, "b": problem.n, "b_small": 4, "p": 0.3}
    eta = theory.max_eta_pl(L_hat, L_tilde, mu, **sizes)
    sampler = Page(problem.n, problem.n, 4, 0.3)
    runs = [watch(problem, sampler, Lambda, eta=eta, K=60, seed=s) for s in range(40)]
    least = optimum(problem, 0.0)
    F = np.mean([run.F for run in runs], axis=0) - least
    for K in range(1, 61):
        bound = theory.pl_vr_bound(F[0], eta, mu, K, 0.3, problem.n, problem.n, 0.0)
        assert F[K] <= bound + 1e-12


CHECKS = (
    check_trajectories,
    check_orders,
    check_descent,
    check_theorem_1,
    check_linear_rate,
    check_exact_when_full,
    check_variance_recursion,
    check_theorem_2,
    check_vr_linear_rate,
)
