"""What `solve_rows` and `RowStream` share: blocks, steps and shapes by default."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cyclade._arrays import Array
from cyclade.linear.oracle import Features
from cyclade.linear.penalties import BlockPenalty
from cyclade.linear.row_steps import RowSteps, falling
from cyclade.methods import Method
from cyclade.steps import Backtracking

BLOCKS = 10
"""How many blocks the features are cut into unless that is said."""


def default_blocks(penalty: Any, p: int, count: int = BLOCKS) -> Any:
    """`count` runs of columns; for a penalty on groups, `count` sets of whole groups."""
    if not isinstance(penalty, BlockPenalty):
        return min(count, p)
    order, starts = penalty.partition(p)
    groups = np.split(order, starts[1:-1])
    parts = np.array_split(np.arange(len(groups)), min(count, len(groups)))
    return [np.concatenate([groups[k] for k in part]) for part in parts]


def small_batches(b: int, b_small: int | None, p: float | None) -> tuple[int, float]:
    """b' and p of the recursive methods where they are not given: 2⌊√b⌋ and 2b'/(b + 2b').

    The paper's are ⌊√b⌋ and b'/(b + b'). A small step looks at two points, so with this p large and
    small steps cost the same on average; and with larger samples, refreshed more often, the steps
    of `lipschitz.diagonal` are stable from the first cycle on real, heavy-tailed rows.

    Example
    -------
    >>> small_batches(10_000, None, None)
    (200, 0.038...)
    """
    b_small = min(b, 2 * math.isqrt(b)) if b_small is None else b_small
    return b_small, 2 * b_small / (b + 2 * b_small) if p is None else p


def make_steps(
    kind: type[RowSteps], loss: Any, features: Features, penalty: Any, b_small: float, n: float,
    eta: Any,
) -> RowSteps | Backtracking:  # fmt: skip
    """Λ_j from the rows, or by backtracking where φ'' has no bound."""
    m = features.layout.m
    if not math.isfinite(loss.bound):
        return Backtracking([math.nan] * m, eta)
    even = isinstance(penalty, BlockPenalty)
    return kind(loss.bound, m, b_small, n, features.width, even, eta)


def default_eta(method: Method, cycles_per_epoch: float) -> Any:
    """1, falling where gradients stay noisy."""
    return falling(1.0, cycles_per_epoch) if method.draws == "minibatch" else 1.0


def count_outputs(loss: Any, y: Array, outputs: int | None) -> int | None:
    """T, or None where z is a vector."""
    if loss.target == "classes":
        return max(int(y.max()) + 1, outputs or 0)
    return int(y.shape[1]) if y.ndim == 2 else None


def shaped_offset(offset: Array, outputs: int | None) -> Array | None:
    """The offset in the shape of z, or None where it is zero."""
    if not offset.any():
        return None
    return offset[:, None] if outputs is not None and offset.ndim == 1 else offset


def read_point(features: Features, x: Any, dtype: Any) -> tuple[Array, Any]:
    """Coefficients and intercept, as copies."""
    coef, c = features.read(x)
    if features.outputs is None:
        return coef.astype(dtype), 0.0 if c is None else float(c[0])
    return coef.astype(dtype), np.zeros(features.outputs) if c is None else c.astype(dtype)
