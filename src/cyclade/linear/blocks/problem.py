"""min over (x, c) of Σ_i s_i φ(y_i, z_i) + r(x) with r on blocks; z = Xx + c + offset is (n, T)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.losses import Loss, Squared

Array = NDArray[Any]


@dataclass
class BlockProblem:
    """Checked data; Σ s_i = 1. x is flat, block after block; z and φ' are (n, T)."""

    design: Any
    y: Array
    s: Array
    offset: Array  # (n, T)
    loss: Loss
    reg: Any
    fit_intercept: bool
    T: int

    @property
    def quadratic(self) -> bool:
        """Whether a quadratic model is exact."""
        return type(self.loss) is Squared

    @cached_property
    def gap_scale(self) -> float:
        """The loss of the null model (x = 0, best intercept) above that of a perfect fit."""
        z = self.offset + self.best_shift(self.offset)
        null = self.smooth(z)
        at_zero = np.asarray(self.loss.conjugate(self.y, self.shaped(np.zeros_like(z))))  # type: ignore[attr-defined]
        perfect = -float(self.s @ (at_zero if at_zero.ndim == 1 else at_zero.sum(axis=1)))
        return null - perfect if np.isfinite(perfect) else abs(null)

    def at(self, reg: Any) -> BlockProblem:
        """The same problem with another penalty of the same kind, as along a path."""
        other = replace(self, reg=reg)
        if self.has_dual and other.has_dual:
            other.gap_scale = self.gap_scale
        return other

    @cached_property
    def has_dual(self) -> bool:
        """Whether there is a duality gap to stop by."""
        return self.loss.convex and hasattr(self.loss, "conjugate") and bool(self.reg.has_dual)

    def shaped(self, z: Array) -> Array:
        """z as the loss wants it."""
        return z[:, 0] if self.y.ndim == 1 and self.loss.target != "classes" else z

    def smooth(self, z: Array) -> float:
        """Σ s_i φ(y_i, z_i)."""
        return float(self.s @ self.loss.value(self.y, self.shaped(z)))

    def gradient(self, z: Array) -> Array:
        """φ' (n, T)."""
        return np.asarray(self.loss.gradient(self.y, self.shaped(z))).reshape(z.shape)

    def curvature(self, z: Array) -> Array:
        """The weights of a quadratic model at z, (n, T), without those of the rows."""
        return np.asarray(self.loss.curvature(self.y, self.shaped(z))).reshape(z.shape)

    def majoriser(self, z: Array) -> Array:
        """Weights for which the model lies above, (n, T); infinite where there are none."""
        return np.asarray(self.loss.majoriser(self.y, self.shaped(z))).reshape(z.shape)

    def correlate(self, v: Array) -> Array:
        """Xᵀv, (p, T)."""
        if self.T > 1 and hasattr(self.design, "X"):  # one product reads X once
            return np.asarray((v.T.astype(self.design.dtype) @ self.design.X).T, np.float64)
        if self.T == 1:
            return np.asarray(self.design.correlate(np.ascontiguousarray(v[:, 0])))[:, None]
        return np.stack([self.design.correlate(np.ascontiguousarray(t)) for t in v.T], axis=1)

    @cached_property
    def reads_support(self) -> bool:
        """Whether `predict` reads no more of X than the columns of the support."""
        X = getattr(self.design, "X", None)
        return self.T == 1 and (X is None or bool(X.flags.f_contiguous))

    def predict(self, x: Array) -> Array:
        """Xx + offset, (n, T), for x by features."""
        if self.T > 1 and hasattr(self.design, "X"):
            support = np.flatnonzero(x.any(axis=1))
            few = 4 * support.size < len(x)
            X, x = (self.design.X[:, support], x[support]) if few else (self.design.X, x)
            return np.asarray(X @ x.astype(self.design.dtype) + self.offset, np.float64)
        X = getattr(self.design, "X", None)
        if X is not None and X.dtype == np.float64 and X.flags.f_contiguous:
            from cyclade.linear.blocks import dense

            support, z = np.flatnonzero(x[:, 0]), self.offset[:, 0].copy()
            dense.subtract(X.T, support, 0, support.size, z.size, -x[support, 0], z)
            return z[:, None]  # nothing but the support was read
        columns = [self.design.predict(np.ascontiguousarray(t)) for t in x.T]
        return np.stack(columns, axis=1) + self.offset

    def by_blocks(self, x: Array) -> Array:
        """A (p, T) matrix by features as one vector, block after block."""
        return np.ascontiguousarray(x if self.reg.identity else x[self.reg.order]).reshape(-1)

    def by_features(self, x: Array) -> Array:
        """The reverse."""
        x = x.reshape(-1, self.T)
        if self.reg.identity:
            return x
        out = np.empty_like(x)
        out[self.reg.order] = x
        return out

    def best_shift(self, z: Array) -> Array:
        """The d (T,) that minimises Σ s_i φ(y_i, z_i + d): safeguarded Newton, by outputs."""
        total = np.zeros(self.T)
        if not self.fit_intercept:
            return total
        value = self.smooth(z)
        for _ in range(100):
            u = self.gradient(z + total)
            slope, size = self.s @ u, self.s @ np.abs(u)
            if (np.abs(slope) <= 1e-15 * size).all():
                break
            bend = self.s @ self.curvature(z + total)
            d = -slope / np.maximum(bend, 1e-12 * float(bend.max()) + 1e-300)
            for _ in range(40):
                tried = self.smooth(z + (total + d))
                if tried <= value + 1e-15 * abs(value):
                    break
                d = 0.5 * d
            else:
                break
            value, total = tried, total + d
            if (np.abs(d) <= 1e-16 * (1.0 + np.abs(total))).all():
                break
        return total
