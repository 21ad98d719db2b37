"""`minimize` by samples beside P-CCD and L-BFGS-B, on functions with gradients of 20 to 70 ms.

A function is given as a user would write it, in NumPy or torch, with its gradient. Each solver runs
as it comes; its iterates are kept by a callback, whose time is not counted, and F is measured
afterwards. A figure is the processor time of one thread, and the passes over the n terms, until
(F − F*) / (F(x0) − F*) is at most 1e-2, 1e-3, 1e-4, where F* is the best F of any solver. Passes
count component gradients and products: a look at a point with its gradient is one. Of several seeds
it is the median; a level that was not reached counts as infinite.

The lines marked *held* were drawn after the defaults were settled, and run once.

    python benchmarks/functions.py [--seeds 3] [--seconds 12] [--only NAME ...] [--csv FILE]
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize as scipy_minimize
from scipy.special import expit
from threadpoolctl import threadpool_limits

from cyclade import minimize
from measuring import arguments, seconds
from tables import printed

Array = np.ndarray[Any, Any]
LEVELS = (1e-2, 1e-3, 1e-4)


@dataclass
class Line:
    """A sum of n terms, in NumPy (with `jac`) or in torch."""

    name: str
    half: str
    n: int
    x0: Any
    fun: Callable[..., Any]
    jac: Callable[..., Any] | None = None

    @property
    def torch(self) -> bool:
        """Whether x is a dict of tensors."""
        return self.jac is None

    def flat(self, w: Array) -> Any:
        """x from one vector."""
        if not self.torch:
            return w
        import torch

        parts = torch.from_numpy(w.copy()).split([a.numel() for a in self.x0.values()])
        return {
            k: part.reshape(a.shape) for (k, a), part in zip(self.x0.items(), parts, strict=True)
        }

    def start(self) -> Array:
        """x0 as one vector."""
        return vector(self.x0.values()) if self.torch else np.asarray(self.x0)

    def pair(self, w: Array) -> tuple[float, Array]:
        """f and its gradient at a vector, as L-BFGS-B asks."""
        x = self.flat(w)
        if self.jac is not None:
            return self.fun(x), self.jac(x)
        for a in x.values():
            a.requires_grad_(True)
        value = self.fun(x)
        value.backward()
        return value.item(), vector(a.grad for a in x.values())


def vector(tensors: Iterable[Any]) -> Array:
    """Tensors as one vector."""
    return np.concatenate([a.numpy().ravel() for a in tensors])


@dataclass
class Trace:
    """Iterates of a run, with the seconds and passes spent until each."""

    points: list[Any]
    seconds: list[float]
    passes: list[float]


LOSSES: dict[str, tuple[Callable[[Array, Array], Array], Callable[[Array, Array], Array]]] = {
    "logistic": (lambda z, y: np.logaddexp(0.0, -y * z), lambda z, y: -y * expit(-y * z)),
    "poisson": (
        lambda z, y: np.exp(np.minimum(z, 50.0)) - y * z,
        lambda z, y: np.exp(np.minimum(z, 50.0)) - y,
    ),
    "cauchy": (
        lambda z, y: 0.5 * np.log1p((z - y) ** 2), lambda z, y: (z - y) / (1.0 + (z - y) ** 2)
    ),
}  # fmt: skip


def glm(
    name: str, half: str, kind: str, n: int, p: int, spread: float, seed: int, alike: float = 0.0
) -> Line:
    """A linear model with columns whose scales differ by up to 10^(2 spread)."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, p)) + alike * rng.standard_normal((n, 1))
    scale = 10 ** rng.uniform(-spread, spread, p)
    z = A @ (2.0 * rng.standard_normal(p) / np.sqrt(p))
    A *= scale
    if kind == "logistic":
        y = np.where(z + rng.logistic(size=n) > 0, 1.0, -1.0)
    elif kind == "poisson":
        y = rng.poisson(np.exp(np.minimum(0.5 * z, 5.0))).astype(float)
    else:
        y = z + rng.standard_t(1.5, size=n)

    value, slope = LOSSES[kind]

    def fun(x: Array, idx: Any = None) -> float:
        rows, t = (A, y) if idx is None else (A[idx], y[idx])
        return float(value(rows @ x, t).mean())

    def jac(x: Array, idx: Any = None) -> Array:
        rows, t = (A, y) if idx is None else (A[idx], y[idx])
        return rows.T @ slope(rows @ x, t) / len(t)

    return Line(name, half, n, np.zeros(p), fun, jac)


def net(name: str, half: str, n: int, d: int, width: int, seed: int) -> Line:
    """A torch net of one hidden layer: two blocks, one per layer."""
    import torch

    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    target = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n)
    rows, y = torch.from_numpy(X), torch.from_numpy(target)

    def fun(x: Any, idx: Any = None) -> Any:
        some, t = (rows, y) if idx is None else (rows[idx], y[idx])
        return 0.5 * ((torch.tanh(some @ x["W"]) @ x["v"] - t) ** 2).mean()

    x0 = {"W": rng.standard_normal((d, width)) / np.sqrt(d),
          "v": rng.standard_normal(width) / np.sqrt(width)}  # fmt: skip
    return Line(name, half, n, {key: torch.from_numpy(a) for key, a in x0.items()}, fun)


def lines() -> Iterator[Callable[[], Line]]:
    """All lines; data are made when a line has its turn."""
    yield lambda: glm("logistic", "tuned", "logistic", 400_000, 50, 0.5, 0)
    yield lambda: glm("logistic, scaled", "tuned", "logistic", 400_000, 50, 1.0, 1)
    yield lambda: glm("Poisson", "tuned", "poisson", 400_000, 40, 0.5, 2)
    yield lambda: glm("Cauchy, alike columns", "held", "cauchy", 400_000, 40, 0.5, 101, 1.0)
    yield lambda: glm("logistic, 600k", "held", "logistic", 600_000, 40, 0.7, 102)
    yield lambda: glm("Poisson, wide", "held", "poisson", 250_000, 90, 0.3, 103)
    yield lambda: glm("logistic, even columns", "held", "logistic", 400_000, 60, 0.0, 104)
    yield lambda: net("net in torch", "held", 100_000, 20, 30, 105)


def ours(line: Line, limit: float, **options: Any) -> Trace:
    """The iterates of `minimize`."""
    found, begun, lost = Trace([], [], []), time.process_time(), 0.0

    def keep(report: Any) -> bool:
        nonlocal lost
        now = time.process_time()
        if report.cycle % 3 == 0 or options.get("method") == "P-CCD":
            found.points.append(report.x)
            found.seconds.append(now - begun - lost)
            found.passes.append(report.samples / line.n)
        lost += time.process_time() - now
        return now - begun - lost > limit

    res = minimize(
        line.fun, line.x0, jac=line.jac, n=line.n, tol=1e-9, callback=keep, max_cycles=None,
        **options,
    )  # fmt: skip
    if options.get("method") == "P-CCD":  # values are half a look; it counts them apart
        looks = 0.5 * res.values / line.n / max(len(found.passes), 1)
        found.passes = [passes + looks * (i + 1) for i, passes in enumerate(found.passes)]
    else:
        found.passes = [passes + res.hvps / line.n for passes in found.passes]
    return found


def lbfgs(line: Line, limit: float) -> Trace:
    """The iterates of SciPy's L-BFGS-B."""
    found, begun, calls = Trace([], [], []), time.process_time(), 0

    def pair(w: Array) -> tuple[float, Array]:
        nonlocal calls
        calls += 1
        return line.pair(w)

    def keep(w: Array) -> None:
        found.points.append(line.flat(w.copy()))
        found.seconds.append(time.process_time() - begun)
        found.passes.append(float(calls))
        if found.seconds[-1] > limit:
            raise StopIteration

    options = {"maxiter": 10_000, "maxfun": 100_000, "ftol": 1e-14, "gtol": 1e-12}
    scipy_minimize(pair, line.start(), jac=True, method="L-BFGS-B", callback=keep, options=options)
    return found


def reached(line: Line, trace: Trace, least: float) -> list[tuple[float, float]]:
    """Seconds and passes until each level."""
    first, found, at = line.pair(line.start())[0], [], 0
    values: dict[int, float] = {}
    for level in LEVELS:
        while at < len(trace.points):
            if at not in values:
                values[at] = float(line.fun(trace.points[at]))
            if values[at] - least <= level * (first - least):
                break
            at += 1
        past = at == len(trace.points)
        found.append((np.inf, np.inf) if past else (trace.seconds[at], trace.passes[at]))
    return found


def measure(line: Line, seeds: int, limit: float) -> Iterator[dict[str, Any]]:
    """One row for each solver and level."""
    gradient = statistics.median(seconds(lambda: line.pair(line.start())) for _ in range(3))
    solvers: dict[str, list[Trace]] = {
        "VRO-CCD": [ours(line, limit, seed=seed) for seed in range(seeds)],
        "P-CCD": [ours(line, limit, method="P-CCD")],
        "L-BFGS-B": [lbfgs(line, limit)],
    }
    if not line.torch:
        solvers["VRO-CCD, 4 blocks"] = [ours(line, limit, seed=s, blocks=4) for s in range(seeds)]
    ends = [trace.points[-1] for traces in solvers.values() for trace in traces]
    least = min(float(line.fun(point)) for point in ends)
    for solver, traces in solvers.items():
        runs = [reached(line, trace, least) for trace in traces]
        for i, level in enumerate(LEVELS):
            spent, passes = (statistics.median(run[i][k] for run in runs) for k in (0, 1))
            yield {
                "line": line.name, "half": line.half, "n": line.n, "gradient_ms": 1e3 * gradient,
                "solver": solver, "runs": len(runs), "level": level, "seconds": spent,
                "passes": passes,
            }  # fmt: skip


def main() -> None:
    """Print the table, and write it."""
    given = arguments(__doc__, seeds=3, seconds=12.0, only=[], csv=Path)

    def rows() -> Iterator[dict[str, Any]]:
        for made in lines():
            line = made()
            if not given.only or line.name in given.only:
                yield from measure(line, given.seeds, given.seconds)

    with threadpool_limits(1):
        printed(rows(), given.csv)


if __name__ == "__main__":
    try:
        import torch

        torch.set_num_threads(1)
    except ImportError:
        pass
    main()
