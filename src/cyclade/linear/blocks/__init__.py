"""Penalties on blocks, and several outputs: the block side of `cyclade.linear.solve` and `path`.

Both doors take what `solve` and `path` have checked: `design` wraps X, `sample_weight` adds up to
one. The certificate is a duality gap for convex losses with a conjugate, as in `solve`; otherwise
the largest dist(∂F, 0) of a block (in the Euclidean norm) or intercept, to come under tol times
the largest λ_k + ν_k of a block λ_k‖x_k‖_2 + ν_k‖x_k‖_1.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from cyclade.linear.losses import Loss

Array = NDArray[Any]

__all__ = ["path_blocks", "solve_blocks"]


def solve_blocks(
    design: Any, y: Array, loss: Loss, penalty: Any, *, sample_weight: Array, offset: Array,
    fit_intercept: bool, coef: Array | None, intercept: Any, tol: float, max_passes: int,
    verbose: bool = False,
) -> Any:  # fmt: skip
    """One fit; a `Solution` whose coef is (p,), or (p, T) with several outputs."""
    from cyclade.linear.blocks.engine import begin, minimise
    from cyclade.linear.blocks.front import as_problem, as_solution, as_start, by_output, separable
    from cyclade.linear.solve import printer

    if separable(loss, penalty, y):
        return by_output(
            design, y, loss, penalty, sample_weight=sample_weight, offset=offset,
            fit_intercept=fit_intercept, coef=coef, intercept=intercept, tol=tol,
            max_passes=max_passes, verbose=verbose,
        )  # fmt: skip
    problem = as_problem(design, y, loss, penalty, sample_weight, offset, fit_intercept, coef)
    state = begin(problem, *as_start(problem, coef, intercept))
    certificate = minimise(problem, state, tol, max_passes, printer(verbose))
    return as_solution(problem, state, certificate)


def path_blocks(
    design: Any, y: Array, loss: Loss, penalty: Any, *, lams: Any, n_lams: int, lam_ratio: float,
    sample_weight: Array, offset: Array, fit_intercept: bool, coef: Array | None, intercept: Any,
    tol: float, max_passes: int, verbose: bool = False,
) -> Any:  # fmt: skip
    """Fits along decreasing λ, each from the one before; a `PathResult`."""
    import numpy as np

    from cyclade.linear.blocks.engine import begin, minimise
    from cyclade.linear.blocks.front import as_problem, as_start, coefficients, separable
    from cyclade.linear.blocks.trail import Trail
    from cyclade.linear.path import PathResult, as_lams, check_lams
    from cyclade.linear.solve import printer

    if lams is None:
        lams = as_lams(
            penalty, null_gradient(design, y, loss, penalty, sample_weight, offset, fit_intercept),
            n_lams, lam_ratio,
        )  # fmt: skip
    else:
        lams = check_lams(lams)
    fits: list[Any] = []
    trail, problem = Trail(), None
    for lam in lams:
        at = penalty.scaled(float(lam))
        if separable(loss, penalty, y):
            fit = solve_blocks(
                design, y, loss, at, sample_weight=sample_weight, offset=offset,
                fit_intercept=fit_intercept, coef=coef, intercept=intercept, tol=tol,
                max_passes=max_passes, verbose=verbose,
            )  # fmt: skip
            coef, intercept = fit.coef, fit.intercept
            objective, certificate, passes = fit.objective, fit.certificate, fit.passes
        else:
            if problem is None:
                problem = as_problem(
                    design, y, loss, at, sample_weight, offset, fit_intercept, coef
                )
                state = begin(problem, *as_start(problem, coef, intercept))
            else:
                problem = problem.at(problem.reg.at(at))
                state = trail.start(problem, float(lam))
            certificate = minimise(problem, state, tol, max_passes, printer(verbose))
            trail.add(float(lam), state)
            coef, intercept = coefficients(problem, state)
            objective, passes = trail.objective, state.passes
        fits.append((coef, intercept, objective, certificate, passes))
    coefs, intercepts, objectives, certificates, counts = zip(*fits, strict=True)
    return PathResult(
        lams, np.moveaxis(np.stack(coefs), 0, -1),
        np.stack([np.asarray(c) for c in intercepts], axis=-1), np.array(objectives),
        list(certificates), np.array(counts),
    )  # fmt: skip


def null_gradient(
    design: Any, y: Array, loss: Loss, penalty: Any, sample_weight: Array, offset: Array,
    fit_intercept: bool,
) -> Array:  # fmt: skip
    """The gradient in x of the smooth part at x = 0 and the best intercept: (p,) or (p, T)."""
    from cyclade.linear.blocks.front import as_problem
    from cyclade.linear.penalties import Rows

    any_block = penalty if hasattr(penalty, "partition") else Rows(penalty.lam)
    problem = as_problem(design, y, loss, any_block, sample_weight, offset, fit_intercept, None)
    u = problem.gradient(problem.offset + problem.best_shift(problem.offset))
    g = problem.correlate(problem.s[:, None] * u)
    return g[:, 0] if problem.T == 1 else g
