"""The sorted l1 penalty (SLOPE): its side of `cyclade.linear.solve` and `path`.

Cyclic descent over clusters of equal coefficients, with proximal steps that split them, on
quadratic models of the loss. Both doors take what `solve` and `path` have checked: `design` wraps
X, `sample_weight` adds up to one. The certificate is a duality gap for convex losses with a
conjugate; otherwise the largest entry of −g − P(−g), P the projection onto ∂r(x), to come under
tol · λ_1.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from cyclade.linear.losses import Loss

Array = NDArray[Any]

__all__ = ["path_slope", "solve_slope"]


def solve_slope(
    design: Any, y: Array, loss: Loss, penalty: Any, *, sample_weight: Array, offset: Array,
    fit_intercept: bool, coef: Array | None, intercept: Any, tol: float, max_passes: int,
    verbose: bool = False,
) -> Any:  # fmt: skip
    """One fit, a `Solution`."""
    from cyclade.linear.solve import as_solution, printer
    from cyclade.linear.sorted_l1.engine import begin, minimise
    from cyclade.linear.sorted_l1.problem import as_problem

    problem = as_problem(design, y, sample_weight, offset, loss, penalty, fit_intercept)
    state = begin(problem, *as_start(problem, coef, intercept))
    certificate = minimise(problem, state, tol, max_passes, printer(verbose))
    return as_solution(state, certificate, design)


def path_slope(
    design: Any, y: Array, loss: Loss, penalty: Any, *, lams: Any, n_lams: int, lam_ratio: float,
    sample_weight: Array, offset: Array, fit_intercept: bool, coef: Array | None, intercept: Any,
    tol: float, max_passes: int, verbose: bool = False,
) -> Any:  # fmt: skip
    """Fits along decreasing λ, each from the one before; a `PathResult`."""
    from cyclade.linear.path import as_lams, as_path, check_lams, null_gradient
    from cyclade.linear.solve import as_solution, fit, printer
    from cyclade.linear.sorted_l1.engine import begin, minimise, rebase
    from cyclade.linear.sorted_l1.problem import as_problem
    from cyclade.linear.starts.softening import softer

    problem = as_problem(design, y, sample_weight, offset, loss, penalty, fit_intercept)
    if lams is None:
        lams = as_lams(penalty, null_gradient(problem), n_lams, lam_ratio)
    else:
        lams = check_lams(lams)
    if softer(loss, penalty, y, offset, fit_intercept):  # the last solution is no good start
        rest = (fit_intercept, (None, None), tol, max_passes, verbose)
        scaled = [penalty.scaled(float(lam)) for lam in lams]
        return as_path(
            lams, [fit(design, y, sample_weight, offset, loss, at, *rest) for at in scaled]
        )
    problem = problem.at(penalty.scaled(float(lams[0])))
    state = begin(problem, *as_start(problem, coef, intercept))
    fits: list[Any] = []
    for lam in lams:
        problem = problem.at(penalty.scaled(float(lam)))
        state.passes, state.history = 0, []
        rebase(problem, state)
        certificate = minimise(problem, state, tol, max_passes, printer(verbose))
        fits.append(as_solution(state, certificate, design))
    return as_path(lams, fits)


def as_start(problem: Any, coef: Array | None, intercept: Any) -> tuple[Array, float]:
    """x and c, from what was given."""
    import numpy as np

    p = problem.design.p
    if coef is not None and coef.shape != (p,):
        raise ValueError(f"coef: a start must have shape ({p},), got {coef.shape}")
    x = np.zeros(p) if coef is None else coef
    return x, float(intercept or 0.0) if problem.fit_intercept else 0.0
