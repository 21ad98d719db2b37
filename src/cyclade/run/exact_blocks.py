"""Cycles in which the user minimises F over a block exactly, in place of a prox-gradient step.

Line 7 of the algorithm becomes x_k^j = argmin F over block j, the others as they are. The loop is
the same: `BlockMinimiser` stands where the prox stands, and `WithoutGradient` gives a sweep that
has no gradient to compute.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cyclade._arrays import Array, all_finite, kind
from cyclade.blocks import Point
from cyclade.regularisers import PerBlock
from cyclade.sampling.samplers import Sample
from cyclade.steps import LineSearchError


class BlockMinimiser:
    """r whose "prox" is the user's ``block_min(j, x)`` at the current point."""

    def __init__(self, block_min: Callable[[int, Any], Any], regs: PerBlock) -> None:
        self.block_min, self.regs = block_min, regs.regs
        self.x: Point | None = None  # the point that the run moves
        self.value, self.distance = regs.value, regs.distance
        self.exact_distance, self.convex = regs.exact_distance, regs.convex

    def prox(self, j: int, u: Array, t: Any) -> Array:
        """The minimiser of F over block j."""
        assert self.x is not None
        new = self.block_min(j, self.x.view())
        like = self.x.leaves[0]
        if kind(like) == "numpy":
            new = np.array(new, dtype=like.dtype)
        shape = self.x.layout.block_shapes[j]
        if kind(new) != kind(like) or tuple(new.shape) != shape:
            raise ValueError(
                f"block_min must return block {j} with shape {shape}, "
                f"got {tuple(getattr(new, 'shape', ())) or type(new).__name__}"
            )
        if not (all_finite(new) and self.value(j, new) < math.inf):
            name = self.x.layout.names[j]
            raise LineSearchError(
                f"block_min left the domain of its regulariser in block {name!r}, where F is not "
                "finite: it must return the minimiser of F over its block"
            )
        return new


class WithoutGradient:
    """An oracle whose sweeps leave gradients out; it is evaluated as it is."""

    def __init__(self, oracle: Any) -> None:
        self.oracle = oracle

    def sweep(self, x: Any, sample: Sample) -> _Still:
        """A sweep with nothing to compute."""
        return _Still(x, self.oracle, sample)

    def evaluate(self, x: Any, sample: Sample) -> tuple[float, list[Array]]:
        """f and its gradient."""
        evaluated: tuple[float, list[Array]] = self.oracle.evaluate(x, sample)
        return evaluated


class _Still:
    def __init__(self, x: Any, oracle: Any, sample: Sample) -> None:
        self.get, self.set = x.get, x.set
        self._x, self._oracle, self._sample = x, oracle, sample

    def grad(self, j: int) -> float:
        return 0.0

    def value(self) -> float:
        return float(self._oracle.sweep(self._x, self._sample).value())
