"""The panel that suits the data and the penalty of a quadratic model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.blocks.panels import DenseGroups, Panel, SparseGroups
from cyclade.linear.blocks.row_panels import SharedRows, SparseRows, WeightedRows
from cyclade.linear.problem import Problem

Array = NDArray[Any]


def model_panel(problem: Problem, w: Array) -> Panel:
    """A panel for weights w: (n,) shared by all outputs, or (n, T)."""
    design: Any = problem.design
    reg: Any = problem.penalty
    centred, T = problem.fit_intercept, reg.T
    dense = hasattr(design, "X")
    if T == 1 and not reg.entrywise:
        w = w if w.ndim == 1 else np.ascontiguousarray(w[:, 0])
        if dense:
            return DenseGroups(design.X, reg.columns, reg.starts, w, centred, reg.rotated)
        return SparseGroups(design, reg.columns, reg.starts, w, centred, reg.rotated)
    if dense and w.ndim == 1 and not reg.entrywise:
        return SharedRows(design.X, T, w, centred)
    if w.ndim == 1:
        w = np.ascontiguousarray(np.broadcast_to(w[:, None], (w.size, T)))
    if dense:
        return WeightedRows(design.X, w, centred, reg)
    return SparseRows(design, w, centred, reg)
