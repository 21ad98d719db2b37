"""Fits along a decreasing sequence of λ, each started at the last."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import losses, penalties
from cyclade.linear.certificate import Certificate
from cyclade.linear.losses import Loss
from cyclade.linear.panels.protocols import Design, as_design
from cyclade.linear.solve import (
    Solution,
    as_data,
    as_numbers,
    as_start,
    fit,
    own_engine,
    printer,
    solve,
)
from cyclade.linear.starts.softening import softer
from cyclade.linear.threads import one_thread

Array = NDArray[Any]


@dataclass
class PathResult:
    """A path.

    Attributes
    ----------
    lams : array of shape (L,)
        λ, decreasing.
    coefs : array of shape (p, L), or (p, T, L)
    intercepts : array of shape (L,), or (T, L)
    objectives : array of shape (L,)
    certificates : list of Certificate
    passes : array of int, shape (L,)
    """

    lams: Array
    coefs: Array = field(repr=False)
    intercepts: Array = field(repr=False)
    objectives: Array = field(repr=False)
    certificates: list[Certificate] = field(repr=False)
    passes: Array = field(repr=False)

    @property
    def reached(self) -> bool:
        """Whether every certificate holds."""
        return all(certificate.reached for certificate in self.certificates)


def path(
    X: Any,
    y: Any,
    loss: str | Loss | Any = "squared",
    penalty: Any = "l1",
    *,
    lams: Any = None,
    n_lams: int = 100,
    lam_ratio: float = 1e-3,
    sample_weight: Any = None,
    offset: Any = None,
    fit_intercept: bool = True,
    coef: Any = None,
    intercept: Any = None,
    tol: float = 1e-6,
    max_passes: int = 100_000,
    verbose: bool = False,
) -> PathResult:
    """Solve for each λ in decreasing order, each from the solution before.

    Parameters are those of `solve`, except:

    Parameters
    ----------
    penalty : str or penalty
        A name, or an object whose `scaled(lam)` gives it at another λ; its own λ is not used.
    lams : array, optional
        The λ; they are put in decreasing order. Default: `n_lams` values in geometric progression
        from λ_max, the smallest for which x = 0 is stationary, to ``lam_ratio * λ_max``.

    Examples
    --------
    >>> import numpy as np
    >>> found = path(np.eye(2), np.array([4.0, 2.0]), n_lams=3, lam_ratio=0.25, fit_intercept=False)
    >>> found.lams
    array([2. , 1. , 0.5])
    >>> found.coefs
    array([[0., 2., 3.],
           [0., 0., 1.]])
    """
    loss = losses.get(loss)
    if isinstance(penalty, str):
        penalty = penalties.get(penalty, 1.0)
    if not hasattr(penalty, "scaled"):
        raise TypeError(f"penalty: {type(penalty).__name__} lacks scaled(lam), which a path needs")
    design = as_design(X, uneven=loss.convex and loss.flat)
    y, s, b = as_data(design, y, loss, sample_weight, offset)
    as_numbers(tol, max_passes)
    start = as_start(design, y, coef, intercept)
    with one_thread(design.entries):
        return _path(
            design, y, s, b, loss, penalty, lams, n_lams, lam_ratio, bool(fit_intercept), start,
            tol, max_passes, verbose,
        )  # fmt: skip


def _path(
    design: Design, y: Array, s: Array, b: Array, loss: Loss, penalty: Any, lams: Any, n_lams: int,
    lam_ratio: float, fit_intercept: bool, start: tuple[Any, Any], tol: float, max_passes: int,
    verbose: bool,
) -> PathResult:  # fmt: skip
    """`path` on checked arguments."""
    # Where a loss is approached through easier ones, the solution at the last λ is no good start.
    narrow = bool(softer(loss, penalty, y, b, fit_intercept))

    def one_by_one(lams: Array) -> PathResult:
        rest = (fit_intercept, (None, None), tol, max_passes, verbose)
        fits = [fit(design, y, s, b, loss, penalty.scaled(float(lam)), *rest) for lam in lams]
        return as_path(lams, fits)

    if narrow and lams is not None:
        return one_by_one(check_lams(lams))
    engine = own_engine(loss, penalty, y)
    if engine is not None:
        result: PathResult = engine[1](
            design, y, loss, penalty, lams=lams, n_lams=n_lams, lam_ratio=lam_ratio,
            sample_weight=s, offset=b, fit_intercept=fit_intercept, coef=start[0],
            intercept=start[1], tol=tol, max_passes=max_passes, verbose=verbose,
        )  # fmt: skip
        return result
    from cyclade.linear.kernels.strong import put
    from cyclade.linear.penalty_bound import bind
    from cyclade.linear.problem import Problem
    from cyclade.linear.screening import Reader
    from cyclade.linear.starts.companion import Companion
    from cyclade.linear.starts.predictor import Predictor
    from cyclade.linear.working_set import begin, minimise, rebase

    problem = Problem(
        design, y, s, b, loss, bind(penalty, design.p), fit_intercept,
        reader=Reader(design, many=True),
    )  # fmt: skip
    if lams is None:
        lams = as_lams(penalty, null_gradient(problem), n_lams, lam_ratio)
        if narrow:
            return one_by_one(lams)
    else:
        lams = check_lams(lams)
    x0 = np.zeros(design.p) if start[0] is None else start[0]
    c0 = float(start[1] or 0.0) if fit_intercept else 0.0
    # By rows of p: few coordinates are ever nonzero, and memory that stays zero is never touched.
    coefs = np.zeros((design.p, lams.size), design.given)
    fits: list[tuple[float, float, Certificate, int]] = []
    state = begin(problem.at(penalty.scaled(float(lams[0]))), x0, c0)
    state.on_path = True
    predictor = Predictor(problem)
    bent = not problem.penalty.convex and hasattr(penalty, "straighter")
    companion = Companion(state, float(lams[-1])) if bent else None
    for lam, coef in zip(lams, coefs.T, strict=True):
        at = penalty.scaled(float(lam))
        problem = problem.at(at)
        state.passes, state.history = 0, []
        if not predictor.follow(problem, state, max_passes):
            rebase(problem, state)
        if companion is not None:
            state = companion.better(problem, state, at, max_passes)
        certificate = minimise(problem, state, tol, max_passes, printer(verbose))
        put(state.x, coef)
        fits.append((float(state.c), state.measured.objective, certificate, state.passes))
    intercepts, objectives, certificates, passes = zip(*fits, strict=True)
    return PathResult(
        lams, coefs, np.array(intercepts), np.array(objectives), list(certificates),
        np.array(passes),
    )  # fmt: skip


def as_path(lams: Array, fits: list[Solution]) -> PathResult:
    """Solutions in the order of their λ."""
    return PathResult(
        lams,
        np.stack([f.coef for f in fits], axis=-1),
        np.stack([np.asarray(f.intercept) for f in fits], axis=-1),
        np.array([f.objective for f in fits]),
        [f.certificate for f in fits],
        np.array([f.passes for f in fits]),
    )


def null_gradient(problem: Any) -> Array:
    """The gradient in x of the smooth part at x = 0 and the best intercept."""
    loss_at = problem.loss_at(np.zeros(problem.design.n) + problem.offset)
    loss_at = problem.loss_at(loss_at.z + problem.best_shift(loss_at))
    return np.asarray(problem.design.correlate(loss_at.slopes))


def as_lams(penalty: Any, g0: Array, n_lams: int, lam_ratio: float) -> Array:
    """λ_max, …, lam_ratio · λ_max in geometric progression."""
    if int(n_lams) != n_lams or n_lams < 1:
        raise ValueError(f"n_lams: must be a whole number >= 1, got {n_lams!r}")
    if not 0 < lam_ratio < 1:
        raise ValueError(f"lam_ratio: must lie strictly between 0 and 1, got {lam_ratio!r}")
    if not hasattr(penalty, "lam_max"):
        raise TypeError(f"penalty: {type(penalty).__name__} lacks lam_max(g0); give lams instead")
    largest = float(penalty.lam_max(g0))
    if not 0 < largest < np.inf:
        raise ValueError(f"lams: λ_max is {largest} for these data, so lams must be given")
    return np.asarray(largest * np.geomspace(1.0, lam_ratio, int(n_lams)))


def check_lams(lams: Any) -> Array:
    """Positive finite λ in decreasing order."""
    given: Array = np.atleast_1d(np.asarray(lams, np.float64))
    if given.ndim != 1 or given.size == 0 or not (np.isfinite(given).all() and (given > 0).all()):
        raise ValueError("lams: must be one or more positive finite numbers")
    return np.sort(given)[::-1].copy()


__all__ = ["PathResult", "path", "solve"]
