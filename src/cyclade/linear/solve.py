"""The front door: one fit of a linear model with any loss and any penalty."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import losses, penalties
from cyclade.linear.certificate import Certificate
from cyclade.linear.losses import Loss
from cyclade.linear.panels.protocols import Design, as_design
from cyclade.linear.starts.softening import ROUGH, softer
from cyclade.linear.threads import one_thread

Array = NDArray[Any]


@dataclass
class Solution:
    """A fit.

    Attributes
    ----------
    coef : array of shape (p,), or (p, T) with several outputs
    intercept : float, or array of shape (T,)
    objective : float
        F(coef, intercept).
    certificate : Certificate
        Measured on all columns at this very point.
    passes : int
        Cycles made, each over the columns then active.
    working_set : array of int
        The columns of the last working set.
    history : list of dict
        One row per check of all columns: objective, gap or distance, passes, working.
    """

    coef: Array
    intercept: Any
    objective: float
    certificate: Certificate
    passes: int
    working_set: Array = field(repr=False)
    history: list[dict[str, float]] = field(repr=False)


def solve(
    X: Any,
    y: Any,
    loss: str | Loss | Any = "squared",
    penalty: Any = "l1",
    *,
    lam: float | None = None,
    sample_weight: Any = None,
    offset: Any = None,
    fit_intercept: bool = True,
    coef: Any = None,
    intercept: Any = None,
    tol: float = 1e-6,
    max_passes: int = 100_000,
    verbose: bool = False,
) -> Solution:
    """Minimise F(x, c) = Σ_i s_i φ(y_i, z_i) / Σ_i s_i + r(x), with z = Xx + c + offset.

    Parameters
    ----------
    X : array or SciPy sparse matrix of shape (n, p)
        float32 or float64, in either memory order; sparse in any format (by columns is best).
    y : array of shape (n,), or (n, T)
        The targets.
    loss : str or Loss
        φ: a name such as "squared", "logistic", "cauchy", or an object (`cyclade.linear.losses`).
    penalty : str or penalty
        r: an object such as ``L1(0.1)``, or a name together with `lam`.
    lam : float, optional
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
        coefficient stays zero (or, for penalties without one, the largest gradient at the start).
    max_passes : int
        The most cycles to make, each over the columns then active.
    verbose : bool
        Print one line per check of all columns.

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
    loss = losses.get(loss)
    penalty = as_penalty(penalty, lam)
    design = as_design(X, uneven=loss.convex and loss.flat)
    y, s, b = as_data(design, y, loss, sample_weight, offset)
    as_numbers(tol, max_passes)
    start = as_start(design, y, coef, intercept)
    with one_thread(design.entries):
        return fit(
            design, y, s, b, loss, penalty, bool(fit_intercept), start, tol, max_passes, verbose
        )


def fit(
    design: Design, y: Array, s: Array, b: Array, loss: Loss, penalty: Any, fit_intercept: bool,
    start: tuple[Any, Any], tol: float, max_passes: int, verbose: bool,
) -> Solution:  # fmt: skip
    """`solve` on checked arguments: easier losses first, where the loss needs that."""
    spent, cold = 0, start[0] is None and start[1] is None
    for easier in softer(loss, penalty, y, b, fit_intercept) if cold else ():
        most = (max_passes - spent) // 2
        if most > 0:
            rough = _fit(
                design, y, s, b, easier, penalty, fit_intercept, start, max(tol, ROUGH), most,
                verbose,
            )  # fmt: skip
            start = np.asarray(rough.coef, np.float64), rough.intercept
            spent += rough.passes
    solution = _fit(
        design, y, s, b, loss, penalty, fit_intercept, start, tol, max_passes - spent, verbose
    )
    solution.passes += spent
    return solution


def _fit(
    design: Design, y: Array, s: Array, b: Array, loss: Loss, penalty: Any, fit_intercept: bool,
    start: tuple[Any, Any], tol: float, max_passes: int, verbose: bool,
) -> Solution:  # fmt: skip
    """One loss, from one start."""
    engine = own_engine(loss, penalty, y)
    if engine is not None:
        solution: Solution = engine[0](
            design, y, loss, penalty, sample_weight=s, offset=b, fit_intercept=fit_intercept,
            coef=start[0], intercept=start[1], tol=tol, max_passes=max_passes, verbose=verbose,
        )  # fmt: skip
        return solution
    from cyclade.linear.penalty_bound import bind
    from cyclade.linear.problem import Problem
    from cyclade.linear.starts.continuation import approach
    from cyclade.linear.working_set import begin, minimise

    problem = Problem(design, y, s, b, loss, bind(penalty, design.p), fit_intercept)
    x0 = np.zeros(design.p) if start[0] is None else start[0]
    state = begin(problem, x0, float(start[1] or 0.0) if fit_intercept else 0.0)
    if not x0.any():
        approach(problem, state, penalty, max_passes)
    certificate = minimise(problem, state, tol, max_passes, printer(verbose))
    return as_solution(state, certificate, design)


def as_solution(state: Any, certificate: Certificate, design: Design) -> Solution:
    """What a caller gets, in the precision of X."""
    return Solution(
        state.x.astype(design.given, copy=True), float(state.c), state.measured.objective,
        certificate, state.passes, state.working, state.history,
    )  # fmt: skip


def printer(verbose: bool) -> Any:
    """A function that prints a row of the history, or does nothing."""

    def show(row: dict[str, float]) -> None:
        if verbose:
            print("  ".join(f"{name} {value:.6g}" for name, value in row.items()))

    return show


def own_engine(loss: Loss, penalty: Any, y: Array) -> tuple[Any, Any] | None:
    """How to fit and to follow a path where r or φ does not fall apart into single coordinates.

    None where it does: then the scalar engine takes it.
    """
    if isinstance(penalty, penalties.BlockPenalty) or y.ndim > 1 or loss.target == "classes":
        from cyclade.linear.blocks import path_blocks, solve_blocks

        return solve_blocks, path_blocks
    if isinstance(penalty, penalties.Slope):
        from cyclade.linear.sorted_l1 import path_slope, solve_slope

        return solve_slope, path_slope
    return None


def as_penalty(penalty: Any, lam: float | None) -> Any:
    """A penalty by name and λ, or the object itself."""
    if isinstance(penalty, str):
        if lam is None:
            raise ValueError(f"lam: penalty {penalty!r} by name needs a λ, such as lam=0.1")
        return penalties.get(penalty, lam)
    if lam is not None:
        raise ValueError("lam: it can only be given with a penalty by name")
    if isinstance(penalty, type):
        raise ValueError(f"penalty: give an object, {penalty.__name__}(...), not the class")
    return penalty


def as_data(
    design: Design, y: Any, loss: Loss, sample_weight: Any, offset: Any
) -> tuple[Array, Array, Array]:
    """Checked y, weights that sum to one, and the offset, in float64."""
    n = design.n
    y = np.asarray(y)
    if y.dtype.kind not in "fiub":
        raise ValueError(f"y: must hold real numbers, got dtype {y.dtype}")
    if y.ndim not in (1, 2) or len(y) != n:
        raise ValueError(f"y: X has {n} rows, so y must have shape ({n},), got {y.shape}")
    if loss.target != "classes":
        y = y.astype(np.float64)
    if not np.isfinite(y).all():
        raise ValueError("y: must hold finite numbers; it has NaN or infinity")
    loss.check(y)
    s = np.ones(n) if sample_weight is None else np.array(sample_weight, np.float64)
    if s.ndim == 0:
        s = np.full(n, float(s))
    if s.shape != (n,):
        raise ValueError(f"sample_weight: must have shape ({n},), got {s.shape}")
    if not (np.isfinite(s).all() and (s >= 0).all() and s.sum() > 0):
        raise ValueError("sample_weight: must be finite, not negative, and not all zero")
    b = np.zeros(y.shape[:1]) if offset is None else np.array(offset, np.float64)
    if offset is not None and (b.shape[:1] != (n,) or b.ndim > 2 or not np.isfinite(b).all()):
        raise ValueError(f"offset: must be finite, one per row of X ({n}), got shape {b.shape}")
    return y, s / s.sum(), b


def as_numbers(tol: float, max_passes: int) -> None:
    """Raise ValueError unless tol ≥ 0 and max_passes ≥ 1."""
    if not (np.isscalar(tol) and 0 <= float(tol) < np.inf):  # type: ignore[arg-type]
        raise ValueError(f"tol: must be a finite number >= 0, got {tol!r}")
    if int(max_passes) != max_passes or max_passes < 1:
        raise ValueError(f"max_passes: must be a whole number >= 1, got {max_passes!r}")


def as_start(design: Design, y: Array, coef: Any, intercept: Any) -> tuple[Any, Any]:
    """Checked starting points, or None where none was given."""
    if coef is not None:
        coef = np.array(coef, np.float64)
        if coef.shape[:1] != (design.p,) or coef.ndim > 2:
            raise ValueError(
                f"coef: X has {design.p} columns, so a start must have as many rows, "
                f"got shape {coef.shape}"
            )
        if not np.isfinite(coef).all():
            raise ValueError("coef: must hold finite numbers")
    if intercept is not None:
        intercept = np.array(intercept, np.float64)
        if not np.isfinite(intercept).all():
            raise ValueError("intercept: must be finite")
    return coef, intercept
