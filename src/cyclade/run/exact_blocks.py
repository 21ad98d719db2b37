"""Cycles in which the user minimises F over a block exactly, in place of a prox-gradient step.

Line 7 of the algorithm becomes x_k^j = argmin F over block j, the others as they are. The loop is
the same: `BlockMinimiser` stands where the prox stands, and `WithoutGradient` gives a sweep that
has no gradient to compute.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from cyclade._arrays import Array, all_finite, kind, norm2, rounding_unit
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


MOST_LOOKED_AT = 8  # blocks, at the end of a run that missed its tolerance


def not_minimised(exact: BlockMinimiser, oracle: Any, sample: Sample, x: Point) -> list[str]:
    """What to say where a step from what `block_min` returns lowers F more than it."""

    def objective(j: int, u: Array) -> tuple[float, Array]:
        there.set(j, u)
        value, gradient = oracle.evaluate(there, sample)
        return value + exact.value(j, u), gradient[j]

    running, there = exact.x, x.copy()
    try:
        for j in range(min(there.layout.m, MOST_LOOKED_AT)):
            before = there.layout.copy(there.get(j))
            exact.x = there
            at_x, _ = objective(j, before)
            u = exact.prox(j, before, 1.0)
            at_u, gradient = objective(j, u)
            length = math.sqrt(norm2(gradient))
            if length > 0.0:
                short = 1e-4 * (1.0 + math.sqrt(norm2(u))) / length
                bent = objective(j, u - short * gradient)[1] - gradient
                if norm2(bent) > 0.0:
                    step = short * length / math.sqrt(norm2(bent))
                    after, _ = objective(j, exact.regs[j].prox(u - step * gradient, step))
                    rounding = 1e3 * rounding_unit(u) * (abs(at_u) + abs(after))
                    if at_u - after > 2.0 * max(at_x - at_u, 0.0) + rounding:
                        return [
                            "block_min may not be the minimiser of block "
                            f"{there.layout.names[j]!r}: a step from it lowers F by "
                            f"{at_u - after:.3g}"
                        ]
            there.set(j, before)
    except LineSearchError:
        pass
    finally:
        exact.x = running
    return []


class WithoutGradient:
    """An oracle whose sweeps leave gradients out; it is evaluated as it is."""

    def __init__(self, oracle: Any) -> None:
        self.oracle, self.calls = oracle, oracle.calls

    def sweep(self, x: Any, sample: Sample) -> Any:
        """A sweep with nothing to compute."""

        def value() -> float:
            return float(self.oracle.sweep(x, sample).value())

        return SimpleNamespace(get=x.get, set=x.set, grad=lambda j: 0.0, value=value)

    def evaluate(self, x: Any, sample: Sample) -> tuple[float, list[Array]]:
        """f and its gradient."""
        evaluated: tuple[float, list[Array]] = self.oracle.evaluate(x, sample)
        return evaluated
