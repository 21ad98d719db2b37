"""Losses of labels: classification."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cyclade.linear.losses.base import BY_NAME, Array, Loss, namespace, rows

__all__ = ["Logistic", "Multinomial", "SquaredHinge"]


def expit(z: Array) -> Array:
    """1 / (1 + e^{−z}), to full relative accuracy in both tails."""
    e = np.exp(-abs(z))
    return np.asarray(np.where(z >= 0, 1.0, e) / (1.0 + e))


def softplus(t: Array) -> Array:
    """log(1 + e^t), without overflow."""
    xp = namespace(t)
    if xp is np:  # faster than logaddexp, which torch needs: |t| has no derivatives at 0
        return np.asarray(np.log1p(np.exp(-abs(t))) + np.maximum(t, 0.0))
    found: Array = xp.logaddexp(xp.zeros_like(t), t)
    return found


def xlogx(a: Array) -> Array:
    """a log a, 0 at 0."""
    xp = namespace(a)
    found: Array = a * xp.log(xp.where(a > 0, a, 1.0))
    return found


class _Signs(Loss):
    """A loss of labels y = ±1."""

    target = "signs"

    def check(self, y: Array) -> None:
        """Labels must be −1 or 1."""
        if not (abs(y) == 1).all():
            raise ValueError(f"{type(self).__name__}: y must hold labels -1 and 1")


@dataclass(frozen=True)
class Logistic(_Signs):
    """φ(y, z) = log(1 + e^{−yz}) for labels y = ±1.

    Examples
    --------
    >>> Logistic().gradient(np.array([1.0, -1.0]), np.zeros(2))
    array([-0.5, 0.5])
    """

    bound = 0.25
    flat = False

    def value(self, y: Array, z: Array) -> Array:
        """log(1 + e^{−yz}), without overflow."""
        return rows(softplus(-y * z))

    def gradient(self, y: Array, z: Array) -> Array:
        """−y / (1 + e^{yz})."""
        return -y * expit(-y * z)

    def curvature(self, y: Array, z: Array) -> Array:
        """p (1 − p) with p = 1/(1 + e^{−z})."""
        return expit(z) * expit(-z)

    def majoriser(self, y: Array, z: Array) -> Array:
        """tanh(z/2) / (2z), the tightest parabola above φ that touches it at z."""
        half = np.maximum(0.5 * abs(z), 1e-4)  # tanh(h)/h = 1 − h²/3, so the bound moves by 1e-9
        return np.asarray(np.where(abs(z) < 2e-4, 0.25, 0.25 * np.tanh(half) / half))

    def conjugate(self, y: Array, u: Array) -> Array:
        """With a = −yu: a log a + (1 − a) log(1 − a) where 0 ≤ a ≤ 1."""
        a = -y * u
        inside = (a >= 0) & (a <= 1)
        a = np.clip(a, 0.0, 1.0)
        return rows(np.where(inside, xlogx(a) + xlogx(1.0 - a), np.inf))

    def mean(self, z: Array) -> Array:
        """P(y = 1) = 1/(1 + e^{−z})."""
        return expit(z)


@dataclass(frozen=True)
class SquaredHinge(_Signs):
    """φ(y, z) = (1 − yz)₊² for labels y = ±1.

    Examples
    --------
    >>> SquaredHinge().value(np.array([1.0, -1.0]), np.array([2.0, 1.0]))
    array([0., 4.])
    """

    bound = 2.0

    def value(self, y: Array, z: Array) -> Array:
        """(1 − yz)₊²."""
        return rows((1.0 - y * z).clip(0.0) ** 2)

    def gradient(self, y: Array, z: Array) -> Array:
        """−2y (1 − yz)₊."""
        return np.asarray(-2.0 * y * np.maximum(1.0 - y * z, 0.0))

    def curvature(self, y: Array, z: Array) -> Array:
        """2 where yz < 1, else 0."""
        return 2.0 * np.asarray(y * z < 1.0, dtype=z.dtype)

    def conjugate(self, y: Array, u: Array) -> Array:
        """With a = −yu: a²/4 − a where a ≥ 0."""
        a = -y * u
        return rows(np.where(a >= 0, a * (0.25 * a - 1.0), np.inf))


@dataclass(frozen=True)
class Multinomial(Loss):
    """φ(y, z) = log Σ_k e^{z_k} − z_y for class codes y = 0, …, T − 1 and z of T entries.

    `curvature` is the diagonal 2 p_k (1 − p_k), which dominates the Hessian diag(p) − ppᵀ at z:
    that is the Laplacian of a graph with weights p_k p_l, and a Laplacian is below twice its
    diagonal. `bound` ½ is the largest eigenvalue the Hessian can have.

    Examples
    --------
    >>> Multinomial().gradient(np.array([0]), np.zeros((1, 2)))
    array([[-0.5, 0.5]])
    """

    bound = 0.5
    target = "classes"
    flat = False
    softmax = True

    def value(self, y: Array, z: Array) -> Array:
        """log Σ_k e^{z_k} − z_y."""
        top = z.max(axis=1, keepdims=True)
        own = np.take_along_axis(z, y.astype(np.intp)[:, None], axis=1)
        return np.asarray((np.log(np.exp(z - top).sum(axis=1, keepdims=True)) + top - own)[:, 0])

    def gradient(self, y: Array, z: Array) -> Array:
        """p − e_y."""
        p = self.mean(z)
        p[np.arange(len(p)), y.astype(np.intp)] -= 1.0
        return p

    def curvature(self, y: Array, z: Array) -> Array:
        """2 p_k (1 − p_k)."""
        p = self.mean(z)
        return np.asarray(2.0 * p * (1.0 - p))

    def conjugate(self, y: Array, u: Array) -> Array:
        """With p = u + e_y: Σ_k p_k log p_k where p lies in the simplex (to rounding)."""
        p = u.copy()
        p[np.arange(len(p)), y.astype(np.intp)] += 1.0
        rounding = 8.0 * p.shape[1] * np.finfo(p.dtype).eps
        inside = (p >= -rounding).all(axis=1) & (abs(p.sum(axis=1) - 1.0) <= rounding)
        return np.where(inside, xlogx(np.maximum(p, 0.0)).sum(axis=1), np.inf)

    def check(self, y: Array) -> None:
        """Codes must be whole numbers from 0."""
        if not (np.isfinite(y).all() and (y >= 0).all() and (y == np.floor(y)).all()):
            raise ValueError("Multinomial: y must hold class codes 0, 1, ..., T - 1")

    def mean(self, z: Array) -> Array:
        """Class probabilities p_k = e^{z_k} / Σ_l e^{z_l}."""
        e = np.exp(z - z.max(axis=1, keepdims=True))
        return np.asarray(e / e.sum(axis=1, keepdims=True))


BY_NAME.update({"logistic": Logistic, "squared_hinge": SquaredHinge, "multinomial": Multinomial})
