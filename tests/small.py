"""A small nonconvex problem in NumPy and torch, and helpers shared by the tests of the loop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cyclade import L1, Fixed, Layout, iterate, minimize, start
from cyclade.methods import as_method, make_sampler
from cyclade.oracles.autograd import Autograd
from cyclade.oracles.callables import CallableOracle, Jacobian
from cyclade.reference import run
from cyclade.regularisers import per_block
from cyclade.sampling.orders import as_order
from cyclade.sampling.samplers import ALL, FiniteSum

METHODS = ("P-CCD", "SCCD", "VR-CCD", "VRO-CCD", "PAGE", "SGD")
ORDERS = ("forward", "backward", "shuffled", "random", "greedy")


@dataclass
class Logistic:
    """Mean of log(1 + exp(−y a·x)), plus 0.1 Σ x²/(1+x²): smooth, nonconvex, with known L_j."""

    n: int = 30
    d: int = 12
    seed: int = 0
    A: Any = field(init=False)
    y: Any = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        self.A = rng.normal(size=(self.n, self.d)) @ (
            np.eye(self.d) + 0.3 * rng.normal(size=(self.d, self.d))
        )
        self.y = np.sign(rng.normal(size=self.n))

    def fun(self, x: Any, idx: Any) -> float:
        margins = self.y[idx] * (self.A[idx] @ x)
        return float(np.mean(np.logaddexp(0, -margins)) + 0.1 * np.sum(x**2 / (1 + x**2)))

    def jac(self, x: Any, idx: Any) -> Any:
        A, y = self.A[idx], self.y[idx]
        weights = -y / (1 + np.exp(y * (A @ x)))
        return A.T @ weights / len(idx) + 0.2 * x / (1 + x**2) ** 2

    def torch_fun(self, x: Any, idx: Any) -> Any:
        import torch

        A, y = torch.as_tensor(self.A)[idx], torch.as_tensor(self.y)[idx]
        margins = y * (A @ x)
        return torch.nn.functional.softplus(-margins).mean() + 0.1 * (x**2 / (1 + x**2)).sum()

    def lipschitz(self, index: list[Any]) -> list[float]:
        return [float(np.linalg.norm(self.A[:, j], 2) ** 2 / (4 * self.n) + 0.2) for j in index]


def squares(n: int, d: int, seed: int = 0, weight: float | None = None) -> tuple[Any, Any]:
    """½ Σ (a_i·x − y_i)² times `weight` (default: the mean over the rows), and its gradient."""
    rng = np.random.default_rng(seed)
    A, y = rng.standard_normal((n, d)), rng.standard_normal(n)

    def per_row(idx: Any) -> float:
        return 1.0 / len(y[idx]) if weight is None else weight

    def fun(x: Any, idx: Any = slice(None)) -> float:
        return float(0.5 * per_row(idx) * np.sum((A[idx] @ x - y[idx]) ** 2))

    def jac(x: Any, idx: Any = slice(None)) -> Any:
        return per_row(idx) * (A[idx].T @ (A[idx] @ x - y[idx]))

    return fun, jac


def bowl(scale: Any = 1.0, centre: Any = 0.0) -> dict[str, Any]:
    """½ Σ scale (x − centre)², as arguments of `minimize`."""
    return {
        "fun": lambda x, *_: 0.5 * float(np.sum(scale * (x - centre) ** 2)),
        "jac": lambda x, *_: scale * (x - centre),
    }


def solve(**options: Any) -> Any:
    """`minimize` on the small problem, from zero."""
    problem = Logistic()
    given = {"jac": problem.jac, "n": problem.n, "blocks": 4, "reg": L1(0.02)} | options
    return minimize(problem.fun, np.zeros(problem.d), **given)


def blocks_of(d: int, m: int) -> list[Any]:
    return [np.asarray(part) for part in np.array_split(np.arange(d), m)]


def both(
    problem: Logistic,
    method: str,
    order: str = "forward",
    *,
    m: int = 4,
    index: list[Any] | None = None,
    K: int = 12,
    reg: Any = None,
    Lambda: Any = None,
    eta: float = 0.5,
    seed: int = 1,
    b: int | None = None,
    b_small: int | None = None,
    p: float | None = None,
    backend: str = "numpy",
) -> tuple[list[Any], Any]:
    """The iterates of the real loop, and the trajectory of the reference, on the same draws."""
    chosen = as_method(method, True)
    index = blocks_of(problem.d, 1 if chosen.one_block else m) if index is None else index
    Lambda = problem.lipschitz(index) if Lambda is None else Lambda
    if chosen.deterministic:
        b = b_small = p = None
    elif chosen.draws == "minibatch":
        b_small = p = None
    x0 = np.linspace(-1, 1, problem.d)
    regs = per_block(reg, len(index))
    sampler = make_sampler(chosen, FiniteSum(problem.n), b, b_small, p)

    def grad(x: Any, sample: Any, j: int) -> Any:
        idx = np.arange(problem.n) if sample is ALL else sample
        return problem.jac(x, idx)[index[j]]

    turns, rng = as_order(order, len(index)), np.random.default_rng(seed)
    options = {"K": K, "eta": eta, "resample": chosen.resample, "rng": rng}
    reference = run(grad, x0, index, regs.prox, Lambda, sampler, turns, **options)
    derivatives: Any = Jacobian(problem.fun, problem.jac)
    if backend == "torch":
        import torch

        x0 = torch.as_tensor(x0)
        Lambda = [L if isinstance(L, float) else torch.as_tensor(L) for L in Lambda]
        derivatives = Autograd(problem.torch_fun)
    layout = Layout.of(x0, [list(map(int, j)) for j in index])
    x = layout.point(x0)
    oracle = CallableOracle(layout, derivatives, problem.n, x.leaves[0])
    state = start(oracle, x, sampler, np.random.default_rng(seed))
    steps, turns = Fixed(Lambda, eta), as_order(order, len(index))
    cycles = iterate(state, oracle, regs, steps, sampler, turns, chosen.resample)
    iterates = [np.asarray(state.x.whole())]
    for _ in range(K):
        iterates.append(np.asarray(next(cycles).x.whole()))
    return iterates, reference


def largest_difference(iterates: list[Any], reference: Any) -> float:
    return max(float(np.max(np.abs(a - b))) for a, b in zip(iterates, reference.x, strict=True))
