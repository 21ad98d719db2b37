"""Quadratic models of the loss, and the panel that suits the data they are for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.blocks.panels import DenseGroups, Panel, SparseGroups
from cyclade.linear.blocks.problem import BlockProblem
from cyclade.linear.blocks.row_panels import SharedRows, SparseRows, WeightedRows

Array = NDArray[Any]

FLOOR = 1e-3
"""Weights are at least this fraction of a majoriser's (where there is one)."""
LEAST = 1e-10
"""Nor below this fraction of the largest."""


def model_weights(problem: BlockProblem, z: Array, damping: float) -> Array:
    """Curvatures (n, T) of the model at z: φ'', or those of a majoriser where φ is nonconvex."""
    upper = problem.majoriser(z)
    finite = np.isfinite(upper)
    w = np.maximum(problem.curvature(z), np.where(finite, FLOOR * upper, 0.0))
    if damping > 1.0:
        w = np.where(finite, np.minimum(damping * w, np.where(finite, upper, 0.0)), damping * w)
    return np.asarray(np.maximum(w, LEAST * float(w.max(initial=1e-300))))


def model_panel(problem: BlockProblem, w: Array) -> Panel:
    """A panel for weights w: (n,) shared by all outputs, or (n, T)."""
    design, reg, centred = problem.design, problem.reg, problem.fit_intercept
    dense = hasattr(design, "X")
    if problem.T == 1 and not reg.entrywise:
        w = w if w.ndim == 1 else np.ascontiguousarray(w[:, 0])
        if dense:
            return DenseGroups(design.X, reg.order, reg.starts, w, centred, reg.rotated)
        return SparseGroups(design, reg.order, reg.starts, w, centred, reg.rotated)
    if dense and w.ndim == 1 and not reg.entrywise:
        return SharedRows(design.X, problem.T, w, centred)
    if w.ndim == 1:
        w = np.ascontiguousarray(np.broadcast_to(w[:, None], (w.size, problem.T)))
    if dense:
        return WeightedRows(design.X, w, centred, reg)
    return SparseRows(design, w, centred, reg)
