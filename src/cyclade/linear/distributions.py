"""Losses of further distributions and links: half deviances, or minus logarithms of likelihoods.

`cyclade.linear.losses.get` knows them by name, so `GeneralizedLinear("tweedie", "l1")` fits one.
"""
# ruff: noqa: D102 - the methods are documented where `Loss` has them

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cyclade._checks import positive, require
from cyclade.linear.losses import (
    FURTHER,
    Array,
    Gamma,
    Loss,
    Poisson,
    _LogLink,
    _Signs,
    demand,
    entropy,
    exp,
    expit,
    rows,
    softplus,
    xlogx,
)

__all__ = [
    "BY_NAME", "Binomial", "ComplementaryLogLog", "InverseGaussian", "NegativeBinomial", "Probit",
    "Tweedie",
]  # fmt: skip


@dataclass(frozen=True)
class Tweedie(_LogLink):
    """Half the Tweedie deviance of power 1 ≤ p ≤ 2 at the mean e^z, for y ≥ 0.

    φ = e^{(2−p)z}/(2 − p) + y e^{−(p−1)z}/(p − 1) − y^{2−p}/((p − 1)(2 − p)) for 1 < p < 2. Power 1
    is Poisson's, 2 the gamma distribution's (y > 0); between them zeros mix with positive amounts.

    Examples
    --------
    >>> Tweedie(1.5).gradient(np.array([1.0, 0.0]), np.zeros(2))
    array([0., 1.])
    """

    power: float = 1.5

    def __post_init__(self) -> None:
        require(1 <= self.power <= 2, "Tweedie: power", self.power, "between 1 and 2")

    def value(self, y: Array, z: Array) -> Array:
        p = self.power
        if p in (1.0, 2.0):
            return (Poisson() if p == 1.0 else Gamma()).value(y, z)
        best = y ** (2.0 - p) / ((p - 1.0) * (2.0 - p))
        return rows(exp((2.0 - p) * z) / (2.0 - p) + y * exp((1.0 - p) * z) / (p - 1.0) - best)

    def gradient(self, y: Array, z: Array) -> Array:
        return np.asarray(exp((2.0 - self.power) * z) - y * exp((1.0 - self.power) * z))

    def curvature(self, y: Array, z: Array) -> Array:
        p = self.power
        return (2.0 - p) * exp((2.0 - p) * z) + (p - 1.0) * y * exp((1.0 - p) * z)

    @property
    def zeros(self) -> bool:  # type: ignore[override]
        return self.power < 2.0


@dataclass(frozen=True)
class NegativeBinomial(_LogLink):
    """Half the deviance of counts with the mean μ = e^z and the variance μ + κμ².

    φ = (y + 1/κ) log((1 + κμ)/(1 + κy)) − y log(μ/y), κ = `dispersion`.

    Examples
    --------
    >>> NegativeBinomial(1.0).gradient(np.array([1.0, 3.0]), np.zeros(2))
    array([ 0., -1.])
    """

    dispersion: float = 1.0

    def __post_init__(self) -> None:
        positive("NegativeBinomial: dispersion", self.dispersion)

    def value(self, y: Array, z: Array) -> Array:
        a = self.dispersion
        t, k = z + np.log(a), y + 1.0 / a
        return rows(k * (softplus(t) - np.log1p(a * y)) - y * z + xlogx(y))

    def gradient(self, y: Array, z: Array) -> Array:
        a = self.dispersion
        return np.asarray((y + 1.0 / a) * expit(z + np.log(a)) - y)

    def curvature(self, y: Array, z: Array) -> Array:
        a = self.dispersion
        t = z + np.log(a)
        return np.asarray((y + 1.0 / a) * expit(t) * expit(-t))

    def conjugate(self, y: Array, u: Array) -> Array:
        """With q = (u + y)/(y + 1/κ): the entropy of q, where 0 ≤ q ≤ 1, and linear terms."""
        a = self.dispersion
        k = y + 1.0 / a
        low = k * np.log1p(a * y) - xlogx(y)  # φ = k softplus(z + log κ) − yz − low
        return rows(k * entropy((u + y) / k) - (u + y) * np.log(a) + low)


@dataclass(frozen=True)
class InverseGaussian(_LogLink):
    """Half the inverse Gaussian deviance (y − μ)²/(2yμ²) at the mean μ = e^z, for y > 0.

    It is not convex in z: a stationary point is found.

    Examples
    --------
    >>> InverseGaussian().value(np.array([1.0, 2.0]), np.zeros(2))
    array([0.  , 0.25])
    """

    convex = False
    zeros = False

    @np.errstate(over="ignore")  # a line search turns back from inf
    def value(self, y: Array, z: Array) -> Array:
        return rows(0.5 * y * (exp(-z) - 1.0 / y) ** 2)

    @np.errstate(over="ignore")  # a line search turns back from inf
    def gradient(self, y: Array, z: Array) -> Array:
        return np.asarray(exp(-z) * (1.0 - y * exp(-z)))

    def curvature(self, y: Array, z: Array) -> Array:
        """The larger of φ'' and its mean at μ, e^{−z}: line searches shorten what goes too far."""
        return np.maximum(self.second_derivative(y, z), exp(-z))

    @np.errstate(over="ignore")  # a line search turns back from inf
    def second_derivative(self, y: Array, z: Array) -> Array:
        return np.asarray(exp(-z) * (2.0 * y * exp(-z) - 1.0))


@dataclass(frozen=True)
class Binomial(Loss):
    """φ(y, z) = log(1 + e^z) − yz − H(y) for a part 0 ≤ y ≤ 1 of trials, with the logit link.

    H is the entropy: this is half the deviance of a trial. Give the numbers of trials as
    `sample_weight`.

    Examples
    --------
    >>> Binomial().gradient(np.array([0.5, 1.0]), np.zeros(2))
    array([ 0. , -0.5])
    """

    bound = 0.25
    flat = False

    def value(self, y: Array, z: Array) -> Array:
        return rows(softplus(z) - y * z + entropy(y))

    def gradient(self, y: Array, z: Array) -> Array:
        return np.asarray(expit(z) - y)

    def curvature(self, y: Array, z: Array) -> Array:
        return expit(z) * expit(-z)

    def conjugate(self, y: Array, u: Array) -> Array:
        """The entropies of u + y and of y apart, where 0 ≤ u + y ≤ 1."""
        return rows(entropy(u + y) - entropy(y))

    def check(self, y: Array) -> None:
        demand(self, y, (y >= 0) & (y <= 1), "between 0 and 1")

    def mean(self, z: Array) -> Array:
        return expit(z)


@dataclass(frozen=True)
class Probit(_Signs):
    """φ(y, z) = −log Φ(yz) for labels y = ±1, Φ the normal distribution function.

    Examples
    --------
    >>> Probit().value(np.array([1.0, -1.0]), np.zeros(2)).round(4)
    array([0.6931, 0.6931])
    """

    bound = 1.0
    flat = False

    def value(self, y: Array, z: Array) -> Array:
        from scipy.special import log_ndtr

        return rows(-log_ndtr(y * z))

    def _mills(self, s: Array) -> Array:
        """The density over Φ at s."""
        from scipy.special import log_ndtr

        return exp(-0.5 * s * s - 0.5 * np.log(2.0 * np.pi) - log_ndtr(s))

    def gradient(self, y: Array, z: Array) -> Array:
        return np.asarray(-y * self._mills(y * z))

    def curvature(self, y: Array, z: Array) -> Array:
        s = y * z
        m = self._mills(s)
        return np.asarray(np.clip(m * (m + s), 0.0, 1.0))

    def mean(self, z: Array) -> Array:
        """P(y = 1) = Φ(z)."""
        from scipy.special import ndtr

        return np.asarray(ndtr(z))


@dataclass(frozen=True)
class ComplementaryLogLog(_Signs):
    """Minus the logarithm of the likelihood of labels ±1 with P(y = 1) = 1 − exp(−e^z).

    Examples
    --------
    >>> ComplementaryLogLog().gradient(np.array([-1.0]), np.zeros(1))
    array([1.])
    """

    flat = False

    def value(self, y: Array, z: Array) -> Array:
        w = exp(z)
        with np.errstate(divide="ignore"):
            hit = np.where(z < -30.0, -z, -np.log(-np.expm1(-w)))
        return rows(np.where(y > 0, hit, w))

    def gradient(self, y: Array, z: Array) -> Array:
        w = np.maximum(exp(z), np.finfo(np.float64).tiny)
        return np.where(y > 0, w * exp(-w) / np.expm1(-w), w)

    def curvature(self, y: Array, z: Array) -> Array:
        w = np.maximum(exp(z), np.finfo(np.float64).tiny)
        miss, series = np.expm1(-w), 0.5 - w / 6.0  # the latter where the quotient cancels
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            quotient = np.where(w < 1e-3, series, exp(-w) * (w + miss) / (miss * miss))
        return np.where(y > 0, w * quotient, w)

    def mean(self, z: Array) -> Array:
        """P(y = 1) = 1 − exp(−e^z)."""
        return np.asarray(-np.expm1(-exp(z)))


BY_NAME: dict[str, type[Loss]] = {
    "tweedie": Tweedie, "negative_binomial": NegativeBinomial, "inverse_gaussian": InverseGaussian,
    "binomial": Binomial, "probit": Probit, "cloglog": ComplementaryLogLog,
}  # fmt: skip
FURTHER.update(BY_NAME)
