"""Samples of rows: epochs and CPU seconds to a given accuracy, beside other ways to the same point.

    F(x) = (1/n) Σ_i φ(y_i, a_i·x) + r(x),   λ = λ_max/100 (MCP: /10), without intercept

Ours run as `solve_rows` has them, nothing tuned; so does scikit-learn's saga, which takes the
logistic loss alone. `solve`, our engine of working sets, reads all rows at every pass. A run is
made again for each number of epochs (or tolerance) and timed whole; F is looked at afterwards. An
epoch is n component gradients: a small step of the recursive methods counts both points. Accuracy
is (F − F*) / (F(0) − F*), with F* from `solve`; of nonconvex problems the lowest F of any run.
Defaults were chosen on the lines of the half "tuned"; "held" are data and draws seen once. Seconds
are medians over seeds, of one thread; the contestants take turns, as machines have neighbours.

    python benchmarks/rows.py --data-dir FOLDER --out docs/benchmarks/rows.csv
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from cyclade.linear import losses, solve
from cyclade.linear.penalties import L1, MCP, ElasticNet
from cyclade.rows.fit import solve_rows
from linear_peers.problems import table
from measuring import arguments, timed
from tables import printed

LEVELS = (1e-3, 1e-4, 1e-5)
EPOCHS = (1, 2, 3, 4, 5, 7, 9, 12, 16, 22, 30, 40)
LIMIT = 4.0  # seconds of all the runs of a contestant, with one seed
TOLERANCES = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 1e-4, 1e-5, 1e-6)


class Line(NamedTuple):
    """A problem, and the half it is reported in."""

    name: str
    half: str
    data: str
    loss: str
    penalty: str
    seed: int = 0


LINES = [
    Line("a9a", "tuned", "a9a", "logistic", "l1"),
    Line("w8a", "tuned", "w8a", "logistic", "l1"),
    Line("sparse 120k", "tuned", "sparse", "logistic", "l1", 17),
    Line("scaled 60k", "tuned", "scaled", "logistic", "l1", 9),
    Line("phishing", "tuned", "phishing", "logistic", "l1"),
    Line("news20", "held", "news20_counts", "logistic", "l1"),
    Line("sparse 120k, draw 4", "held", "sparse", "logistic", "l1", 411),
    Line("dense 100k", "held", "dense", "logistic", "l1", 412),
    Line("cover-like 200k", "held", "cover", "logistic", "l1", 413),
    Line("text-like 100k", "held", "text", "logistic", "l1", 414),
    Line("a9a, elastic net", "held", "a9a", "logistic", "elastic_net"),
    Line("dense 100k, elastic net", "held", "dense", "logistic", "elastic_net", 415),
    Line("w8a, squared hinge", "held", "w8a", "squared_hinge", "l1"),
    Line("dense 100k, Huber", "held", "dense", "huber", "l1", 416),
    Line("dense 100k, Welsch", "held", "dense", "welsch", "l1", 417),
    Line("a9a, MCP", "held", "a9a", "logistic", "mcp"),  # stationary points differ in F
]


def draw(kind: str, seed: int, n: int | None = None) -> tuple[Any, Any, Any]:
    """Rows and scores of a made table, and the generator that made them."""
    rng = np.random.default_rng(seed)
    if kind == "sparse":
        n, p = n or 120_000, 400
        often = 0.3 / np.arange(1, p + 1) ** 0.7
        X: Any = sp.csr_matrix((rng.random((n, p)) < often).astype(float))
    elif kind == "text":
        n, p, words = n or 100_000, 20_000, 40
        often = 1.0 / np.arange(1, p + 1) ** 0.9
        columns = rng.choice(p, size=(n, words), p=often / often.sum())
        ends = np.arange(0, n * words + 1, words)
        X = sp.csr_matrix((rng.exponential(1.0, n * words), columns.ravel(), ends), shape=(n, p))
        X.sum_duplicates()
        X = sp.csr_matrix(X.multiply(1.0 / np.sqrt(X.multiply(X).sum(axis=1))))
    elif kind == "cover":  # ten numbers of unlike units, and two sets of exclusive flags
        n, p = n or 200_000, 54
        X = np.zeros((n, p))
        X[:, :10] = rng.gamma(4.0, 0.25, (n, 10)) @ np.linalg.qr(rng.normal(size=(10, 10)))[0]
        for first, size in ((10, 4), (14, 40)):
            chance = 1.0 / np.arange(1, size + 1)
            X[np.arange(n), first + rng.choice(size, n, p=chance / chance.sum())] = 1.0
    else:
        n, p = (n or 60_000, 40) if kind == "scaled" else (n or 100_000, 100)
        X = rng.normal(size=(n, p)) + 0.5 * rng.normal(size=(n, 3)) @ rng.normal(size=(3, p))
        X *= 10 ** rng.uniform(-1.0, 1.0, p) if kind == "scaled" else 1.0
    score = np.asarray(X @ (rng.normal(size=p) * (rng.random(p) < 0.3))).ravel()
    return X, (score - np.median(score)) / (score.std() or 1.0), rng


def problem(line: Line, folder: Path | None, n: int | None) -> tuple[Any, Any]:
    """X by rows, and y to suit the loss."""
    if line.data in ("sparse", "text", "cover", "dense", "scaled"):
        X, score, rng = draw(line.data, line.seed, n)
        noise = rng.logistic(size=len(score)) * 0.5
        if losses.get(line.loss).target == "signs":
            return X, np.where(score + noise > 0, 1.0, -1.0)
        return X, 2.0 * score + noise + 20.0 * (rng.random(len(score)) < 0.05)
    X, y = table(line.data, folder)
    return (np.ascontiguousarray(X) if isinstance(X, np.ndarray) else X.tocsr()), y


def contestants(line: Line, X: Any, y: Any, loss: Any, penalty: Any, lam: float) -> dict[str, Any]:
    """Each a function of (effort, seed) that gives coefficients, and the efforts to try."""

    def ours(method: str) -> Callable[[float, int], Any]:
        return lambda epochs, seed: solve_rows(
            X, y, loss, penalty, method=method, fit_intercept=False, tol=0.0, epochs=epochs,
            every=1e9, seed=seed,
        ).coef  # fmt: skip

    def saga(epochs: float, seed: int) -> Any:
        from sklearn.linear_model import LogisticRegression

        half = line.penalty == "elastic_net"
        return LogisticRegression(
            C=1.0 / (lam * len(y)), l1_ratio=0.5 if half else 1.0, solver="saga", tol=0.0,
            fit_intercept=False, max_iter=int(epochs), random_state=seed,
        ).fit(X, y).coef_[0]  # fmt: skip

    def engine(tol: float, seed: int) -> Any:
        return solve(X, y, loss, penalty, fit_intercept=False, tol=tol).coef

    found: dict[str, Any] = {"VRO-CCD": (ours("VRO-CCD"), EPOCHS), "PAGE": (ours("PAGE"), EPOCHS)}
    if line.loss == "logistic" and line.penalty != "mcp":
        found["saga"] = (saga, EPOCHS)
    return found | {"working sets": (engine, TOLERANCES)}


def race(line: Line, folder: Path | None, seeds: int, n: int | None) -> Iterator[dict[str, Any]]:
    """One row for each contestant and level."""
    X, y = problem(line, folder, n)
    loss = losses.get(line.loss)
    g = np.asarray(X.T @ loss.gradient(y, np.zeros(len(y)))).ravel() / len(y)
    lam = float(np.abs(g).max()) / (10 if line.penalty == "mcp" else 100)
    penalty: Any = {"l1": L1(lam), "elastic_net": ElasticNet(lam, 0.5), "mcp": MCP(lam, 30.0)}[
        line.penalty
    ]

    def F(x: Any) -> float:
        size = sum(penalty.value(float(u), 0) for u in x[x != 0])
        return float(loss.value(y, np.asarray(X @ x)).mean() + size)

    start, best = F(np.zeros(X.shape[1])), np.inf
    runs = contestants(line, X, y, loss, penalty, lam)
    few = np.argsort(y, kind="stable")[:: max(1, len(y) // 2000)]
    for run, _ in contestants(line, X[few], y[few], loss, penalty, lam).values():
        run(3, 0)  # machine code is loaded
    best = F(solve(X, y, loss, penalty, fit_intercept=False, tol=1e-10).coef)
    trails: dict[str, list[list[tuple[float, float, float]]]] = {name: [] for name in runs}
    for seed in range(seeds):
        names = list(runs)[seed % len(runs) :] + list(runs)[: seed % len(runs)]
        for name in names:
            run, efforts = runs[name]
            trail = []
            for effort in efforts:
                took, x = timed(partial(run, effort, seed))
                trail.append((effort, took, F(np.asarray(x, float).ravel())))
                done = trail[-1][2] - best <= LEVELS[-1] * (start - best)
                if done or sum(s for _, s, _ in trail) > LIMIT:
                    break
            trails[name].append(trail)
    if not (loss.convex and penalty.convex):
        best = min(best, *(f for ways in trails.values() for way in ways for _, _, f in way))
    for name, ways in trails.items():
        for level in LEVELS:
            met = [next(((e, s) for e, s, f in way if f - best <= level * (start - best)),
                        (np.inf, np.inf)) for way in ways]  # fmt: skip
            epochs, seconds = np.median(met, axis=0)
            yield {
                "line": line.name, "half": line.half, "n": X.shape[0], "p": X.shape[1],
                "loss": line.loss, "penalty": line.penalty, "method": name, "level": f"{level:g}",
                "seeds": seeds,
                "epochs": f"{epochs:g}" if name != "working sets" else "",
                "seconds": f"{seconds:.4g}", "least": f"{min(s for _, s in met):.4g}",
                "most": f"{max(s for _, s in met):.4g}",
            }  # fmt: skip


def main() -> None:
    """Read the command line, run, write the table."""
    given = arguments(__doc__, data_dir=Path, seeds=3, only=[], rows=int, out=Path)
    warnings.simplefilter("ignore")
    names = tuple(given.only) or ""
    with threadpool_limits(1):
        races = (race(line, given.data_dir, given.seeds, given.rows)
                 for line in LINES if line.name.startswith(names))  # fmt: skip
        printed((row for rows in races for row in rows), given.out)


if __name__ == "__main__":
    main()
