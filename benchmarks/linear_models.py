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
from measuring import command_line, in_turns, medians
from tables import write_csv


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


def cox(rng: np.random.Generator) -> Iterator[Line]:
    """Proportional hazards with an l1 penalty."""
    for n, p, part in ((500, 2000, 5.0), (2000, 300, 20.0), (10_000, 50, 100.0)):
        X = correlated(rng, n, p, 0.5)
        died = rng.exponential(np.exp(-signal(rng, X, 10, 1.0)))
        left = rng.exponential(2.0 * np.median(died), n)
        time, event = np.minimum(died, left), died <= left
        y, rows = survival(time, event), np.arange(float(n))
        loss = Cox(y, np.ones(n))
        lam = float(abs(X.T @ loss.gradient(rows, np.zeros(n))).max()) / n / part

        def F(
            found: Any, X: Any = X, rows: Any = rows, loss: Any = loss, lam: float = lam
        ) -> float:
            x = np.asarray(found, float)
            return float(loss.value(rows, X @ x).mean()) + lam * abs(x).sum()

        def skglm(X: Any = X, time: Any = time, event: Any = event, lam: float = lam) -> Any:
            from skglm.datafits import Cox as Datafit
            from skglm.penalties import L1
            from skglm.solvers import ProxNewton
            from skglm.utils.jit_compilation import compiled_clone

            target = np.asfortranarray(np.c_[time, event].astype(float))
            datafit, penalty = compiled_clone(Datafit()), compiled_clone(L1(lam))
            datafit.initialize(X, target)
            solver = ProxNewton(tol=1e-4 * lam, fit_intercept=False, max_iter=100)
            return solver.solve(X, target, datafit, penalty)[0]

        def sksurv(X: Any = X, time: Any = time, event: Any = event, lam: float = lam) -> Any:
            from sksurv.linear_model import CoxnetSurvivalAnalysis
            from sksurv.util import Surv

            y = Surv.from_arrays(event, time)
            model = CoxnetSurvivalAnalysis(l1_ratio=1.0, alphas=[lam], tol=1e-8, max_iter=100_000)
            return model.fit(X, y).coef_[:, 0]

        def adelie(X: Any = X, time: Any = time, event: Any = event, lam: float = lam) -> Any:
            import adelie as ad

            glm = ad.glm.cox(np.zeros(len(time)), time, event.astype(float), tie_method="breslow")
            found = ad.grpnet(
                X, glm, lmda_path=[lam], intercept=False, tol=1e-10, progress_bar=False,
                n_threads=1, adev_tol=1.0, ddev_tol=0.0,
            )  # fmt: skip
            return found.betas.toarray()[-1]

        solvers = {
            "ours": lambda X=X, y=y, lam=lam: CoxRegression(lam).fit(X, y).coef_,
            "skglm": skglm, "sksurv": sksurv, "adelie": adelie,
        }  # fmt: skip
        yield Line(f"cox l1 {n} x {p} /{part:g}", F, F(np.zeros(p)), solvers)


def counts(rng: np.random.Generator) -> Iterator[Line]:
    """Tweedie and negative binomial models with an l1 penalty."""
    for name, n, p, part in (
        ("tweedie", 20_000, 100, 20.0), ("tweedie", 500, 1000, 5.0),
        ("negative_binomial", 20_000, 100, 20.0), ("negative_binomial", 500, 1000, 5.0),
    ):  # fmt: skip
        X = correlated(rng, n, p, 0.5)
        mean = np.exp(signal(rng, X, 10, 0.7))
        y = rng.poisson(mean * rng.gamma(1.0, 1.0, n)).astype(float)
        if name == "tweedie":
            y = y * rng.gamma(2.0, 0.5, n)
        loss = losses.get(name)
        null = np.full(n, np.log(y.mean()))
        lam = float(abs(X.T @ loss.gradient(y, null)).max()) / n / part

        def F(found: Any, X: Any = X, y: Any = y, loss: Any = loss, lam: float = lam) -> float:
            x, c = np.asarray(found[0], float), float(found[1])
            return float(loss.value(y, X @ x + c).mean()) + lam * abs(x).sum()

        def glum(X: Any = X, y: Any = y, name: str = name, lam: float = lam) -> Any:
            from glum import (
                GeneralizedLinearRegressor,
                NegativeBinomialDistribution,
                TweedieDistribution,
            )

            family = (
                TweedieDistribution(1.5) if name == "tweedie" else NegativeBinomialDistribution()
            )
            model = GeneralizedLinearRegressor(
                family=family, link="log", alpha=lam, l1_ratio=1.0, gradient_tol=1e-6, max_iter=1000
            ).fit(X, y)
            return model.coef_, model.intercept_

        def ours(X: Any = X, y: Any = y, name: str = name, lam: float = lam) -> Any:
            model = GeneralizedLinear(name, "l1", alpha=lam).fit(X, y)
            return model.coef_, model.intercept_

        scale = F((np.zeros(p), null[0]))
        yield Line(f"{name} l1 {n} x {p} /{part:g}", F, scale, {"ours": ours, "glum": glum})


def subsets(rng: np.random.Generator) -> Iterator[Line]:
    """Best subsets of every size up to k; F is that of size k."""
    for n, p, k, rho in ((500, 1000, 10, 0.5), (200, 2000, 20, 0.8), (2000, 500, 30, 0.2)):
        X = correlated(rng, n, p, rho)
        z = signal(rng, X, k, 1.0)
        y = z + rng.standard_normal(n) / np.sqrt(5.0)

        def F(found: Any, X: Any = X, y: Any = y) -> float:
            on = np.flatnonzero(found)
            D = np.c_[np.ones(len(y)), X[:, on]]
            return float(0.5 * np.mean((y - D @ np.linalg.lstsq(D, y, rcond=None)[0]) ** 2))

        def abess(X: Any = X, y: Any = y, k: int = k) -> Any:
            from abess.linear import LinearRegression

            # Without a cost of features the criterion takes the largest size, after all others.
            sizes = list(range(k + 1))
            return LinearRegression(support_size=sizes, ic_coef=0.0, thread=1).fit(X, y).coef_

        solvers = {"ours": lambda X=X, y=y, k=k: BestSubset(k).fit(X, y).coef_, "abess": abess}
        yield Line(f"subset {n} x {p}, {k} of ρ {rho}", F, float(0.5 * y.var()), solvers)


def covariances(rng: np.random.Generator) -> Iterator[Line]:
    """The graphical lasso."""
    for n, p, rho, lam in ((100, 200, 0.9, 0.1), (300, 200, 0.5, 0.1), (60, 100, 0.5, 0.03)):
        X = correlated(rng, n, p, rho)
        S = np.cov(X.T, bias=True)

        def F(theta: Any, S: Any = S, lam: float = lam) -> float:
            off = abs(theta).sum() - np.trace(abs(theta))
            return float(np.vdot(S, theta) - np.linalg.slogdet(theta)[1] + lam * off)

        def sklearn(X: Any = X, lam: float = lam) -> Any:
            from sklearn.covariance import GraphicalLasso as Theirs

            return Theirs(lam, tol=1e-4, max_iter=200).fit(X).precision_

        solvers = {
            "ours": lambda X=X, lam=lam: GraphicalLasso(lam).fit(X).precision_, "sklearn": sklearn,
        }  # fmt: skip
        yield Line(f"graphical {n} x {p} ρ {rho}, {lam}", F, float(p), solvers)


def debiased(rng: np.random.Generator) -> Iterator[Line]:
    """The debiased lasso, the lasso by cross-validation included."""
    for n, p in ((100, 200), (200, 400)):
        X = correlated(rng, n, p, 0.5)
        y = signal(rng, X, 5, 2.0) + rng.standard_normal(n)

        def hidimstat(X: Any = X, y: Any = y) -> Any:
            from hidimstat import DesparsifiedLasso

            return DesparsifiedLasso(random_state=0).fit_importance(X, y)

        solvers = {
            "ours": lambda X=X, y=y: LassoCV(rule="1se").fit(X, y).inference(X, y).p_value,
            "hidimstat": hidimstat,
        }
        yield Line(f"debiased lasso {n} x {p}", None, 1.0, solvers)


INSTALLED = {"ours": "numpy"}  # which module a solver needs, if not that of its name
LINES = {"cox": cox, "counts": counts, "subsets": subsets, "covariances": covariances,
         "debiased": debiased}  # fmt: skip


def measured(line: Line, rounds: int) -> Iterator[dict[str, Any]]:
    """One row for each peer."""
    ready: dict[str, Callable[[], Any]] = {}
    for name, solver in line.solvers.items():
        if importlib.util.find_spec(INSTALLED.get(name, name)) is None:
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
    parser = command_line(__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lines", nargs="+", choices=list(LINES), default=list(LINES))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    found = []
    for kind, name in enumerate(LINES):
        if name in arguments.lines:
            for line in LINES[name](np.random.default_rng([arguments.seed, kind])):
                for row in measured(line, arguments.rounds):
                    print(row, flush=True)
                    found.append(row)
    write_csv(arguments.csv, found)


if __name__ == "__main__":
    main()
