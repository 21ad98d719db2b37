"""Between the front doors and the engine: problems from arguments, results from states."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.blocks.engine import State
from cyclade.linear.blocks.problem import BlockProblem
from cyclade.linear.blocks.regs import Entries, Norms
from cyclade.linear.certificate import Certificate
from cyclade.linear.losses import Loss, Multinomial
from cyclade.linear.penalties import BlockPenalty, Rows
from cyclade.linear.solve import Solution

Array = NDArray[Any]


def separable(loss: Loss, penalty: Any, y: Array) -> bool:
    """Whether the outputs have nothing to do with one another: neither loss nor penalty joins."""
    return y.ndim == 2 and loss.target != "classes" and not isinstance(penalty, BlockPenalty)


def as_problem(
    design: Any, y: Array, loss: Loss, penalty: Any, s: Array, offset: Array,
    fit_intercept: bool, coef: Array | None,
) -> BlockProblem:  # fmt: skip
    """The problem, after checks that take the loss and the penalty together."""
    if loss.target == "classes":
        T = int(y.max()) + 1
        if coef is not None and coef.ndim == 2:
            T = max(T, coef.shape[1])  # classes that happen to be absent from y
    else:
        T = 1 if y.ndim == 1 else y.shape[1]
    reg = as_reg(penalty, design.p, T)
    if offset.ndim == 2 and offset.shape[1] != T:
        raise ValueError(f"offset: there are {T} outputs, got shape {offset.shape}")
    b = np.zeros((design.n, T)) + (offset[:, None] if offset.ndim == 1 else offset)
    return BlockProblem(design, y, s, b, loss, reg, bool(fit_intercept), T)


def as_reg(penalty: Any, p: int, T: int) -> Any:
    """The penalty as the engine sees it."""
    if isinstance(penalty, BlockPenalty):
        if T > 1 and not isinstance(penalty, Rows):
            raise ValueError(
                f"penalty: {type(penalty).__name__} is for one output, but there are {T}; "
                "use Rows or a penalty on single coefficients"
            )
        return Norms(penalty, p, T)
    if hasattr(penalty, "kind"):
        return Entries(penalty, p, T)
    raise TypeError(
        f"penalty: {type(penalty).__name__} cannot be used with several classes; "
        "use Rows or a shipped penalty on single coefficients"
    )


def as_start(problem: BlockProblem, coef: Array | None, intercept: Any) -> tuple[Array, Array]:
    """x (p, T) by features and c (T,), from what was given."""
    p, T = problem.design.p, problem.T
    x = np.zeros((p, T))
    if coef is not None:
        if coef.size != p * T:
            raise ValueError(f"coef: a start must have shape ({p}, {T}), got {coef.shape}")
        x[:] = coef.reshape(p, T)
    c = np.zeros(T)
    if intercept is not None and problem.fit_intercept:
        if np.size(intercept) not in (1, T):
            raise ValueError(f"intercept: there are {T} outputs, got {np.size(intercept)} numbers")
        c[:] = np.reshape(intercept, -1)
    return x, c


def coefficients(problem: BlockProblem, state: State) -> tuple[Array, Any]:
    """x by features in the precision of X, and c, in the shapes that a caller gets."""
    x = problem.by_features(state.x).astype(problem.design.given, copy=True)
    c = state.c.copy()
    if isinstance(problem.loss, Multinomial) and problem.fit_intercept:
        c -= c.mean()  # probabilities do not change; of all that are as good, one is returned
    flat = problem.T == 1 and problem.y.ndim == 1 and problem.loss.target != "classes"
    return (x[:, 0], float(c[0])) if flat else (x, c)


def as_solution(problem: BlockProblem, state: State, certificate: Certificate) -> Solution:
    """What a caller gets."""
    assert state.measured is not None
    starts, order = problem.reg.starts // problem.T, problem.reg.order
    inside = np.zeros(starts.size - 1, bool)
    inside[state.working] = True
    columns = np.sort(order[np.repeat(inside, np.diff(starts))])
    return Solution(
        *coefficients(problem, state), state.measured.objective, certificate, state.passes, columns,
        state.history,
    )  # fmt: skip


def by_output(
    design: Any, y: Array, loss: Loss, penalty: Any, *, sample_weight: Array, offset: Array,
    fit_intercept: bool, coef: Array | None, intercept: Any, tol: float, max_passes: int,
    verbose: bool,
) -> Solution:  # fmt: skip
    """Outputs that nothing joins, one after another; objectives and gaps add up."""
    from cyclade.linear.solve import solve

    T, X = y.shape[1], as_matrix(design)
    fits = [
        solve(
            X, y[:, t], loss, penalty, sample_weight=sample_weight,
            offset=offset if offset.ndim == 1 else offset[:, t], fit_intercept=fit_intercept,
            coef=None if coef is None else coef.reshape(design.p, T)[:, t],
            intercept=None if intercept is None else np.broadcast_to(intercept, T)[t],
            tol=tol, max_passes=max_passes, verbose=verbose,
        )
        for t in range(T)
    ]  # fmt: skip
    kinds = [fit.certificate for fit in fits]
    together = sum if kinds[0].kind == "gap" else max
    certificate = Certificate(
        kinds[0].kind,
        float(together(c.value for c in kinds)),
        float(together(c.tolerance for c in kinds)),
    )
    if certificate.reached and not all(c.reached for c in kinds):
        worst = max(kinds, key=lambda c: c.value - c.tolerance)
        certificate = worst
    working = np.unique(np.concatenate([fit.working_set for fit in fits]))
    return Solution(
        np.stack([fit.coef for fit in fits], axis=1), np.array([fit.intercept for fit in fits]),
        float(sum(fit.objective for fit in fits)), certificate, sum(fit.passes for fit in fits),
        working, [row for fit in fits for row in fit.history],
    )  # fmt: skip


def as_matrix(design: Any) -> Any:
    """X again, without a copy."""
    if hasattr(design, "X"):
        return design.X
    from scipy.sparse import csc_array

    rows, starts = (a.view(f"i{a.dtype.itemsize}") for a in (design.rows, design.starts))
    return csc_array((design.data, rows, starts), shape=(design.n, design.p))
