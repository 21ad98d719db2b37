"""The front door: one fit, or a path of fits, of a linear model with any loss and any penalty."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, wraps
from inspect import unwrap
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from cyclade._checks import non_negative, whole_number
from cyclade.files.checkpoint import Kept
from cyclade.files.objects import described, fingerprint, rounded
from cyclade.linear import distributions as distributions  # `losses.get` knows their names
from cyclade.linear import losses, penalties
from cyclade.linear.checks import (
    as_starts,
    check_alphas,
    check_gram,
    chunked,
    default_alphas,
    in_chunks,
)
from cyclade.linear.losses import Loss, LossLike, LossName
from cyclade.linear.results import (
    PathResult,
    Solution,
    paths_together,
    resumed,
    together,
)
from cyclade.linear.threads import one_thread
from cyclade.linear.tuning import DEFAULT, Tuning

if TYPE_CHECKING:  # they load numba
    from cyclade.linear.problem import Problem


Array = NDArray[Any]
P = ParamSpec("P")
R = TypeVar("R")
Report = Callable[[dict[str, float]], None]
Done = Callable[[Solution], None]


def announced(fit: Callable[P, R]) -> Callable[P, R]:
    """The same function with a warning where a tolerance was not reached."""

    @wraps(fit)
    def told(*args: P.args, **kwargs: P.kwargs) -> R:
        found: Any = fit(*args, **kwargs)
        every = getattr(found, "certificates", None) or [found.certificate]
        missed = [certificate for certificate in every if not certificate.reached]
        if missed:
            from sklearn.exceptions import ConvergenceWarning

            at = f"at {len(missed)} of {len(every)} λ: " if len(every) > 1 else ""
            text = f"{fit.__name__} stopped without a certificate of optimality ({at}{missed[0]}): "
            advice = "raise max_iter or tol, or scale the columns of X"
            warnings.warn(text + advice, ConvergenceWarning, stacklevel=2)
        return cast("R", found)

    return told


def unannounced(fit: Callable[P, R]) -> Callable[P, R]:
    """`solve` or `path` without their warnings."""
    return cast("Callable[P, R]", unwrap(fit))


@announced
def solve(
    X: Any,
    y: Any,
    loss: LossName | LossLike = "squared",
    penalty: Any = "l1",
    *,
    alpha: float | None = None,
    sample_weight: Any = None,
    offset: Any = None,
    fit_intercept: bool = True,
    coef: Any = None,
    intercept: Any = None,
    tol: float = 1e-6,
    max_iter: int = 100_000,
    verbose: bool = False,
    precompute: Any = "auto",
    tuning: Tuning | None = None,
    checkpoint: Any = None,
) -> Solution:
    """Minimise F(x, c) = Σ_i s_i φ(y_i, z_i) / Σ_i s_i + r(x), with z = Xx + c + offset.

    Parameters
    ----------
    X : array or SciPy sparse matrix of shape (n, p)
        float32 or float64, in either memory order; sparse in any format (by columns is best). Or a
        table in chunks of rows, which is never held as a whole: a Dask array or dataframe, or
        `RowChunks`.
    y : array of shape (n,), or (n, T)
        The targets.
    loss : str or Loss
        φ: a name such as "squared", "logistic", "cauchy", or an object (`cyclade.linear.losses`).
    penalty : str or penalty
        r: an object such as ``L1(0.1)``, or a name together with `alpha`.
    alpha : float, optional
        λ of a penalty given by name.
    sample_weight : array of shape (n,), optional
        s ≥ 0; an integer weight is the same as repeating the row.
    offset : array in the shape of z, optional
        Added to every prediction.
    fit_intercept : bool
        Whether there is an unpenalised c.
    coef, intercept : optional
        Where to start. Left untouched.
    tol : float
        For a convex loss and penalty with conjugates: stop at a duality gap ≤ tol times the loss
        of the null model (x = 0, best c) above a perfect fit's. Otherwise: stop at
        max_j dist(∂F, 0)_j ≤ tol · λ, where λ is the largest |gradient| at which a zero
        coefficient stays zero (or, for penalties without one, the largest gradient of the null
        model).
    max_iter : int
        The most cycles to make, each over the columns then active.
    verbose : bool
        Print one line per check of all columns.
    precompute : "auto", bool or array of shape (p, p)
        The products XᵀX of all columns, for least squares under a convex penalty on coordinates
        with dense X that has no fewer rows than columns; elsewhere only its shape is checked.
        "auto": they are formed where that costs less than what it saves; True: always; False:
        never. Or the products themselves, of X or of its centred columns (with sample_weight,
        Xᵀ diag(w) X for weights that sum to n); a few are compared with X.
    tuning : Tuning, optional
        Other constants of the engine than the default ones; for tests and experiments.
    checkpoint : str or path, optional
        For tables in chunks: a file that holds the point after every pass; the same call goes on
        from it.

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear.penalties import L1
    >>> X = np.eye(4)
    >>> fit = solve(X, np.array([4.0, -2.0, 0.5, 0.0]), "squared", L1(0.25), fit_intercept=False)
    >>> fit.coef
    array([ 3., -1.,  0.,  0.])
    >>> fit.certificate.reached
    True
    """
    loss, penalty = losses.get(loss), penalties.get(penalty, alpha)
    if checkpoint is not None and not in_chunks(X):
        raise ValueError("checkpoint: must be None for X in memory; path takes one for any X")
    cold, data = coef is None and intercept is None, (sample_weight, offset, fit_intercept)
    check_limits(tol, max_iter)
    start = coef, intercept
    with checked(X, y, loss, penalty, data, start, tuning, precompute) as (parts, separate):
        kept = kept_at(checkpoint, parts, tol, penalty)
        fits = [part.fit(cold, tol, max_iter, printer(verbose), at) for part, at in kept]
    found = together(fits) if separate else fits[0]
    if not getattr(penalty, "on_copies", False):
        return found
    working = np.unique(penalty.columns[found.working_set])
    return replace(found, coef=added_up(found.coef, penalty, X.shape[1]), working_set=working)


@announced
def path(
    X: Any,
    y: Any,
    loss: LossName | LossLike = "squared",
    penalty: Any = "l1",
    *,
    alphas: Any = None,
    n_alphas: int = 100,
    alpha_ratio: float = 1e-3,
    sample_weight: Any = None,
    offset: Any = None,
    fit_intercept: bool = True,
    coef: Any = None,
    intercept: Any = None,
    tol: float = 1e-6,
    max_iter: int = 100_000,
    verbose: bool = False,
    precompute: Any = "auto",
    tuning: Tuning | None = None,
    checkpoint: Any = None,
) -> PathResult:
    """Solve for each λ in decreasing order, each from the solution before.

    Parameters are those of `solve`, except:

    Parameters
    ----------
    penalty : str or penalty
        A name, or an object whose `scaled(lam)` gives it at another λ; its own λ is not used.
    alphas : array, optional
        The λ; they are put in decreasing order. Default: `n_alphas` values in geometric progression
        from λ_max, the smallest for which x = 0 is stationary, to ``alpha_ratio * λ_max``.
    checkpoint : str or path, optional
        A file that holds what is done after every λ; the same call goes on from it.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([4.0, 2.0])
    >>> found = path(np.eye(2), y, n_alphas=3, alpha_ratio=0.25, fit_intercept=False)
    >>> found.alphas
    array([2. , 1. , 0.5])
    >>> found.coefs
    array([[0., 2., 3.],
           [0., 0., 1.]])
    """
    loss = losses.get(loss)
    penalty = penalties.get(penalty, 1.0 if isinstance(penalty, str) else None)
    if not hasattr(penalty, "scaled"):
        raise TypeError(f"penalty: {type(penalty).__name__} lacks scaled(lam), which a path needs")
    data = (sample_weight, offset, fit_intercept)
    check_limits(tol, max_iter)
    start = coef, intercept
    with checked(X, y, loss, penalty, data, start, tuning, precompute) as (parts, separate):
        if alphas is None:
            alphas = default_alphas(penalty, null_gradient(parts), n_alphas, alpha_ratio)
        lams = check_alphas(alphas)
        kept = kept_at(checkpoint, parts, tol, penalty.scaled(1.0), lams)
        paths = [part.follow(lams, tol, max_iter, printer(verbose), at) for part, at in kept]
    along = paths_together(paths) if separate else paths[0]
    if not getattr(penalty, "on_copies", False):
        return along
    return replace(along, coefs=added_up(along.coefs, penalty, X.shape[1]))


def paths_on_folds(
    X: Any, y: Any, loss: Loss, penalty: Any, tests: list[Array], lams: Array, *,
    sample_weight: Any, offset: Any, fit_intercept: bool, tol: float, max_iter: int,
    precompute: Any = "auto",
) -> list[tuple[PathResult, Array]] | None:  # fmt: skip
    """For each set of rows the path on all others, and its errors; None if not in one pass."""
    from cyclade.linear.products import fits, folds

    data = sample_weight, offset, fit_intercept
    with checked(X, y, loss, penalty, data, precompute=precompute) as (parts, _):
        problem = parts[0].problem
        alone = len(parts) == 1 and isinstance(parts[0], FitInMemory)
        if not (alone and loss.quadratic and fits.suits(problem, lams.size, tol)):
            return None
        return folds.cross_validate(problem, tests, lams, tol, max_iter)


def lam_max(
    X: Any, y: Any, loss: Any, penalty: Any, sample_weight: Any, offset: Any, fit_intercept: bool
) -> float:
    """The smallest λ at which x = 0 is stationary, for arguments as in `path`."""
    with checked(X, y, loss, penalty, (sample_weight, offset, fit_intercept)) as (parts, _):
        return float(penalty.lam_max(null_gradient(parts)))


def null_gradient(parts: list[Any]) -> Array:
    """The gradient where all columns with a penalty are zero and the rest is best, by outputs."""
    gradients = [free_gradient(part) for part in parts]
    return gradients[0] if len(gradients) == 1 else np.stack(gradients, axis=1)


def free_gradient(part: Any) -> Array:
    """That of one part; columns that are not penalised are fitted under a huge λ."""
    problem, g = part.problem, part.problem.null_gradient
    free, penalty = problem.penalty.unpenalised, problem.penalty.penalty
    if not free.any() or free.all() or not (hasattr(penalty, "scaled") and np.any(g)):
        return np.asarray(g)
    huge = penalty.scaled(1e3 * max(float(penalty.lam_max(g)), float(np.abs(g).max())))
    start = part._replace(problem=problem.at(huge))
    found = start.fit(True, 1e-10, 10_000, lambda row: None)
    return np.asarray(problem.gradient_at(problem.penalty.by_blocks(found.coef), found.intercept))


class FitInMemory(NamedTuple):
    """A problem in memory, and where its fit starts."""

    problem: Problem
    x: Array  # flat, in the order of the penalty
    c: Any

    def run(self, tol: float, penalty: Any, *lams: Array) -> str:
        """What tells a path apart from others, X by its shape alone (`resumed` looks at more)."""
        problem = self.problem
        return fingerprint(
            problem.y, problem.s, problem.offset, described(problem.loss), problem.fit_intercept,
            tol, described(penalty), problem.design.n, problem.design.p, *map(rounded, lams),
        )  # fmt: skip

    def fit(
        self, cold: bool, tol: float, max_passes: int, report: Report, kept: Kept | None = None
    ) -> Solution:
        """One fit; if the start is `cold`, through easier losses where the loss needs it."""
        problem, x, c = self
        found = on_products(problem, x, c, None, tol, max_passes)
        if found is not None:
            return only(found, report)
        from cyclade.linear.starts import find_start, soften
        from cyclade.linear.state import as_returned, as_solution, begin
        from cyclade.linear.working_set import minimise

        easier = softer_than(problem) if cold else []
        if easier:
            state = soften(problem, easier, tol, max_passes, report)
        else:
            state = find_start(problem, begin(problem, x, c), max_passes)
        certificate = minimise(problem, state, tol, max_passes, report)
        return as_solution(problem, *as_returned(problem, state, certificate))

    def follow(
        self, lams: Array, tol: float, max_passes: int, report: Report, kept: Kept | None = None
    ) -> PathResult:
        """A path along decreasing λ, from a checkpoint where there is one."""
        problem, x, c = self
        whole = None if kept else at_once(problem, x, c, lams, tol, max_passes, report)

        def rest(coef: Any, intercept: Any, left: Array, done: Done) -> None:
            begin = x if left.size == lams.size else problem.penalty.by_blocks(coef)
            follow(problem, begin, intercept, left, tol, max_passes, report, done)

        return whole or resumed(kept, lams, self, rest)


def follow(
    problem: Problem, x: Array, c: Any, lams: Array, tol: float, max_passes: int, report: Report,
    done: Done,
) -> None:  # fmt: skip
    """One problem along decreasing λ, from (x, c); `done` takes every solution."""
    from cyclade.linear.screening import Reader
    from cyclade.linear.starts import Companion, soften
    from cyclade.linear.state import as_returned, as_solution, begin, rebase
    from cyclade.linear.working_set import minimise

    penalty, easier = problem.penalty.penalty, softer_than(problem)
    problem.reader = Reader(problem.design, many=True)
    problem = problem.at(penalty.scaled(float(lams[0])))
    state = begin(problem, x, c)
    state.on_path = True
    bent = not penalty.convex and hasattr(penalty, "straighter")
    companion = Companion(state, float(lams[-1])) if bent else None
    softened = 0  # passes of the last fit through easier losses, which a warm start gets to try
    for lam in lams.tolist():
        problem = problem.at(penalty.scaled(lam))
        state.passes, state.history = 0, []
        rebase(problem, state)
        if companion is not None:
            state = companion.advance(problem, state, max_passes)
        limit = min(max_passes, softened) if easier else max_passes
        certificate = minimise(problem, state, tol, limit, report)
        if easier and not certificate.reached:
            made = state.passes
            state = soften(problem, easier, tol, max_passes - made, report)
            certificate = minimise(problem, state, tol, max_passes - made, report)
            softened = state.passes
            state.passes, state.on_path = made + softened, True
        done(as_solution(problem, *as_returned(problem, state, certificate)))


def at_once(
    problem: Problem, x: Array, c: Any, lams: Array, tol: float, max_passes: int, report: Report
) -> PathResult | None:
    """The path on products of all columns, or on fewer rows, where one of these is cheaper."""
    path = on_products(problem, x, c, lams, tol, max_passes)
    return path or shorter_path(problem, x, lams, tol, max_passes, report)


def on_products(
    problem: Problem, x: Array, c: Any, lams: Array | None, tol: float, max_passes: int
) -> PathResult | None:
    """All λ (None: that of the penalty) on products of all columns, where these are cheap."""
    if not (problem.loss.convex and problem.penalty.convex):
        return None
    from cyclade.linear.products.fits import solve

    grid = np.array([problem.penalty.penalty.lam]) if lams is None else lams
    return solve(problem, x, c, grid, tol, max_passes)


def shorter_path(
    problem: Problem, x: Array, lams: Array, tol: float, max_passes: int, report: Report
) -> PathResult | None:
    """The path on as many rows as columns, where that pays and the last is as good on X."""
    from cyclade.linear.products.shorter import shortened
    from cyclade.linear.state import begin
    from cyclade.linear.working_set import Stopping

    found = shortened(problem, lams.size)
    if found is None:
        return None
    small, moments, constant = found
    path = FitInMemory(small, x, 0.0).follow(lams, tol, max_passes, report)
    coefs = path.coefs.astype(problem.design.given, copy=False)
    intercepts = moments.intercepts(path.coefs.T)
    last = problem.at(problem.penalty.penalty.scaled(float(lams[-1])))
    state = begin(last, last.penalty.by_blocks(path.coefs[:, -1]), float(intercepts[-1]))
    stopping = Stopping(last, state, tol, max_passes, report)
    stopping.done(state)
    if path.certificates[-1].reached and not stopping.certificate.reached:
        return None
    certificates = [*path.certificates[:-1], stopping.certificate]
    objectives = path.objectives + constant
    return PathResult(lams, coefs, intercepts, objectives, certificates, path.passes)


@contextmanager
def checked(
    X: Any, y: Any, loss: Loss, penalty: Any, data: tuple[Any, Any, bool],
    start: tuple[Any, Any] = (None, None), tuning: Tuning | None = None, precompute: Any = "auto",
) -> Iterator[tuple[list[Any], bool]]:  # fmt: skip
    """Parts to fit, from checked arguments, and whether nothing joins them; BLAS has one thread."""
    if not (tuning is None or isinstance(tuning, Tuning)):
        raise TypeError(f"tuning: must be a Tuning or None, got {type(tuning).__name__}")
    tuning = tuning or DEFAULT
    if getattr(penalty, "on_copies", False):
        X, start = copied(X, penalty, start)
    if groups_outputs(y, loss, penalty) and not in_chunks(X):
        X = chunked("chunks").RowChunks(X if hasattr(X, "shape") else np.asarray(X))
    if in_chunks(X):
        with one_thread(0, tuning):
            yield chunked("api").as_parts(X, y, loss, penalty, data, tuning, start)
        return
    as_design, as_problems = loaded()
    convex = loss.convex and getattr(penalty, "convex", False)
    if not convex and hasattr(X, "toarray") and np.prod(X.shape) <= tuning.cache:
        X = X.toarray(order="C")  # storage would choose among minima
    design = as_design(X, uneven=loss.convex and loss.flat, tuning=tuning)
    design.precompute = check_gram(precompute, design.p)
    if design.given == np.float32 and hasattr(penalty, "within_float32"):
        penalty = penalty.within_float32()
    with one_thread(design.entries, tuning):
        problems = as_problems(design, y, loss, penalty, data, start[0], tuning)
        offset = problems[0].offset
        outputs = None if offset.ndim == 1 else int(offset.shape[1])
        starts = as_starts(problems, design.p, outputs, *start)
        separate = penalties.is_separable(loss, penalty, np.ndim(y))
        yield [FitInMemory(*one) for one in starts], separate


@cache
def loaded() -> tuple[Any, Any]:
    """What makes designs and problems; it loads numba. An import in every fit would show."""
    from cyclade.linear.problem import as_design, as_problems

    return as_design, as_problems


def groups_outputs(y: Any, loss: Loss, penalty: Any) -> bool:
    """Whether groups of features are joined over several outputs: tables' products know such."""
    groups = isinstance(penalty, penalties.BlockPenalty) and not isinstance(penalty, penalties.Rows)
    return groups and (loss.target == "classes" or (np.ndim(y) == 2 and np.shape(y)[1] > 1))


def copied(X: Any, penalty: Any, start: tuple[Any, Any]) -> tuple[Any, tuple[Any, Any]]:
    """The columns that a penalty on copies acts on, and a start whose copies add up to it."""
    X = X if hasattr(X, "shape") else np.asarray(X)
    columns, (coef, intercept) = penalty.checked(X.shape[1]), start
    if coef is not None:
        coef = np.asarray(coef, np.float64)[columns] / np.bincount(columns)[columns]
    if in_chunks(X):
        return chunked("estimators").some_columns(X, columns), (coef, intercept)
    X = X.tocsc() if hasattr(X, "tocsc") else np.asarray(X)
    return X[:, columns], (coef, intercept)


def added_up(coef: Array, penalty: Any, p: int) -> Array:
    """Coefficients of features from those of their copies."""
    out = np.zeros((p, *coef.shape[1:]), coef.dtype)
    np.add.at(out, penalty.columns, coef)
    return out


def softer_than(problem: Problem) -> list[Loss]:
    """Losses to solve before the one of this problem."""
    from cyclade.linear.starts import softer

    loss, penalty = problem.loss, problem.penalty.penalty
    return softer(loss, penalty, problem.y, problem.offset, problem.fit_intercept, problem.tuning)


def only(found: PathResult, report: Report) -> Solution:
    """What a caller gets of a single fit that was made at once."""
    fit = found.at(0)
    row = {"objective": fit.objective, "gap": fit.certificate.value, "passes": fit.passes,
           "working": fit.coef.size}  # fmt: skip
    report(row)
    return replace(fit, working_set=np.arange(fit.coef.size), history=[row])


def check_limits(tol: float, max_iter: int) -> None:
    """Raise ValueError for a tolerance below zero or a number of cycles below one."""
    non_negative("tol", tol)
    whole_number("max_iter", max_iter, 1)


def printer(verbose: bool) -> Any:
    """A function that prints a row of the history, or does nothing."""

    def show(row: dict[str, float]) -> None:
        if verbose:
            print("  ".join(f"{name} {value:.6g}" for name, value in row.items()))

    return show


def kept_at(
    checkpoint: Any, parts: list[Any], tol: float, penalty: Any, *lams: Array
) -> list[tuple[Any, Kept | None]]:
    """Each part with where it keeps what is done, if anywhere."""
    if checkpoint is None:
        return [(part, None) for part in parts]
    place, several = os.fspath(checkpoint), len(parts) > 1
    return [
        (part, Kept(f"{place}-{k}" if several else place, part.run(tol, penalty, *lams)))
        for k, part in enumerate(parts)
    ]
