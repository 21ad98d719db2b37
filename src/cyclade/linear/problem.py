"""min over (x, c) of Σ_i s_i φ(y_i, z_i) + r(x),  z = Xx + c + offset,  with Σ s_i = 1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.loss_at import LossAt, loss_at
from cyclade.linear.losses import Loss
from cyclade.linear.panels.protocols import Design
from cyclade.linear.penalties import formulas
from cyclade.linear.penalty_bound import BoundPenalty, bind
from cyclade.linear.screening import Gradient, Reader

Array = NDArray[Any]


@dataclass
class Problem:
    """A design, targets, weights that sum to one, a loss and a penalty; checked beforehand."""

    design: Design
    y: Array
    s: Array
    offset: Array
    loss: Loss
    penalty: BoundPenalty
    fit_intercept: bool
    null: float | None = None  # what `scale_of_gap` found: it is the same for every penalty
    reader: Reader | None = None  # of gradients, which are foretold from those under any penalty

    def gradient(self, v: Array, x: Array) -> Gradient:
        """Xᵀv; at a point x, columns that surely rest need not have been read."""
        if self.reader is None:
            self.reader = Reader(self.design)
        return self.reader.at(v, x, self.penalty.zero_threshold)

    @cached_property
    def cols(self) -> Array:
        """All coordinates."""
        return np.arange(self.design.p)

    @cached_property
    def has_offset(self) -> bool:
        """Whether the offset is anywhere other than zero."""
        return bool(self.offset.any())

    @cached_property
    def column_means(self) -> Array:
        """Xᵀs."""
        return self.design.correlate(self.s)

    @cached_property
    def dual_limits(self) -> tuple[Array, Array]:
        """How far v_j may go below and above zero with r_j*(v_j) finite."""
        if self.penalty.is_norm:
            return self.penalty.zero_threshold, self.penalty.zero_threshold
        kind, table = self.penalty.parameters
        down = up = np.broadcast_to(table[:, 0], self.design.p)
        if kind == formulas.BOXED:
            curved = table[:, 1] > 0
            down = np.where(curved | np.isfinite(table[:, 2]), math.inf, down)
            up = np.where(curved | np.isfinite(table[:, 3]), math.inf, up)
        return down, up

    def pulls(self, v: Array) -> Array:
        """Xᵀv, as far as it tells by how much a dual point must shrink."""
        return self.gradient(v, np.zeros(self.design.p)).g

    def excess(self, g: Array) -> float:
        """The largest τ with −g/τ not inside the domain of r*: how often too large g is."""
        from cyclade.linear.kernels.columns import excess

        down, up = self.dual_limits
        return float(excess(g, up, down))  # of −g, so the limits change places

    def conjugate(self, g: Array, factor: float) -> float:
        """r*(−factor · g), where that is finite."""
        return self.penalty.conjugates(g, -factor)

    @cached_property
    def has_dual(self) -> bool:
        """Whether a duality gap can be had: conjugates of both parts, and room around zero."""
        if not (self.loss.convex and hasattr(self.loss, "conjugate") and self.penalty.has_dual):
            return False
        if self.penalty.is_norm:  # the limits are λ_j, which a table may hold once for all
            return float(self.penalty.parameters[1][:, 0].min()) > 0
        return all(float(limit.min()) > 0 for limit in self.dual_limits)

    def at(self, penalty: Any) -> Problem:
        """The same problem with another penalty."""
        other = Problem(
            self.design, self.y, self.s, self.offset, self.loss,
            bind(penalty, self.design.p), self.fit_intercept, self.null, self.reader,
        )  # fmt: skip
        other.has_offset = self.has_offset
        return other

    def loss_at(self, z: Array) -> LossAt:
        """The loss around z."""
        return loss_at(self.loss, self.y, self.s, z)

    def predict(self, x: Array, c: float, support: Array | None = None) -> Array:
        """z, computed afresh; `support`, if it is known, holds all columns where x is not zero."""
        z = self.design.predict(x, support)
        if self.has_offset:
            z += self.offset
        if c != 0.0:
            z += c
        return z

    def stand(self, x: Array, c: float) -> tuple[LossAt, float]:
        """The loss at x with the intercept that is best there, near c; and that intercept."""
        loss_at = self.loss_at(self.predict(x, c))
        shift = self.best_shift(loss_at)
        return (self.loss_at(loss_at.z + shift), c + shift) if shift != 0.0 else (loss_at, c)

    def best_shift(self, here: LossAt) -> float:
        """The d that minimises Σ s_i φ(y_i, z_i + d): safeguarded Newton on one number."""
        if not self.fit_intercept:
            return 0.0
        z, total = here.z, 0.0
        for _ in range(50):
            slope, size = float(here.slopes.sum()), float(np.abs(here.slopes).sum())
            if abs(slope) <= 1e-15 * size:
                break
            bend = float(self.s @ here.second) if self.loss.convex else 0.0
            if not bend > 0:
                bend = max(float(self.s @ self.loss.majoriser(self.y, here.z)), 1e-300)
            d = -slope / bend
            for _ in range(40):
                there = self.loss_at(z + (total + d))
                if there.value <= here.value + 1e-15 * abs(here.value):
                    break
                d *= 0.5
            else:
                break
            here = there
            total += d
            if abs(d) <= 1e-16 * (1.0 + abs(total)):
                break
        return total
