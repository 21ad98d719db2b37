"""Solvers of linear models, ours and those of others: one small adapter each."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np

from linear_peers.problems import GAMMA, GROUP, L1_RATIO, Problem

MOST = 5_000  # columns of a Gram matrix that fits in memory


class Solver:
    """An adapter has `fit` or `path`, or both."""

    module = name = ""  # what must be importable for it to run, and what the tables call it
    finest = 12  # decades of its own tolerance

    def ladder(self, problem: Problem) -> list[float]:
        """Values of its own tolerance, loose to tight."""
        return [10.0**-k for k in range(1, self.finest + 1)]

    def can(self, problem: Problem, path: bool) -> bool:
        """Whether it can solve this kind of problem at all."""
        return True

    def prepare(self, problem: Problem) -> None:
        """Anything it wants done to the data first, off the clock."""
        # It may warn where it stops early; the accuracy is measured here anyway.
        warnings.simplefilter("ignore")

    def fit(self, problem: Problem, lam: float, tol: float) -> Any:
        """The coefficients at one λ."""
        return self.path(problem, np.array([lam]), tol)[:, 0]

    def path(self, problem: Problem, lams: Any, tol: float) -> Any:
        """Those at all λ, as columns."""
        return np.stack([self.fit(problem, float(lam), tol) for lam in lams], axis=1)


# ------------------------------------------------------------------------------------------- ours


class Ours(Solver):
    """cyclade.linear."""

    module = name = "cyclade"

    def penalty(self, problem: Problem, lam: float) -> Any:
        """The penalty of this kind of problem at λ."""
        from cyclade.linear import penalties

        if problem.kind == "enet":
            return penalties.ElasticNet(lam, L1_RATIO)
        if problem.kind == "group":
            return penalties.GroupL2(lam, problem.groups)
        return penalties.MCP(lam, GAMMA) if problem.kind == "mcp" else penalties.L1(lam)

    def loss(self, problem: Problem) -> Any:
        """The loss of this kind of problem."""
        from cyclade.linear import losses

        known = {"cauchy": losses.Cauchy(1.0), "huber": losses.Huber(1.0)}
        name = problem.kind if problem.kind in ("logistic", "poisson") else "squared"
        return known.get(problem.kind) or losses.get(name)

    def solution(self, problem: Problem, lams: Any, tol: float) -> Any:
        """A fit or a path, with all that comes with it."""
        from cyclade import linear

        loss, penalty = self.loss(problem), self.penalty(problem, float(lams[-1]))
        options = {"fit_intercept": problem.intercept, "tol": tol}
        if len(lams) == 1:
            return linear.solve(problem.X, problem.y, loss, penalty, **options)
        return linear.path(problem.X, problem.y, loss, penalty, alphas=lams, **options)

    def fit(self, problem: Problem, lam: float, tol: float) -> Any:
        found = self.solution(problem, [lam], tol)
        return np.append(found.coef, found.intercept) if problem.intercept else found.coef

    def path(self, problem: Problem, lams: Any, tol: float) -> Any:
        found = self.solution(problem, lams, tol)
        return np.vstack([found.coefs, found.intercepts]) if problem.intercept else found.coefs

    def traffic(self, problem: Problem, lams: Any, tol: float) -> float:
        """Bytes of X that the passes read: whole checks, and cycles over working sets.

        Of a path only the least is known: one check for every λ, and cycles over the support.
        """
        whole = problem.X.nbytes if not problem.sparse else 12.0 * problem.X.nnz
        done = self.solution(problem, lams, tol)
        if len(lams) > 1:
            support = np.count_nonzero(done.coefs.reshape(problem.p, -1, len(lams)).any(1), axis=0)
            return float(whole * (len(lams) + (done.passes * support).sum() / problem.p))
        cycles, before = 0.0, 0.0
        for row in done.history:
            cycles += (row["passes"] - before) * row["working"] / problem.p
            before = row["passes"]
        return float(whole * (len(done.history) + cycles))


# ----------------------------------------------------------------------------------- scikit-learn


class ScikitLearn(Solver):
    """Coordinate descent for the Lasso and elastic net, liblinear for logistic."""

    module, name = "sklearn", "scikit-learn"
    precompute = False

    def can(self, problem: Problem, path: bool) -> bool:
        """Neither groups nor anything nonconvex; liblinear penalises its intercept."""
        if problem.kind == "logistic":
            return not problem.intercept
        return problem.kind in ("lasso", "enet")

    def fit(self, problem: Problem, lam: float, tol: float) -> Any:
        from sklearn.linear_model import ElasticNet, LogisticRegression

        if problem.kind == "logistic":
            model = LogisticRegression(
                C=1.0 / (lam * problem.n), l1_ratio=1.0, solver="liblinear", fit_intercept=False,
                tol=tol, max_iter=10_000,
            )  # fmt: skip
            return model.fit(problem.X, problem.y).coef_[0]
        model = ElasticNet(
            lam, l1_ratio=problem.l1_ratio, tol=tol, max_iter=100_000,
            fit_intercept=problem.intercept, precompute=self.precompute,
        ).fit(problem.X, problem.y)  # fmt: skip
        return np.append(model.coef_, model.intercept_) if problem.intercept else model.coef_

    def path(self, problem: Problem, lams: Any, tol: float) -> Any:
        """enet_path, or fits in turn."""
        from sklearn.linear_model import enet_path

        if problem.kind == "logistic" or (problem.intercept and problem.sparse):
            return super().path(problem, lams, tol)
        X, y = problem.X, problem.y
        if problem.intercept:
            X, y = X - X.mean(axis=0), y - y.mean()
        coefs = enet_path(
            X, y, l1_ratio=problem.l1_ratio, alphas=lams, tol=tol, max_iter=100_000,
            precompute=self.precompute,
        )[1]  # fmt: skip
        if not problem.intercept:
            return coefs
        return np.vstack([coefs, problem.y.mean() - problem.X.mean(axis=0) @ coefs])


class ScikitLearnGram(ScikitLearn):
    """With the Gram matrix formed first, inside the time measured."""

    name = "scikit-learn Gram"
    precompute = True

    def can(self, problem: Problem, path: bool) -> bool:
        """Squared losses, dense X of few columns."""
        least_squares = problem.kind in ("lasso", "enet")
        return least_squares and not problem.sparse and problem.p <= MOST


# ------------------------------------------------------------------------------------------ skglm


class Skglm(Solver):
    """Working sets and Anderson acceleration; prox-Newton for the logistic loss.

    Its kernels are compiled before the clock starts (the first-call time shows them). It has no
    Cauchy loss: one is written here, as its manual says, and solved with AndersonCD.
    """

    module = name = "skglm"

    def ladder(self, problem: Problem) -> list[float]:
        """Its tolerance is on the violation of the optimality conditions, so it scales with λ."""
        if problem.convex:
            return [10.0**-k for k in range(1, 9)]
        return [1e-3, 3e-4, 1e-4, 3e-5]

    def can(self, problem: Problem, path: bool) -> bool:
        """All kinds; the Cauchy loss for dense X only."""
        return problem.kind != "cauchy" or not problem.sparse

    def path(self, problem: Problem, lams: Any, tol: float) -> Any:
        """Fits in turn, each from the last."""
        found: list[Any] = []
        for lam in lams:
            start = found[-1].copy() if found else None
            found.append(self.solve(problem, lam, tol * lam, start))
        return np.stack(found, axis=1)

    def solve(self, problem: Problem, lam: float, tol: float, start: Any) -> Any:
        """One fit, from a start that it may overwrite."""
        from skglm.solvers import AndersonCD, GroupBCD, ProxNewton

        datafit, penalty = compiled(problem.kind, problem.p)
        penalty.alpha = lam
        options = {"tol": tol, "fit_intercept": problem.intercept}
        if problem.kind == "group":
            solver = GroupBCD(max_iter=1_000, **options)
        elif problem.kind in ("logistic", "poisson"):
            solver = ProxNewton(max_iter=200, max_pn_iter=2_000, **options)
        else:
            solver = AndersonCD(max_iter=1_000, max_epochs=100_000, **options)
        warm = () if start is None else (start, problem.predict(start))
        return solver.solve(problem.X, problem.y, datafit, penalty, *warm)[0]


class SkglmGram(Skglm):
    """Cycles on the Gram matrix, formed inside the time measured; the greedy order was slower."""

    name = "skglm Gram"

    def can(self, problem: Problem, path: bool) -> bool:
        """Squared losses without intercept, which it does not take."""
        least_squares = problem.kind in ("lasso", "enet", "mcp")
        return least_squares and not problem.intercept and problem.p <= MOST

    def solve(self, problem: Problem, lam: float, tol: float, start: Any) -> Any:
        from skglm.solvers import GramCD

        _, penalty = compiled(problem.kind, problem.p)
        penalty.alpha = lam
        solver = GramCD(
            tol=tol, max_iter=100_000, fit_intercept=False, greedy_cd=False, use_acc=True,
            warm_start=start is not None,
        )  # fmt: skip
        return solver.solve(problem.X, problem.y, None, penalty, start, None)[0]


@cache
def compiled(kind: str, p: int) -> tuple[Any, Any]:
    """skglm's datafit and penalty."""
    from skglm.datafits import Huber, Logistic, Poisson, Quadratic, QuadraticGroup
    from skglm.penalties import L1, L1_plus_L2, MCPenalty, WeightedGroupL2
    from skglm.utils.data import grp_converter
    from skglm.utils.jit_compilation import compiled_clone

    if kind == "group":
        groups = [list(range(s, min(s + GROUP, p))) for s in range(0, p, GROUP)]
        indices, ends = grp_converter(groups, p)
        weights = np.sqrt([float(len(g)) for g in groups])
        datafit: Any = QuadraticGroup(ends, indices)
        penalty: Any = WeightedGroupL2(1.0, weights, ends, indices)
    else:
        makers = {"logistic": Logistic, "cauchy": _cauchy, "poisson": Poisson}
        datafit = Huber(1.0) if kind == "huber" else makers.get(kind, Quadratic)()
        kinds = {"mcp": MCPenalty(1.0, GAMMA), "enet": L1_plus_L2(1.0, L1_RATIO)}
        penalty = kinds.get(kind, L1(1.0))
    return compiled_clone(datafit), compiled_clone(penalty)


def _cauchy() -> Any:
    from numba import float64
    from skglm.datafits.base import BaseDatafit

    class Cauchy(BaseDatafit):  # type: ignore[misc]
        """(1/n) Σ ½ log(1 + (z − y)²)."""

        def __init__(self) -> None:
            pass

        def get_spec(self) -> Any:
            return (("unused", float64),)

        def params_to_dict(self) -> dict[str, Any]:
            return {}

        def get_lipschitz(self, X: Any, y: Any) -> Any:
            found = np.zeros(X.shape[1])
            for j in range(X.shape[1]):
                found[j] = (X[:, j] ** 2).sum() / len(y)
            return found

        def initialize(self, X: Any, y: Any) -> None:
            pass

        def value(self, y: Any, w: Any, Xw: Any) -> float:
            return np.log(1.0 + (Xw - y) ** 2).sum() / (2.0 * len(y))

        def gradient_scalar(self, X: Any, y: Any, w: Any, Xw: Any, j: int) -> float:
            u = Xw - y
            return X[:, j] @ (u / (1.0 + u * u)) / len(y)

    return Cauchy()


# ----------------------------------------------------------------------------------------- others


class Celer(Solver):
    """Working sets, dual extrapolation, gap-safe screening."""

    module = name = "celer"

    def can(self, problem: Problem, path: bool) -> bool:
        """Convex problems it has; an intercept for least squares only."""
        kinds = ("lasso", "enet") if problem.intercept else ("lasso", "enet", "logistic", "group")
        return problem.kind in kinds

    def fit(self, problem: Problem, lam: float, tol: float) -> Any:
        if not problem.intercept:
            return super().fit(problem, lam, tol)
        from celer import ElasticNet

        model = ElasticNet(lam, l1_ratio=problem.l1_ratio, tol=tol, max_iter=1_000)
        model.fit(problem.X, problem.y)
        return np.append(model.coef_, model.intercept_)

    def path(self, problem: Problem, lams: Any, tol: float) -> Any:
        """celer_path. Its logistic objective is a sum over rows, so λ becomes nλ."""
        from celer import celer_path

        if problem.intercept:
            return super().path(problem, lams, tol)
        name, options = "lasso", {"l1_ratio": problem.l1_ratio}
        if problem.kind == "logistic":
            name, options = "logreg", {"use_PN": True}
            lams = np.asarray(lams) * problem.n
        elif problem.kind == "group":
            weights = np.sqrt([float(len(g)) for g in problem.groups])
            name, options = "grouplasso", {"groups": problem.groups, "weights": weights}
        X, y = problem.X, problem.y
        return celer_path(X, y, name, alphas=lams, tol=tol, max_iter=1_000, **options)[1]


class Adelie(Solver):
    """Group elastic net in C++, with screening and exact group steps."""

    module = name = "adelie"
    finest = 16

    def can(self, problem: Problem, path: bool) -> bool:
        """Convex problems it has."""
        return problem.kind in ("lasso", "enet", "logistic", "group", "poisson")

    def prepare(self, problem: Problem) -> None:
        """Its own matrix and model objects."""
        import adelie as ad

        wrap = ad.matrix.sparse if problem.sparse else ad.matrix.dense
        self.X = wrap(problem.X, method="naive", n_threads=1)
        models = {"logistic": ad.glm.binomial, "poisson": ad.glm.poisson}
        y = (problem.y > 0).astype(float) if problem.kind == "logistic" else problem.y
        self.glm = models.get(problem.kind, ad.glm.gaussian)(y=y)

    def path(self, problem: Problem, lams: Any, tol: float) -> Any:
        """grpnet; the Newton tolerance of curved losses follows that of the descent."""
        import adelie as ad

        groups = np.arange(0, problem.p, GROUP if problem.kind == "group" else 1)
        state = ad.grpnet(
            self.X, self.glm, groups=groups, lmda_path=np.asarray(lams), alpha=problem.l1_ratio,
            intercept=problem.intercept, early_exit=False, adev_tol=1.0, tol=tol, irls_tol=tol,
            n_threads=1, progress_bar=False, max_iters=10_000_000,
        )  # fmt: skip
        coefs = state.betas.toarray().T
        return np.vstack([coefs, state.intercepts]) if problem.intercept else coefs


class Glmnet(Solver):
    """glmnet's Fortran, by python-glmnet."""

    module = name = "glmnet"
    finest = 16

    def can(self, problem: Problem, path: bool) -> bool:
        """Lasso and logistic."""
        return not problem.intercept and problem.kind in ("lasso", "logistic")

    def path(self, problem: Problem, lams: Any, tol: float) -> Any:
        """Its own path; no cross-validation."""
        from glmnet import ElasticNet, LogitNet

        kind = ElasticNet if problem.kind == "lasso" else LogitNet
        model = kind(
            alpha=1, lambda_path=np.asarray(lams), standardize=False, fit_intercept=False,
            n_splits=0, tol=tol, max_iter=10_000_000,
        )  # fmt: skip
        model.fit(problem.X, problem.y)
        return np.squeeze(model.coef_path_).reshape(problem.p, len(lams))


class Jaxopt(Solver):
    """Accelerated proximal gradient, compiled by XLA, in float64."""

    module = name = "jaxopt"
    finest = 8

    def can(self, problem: Problem, path: bool) -> bool:
        """Dense Lasso and logistic, single fits."""
        simple = problem.kind in ("lasso", "logistic") and not problem.intercept
        return simple and not path and not problem.sparse

    def prepare(self, problem: Problem) -> None:
        """The data as JAX arrays, and a solver for each tolerance."""
        import jax
        import jax.numpy as jnp
        import jaxopt

        jax.config.update("jax_enable_x64", True)
        X, y = jnp.asarray(problem.X), jnp.asarray(problem.y)

        def f(x: Any) -> Any:
            z = X @ x
            if problem.kind == "lasso":
                return 0.5 * jnp.mean((z - y) ** 2)
            return jnp.mean(jnp.logaddexp(0.0, -y * z))

        options = {"maxiter": 50_000, "acceleration": True}
        prox = jaxopt.prox.prox_lasso
        self.solvers = {
            tol: jaxopt.ProximalGradient(f, prox, tol=tol, **options)
            for tol in self.ladder(problem)
        }

    def fit(self, problem: Problem, lam: float, tol: float) -> Any:
        found = self.solvers[tol].run(np.zeros(problem.p), hyperparams_prox=lam).params
        return np.asarray(found.block_until_ready())


SOLVERS: dict[str, Solver] = {
    "ours": Ours(),
    "scikit_learn": ScikitLearn(),
    "scikit_learn_gram": ScikitLearnGram(),
    "skglm": Skglm(),
    "skglm_gram": SkglmGram(),
    "celer": Celer(),
    "adelie": Adelie(),
    "glmnet": Glmnet(),
    "jaxopt": Jaxopt(),
}
