"""What `solve_rows` and `RowStream` share: blocks, steps and shapes by default."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cyclade._arrays import Array
from cyclade.linear.penalties import BlockPenalty
from cyclade.linear.stochastic.oracle import Features
from cyclade.linear.stochastic.steps import Curving, Growing, RowSteps, falling
from cyclade.methods import Method
from cyclade.samplers import Page, Sample

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


def is_early(k: int) -> bool:
    """Whether cycle k (from 1) takes a large sample whatever the coin says: cycles 8 and 64.

    The first cycles move far, and what they add to the error of a recursive gradient stays until it
    is refreshed: by chance, about √n cycles later. Two sure refreshes take that out.
    """
    return k in (8, 64)


class Early:
    """A sampler of the recursive methods with early refreshes; the rest is the one it wraps."""

    recursive = True

    def __init__(self, page: Page, draws: int, done: int = 0) -> None:
        self.page, self.draws = page, draws  # draws a cycle
        self.drawn = done * draws

    def large(self, rng: np.random.Generator) -> Sample:
        """b rows."""
        return self.page.large(rng)

    def draw(self, rng: np.random.Generator) -> tuple[Sample, bool]:
        """As the coin says, or a large sample early on."""
        sample, refresh = self.page.draw(rng)
        self.drawn += 1
        if not refresh and is_early(-(-self.drawn // self.draws)):
            return self.page.large(rng), True
        return sample, refresh

    def size(self, sample: Sample) -> float:
        """How many rows."""
        return self.page.size(sample)


def make_steps(
    kind: type[RowSteps], loss: Any, features: Features, penalty: Any, b_small: float, n: float,
    eta: Any, large: float,
) -> RowSteps:  # fmt: skip
    """Λ_j from the rows; where φ'' has no bound, from what is met. Samples of `large` rows tell."""
    even, bounded = isinstance(penalty, BlockPenalty), math.isfinite(loss.bound)
    bound = loss.bound if bounded else 1.0
    steps = (kind if bounded else Curving)(
        bound, features.layout.m, b_small, n, features.width, even, eta
    )
    if isinstance(steps, (Growing, Curving)):
        steps.large = large
    return steps


def null_intercept(loss: Any, y: Array, s: Array, offset: Array | None) -> Any:
    """Where to begin if φ'' has no bound: far from the best intercept steps would be of no use."""
    from cyclade.linear.api import solve
    from cyclade.linear.penalties import L1

    if math.isfinite(loss.bound) or y.ndim > 1:
        return None
    return solve(np.zeros((len(y), 1)), y, loss, L1(1.0), sample_weight=s, offset=offset).intercept


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
