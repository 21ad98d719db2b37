"""`minimize` beside hand-written solvers, in one process and one thread.

Four kinds of problem, each on the instance its settings were chosen on and on a held-out one (other
seed and shape): non-negative matrix factorisation, l1 logistic regression with badly scaled
columns, logistic regression with many rows, and l1 logistic regression with many columns (as one
block, and as 20 blocks through `Linear`, which keeps Ax).

Each solver is run at a ladder of its own tolerances. What counts is the time of the loosest rung
whose objective, computed here, is within 1e-6 (relative) of the best one that any solver found; for
the factorisation, which has many minima, the objective at which scikit-learn's solver stops. Times
are processor seconds, medians of `--repeats` turns in which all solvers of a line take part.

PyProximal, copt and jaxopt take part where they are installed (`pip install copt jaxopt`).

    python benchmarks/minimize.py [--repeats 5] [--only nmf scaled rows columns] [--csv FILE]
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize as scipy_minimize
from scipy.special import expit
from threadpoolctl import threadpool_limits

from cyclade import L1, Linear, NonNegative, minimize
from measuring import arguments, in_turns, medians
from tables import printed

CLOSE = 1e-6

Array = np.ndarray[Any, Any]
Ladder = tuple[Sequence[Any], Callable[[Any], Any]]  # tolerances or iterations; x at one of them
ONCE = (None,)
ITERATIONS = (50, 200, 800, 3200)


@dataclass
class Line:
    """One problem, its objective, and how each solver is run at rung after rung."""

    kind: str
    half: str
    shape: str
    objective: Callable[[Any], float]
    ours: dict[str, Ladder]
    peers: dict[str, Ladder]
    target: float | None = None  # else within `CLOSE` of the best


# --------------------------------------------------------------------------------- factorisation


def nmf(half: str, n: int, p: int, k: int, seed: int) -> Line:
    """V ≈ WH from the same start; ours minimises exactly over one component after another."""
    from sklearn.decomposition import non_negative_factorization

    rng = np.random.default_rng(seed)
    V = rng.random((n, k)) @ rng.random((k, p)) + 0.1 * rng.random((n, p))
    scale = np.sqrt(V.mean() / k)
    start = {"W": scale * rng.random((n, k)), "H": scale * rng.random((k, p))}

    def objective(x: Any) -> float:
        return float(0.5 * np.sum((V - x["W"] @ x["H"]) ** 2))

    def gradient(x: Any) -> Any:
        R = x["W"] @ x["H"] - V
        return {"W": R @ x["H"].T, "H": x["W"].T @ R}

    def passes(X: Array, C: Array, G: Array) -> Array:
        """Four cyclic passes over the rows of X ≥ 0, minimising ½ tr(XᵀGX) − tr(XᵀC)."""
        X, scale = np.array(X, order="C"), np.diag(G)[:, None]
        C, G = C / scale, G / scale - np.eye(k)
        for _ in range(4):
            for r in range(k):
                np.maximum(C[r] - G[r] @ X, 0.0, out=X[r])
        return X

    def block_min(j: int, x: Any) -> Array:
        W, H = x["W"], x["H"]
        if j == 0:
            return passes(W.T, H @ V.T, H @ H.T).T
        return passes(H, W.T @ V, W.T @ W)

    def scikit(_: Any = None) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # 200 iterations, its default, may not be enough
            W, H, _ = non_negative_factorization(
                V, start["W"].copy(), start["H"].copy(), n_components=k, init="custom", solver="cd"
            )
        return {"W": W, "H": H}

    reached = objective(scikit())

    def ours(options: dict[str, Any]) -> Any:
        return minimize(
            objective, start, jac=gradient, block_min=block_min, reg=NonNegative(), every=10,
            tol=None, callback=lambda report: report.fun <= reached, **options,
        ).x  # fmt: skip

    solvers: dict[str, Ladder] = {
        "block_min": ([{}], ours), "block_min, accelerated": ([{"accelerate": True}], ours),
    }  # fmt: skip
    peers = {"scikit-learn cd": (ONCE, scikit)}
    return Line("nmf", half, f"{n} x {p}, rank {k}", objective, solvers, peers, reached)


# -------------------------------------------------------------------------------------- logistic


class Logistic:
    """f(x) = mean log(1 + exp(−y Ax)) + (ridge/2)‖x‖², and the pair that solvers are given."""

    def __init__(self, A: Array, y: Array, lam: float, ridge: float = 0.0) -> None:
        self.A, self.y, self.lam, self.ridge = A, y, lam, ridge
        self.n, self.d = A.shape

    def pair(self, x: Array) -> tuple[float, Array]:
        """f and ∇f."""
        margin = -self.y * (self.A @ x)
        slope = -self.y * expit(margin) / self.n
        value = np.logaddexp(0.0, margin).mean() + 0.5 * self.ridge * (x @ x)
        return float(value), self.A.T @ slope + self.ridge * x

    def objective(self, x: Array) -> float:
        """F."""
        return self.pair(x)[0] + self.lam * float(np.abs(x).sum())

    def lbfgs(self, ftol: float) -> Array:
        """L-BFGS-B; with l1, on x = u − v with u, v ≥ 0."""
        d, limits = self.d, {"ftol": ftol, "gtol": 1e-12, "maxiter": 20_000, "maxfun": 20_000}
        find = partial(scipy_minimize, jac=True, method="L-BFGS-B", options=limits)
        if not self.lam:
            return find(self.pair, np.zeros(d)).x

        def split(w: Array) -> tuple[float, Array]:
            value, g = self.pair(w[:d] - w[d:])
            return value + self.lam * float(w.sum()), np.concatenate([g + self.lam, self.lam - g])

        w = find(split, np.zeros(2 * d), bounds=[(0.0, None)] * (2 * d)).x
        return w[:d] - w[d:]

    def liblinear(self, tol: float) -> Array:
        """scikit-learn's l1 logistic regression."""
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(
            l1_ratio=1.0, solver="liblinear", C=1.0 / (self.n * self.lam), fit_intercept=False,
            tol=tol, max_iter=2000,
        )  # fmt: skip
        return model.fit(self.A, self.y).coef_[0]

    def pyproximal(self, iterations: int) -> Array:
        """PyProximal's accelerated proximal gradient, with a step it need not search for."""
        import pyproximal

        problem = self

        class Smooth(pyproximal.ProxOperator):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__(None, True)

            def __call__(self, x: Array) -> float:
                return problem.pair(x)[0]

            def grad(self, x: Array) -> Array:
                return problem.pair(x)[1]

        return pyproximal.optimization.primal.ProximalGradient(
            Smooth(), pyproximal.L1(self.lam), np.zeros(self.d), tau=self.step, niter=iterations,
            acceleration="fista",
        )  # fmt: skip

    def copt(self, iterations: int) -> Array:
        """copt's accelerated proximal gradient with its own line search."""
        import copt
        import copt.penalty

        return copt.minimize_proximal_gradient(
            self.pair, np.zeros(self.d), copt.penalty.L1Norm(self.lam).prox, jac=True, tol=1e-12,
            max_iter=iterations, accelerated=True,
        ).x  # fmt: skip

    def jaxopt(self, iterations: int) -> Array:
        """jaxopt's FISTA in float64; its compilation is not timed, a first run is made before."""
        return np.asarray(self.compiled(iterations)(np.zeros(self.d)))

    @cached_property
    def step(self) -> float:
        """1/L of f."""
        return float(4 * self.n / np.linalg.norm(self.A, 2) ** 2)

    @cache  # noqa: B019
    def compiled(self, iterations: int) -> Callable[[Array], Any]:
        """That solver."""
        import jax
        import jaxopt

        jax.config.update("jax_enable_x64", True)
        A, y = jax.numpy.asarray(self.A), jax.numpy.asarray(self.y)

        def smooth(x: Any) -> Any:
            return jax.numpy.logaddexp(0.0, -y * (A @ x)).mean() + 0.5 * self.ridge * (x @ x)

        prox = jaxopt.prox.prox_lasso
        found = jaxopt.ProximalGradient(smooth, prox, maxiter=iterations, tol=1e-12)
        return jax.jit(lambda x: found.run(x, hyperparams_prox=self.lam).params)

    def peers(self) -> dict[str, Ladder]:
        """L-BFGS-B and, with l1, the proximal gradient methods that are installed."""
        ftols = [10.0**-k for k in range(6, 14)]
        if not self.lam:
            return {"L-BFGS-B": (ftols, self.lbfgs)}
        named = {"PyProximal": self.pyproximal, "copt": self.copt, "jaxopt": self.jaxopt}
        found = {f"{k} FISTA": (ITERATIONS, f) for k, f in named.items() if find_spec(k.lower())}
        return {"L-BFGS-B on the split": (ftols, self.lbfgs), **found}

    def ours(self, blocks: int = 1, **options: Any) -> Ladder:
        """`minimize` with (value, gradient) pairs; over blocks with `Linear`, which keeps Ax."""
        fun, more = (self.pair, {"jac": True})
        if blocks > 1:
            fun, more = Linear(self.A, self.y, "logistic"), {"blocks": blocks, "every": 2}
        options |= more | {"reg": L1(self.lam) if self.lam else None, "tol": None}
        rtols, x0 = [10.0**-k for k in range(2, 7)], np.zeros(self.d)
        return rtols, lambda rtol: minimize(fun, x0, rtol=rtol, max_cycles=5000, **options).x


def sparse_labels(A: Array, rng: np.random.Generator) -> Array:
    """Labels that depend on a few columns."""
    w = np.zeros(A.shape[1])
    w[: min(20, len(w))] = rng.standard_normal(min(20, len(w)))
    return np.sign(A @ w + 0.5 * rng.standard_normal(len(A)))


def scaled(half: str, n: int, d: int, seed: int, decades: float) -> Line:
    """l1 logistic regression whose columns have scales over `decades` decades."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, d))
    y = sparse_labels(A, rng)
    problem = Logistic(A * 10.0 ** rng.uniform(-decades / 2, decades / 2, d), y, 0.01)
    ways = {
        'L="scaled", accelerated': problem.ours(L="scaled", accelerate=True),
        'L="scaled"': problem.ours(L="scaled"),
    }
    return Line("scaled", half, f"{n} x {d}", problem.objective, ways, problem.peers())


def rows(half: str, n: int, d: int, seed: int) -> Line:
    """Logistic regression with many rows, lightly ridged."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, d))
    problem = Logistic(A, sparse_labels(A, rng), 0.0, 1e-3)
    ways = {"accelerated": problem.ours(accelerate=True), "defaults": problem.ours()}
    return Line("rows", half, f"{n} x {d}", problem.objective, ways, problem.peers())


def columns(half: str, n: int, d: int, seed: int) -> Iterator[Line]:
    """l1 logistic regression with many columns, as one block and as 20."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, d))
    y = sparse_labels(A, rng)
    problem = Logistic(A, y, float(np.abs(A.T @ y).max()) / (20 * n))
    tols = [10.0**-k for k in range(1, 6)]
    peers = {"liblinear": (tols, problem.liblinear), **problem.peers()}
    for kind, name, blocks in (
        ("columns", "defaults", 1),
        ("columns, 20 blocks", "Linear", 20),
    ):
        fast = "accelerated" if blocks == 1 else f"{name}, accelerated"
        ways = {fast: problem.ours(blocks, accelerate=True), name: problem.ours(blocks)}
        yield Line(kind, half, f"{n} x {d}", problem.objective, ways, peers)


def lines(only: list[str]) -> Iterator[Line]:
    """All lines, the tuned half before the held-out one."""
    if "nmf" in only:
        yield nmf("tuned", 300, 200, 10, 0)
        yield nmf("held out", 400, 150, 8, 2)
    if "scaled" in only:
        yield scaled("tuned", 2000, 500, 0, 4.0)
        yield scaled("held out", 2500, 400, 2, 4.0)
    if "rows" in only:
        yield rows("tuned", 60_000, 20, 0)
        yield rows("held out", 50_000, 30, 2)
    if "columns" in only:
        yield from columns("tuned", 5000, 2000, 0)
        yield from columns("held out", 6000, 1500, 2)


# ----------------------------------------------------------------------------------- measuring


def measure(line: Line, repeats: int) -> list[dict[str, Any]]:
    """The rung of every solver, then its median time over turns that all take part in."""
    solvers = line.ours | line.peers
    climbed: dict[str, list[tuple[Callable[[], Any], float]]] = {}
    best = np.inf
    for name, (rungs, solver) in solvers.items():
        climbed[name] = []
        for rung in (partial(solver, effort) for effort in rungs):
            value = line.objective(rung())
            climbed[name].append((rung, value))
            best = min(best, value)
            last = [v for _, v in climbed[name][-3:]]
            if len(last) == 3 and last[0] - value <= 1e-9 * abs(value):
                break  # two tighter rungs brought nothing
    goal = line.target or best + CLOSE * max(1.0, abs(best))
    chosen = {
        name: next(((rung, value) for rung, value in tried if value <= goal * (1 + 1e-12)), None)
        for name, tried in climbed.items()
    }
    there = {name: rung[0] for name, rung in chosen.items() if rung is not None}
    median = dict.fromkeys(solvers, np.nan) | medians(in_turns(there, repeats, warm=0))
    peer = np.nanmin([median[name] for name in line.peers])
    return [
        {
            "kind": line.kind, "half": line.half, "shape": line.shape, "solver": name,
            "ours": name in line.ours, "seconds": median[name], "ratio": median[name] / peer,
            "objective": chosen[name][1] if chosen[name] else min(v for _, v in climbed[name]),
            "reached": chosen[name] is not None,
        }
        for name in solvers
    ]  # fmt: skip


def main() -> None:
    """Measure and print."""
    given = arguments(__doc__, repeats=5, only=("nmf", "scaled", "rows", "columns"), csv=Path)
    with threadpool_limits(1):
        rows = (row for line in lines(given.only) for row in measure(line, given.repeats))
        printed(rows, given.csv, digits=9)


if __name__ == "__main__":
    main()
