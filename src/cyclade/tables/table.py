"""The problem over a table: what passes over it return, as the outer loop needs it.

min over (x, c) of Σ_i s_i φ(y_i, z_i) + r(x),  z = Xx + c + offset,  with Σ s_i = 1,

where rows stay where they are: the client holds x, sums, and nothing with n entries.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import limits, numerics
from cyclade.linear.kernels.block_gram import ONES
from cyclade.linear.losses import Loss
from cyclade.linear.penalty_bound import BoundPenalty
from cyclade.linear.problem import units_of
from cyclade.linear.quadratic import lowered
from cyclade.linear.state import exceeds, in_units
from cyclade.tables.chunks import Chunks, Sums
from cyclade.tables.passes import Column, Pass, RowCheck, unpacked
from cyclade.tables.tuning import DEFAULT, Tuning

Array = NDArray[Any]


class CheckedRows:
    """What `RowCheck` found: rows, weights, outputs."""

    def __init__(self, chunks: Chunks, loss: Loss, tuning: Tuning) -> None:
        look = RowCheck(Column(loss, None), tuning.chunk_sample if hasattr(loss, "width") else 1)
        sums = chunks.reduce(look, with_X=False)
        self.n, self.weight = int(sums["n"]), float(sums["weight"])
        if self.n == 0:
            raise ValueError("X: must have at least one row and one column")
        if not 0 < self.weight < np.inf:
            raise ValueError("sample_weight: at least one weight must not be zero")
        self.rows = [rows for _, rows in sorted(sums["list rows"])]
        self.some = np.array(sums["list some"])  # targets less offsets, of some rows
        shape = tuple(sums["most shape"])
        self.columns = shape[0] if shape else None  # of y
        self.classes = int(sums["most class"]) + 1
        self.has_offset = bool(sums["moved"])
        offset = sums["most offset"]
        self.offsets = offset[0] if offset else None  # columns of the offset


@dataclass
class TableMeasured:
    """A full check at (x, c), summed over all rows: everything the next step is chosen from."""

    x: Array
    c: Any
    g: Array  # ∇_x of the smooth part
    slope: Any  # in the intercept: a number, or (T,); zero where there is none
    distances: Array  # dist(−g, ∂r(x)) by blocks
    distance: float  # the largest of them, or of the intercept's slopes
    objective: float
    sums: Sums
    dual: float = -np.inf
    units: Array | None = None  # what distances are multiplied by; None: 1

    @property
    def certified(self) -> float:
        """The distance in units that do not depend on those of unpenalised columns."""
        return in_units(self, self.units)

    @property
    def value(self) -> float:
        """The loss."""
        return float(self.sums["value"])


class TableProblem:
    """Chunks, a loss and a bound penalty; arguments are checked beforehand."""

    def __init__(
        self, chunks: Chunks, column: Column, seen: CheckedRows, penalty: BoundPenalty,
        fit_intercept: bool, tuning: Tuning,
    ) -> None:  # fmt: skip
        self.chunks, self.column, self.seen, self.penalty = chunks, column, seen, penalty
        self.loss, self.fit_intercept, self.tuning = column.loss, fit_intercept, tuning
        self.dtype = np.dtype(np.float64)  # that is worked in
        self.counts = {"reads": 0}  # passes over X, also under other penalties and losses
        self.norms = np.empty(0)  # of columns, once read
        self.at_zero: Sums | None = None  # of a pass at x = 0 without an intercept

    def at(self, penalty: Any) -> TableProblem:
        """The same with another penalty of the same kind, as along a path."""
        other = copy(self)
        other.penalty = self.penalty.at(penalty)
        return other

    def with_loss(self, loss: Loss) -> TableProblem:
        """The same with another loss."""
        other = copy(self)
        column = self.column
        other.column = Column(loss, column.outputs, column.output, column.total)
        other.loss, other.at_zero = loss, None
        for cached in ("null", "null_gradient", "has_dual"):
            other.__dict__.pop(cached, None)
        return other

    @property
    def reads(self) -> int:
        """Passes over X so far."""
        return self.counts["reads"]

    @property
    def entries(self) -> int:
        """Of X, were it dense."""
        return self.seen.n * self.chunks.p

    @property
    def T(self) -> int:
        """Columns of z."""
        return self.column.outputs or 1

    @cached_property
    def has_dual(self) -> bool:
        """Whether a duality gap can be had."""
        convex = self.loss.convex and hasattr(self.loss, "conjugate")
        return bool(convex and self.penalty.has_dual)

    @cached_property
    def null(self) -> TableNull:
        """The null model, the same for every penalty."""
        return TableNull(self)

    @cached_property
    def null_gradient(self) -> Array:
        """At x = 0 and the best intercept, by features."""
        return self.gradient_at(np.zeros(self.chunks.p * self.penalty.T), self.null.c)

    def gradient_at(self, x: Array, c: Any) -> Array:
        """That of the loss in x at (x, c), by features."""
        return np.asarray(self.read(x, c)["g"])

    # --- passes over X --------------------------------------------------------------------------

    def run(self, x: Array, c: Any, **what: Any) -> Sums:
        """One pass at (x, c); `what` else is asked for, see `Pass`."""
        by_features = self.penalty.by_features(x).reshape(self.chunks.p, -1)
        cols = np.flatnonzero(by_features.any(axis=1))
        own = by_features[cols]
        if self.column.outputs is None:
            own = own[:, 0]
        self.counts["reads"] += 1
        task = Pass(self.column, self.tuning, cols, np.ascontiguousarray(own), c, **what)
        return self.chunks.reduce(task)

    def read(self, x: Array, c: Any, **what: Any) -> Sums:
        """A pass with the gradient, and with norms of columns if they are needed and not known."""
        unknown = self.needs_norms and not self.norms.size
        sums = self.run(x, c, squares=unknown, dual=self.has_dual, sides=self.fit_intercept, **what)
        if not (self.fit_intercept or x.any()):
            self.at_zero = sums
        if unknown:
            self.norms = np.sqrt(sums.pop("squares"))
        if not np.isfinite(self.norms if unknown else sums["g"]).all():
            self._refuse(x, c)
        return sums

    @property
    def needs_norms(self) -> bool:
        """For dual points that an intercept moves, and for distances of unpenalised columns."""
        return bool((self.has_dual and self.fit_intercept) or self.penalty.unpenalised.any())

    @property
    def units(self) -> Array | None:
        """What distances of blocks are multiplied by, as in memory; None before norms are read."""
        if not (self.norms.size and self.penalty.unpenalised.any()):
            return None
        return units_of(self.penalty, self.norms)

    def _refuse(self, x: Array, c: Any) -> None:
        """Raise ValueError if X has NaN or infinity, with the first column that has."""
        bad = np.flatnonzero(~np.isfinite(self.run(x, c, gradient=False, squares=True)["squares"]))
        if bad.size:
            raise ValueError(
                f"X: must hold finite numbers; it has NaN or infinity in column {bad[0]}"
                + (f" and {bad.size - 1} more" if bad.size > 1 else "")
                + ": fill or drop them (fillna, dropna, an imputer)"
            )

    def reading(self, x: Array, c: Any, sums: Sums) -> TableMeasured:
        """What a pass at (x, c) says."""
        g = self.penalty.by_blocks(sums["g"])
        distances, distance, r, finite = self.penalty.check(x, g)
        if not (finite and np.isfinite(sums["value"])):
            raise FloatingPointError("the gradient overflowed: X or y hold numbers too large")
        slope = sums["slope"] if self.fit_intercept else 0.0 * sums["slope"]
        if self.fit_intercept:
            distance = max(distance, float(np.max(np.abs(slope))))
        objective = float(sums["value"] + r)
        found = TableMeasured(x, c, g, slope, distances, float(distance), objective, sums)
        found.units = self.units
        if self.has_dual:
            found.dual = dual_value(self, found)
        return found


class TableNull:
    """The null model, x = 0 with the best intercept, from passes that do not read X.

    Without an intercept a pass at x = 0 has all of it.
    """

    explained = 0.0, 0.0  # whether y is constant is not looked at

    def __init__(self, table: TableProblem) -> None:
        self.c: Any = 0.0 if table.column.outputs is None else np.zeros(table.T)
        known = table.at_zero is not None and table.has_dual
        sums: Any = table.at_zero if known else self._minimised(table)
        self.value, perfect = float(sums["value"]), np.inf
        if "dual" in sums:
            perfect = float(sums["dual"][:, 2].sum())  # φ*(0) is −min φ
        self.scale = self.value + perfect if np.isfinite(perfect) else abs(self.value)

    def _minimised(self, table: TableProblem) -> Sums:
        """The sums at the best intercept, by Newton's method."""
        sums = self._at(table, self.c)
        for _ in range(limits.STEPS if table.fit_intercept else 0):
            slope = sums["slope"]
            if not exceeds(slope, numerics.SOLVED * sums["size"]):
                break
            if table.loss.softmax:
                d = -pseudo_inverse(unpacked(sums["products"], table.T, table.T)[0]) @ slope
            else:
                bend = np.maximum(sums["products"][:, 0], numerics.TINY)
                d = -slope / (bend if np.ndim(slope) else float(bend[0]))
            for _ in range(limits.STEPS):
                new = self._at(table, self.c + d)
                if lowered(sums["value"], 0.0, 1.0, new["value"]):
                    break
                d = 0.5 * d
            else:
                break
            sums, self.c = new, self.c + d
        return sums

    @staticmethod
    def _at(table: TableProblem, c: Any) -> Sums:
        """The loss at x = 0 with its slope in the intercept, and the product of ones with ones."""
        dual = table.loss.convex and hasattr(table.loss, "conjugate")
        task = Pass(table.column, table.tuning, np.empty(0, np.int64), np.empty(0), c, dual=dual,
                    new=np.array([ONES]))  # fmt: skip
        return table.chunks.reduce(task, with_X=False)


def pseudo_inverse(H: Array) -> Array:
    """Of a symmetric matrix, eigenvalues that are rounding left out."""
    return np.asarray(np.linalg.pinv(H, hermitian=True, rcond=DEFAULT.pseudo_inverse))


def dual_value(table: TableProblem, now: TableMeasured) -> float:
    """A lower bound on D(θ) at a feasible θ = t (φ' − part of the entries of one sign).

    With an intercept Σ s_i θ_i = 0 is required: the entries of the sign that weighs more are shrunk
    by a factor 1 − q, so |a_j·(s(θ − φ'))| ≤ q ‖a_j‖ ‖φ'‖ over these entries bounds what the
    gradient changes by. Then θ is shrunk until −Xᵀ(sθ) lies in the domain of r*. φ* is convex and
    known at three points of [0, φ'], so chords bound it.
    """
    sums, penalty = now.sums, table.penalty
    sides = sums["dual"]
    parts = np.zeros(len(sides))
    moved = np.zeros_like(now.g)
    if table.fit_intercept and exceeds(now.slope, numerics.SOLVED * sums["size"]):
        if table.column.outputs is not None:
            return -np.inf  # the next model brings the slopes to zero
        q = abs(now.slope) / (0.5 * (sums["size"] + abs(now.slope)))
        heavier = 0 if now.slope > 0 else 1
        parts[heavier] = q
        moved = penalty.by_blocks(q * np.sqrt(sides[heavier][4]) * table.norms)
    g = now.g + np.copysign(moved, now.g)
    other = np.where(np.abs(now.g) < moved, -np.copysign(moved, now.g), 0.0)
    over = max(penalty.excess(g), penalty.excess(other) if moved.any() else 0.0)
    t = 1.0 if over <= 1.0 else (1.0 - numerics.SUM) / over
    part = table.tuning.chunk_dual_part
    value = 0.0
    for side, q in zip(sides, parts, strict=True):
        value -= chord(side[:3], t * (1.0 - q), part)
        value += t * (1.0 - q) * float(side[3])
    value -= penalty.conjugate(g, t)
    if moved.any():
        value -= penalty.conjugate(other, t)
    return float(value) if np.isfinite(value) else -np.inf


def chord(known: Array, t: float, part: float) -> float:
    """A bound from above on a convex function at t from its values at 1, `part` and 0.

    >>> float(chord(np.array([1.0, 0.25, 0.0]), 0.75, 0.5))  # of t²
    0.625
    """
    if t >= part:
        return float(known[1] + (known[0] - known[1]) * ((t - part) / (1.0 - part)))
    return float(known[2] + (known[1] - known[2]) * (t / part))
