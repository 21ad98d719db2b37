"""Thirty problems that default arguments must survive: shared by the tests of `minimize`.

All of `cyclade.problems`, heavy-tailed and badly scaled rows and columns, factorisations with
entries as terms, and other smooth functions whose curvature changes along the way. Sizes are small,
seeds fixed. Each is a `Case`: f as ``fun(x, idx)`` with its gradient, n terms, blocks, r and x0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cyclade import L1, Box, ElasticNet, GroupL2, NonNegative, problems

Array = np.ndarray[Any, Any]
ALL_ROWS = slice(None)


@dataclass
class Case:
    name: str
    fun: Callable[..., float]
    jac: Callable[..., Any]
    n: int
    x0: Any
    blocks: Any = None
    reg: Any = None

    def start(self, dtype: Any) -> Any:
        """x0 in `dtype`."""
        if isinstance(self.x0, dict):
            return {name: a.astype(dtype) for name, a in self.x0.items()}
        return self.x0.astype(dtype)

    def options(self) -> dict[str, Any]:
        """What `minimize` is given beside fun, x0 and the method."""
        return {"jac": self.jac, "blocks": self.blocks, "reg": self.reg}


def linear(
    name: str, A: Array, y: Array, phi: Any, slope: Any, blocks: Any = 4, reg: Any = None,
    x0: Array | None = None,
) -> Case:  # fmt: skip
    """f(x) = (1/n) Σ φ(a_iᵀx, y_i)."""

    def fun(x: Array, idx: Any = ALL_ROWS) -> float:
        return float(np.mean(phi(A[idx] @ x, y[idx])))

    def jac(x: Array, idx: Any = ALL_ROWS) -> Array:
        rows = A[idx]
        return rows.T @ slope(rows @ x, y[idx]) / len(rows)

    start = np.zeros(A.shape[1]) if x0 is None else x0
    return Case(name, fun, jac, len(A), start, blocks, reg)


def squared(z: Array, y: Array) -> Array:
    return 0.5 * (z - y) ** 2


def residual(z: Array, y: Array) -> Array:
    return z - y


def logistic(z: Array, y: Array) -> Array:
    return np.logaddexp(0.0, -y * z)


def logistic_slope(z: Array, y: Array) -> Array:
    return -y / (1 + np.exp(np.clip(y * z, -500, 500)))


def huber(z: Array, y: Array) -> Array:
    r = np.abs(z - y)
    return np.where(r <= 1, 0.5 * r * r, r - 0.5)


def heavy(seed: int, n: int = 300, d: int = 12, spread: float = 1.0) -> tuple[Array, Array]:
    """Rows whose lengths are log-normal."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, d)) * np.exp(spread * rng.standard_normal((n, 1)))
    return A, A @ np.ones(d)


def labels(A: Array, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    score = A @ rng.standard_normal(A.shape[1]) + rng.standard_normal(len(A))
    return np.where(score > 0, 1.0, -1.0)


def factorisation(name: str, rows: int, cols: int, rank: int, seed: int, reg: Any = None) -> Case:
    """V ≈ W H with the entries of V as terms."""
    rng = np.random.default_rng(seed)
    V = np.abs(rng.standard_normal((rows, rank))) @ np.abs(rng.standard_normal((rank, cols)))
    where = np.unravel_index(np.arange(V.size), V.shape)

    def parts(x: Any, idx: Any) -> tuple[Array, Array, Array]:
        i, j = where[0][idx], where[1][idx]
        return i, j, np.einsum("ek,ke->e", x["W"][i], x["H"][:, j]) - V[i, j]

    def fun(x: Any, idx: Any = ALL_ROWS) -> float:
        return float(0.5 * np.mean(parts(x, idx)[2] ** 2))

    def jac(x: Any, idx: Any = ALL_ROWS) -> Any:
        i, j, r = parts(x, idx)
        gradient = {"W": np.zeros((rows, rank)), "H": np.zeros((rank, cols))}
        np.add.at(gradient["W"], i, r[:, None] * x["H"][:, j].T / len(r))
        np.add.at(gradient["H"].T, j, r[:, None] * x["W"][i] / len(r))
        return gradient

    x0 = {"W": rng.random((rows, rank)), "H": rng.random((rank, cols))}
    return Case(name, fun, jac, V.size, x0, None, reg)


def network(name: str, seed: int, n: int = 200) -> Case:
    """Squared error of a net with one hidden layer of tanh units."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]

    def fun(x: Any, idx: Any = ALL_ROWS) -> float:
        return float(0.5 * np.mean((np.tanh(X[idx] @ x["W"]) @ x["v"] - y[idx]) ** 2))

    def jac(x: Any, idx: Any = ALL_ROWS) -> Any:
        rows = X[idx]
        hidden = np.tanh(rows @ x["W"])
        r = (hidden @ x["v"] - y[idx]) / len(rows)
        return {"W": rows.T @ (r[:, None] * (1 - hidden**2) * x["v"]), "v": hidden.T @ r}

    x0 = {"W": 0.5 * rng.standard_normal((5, 8)), "v": 0.5 * rng.standard_normal(8)}
    return Case(name, fun, jac, n, x0)


def rosenbrock(name: str, n: int = 9) -> Case:
    """A sum of n valleys that share their variables."""

    def terms(x: Array) -> tuple[Array, Array]:
        return x[1:] - x[:-1] ** 2, 1 - x[:-1]

    def fun(x: Array, idx: Any = ALL_ROWS) -> float:
        bend, off = terms(x)
        return float(np.mean((100 * bend**2 + off**2)[idx]))

    def jac(x: Array, idx: Any = ALL_ROWS) -> Array:
        bend, off = terms(x)
        chosen = np.zeros(n)
        chosen[idx] = 1.0 / len(np.arange(n)[idx])
        g = np.zeros(n + 1)
        g[1:] += chosen * 200 * bend
        g[:-1] += chosen * (-400 * bend * x[:-1] - 2 * off)
        return g

    return Case(name, fun, jac, n, np.full(n + 1, -0.5), 2)


def of_problem(name: str, problem: Any, rng: int = 0) -> Case:
    return Case(
        name, problem.fun, problem.jac, problem.n, problem.x0(rng), problem.blocks, problem.reg
    )


def library() -> list[Case]:
    """One of each of `cyclade.problems`."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((120, 16))
    y = labels(A, 1)
    z = A @ rng.standard_normal(16)
    outliers = z + np.where(rng.random(120) < 0.1, 20.0, 0.0)
    V = rng.random((24, 3)) @ rng.random((3, 18))
    rows, cols = np.nonzero(rng.random((20, 15)) < 0.5)
    M = rng.standard_normal((20, 2)) @ rng.standard_normal((2, 15))
    return [
        of_problem("LogisticRegression", problems.LogisticRegression(A, y, blocks=4)),
        of_problem("Welsch", problems.LinearProblem(A, outliers, problems.Welsch(), blocks=4)),
        of_problem("GemanMcClure", problems.LinearProblem(A, outliers, problems.GemanMcClure())),
        of_problem("Tukey", problems.LinearProblem(A, outliers, problems.Tukey())),
        of_problem("PhaseRetrieval", problems.PhaseRetrieval(A, z**2, blocks=4)),
        of_problem("PLQuadratic", problems.PLQuadratic.random()),
        of_problem("NMF", problems.NMF(V, 3)),
        of_problem("NMF components", problems.NMF(V, 3, blocks="components")),
        of_problem("completion", problems.MatrixCompletion(rows, cols, M[rows, cols], M.shape, 2)),
        of_problem(
            "nuclear", problems.NuclearCompletion(rows, cols, M[rows, cols], M.shape, lam=0.01)
        ),
    ]


def cases() -> list[Case]:
    """The thirty."""
    rng = np.random.default_rng(7)
    A = rng.standard_normal((200, 15))
    scales = 10.0 ** np.linspace(-2, 2, 15)
    rows = 10.0 ** rng.uniform(-2, 2, size=(200, 1))
    tails = rng.standard_t(1.5, size=200)
    outlier = A.copy()
    outlier[3] *= 100.0
    counts = rng.poisson(np.exp(0.3 * A[:, 0])).astype(float)
    made = [
        *library(),
        *(linear(f"heavy rows {s}", *heavy(s), squared, residual) for s in (2, 3)),
        linear("heavier rows", *heavy(4, spread=1.5), squared, residual),
        linear("heavy logistic", heavy(5)[0], labels(heavy(5)[0], 6), logistic, logistic_slope),
        linear("heavy Lasso", *heavy(6), squared, residual, reg=L1(0.1)),
        linear("scaled columns", A * scales, A @ np.ones(15), squared, residual),
        linear("scaled logistic", A * scales, labels(A, 8), logistic, logistic_slope, reg=L1(0.01)),
        linear("scaled rows", A * rows, (A * rows) @ np.ones(15), squared, residual, reg=L1(0.01)),
        linear("one long row", outlier, outlier @ np.ones(15), squared, residual),
        linear("Huber, heavy tails", A, A @ np.ones(15) + tails, huber,
               lambda z, y: np.clip(z - y, -1, 1), reg=ElasticNet(0.01, 0.1)),
        linear("Cauchy", A, A @ np.ones(15) + tails, lambda z, y: np.log1p((z - y) ** 2),
               lambda z, y: 2 * (z - y) / (1 + (z - y) ** 2), blocks="coordinates"),
        linear("sigmoid loss", A, labels(A, 9), lambda z, y: 1 / (1 + np.exp(y * z)),
               lambda z, y: -y / (2 + np.exp(y * z) + np.exp(-y * z)), reg=L1(0.001)),
        linear("Poisson", A, counts, lambda z, y: np.exp(np.minimum(z, 300)) - y * z,
               lambda z, y: np.exp(np.minimum(z, 300)) - y),
        linear("quartic", A, np.zeros(200), lambda z, y: z**4, lambda z, y: 4 * z**3,
               x0=np.full(15, 2.0)),
        linear("box", A, A @ np.full(15, 3.0), squared, residual, reg=Box(-1.0, 1.0)),
        factorisation("entries 40 x 30", 40, 30, 4, 10),
        factorisation("entries, non-negative", 20, 15, 2, 11, reg=NonNegative()),
        network("network", 12),
        rosenbrock("Rosenbrock"),
        linear("groups", A, A @ np.repeat([1.0, 0.0, -1.0], 5), squared, residual, blocks=3,
               reg=GroupL2(0.1)),
    ]  # fmt: skip
    assert len(made) == 30, len(made)
    assert len({case.name for case in made}) == 30
    return made


CASES = cases()
