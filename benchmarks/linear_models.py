"""Models beyond the lasso beside the packages that are known for them.

    PYTHONPATH=src python benchmarks/linear_models.py --seed 20261119 \\
        --csv docs/benchmarks/linear-models.csv

Peers that are not installed are left out. Ours and each peer take turns on one thread, in CPU
seconds. `excess` is how far F of the peer lies above the lower of the two, over the loss of the
null model; ours stops at its default certificate. `ratio` is the peer's time over ours, at equal F
where both excesses are near zero. Debiased lassos have no F in common: their times alone compare.
Seeds below 100 were looked at while this was written; a table is run once, on another.
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

from cyclade.linear import (
    BestSubset,
    CoxRegression,
    GeneralizedLinear,
    GraphicalLasso,
    LassoCV,
    losses,
    survival,
)
from cyclade.linear.cox import Cox
from measuring import arguments, in_turns, medians
from tables import printed


class Line(NamedTuple):
    """A problem: F of coefficients and intercept, the loss of the null model, and who solves it."""

    name: str
    F: Callable[[Any], float] | None
    scale: float
    solvers: dict[str, Callable[[], Any]]


def correlated(rng: np.random.Generator, n: int, p: int, rho: float) -> Any:
    """Rows with correlations ρ^|i−j|."""
    X = rng.standard_normal((n, p))
    for j in range(1, p):
        X[:, j] = rho * X[:, j - 1] + np.sqrt(1.0 - rho * rho) * X[:, j]
    return np.asfortranarray(X)


def signal(rng: np.random.Generator, X: Any, k: int, size: float) -> Any:
    """Predictions of k columns, of standard deviation `size`."""
    at = rng.choice(X.shape[1], k, replace=False)
    z = X[:, at] @ rng.choice([-1.0, 1.0], k)
    return size * z / z.std()


def cox(rng: np.random.Generator, n: int, p: int, part: float) -> Line:
    """Proportional hazards with an l1 penalty."""
    X = correlated(rng, n, p, 0.5)
    died = rng.exponential(np.exp(-signal(rng, X, 10, 1.0)))
    left = rng.exponential(2.0 * np.median(died), n)
    time, event = np.minimum(died, left), died <= left
    y, rows = survival(time, event), np.arange(float(n))
    loss = Cox(y, np.ones(n))
    lam = float(abs(X.T @ loss.gradient(rows, np.zeros(n))).max()) / n / part

    def F(found: Any) -> float:
        x = np.asarray(found, float)
        return float(loss.value(rows, X @ x).mean()) + lam * abs(x).sum()

    def skglm() -> Any:
        from skglm.datafits import Cox as Datafit
        from skglm.penalties import L1
        from skglm.solvers import ProxNewton
        from skglm.utils.jit_compilation import compiled_clone

        target = np.asfortranarray(np.c_[time, event].astype(float))
        datafit, penalty = compiled_clone(Datafit()), compiled_clone(L1(lam))
        datafit.initialize(X, target)
        solver = ProxNewton(tol=1e-4 * lam, fit_intercept=False, max_iter=100)
        return solver.solve(X, target, datafit, penalty)[0]

    def sksurv() -> Any:
        from sksurv.linear_model import CoxnetSurvivalAnalysis
        from sksurv.util import Surv

        model = CoxnetSurvivalAnalysis(l1_ratio=1.0, alphas=[lam], tol=1e-8, max_iter=100_000)
        return model.fit(X, Surv.from_arrays(event, time)).coef_[:, 0]

    def adelie() -> Any:
        import adelie as ad

        glm = ad.glm.cox(np.zeros(n), time, event.astype(float), tie_method="breslow")
        found = ad.grpnet(
            X, glm, lmda_path=[lam], intercept=False, tol=1e-10, progress_bar=False,
            n_threads=1, adev_tol=1.0, ddev_tol=0.0,
        )  # fmt: skip
        return found.betas.toarray()[-1]

    def ours() -> Any:
        return CoxRegression(lam).fit(X, y).coef_

    solvers = {"ours": ours, "skglm": skglm, "sksurv": sksurv, "adelie": adelie}
    return Line(f"cox l1 {n} x {p} /{part:g}", F, F(np.zeros(p)), solvers)


def counts(rng: np.random.Generator, name: str, n: int, p: int, part: float) -> Line:
    """Tweedie and negative binomial models with an l1 penalty."""
    X = correlated(rng, n, p, 0.5)
    mean = np.exp(signal(rng, X, 10, 0.7))
    y = rng.poisson(mean * rng.gamma(1.0, 1.0, n)).astype(float)
    if name == "tweedie":
        y = y * rng.gamma(2.0, 0.5, n)
    loss = losses.get(name)
    null = np.full(n, np.log(y.mean()))
    lam = float(abs(X.T @ loss.gradient(y, null)).max()) / n / part

    def F(found: Any) -> float:
        x, c = np.asarray(found[0], float), float(found[1])
        return float(loss.value(y, X @ x + c).mean()) + lam * abs(x).sum()

    def glum() -> Any:
        import glum as package

        tweedie = package.TweedieDistribution(1.5)
        model = package.GeneralizedLinearRegressor(
            family=tweedie if name == "tweedie" else package.NegativeBinomialDistribution(),
            link="log", alpha=lam, l1_ratio=1.0, gradient_tol=1e-6, max_iter=1000,
        ).fit(X, y)  # fmt: skip
        return model.coef_, model.intercept_

    def ours() -> Any:
        model = GeneralizedLinear(name, "l1", alpha=lam).fit(X, y)
        return model.coef_, model.intercept_

    scale = F((np.zeros(p), null[0]))
    return Line(f"{name} l1 {n} x {p} /{part:g}", F, scale, {"ours": ours, "glum": glum})


def subsets(rng: np.random.Generator, n: int, p: int, k: int, rho: float) -> Line:
    """Best subsets of every size up to k; F is that of size k."""
    X = correlated(rng, n, p, rho)
    z = signal(rng, X, k, 1.0)
    y = z + rng.standard_normal(n) / np.sqrt(5.0)

    def F(found: Any) -> float:
        D = np.c_[np.ones(n), X[:, np.flatnonzero(found)]]
        return float(0.5 * np.mean((y - D @ np.linalg.lstsq(D, y, rcond=None)[0]) ** 2))

    def abess() -> Any:
        from abess.linear import LinearRegression

        # Without a cost of features the criterion takes the largest size, after all others.
        sizes = list(range(k + 1))
        return LinearRegression(support_size=sizes, ic_coef=0.0, thread=1).fit(X, y).coef_

    solvers = {"ours": lambda: BestSubset(k).fit(X, y).coef_, "abess": abess}
    return Line(f"subset {n} x {p}, {k} of ρ {rho}", F, float(0.5 * y.var()), solvers)


def covariances(rng: np.random.Generator, n: int, p: int, rho: float, lam: float) -> Line:
    """The graphical lasso."""
    X = correlated(rng, n, p, rho)
    S = np.cov(X.T, bias=True)

    def F(theta: Any) -> float:
        off = abs(theta).sum() - np.trace(abs(theta))
        return float(np.vdot(S, theta) - np.linalg.slogdet(theta)[1] + lam * off)

    def sklearn() -> Any:
        from sklearn.covariance import GraphicalLasso as Theirs

        return Theirs(lam, tol=1e-4, max_iter=200).fit(X).precision_

    solvers = {"ours": lambda: GraphicalLasso(lam).fit(X).precision_, "sklearn": sklearn}
    return Line(f"graphical {n} x {p} ρ {rho}, {lam}", F, float(p), solvers)


def debiased(rng: np.random.Generator, n: int, p: int) -> Line:
    """The debiased lasso, the lasso by cross-validation included."""
    X = correlated(rng, n, p, 0.5)
    y = signal(rng, X, 5, 2.0) + rng.standard_normal(n)

    def hidimstat() -> Any:
        from hidimstat import DesparsifiedLasso

        return DesparsifiedLasso(random_state=0).fit_importance(X, y)

    def ours() -> Any:
        return LassoCV(rule="1se").fit(X, y).inference(X, y).p_value

    solvers = {"ours": ours, "hidimstat": hidimstat}
    return Line(f"debiased lasso {n} x {p}", None, 1.0, solvers)


LINES: dict[str, tuple[Callable[..., Line], list[tuple[Any, ...]]]] = {
    "cox": (cox, [(500, 2000, 5.0), (2000, 300, 20.0), (10_000, 50, 100.0)]),
    "counts": (
        counts,
        [(name, *size) for name in ("tweedie", "negative_binomial")
         for size in ((20_000, 100, 20.0), (500, 1000, 5.0))],
    ),
    "subsets": (subsets, [(500, 1000, 10, 0.5), (200, 2000, 20, 0.8), (2000, 500, 30, 0.2)]),
    "covariances": (
        covariances, [(100, 200, 0.9, 0.1), (300, 200, 0.5, 0.1), (60, 100, 0.5, 0.03)],
    ),
    "debiased": (debiased, [(100, 200), (200, 400)]),
}  # fmt: skip


def measured(line: Line, rounds: int) -> Iterator[dict[str, Any]]:
    """One row for each peer."""
    ready: dict[str, Callable[[], Any]] = {}
    for name, solver in line.solvers.items():
        if name != "ours" and importlib.util.find_spec(name) is None:
            continue
        try:
            solver()
            ready[name] = solver
        except Exception as error:
            print(f"{line.name}: {name} failed: {type(error).__name__}: {error}"[:300], flush=True)
    times = medians(in_turns(ready, rounds))
    F = {name: line.F(solver()) if line.F else 0.0 for name, solver in ready.items()}
    for peer in ready:
        if peer != "ours":
            best = min(F["ours"], F[peer])
            yield {
                "line": line.name, "peer": peer, "ours_ms": round(1e3 * times["ours"], 2),
                "peer_ms": round(1e3 * times[peer], 2),
                "ratio": round(times[peer] / times["ours"], 2),
                "ours_excess": f"{(F['ours'] - best) / line.scale:.0e}" if line.F else "–",
                "peer_excess": f"{(F[peer] - best) / line.scale:.0e}" if line.F else "–",
            }  # fmt: skip


def main() -> None:
    """All lines, or those named."""
    given = arguments(__doc__, seed=0, rounds=5, lines=tuple(LINES), csv=Path)
    warnings.simplefilter("ignore")
    rngs = {name: np.random.default_rng([given.seed, kind]) for kind, name in enumerate(LINES)}

    def rows() -> Iterator[dict[str, Any]]:
        for name in given.lines:
            make, sizes = LINES[name]
            for size in sizes:
                yield from measured(make(rngs[name], *size), given.rounds)

    printed(rows(), given.csv, digits=6)


if __name__ == "__main__":
    main()
