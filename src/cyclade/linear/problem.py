"""min over (x, c) of Σ_i s_i φ(y_i, z_i) + r(x),  z = Xx + c + offset,  with Σ s_i = 1.

z is (n,), or (n, T) for T outputs. x is one flat vector in the order of the bound penalty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import limits, numerics
from cyclade.linear.checks import as_data, in_chunks, is_constant
from cyclade.linear.kernels.smooth_losses import GAMMA, LOGISTIC, POISSON
from cyclade.linear.loss_at import LossAt, by_rows, loss_at
from cyclade.linear.losses import Gamma, Logistic, Loss, Poisson
from cyclade.linear.panels.dense import DenseDesign
from cyclade.linear.panels.protocols import Design
from cyclade.linear.panels.sparse import SparseDesign
from cyclade.linear.penalties import is_separable
from cyclade.linear.penalty_bound import BoundBlocks, BoundPenalty, bind
from cyclade.linear.screening import Gradient, Reader
from cyclade.linear.tuning import DEFAULT, Tuning

Array = NDArray[Any]
CODES: dict[type, int] = {Logistic: LOGISTIC, Poisson: POISSON, Gamma: GAMMA}


@dataclass
class Problem:
    """A design, targets, weights that sum to one, a loss and a penalty; checked beforehand."""

    design: Design
    y: Array
    s: Array
    offset: Array  # in the shape of z
    loss: Loss
    penalty: BoundPenalty
    fit_intercept: bool
    tuning: Tuning = DEFAULT
    reader: Reader | None = None  # of gradients; one serves every penalty along a path

    @property
    def size(self) -> int:
        """The number of entries of x."""
        return self.design.p * self.penalty.T

    @property
    def entries(self) -> int:
        """Those of X that are stored."""
        return self.design.entries

    @property
    def dtype(self) -> np.dtype[Any]:
        """What X is worked on in."""
        return self.design.dtype

    @property
    def code(self) -> int | None:
        """The number that kernels know the loss by, if they do: a subclass may change what φ is."""
        return CODES.get(type(self.loss))

    @cached_property
    def has_offset(self) -> bool:
        """Whether the offset is anywhere other than zero."""
        return bool(self.offset.any())

    @cached_property
    def has_dual(self) -> bool:
        """Whether a duality gap can be had: conjugates of both parts, and room around zero."""
        return bool(self.loss.convex and hasattr(self.loss, "conjugate") and self.penalty.has_dual)

    @cached_property
    def weights(self) -> Array:
        """s, but not zero anywhere: a row's z must keep its place in a residual."""
        return np.maximum(self.s, numerics.FLAT / self.s.size)

    @property
    def is_tall(self) -> bool:
        """Whether X has no fewer rows than columns."""
        return self.design.n >= self.design.p

    @cached_property
    def units(self) -> Array | None:
        """What distances of blocks are multiplied by; None: 1 for all.

        λ says what a gradient in a penalised column is measured by. In an unpenalised one it has
        the units of that column, so it is measured as if its norm were that of the others.
        """
        free = self.penalty.unpenalised.any()
        return units_of(self.penalty, self.design.norms()) if free else None

    @cached_property
    def null(self) -> Null:
        """The null model, the same for every penalty."""
        return Null(self)

    @property
    def null_gradient(self) -> Array:
        """At x = 0 and the best intercept, by features."""
        return self.null.gradient

    def at(self, penalty: Any) -> Problem:
        """The same problem with another penalty of the same kind, as along a path."""
        other = replace(self, penalty=self.penalty.at(penalty))
        other.has_offset = self.has_offset
        for known in ("null", "units"):
            if known in self.__dict__:
                setattr(other, known, getattr(self, known))
        return other

    def with_loss(self, loss: Loss) -> Problem:
        """The same problem with another loss."""
        return replace(self, loss=loss, reader=None)

    def correlate(self, v: Array) -> Array:
        """Xᵀv, flat in the order of the penalty."""
        return self.penalty.by_blocks(self.design.correlate(v))

    def gradient(self, v: Array, x: Array) -> Gradient:
        """Xᵀv; for scalar penalties, columns screened out by a safe bound at x are skipped."""
        if not self.penalty.is_scalar:
            return Gradient(None, v, self.correlate(v))
        if self.reader is None:
            self.reader = Reader(self.design)
        return self.reader.at(v, x, self.penalty.zero_threshold)

    def loss_at(self, z: Array) -> LossAt:
        """The loss at z."""
        return loss_at(self.loss, self.y, self.s, z)

    def predict(self, x: Array, c: Any, support: Array | None = None) -> Array:
        """z, computed afresh; `support`, if it is known, holds all columns where x is not zero."""
        z = self.design.predict(self.penalty.by_features(x), support)
        z = z.reshape(self.offset.shape)
        if self.has_offset:
            z += self.offset
        if self.fit_intercept:
            z += c
        return z

    def settle(self, x: Array, c: Any) -> tuple[LossAt, Any]:
        """The loss at x with the intercept that is best there, near c; and that intercept."""
        return self.shifted(self.predict(x, c), c)

    def shifted(self, z: Array, c: Any, here: LossAt | None = None) -> tuple[LossAt, Any]:
        """The loss once the intercept c, part of z, is optimal (safe Newton); and c then."""
        total: Any = 0.0 if self.offset.ndim == 1 else np.zeros(self.offset.shape[1])
        before = np.inf
        if here is None:
            here = self.loss_at(z)
        if not self.fit_intercept:
            return here, c
        if self.loss.quadratic and self.offset.ndim == 1:  # φ'' = 1, and weights sum to one
            total = -float(here.slopes.sum())
            return (self.loss_at(z + total), c + total) if total else (here, c)
        for _ in range(limits.CYCLES):
            slope, left = imbalance(here)
            if (
                left <= numerics.SUM or 0.5 * before < left <= numerics.SOLVED
            ):  # the latter is rounding
                break
            before = left
            d = self._shift(here, slope)
            for _ in range(limits.STEPS):
                there = self.loss_at(z + (total + d))
                # Values of many rows are rounded too coarsely to tell small steps apart; slopes of
                # a convex loss are not, and where those or the gain are tiny, any step is.
                better = self.loss.convex and imbalance(there)[1] < left
                tiny = left <= numerics.ROOT or np.max(np.abs(d * slope)) <= numerics.SUM * abs(
                    here.value
                )
                if better or tiny or there.value <= here.value:
                    break
                d = 0.5 * d
            else:
                break
            here, total = there, total + d
            if np.all(np.abs(d) <= numerics.EPS * (1.0 + np.abs(total))):
                break
        if z.ndim == 1:
            total = float(total)
        return here, c + total if np.any(total) else c

    def gradient_at(self, x: Array, c: Any) -> Array:
        """That of the loss in x at (x, c), by features."""
        return np.asarray(self.design.correlate(self.loss_at(self.predict(x, c)).slopes))

    def slope(self, loss_at: LossAt) -> Any:
        """The derivative in the intercept: a number or (T,), zero where there is none."""
        if self.offset.ndim == 1:
            return float(loss_at.balance[0]) if self.fit_intercept else 0.0
        return loss_at.balance[0] * float(self.fit_intercept)

    def _shift(self, here: Any, slope: Any) -> Any:
        """A Newton step of the intercept."""
        if self.loss.softmax:
            H = np.diag(self.s @ here.p) - here.p.T @ by_rows(self.s, here.p)
            H += np.trace(H) / len(H) ** 2  # moving all classes alike changes nothing
            H.flat[:: len(H) + 1] += numerics.SOLVED * np.trace(H) + numerics.TINY
            return np.linalg.solve(H, -slope)
        bend = self.s @ here.second if self.loss.convex else np.zeros_like(slope)
        if not np.all(bend > 0):
            bend = np.where(bend > 0, bend, self.s @ self.loss.majoriser(self.y, here.z))
        if self.offset.ndim == 2:
            bend = np.maximum(bend, numerics.FLAT * float(bend.max()))
        return -slope / np.maximum(bend, numerics.TINY)


def units_of(penalty: BoundPenalty, norms: Array) -> Array:
    """The median norm of penalised columns over that of each unpenalised one; 1 for the others."""
    free = penalty.unpenalised
    if isinstance(penalty, BoundBlocks) and penalty.size > 1:
        order = slice(None) if penalty.order is None else penalty.order
        norms = np.maximum.reduceat(norms[order], penalty.starts[:-1])
    others = norms[~free & (norms > 0)]
    others = others if others.size else norms[norms > 0]
    units = np.ones(free.size)
    typical = np.median(others) if others.size else 1.0
    np.divide(typical, norms, out=units, where=free & (norms > 0))
    return units


def imbalance(loss_at: LossAt) -> tuple[Any, float]:
    """The slope in the intercept, and the largest |Σ_i s_i φ'_i| / Σ_i |s_i φ'_i| of an output."""
    slope, size = loss_at.balance
    if loss_at.z.ndim == 1:
        return slope, abs(float(slope)) / max(float(size), numerics.TINY)
    with np.errstate(invalid="ignore"):  # too long a step may overflow: NaN is no improvement
        return slope, float(np.max(np.abs(slope) / np.maximum(size, numerics.TINY)))


def guess(problem: Problem) -> float:
    """The intercept of the null model without an offset, where a formula gives it; else 0."""
    if problem.code is None or not problem.fit_intercept:
        return 0.0
    mean = float(problem.s @ problem.y)
    odds = mean if problem.code != LOGISTIC else (1.0 + mean) / max(1.0 - mean, numerics.TINY)
    return math.log(odds) if numerics.ROOT < odds < 1.0 / numerics.ROOT else 0.0


class Null:
    """The null model, x = 0 with the best intercept: the scale of gaps, and λ_max."""

    def __init__(self, problem: Problem) -> None:
        self.design = problem.design  # not the problem: a cycle would outlive the fit
        start = np.zeros(problem.offset.shape[1:]) if problem.offset.ndim > 1 else guess(problem)
        self.loss_at, self.c = problem.shifted(problem.offset + start, start)
        self._free = problem.fit_intercept and not problem.has_offset

    @cached_property
    def scale(self) -> float:
        """Its loss above that of a perfect fit."""
        value, perfect = self.loss_at.value, self.loss_at.perfect
        return value - perfect if np.isfinite(perfect) else abs(value)

    @cached_property
    def explained(self) -> tuple[float, float]:
        """Sizes of loss and gradient at z = 0 if y is constant; else zeros."""
        at = self.loss_at
        if not (self._free and at.loss.target == "real" and is_constant(at.y)):
            return 0.0, 0.0
        zero = loss_at(at.loss, at.y, at.s, np.zeros_like(at.z))
        return abs(zero.value), float(np.abs(zero.slopes).sum()) or 1.0

    @cached_property
    def gradient(self) -> Array:
        """In x, by features: (p,) or (p, T)."""
        return np.asarray(self.design.correlate(self.loss_at.slopes))


def as_problems(
    design: Design, y: Any, loss: Loss, penalty: Any, data: tuple[Any, Any, bool],
    coef: Any = None, tuning: Tuning = DEFAULT,
) -> list[Problem]:  # fmt: skip
    """One problem, or one per output where nothing joins outputs; `coef` may know more classes."""
    sample_weight, offset, fit_intercept = data
    y, s, b = as_data(design.n, y, loss, sample_weight, offset)
    outputs = None if y.ndim == 1 else int(y.shape[1])
    if loss.target == "classes":
        outputs = int(y.max()) + 1
        if np.ndim(coef) == 2:
            outputs = max(outputs, np.shape(coef)[1])  # classes that happen to be absent from y
    if b.ndim == 2 and b.shape[1] != outputs:
        raise ValueError(f"offset: there are {outputs or 1} outputs, got shape {b.shape}")
    if outputs is not None and b.ndim == 1:
        b = np.repeat(b[:, None], outputs, axis=1)
    more = bool(fit_intercept), tuning
    if is_separable(loss, penalty, y.ndim):
        bound = bind(penalty, design.p)
        columns = [np.ascontiguousarray(part) for part in (y.T, b.T)]
        pairs = zip(*columns, strict=True)
        return [Problem(design, yt, s, bt, loss, bound, *more) for yt, bt in pairs]
    problem = Problem(design, y, s, b, loss, bind(penalty, design.p, outputs), *more)
    if offset is None:
        problem.has_offset = False  # no need to look
    return [problem]


def as_design(X: Any, uneven: bool = False, tuning: Tuning = DEFAULT) -> Design:
    """Wrap X after checking it; `uneven` says that rows will get very different weights."""
    if in_chunks(X):
        raise TypeError(
            f"X: a table in chunks ({type(X).__name__}) is not to be had here; use X in memory, "
            "or solve, path, their estimators or partial_fit"
        )
    if hasattr(X, "tocsc"):
        return SparseDesign(X, uneven, tuning)
    return DenseDesign(np.asarray(X), uneven, tuning)
