"""The sorted l1 norm: the larger a coefficient, the more it is penalised."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cyclade.linear.checks import between
from cyclade.linear.penalties.scalar import BY_NAME, Array, AtLam, nonnegative_vector

__all__ = ["Slope"]

SHAPES = ("bh", "oscar")


class Slope(AtLam):
    """The sorted l1 norm, r(x) = λ Σ_k w_k |x|_(k) with |x|_(1) ≥ |x|_(2) ≥ … and w_1 ≥ w_2 ≥ ….

    Coefficients of nearly equal effect are drawn together to exactly equal size (clusters), and
    with the weights of Benjamini and Hochberg selection controls the rate of false discoveries
    under orthogonal designs. Equal weights give the lasso.

    Parameters
    ----------
    lam : float
        λ ≥ 0.
    weights : {"bh", "oscar"} or decreasing sequence of p numbers ≥ 0, default="bh"
        "bh" is w_k = Φ⁻¹(1 − kq/2p) / Φ⁻¹(1 − q/2p), Φ the normal distribution function; "oscar"
        falls along a line, w_k = (p − k + 1)/p. None is "bh".
    q : float
        Of "bh": the rate, strictly between 0 and 1.

    Examples
    --------
    >>> penalty = Slope(1.0, weights=[3.0, 2.0, 1.0])
    >>> penalty.value([1.0, -4.0, 0.0])
    14.0
    >>> penalty.prox([6.0, -5.5, 0.5], 1.0)
    array([ 3.25, -3.25,  0.  ])
    >>> Slope(0.5, q=0.2).sequence(3).round(3)
    array([0.5  , 0.409, 0.349])
    """

    convex = True

    def __init__(
        self, lam: float, weights: str | Sequence[float] | Array | None = None, q: float = 0.1
    ) -> None:
        self._set_lam(lam)
        self.q = between("Slope: q", q)
        self.weights: str | Array = "bh" if weights is None else weights
        if isinstance(self.weights, str):
            if self.weights not in SHAPES:
                raise ValueError(
                    "Slope: weights must be 'bh', 'oscar' or a decreasing list of numbers, "
                    f"got {weights!r}"
                )
        else:
            self.weights = nonnegative_vector("Slope", "weights", weights)
            rises = np.flatnonzero(np.diff(self.weights) > 0)
            if rises.size:
                k = int(rises[0])
                raise ValueError(
                    f"Slope: weights must not increase, but entry {k + 1} is "
                    f"{self.weights[k + 1]:g} after {self.weights[k]:g}"
                )
            if not self.weights[0] > 0:
                raise ValueError("Slope: the first of the weights must be > 0")
        self._found: dict[int, Array] = {}

    def shape(self, p: int) -> Array:
        """w_1, …, w_p; ValueError if weights were given for another number of coordinates."""
        if isinstance(self.weights, str):
            if p not in self._found:
                self._found[p] = _weights(self.weights, self.q, p)
            return self._found[p]
        if self.weights.size != p:
            raise ValueError(
                f"Slope: weights must have one entry for each of the {p} columns of X, "
                f"got {self.weights.size}"
            )
        return self.weights

    def sequence(self, p: int) -> Array:
        """λ w_1, …, λ w_p."""
        return np.asarray(self.lam * self.shape(p))

    def value(self, x: Array) -> float:
        """λ Σ_k w_k |x|_(k)."""
        x = np.asarray(x, np.float64)
        return float(self.sequence(x.size) @ np.sort(np.abs(x))[::-1])

    total = value

    def prox(self, u: Array, t: float) -> Array:
        """The minimiser over v of r(v) + ‖v − u‖² / (2t): exact, by pooling adjacent violators."""
        from cyclade.linear.kernels.sorted_l1 import prox

        u = np.asarray(u, np.float64)
        return prox(u, t * self.sequence(u.size))

    def distances(self, x: Array, g: Array) -> Array:
        """The entries of −g − P(−g), where P projects onto ∂r(x); in the order of x.

        ∂r(x) is a product over clusters of equal |x|, each in its own part of the sequence.
        """
        from cyclade.linear.kernels.sorted_l1 import residuals

        x = np.asarray(x, np.float64)
        return residuals(x, np.asarray(g, np.float64), self.sequence(x.size))

    def distance(self, x: Array, g: Array) -> float:
        """The distance from −g to ∂r(x) in the Euclidean norm."""
        return float(np.linalg.norm(self.distances(x, g)))

    def dual_norm(self, v: Array) -> float:
        """max_k Σ_{i≤k} |v|_(i) / Σ_{i≤k} λ w_i: at most 1 just where r*(v) = 0."""
        from cyclade.linear.kernels.sorted_l1 import dual_norm

        return dual_norm(np.asarray(v, np.float64), self.sequence(np.size(v)))

    def conjugate(self, v: Array) -> float:
        """r*(v): zero in the unit ball of the dual norm, else infinite."""
        return 0.0 if self.dual_norm(v) <= 1.0 else np.inf

    def lam_max(self, g0: Array) -> float:
        """The dual norm of g0 at λ = 1; the largest over columns where g0 has several."""
        from cyclade.linear.kernels.sorted_l1 import dual_norm

        g0 = np.asarray(g0, np.float64)
        columns = g0.reshape(g0.shape[0], -1).T
        return max(dual_norm(column, self.shape(g0.shape[0])) for column in columns)

    def _shown(self) -> list[str]:
        if not isinstance(self.weights, str):
            return [f"weights=<{self.weights.size}>"]
        rate = [f"q={self.q:g}"] if self.weights == "bh" else []
        return [f"weights={self.weights!r}", *rate]


def _weights(name: str, q: float, p: int) -> Array:
    """A shipped sequence; its first entry is one."""
    k = np.arange(1, p + 1)
    if name == "oscar":
        return np.asarray((p - k + 1) / p)
    from scipy.special import ndtri

    quantiles = -ndtri(k * (q / (2 * p)))
    return np.asarray(quantiles / quantiles[0])


BY_NAME.update({"slope": Slope})
