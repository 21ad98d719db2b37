"""Sixty problems that default arguments must survive: shared by the tests of `minimize`.

`CASES`: all of `cyclade.problems`, heavy-tailed and badly scaled rows and columns, factorisations
with entries as terms, and other smooth functions whose curvature changes along the way.
`HARD_CASES`: starts far from the optimum, terms that curve far more than the others, numbers at the
edge of single precision, plateaus, edges and too few terms. Sizes are small, seeds fixed. Each is
a `Case`: f as ``fun(x, idx)`` with its gradient, n terms, blocks, r and x0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cyclade import L1, MCP, Box, ElasticNet, GroupL2, NonNegative, NuclearNorm, problems

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
    x0: Array | None = None, weights: Any = None,
) -> Case:  # fmt: skip
    """f(x) = (1/n) Σ w_i φ(a_iᵀx, y_i)."""
    w = np.ones(len(A)) if weights is None else weights

    def fun(x: Array, idx: Any = ALL_ROWS) -> float:
        return float(np.mean(w[idx] * phi(A[idx] @ x, y[idx])))

    def jac(x: Array, idx: Any = ALL_ROWS) -> Array:
        rows = A[idx]
        return rows.T @ (w[idx] * slope(rows @ x, y[idx])) / len(rows)

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


def factorisation(
    name: str, rows: int, cols: int, rank: int, seed: int, reg: Any = None, seen: float = 1.0
) -> Case:
    """V ≈ W H with the entries of V that are seen as terms."""
    rng = np.random.default_rng(seed)
    V = np.abs(rng.standard_normal((rows, rank))) @ np.abs(rng.standard_normal((rank, cols)))
    where = np.nonzero(np.random.default_rng(seed + 1).random(V.shape) < seen)

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
    return Case(name, fun, jac, len(where[0]), x0, None, reg)


def nmf(name: str, V: Array, rank: int) -> Case:
    """V ≈ W H with W, H ≥ 0 and the rows of V as terms."""
    rng = np.random.default_rng(0)

    def fun(x: Any, idx: Any = ALL_ROWS) -> float:
        return float(0.5 * np.sum((x["W"][idx] @ x["H"] - V[idx]) ** 2) / len(V[idx]))

    def jac(x: Any, idx: Any = ALL_ROWS) -> Any:
        W = x["W"][idx]
        residual = (W @ x["H"] - V[idx]) / len(W)
        gradient = np.zeros(x["W"].shape)
        np.add.at(gradient, idx, residual @ x["H"].T)
        return {"W": gradient, "H": W.T @ residual}

    scale = np.sqrt(V.mean() / rank)
    shapes = {"W": (len(V), rank), "H": (rank, V.shape[1])}
    x0 = {one: scale * np.abs(rng.standard_normal(shape)) for one, shape in shapes.items()}
    return Case(name, fun, jac, len(V), x0, None, NonNegative())


def by_components(name: str, case: Case) -> Case:
    """A factorisation whose blocks are the columns of W and the rows of H, end to end in x."""
    (n, rank), (_, p) = case.x0["W"].shape, case.x0["H"].shape

    def factors(x: Array) -> dict[str, Array]:
        return {"W": x[: rank * n].reshape(rank, n).T, "H": x[rank * n :].reshape(rank, p)}

    def packed(x: dict[str, Array]) -> Array:
        return np.concatenate([x["W"].T.ravel(), x["H"].ravel()])

    def fun(x: Array, idx: Any = ALL_ROWS) -> float:
        return case.fun(factors(x), idx)

    def jac(x: Array, idx: Any = ALL_ROWS) -> Array:
        return packed(case.jac(factors(x), idx))

    return Case(name, fun, jac, case.n, packed(case.x0), [n] * rank + [p] * rank, case.reg)


def nuclear(name: str, M: Array, where: Any) -> Case:
    """A matrix, one block with the nuclear norm, from the entries `where` of M."""
    seen = np.stack(where)

    def fun(x: Array, idx: Any = ALL_ROWS) -> float:
        i, j = seen[:, idx]
        return float(0.5 * np.mean((x[i, j] - M[i, j]) ** 2))

    def jac(x: Array, idx: Any = ALL_ROWS) -> Array:
        i, j = seen[:, idx]
        gradient = np.zeros(M.shape)
        np.add.at(gradient, (i, j), (x[i, j] - M[i, j]) / len(i))
        return gradient

    return Case(name, fun, jac, seen.shape[1], np.zeros(M.shape), None, NuclearNorm(0.01))


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
    """One of each of `cyclade.problems`, and factorisations."""
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
        nmf("NMF", V, 3),
        by_components("NMF components", nmf("", V, 3)),
        factorisation("completion", 20, 15, 2, 13, seen=0.5),
        nuclear("nuclear", M, (rows, cols)),
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


def poisson(name: str, x0: float, blocks: Any = 4, reg: Any = None) -> Case:
    """Counts, from a start where the curvature is not that of the way."""
    rng = np.random.default_rng(20)
    A = rng.standard_normal((500, 5))
    y = rng.poisson(np.exp(A @ np.array([0.5, -0.3, 0.0, 0.2, 0.0]))).astype(float)
    return linear(
        name, A, y, lambda z, y: np.exp(np.minimum(z, 80)) - y * z,
        lambda z, y: np.exp(np.minimum(z, 80)) - y, blocks=blocks, reg=reg, x0=np.full(5, x0),
    )  # fmt: skip


def student(z: Array, y: Array) -> Array:
    return 0.5 * np.log1p((z - y) ** 2)


def student_slope(z: Array, y: Array) -> Array:
    return (z - y) / (1 + (z - y) ** 2)


def signed_terms(name: str) -> Case:
    """Terms that bend up and down, with a convex mean."""
    rng = np.random.default_rng(21)
    bends = np.concatenate([rng.uniform(-9, 0, 100), rng.uniform(0, 12, 100)])
    A, c = rng.standard_normal((200, 8)), rng.standard_normal(8)

    def fun(x: Array, idx: Any = ALL_ROWS) -> float:
        return float(np.mean(0.5 * bends[idx] * (A[idx] @ (x - c)) ** 2) + 2 * np.sum((x - c) ** 2))

    def jac(x: Array, idx: Any = ALL_ROWS) -> Array:
        rows, bend = A[idx], bends[idx]
        return rows.T @ (bend * (rows @ (x - c))) / len(rows) + 4 * (x - c)

    return Case(name, fun, jac, 200, np.zeros(8), 2)


def rare_and_steep(name: str, n: int, steep: float) -> Case:
    """One term in n curves `steep` times as much as the others."""
    A = np.random.default_rng(22).standard_normal((n, 5))
    weights = np.where(np.arange(n) == n // 3, steep, 1.0)
    return linear(name, A, A @ np.ones(5), squared, residual, 2, weights=weights)


def hard_cases() -> list[Case]:
    """Thirty more."""
    rng = np.random.default_rng(30)
    A = rng.standard_normal((200, 12))
    x = rng.standard_normal(12)
    cauchy = A * rng.standard_t(1.0, size=(200, 1))
    binary = (rng.random((300, 40)) < 0.02).astype(float)
    levels = np.eye(12)[rng.integers(0, 12, 200) ** 2 % 12]
    hilbert = 1.0 / (np.arange(200)[:, None] % 12 + np.arange(12) + 1.0)
    lopsided = A * 10.0 ** rng.uniform(-3, 3, 12)
    shifted = A + 1e3
    signs = labels(A, 31)
    counts = rng.gamma(2.0, size=200)
    big = factorisation("", 15, 12, 2, 32)
    uneven = {"W": 1e-3 * big.x0["W"], "H": 1e3 * big.x0["H"]}
    plateau = network("plateau of a net", 33)
    far = network("far start of a net", 34)

    def barrier(z: Array, y: Array) -> Array:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(z > 0, z - y * np.log(z), np.inf)

    made = [
        poisson("Poisson from 4", 4.0),
        poisson("Poisson from 2, by coordinates", 2.0, "coordinates"),
        poisson("Poisson from -6", -6.0, reg=L1(0.01)),
        rare_and_steep("one term in 1e5 with curvature 1e8", 100_000, 1e8),
        rare_and_steep("one term in 1e3 with curvature 1e6", 1000, 1e6),
        linear("|y| = 1e8", A, 1e8 * (A @ x), squared, residual),
        linear("|y| = 1e-8", A, 1e-8 * (A @ x), squared, residual),
        linear("Cauchy rows", cauchy, cauchy @ x, squared, residual),
        linear("Cauchy rows, logistic", cauchy, labels(cauchy, 35), logistic, logistic_slope),
        linear("rare words", binary, labels(binary, 36), logistic, logistic_slope, reg=L1(1e-3)),
        linear("levels", levels, levels @ x, squared, residual, reg=ElasticNet(1e-3, 1e-3)),
        linear("Hilbert", hilbert, hilbert @ x, squared, residual),
        linear("columns in six units", lopsided, lopsided @ x, squared, residual, reg=L1(1e-3)),
        linear("far from the origin", shifted, shifted @ x, squared, residual),
        linear("outliers of 1e6", A, A @ x + 1e6 * (rng.random(200) < 0.1), student, student_slope),
        linear("far start of a redescending loss", A, A @ x, student, student_slope,
               x0=np.full(12, 1e3)),
        linear("separable", A, np.sign(A @ x), logistic, logistic_slope),
        linear("saturated", A, signs, logistic, logistic_slope, x0=np.full(12, 50.0)),
        linear("exponential loss", A, signs, lambda z, y: np.exp(np.minimum(-y * z, 80)),
               lambda z, y: -y * np.exp(np.minimum(-y * z, 80)), x0=np.full(12, 1.5)),
        linear("gamma", A, counts, lambda z, y: z + y * np.exp(np.minimum(-z, 80)),
               lambda z, y: 1 - y * np.exp(np.minimum(-z, 80)), x0=np.full(12, 1.0)),
        linear("edge of the domain", np.abs(A), 2 * np.abs(A) @ np.abs(x), barrier,
               lambda z, y: 1 - y / z, x0=np.ones(12), reg=Box(1e-3, 1e3)),
        linear("sixth powers", A, np.zeros(200), lambda z, y: z**6, lambda z, y: 6 * z**5,
               x0=np.full(12, 3.0)),
        linear("MCP", A, A @ x, squared, residual, reg=MCP(0.1, 3.0)),
        linear("groups in six units", lopsided, lopsided @ x, squared, residual, reg=GroupL2(0.1)),
        signed_terms("terms that bend both ways"),
        linear("weights of twelve decades", A, A @ x, squared, residual,
               weights=10.0 ** rng.uniform(-6, 6, 200)),
        Case("factors of two sizes", big.fun, big.jac, big.n, uneven),
        Case(plateau.name, plateau.fun, plateau.jac, plateau.n,
             {"W": 30.0 * plateau.x0["W"], "v": 1e-3 * plateau.x0["v"]}),
        Case(far.name, far.fun, far.jac, far.n, {"W": far.x0["W"], "v": 1e3 * far.x0["v"]}),
        linear("three terms", A[:3], A[:3] @ x, squared, residual, reg=L1(0.01)),
    ]  # fmt: skip
    assert len(made) == 30, len(made)
    assert len({case.name for case in made}) == 30
    return made


CASES, HARD_CASES = cases(), hard_cases()
