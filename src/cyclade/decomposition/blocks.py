"""X ≈ AᵀB by cyclic block minimisation: what a factor is minimised by, and how X is seen.

`Products` sees all of X and works on products of factors, `Entries` sees some entries with weights.
Both cycle over A, then B, and measure the distance of 0 from the subdifferential of F. The blocks
inside a factor are its rows (`cycles`) or, on entries, what belongs to one row or column of X.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.decomposition import kernels

Array = NDArray[Any]
MOST_PASSES = 8  # over a factor on the same products, which cost more than a pass


@dataclass(frozen=True)
class Separable:
    """l1 Σ|z| + ½ l2 Σz² over the entries of a factor, over z ≥ 0 if `positive`."""

    l1: float = 0.0
    l2: float = 0.0
    positive: bool = False

    def value(self, Z: Array) -> float:
        """The penalty of Z."""
        return self.l1 * float(abs(Z).sum()) + 0.5 * self.l2 * float(np.vdot(Z, Z))

    def minimise(self, G: Array, C: Array, Z: Array, passes: int) -> None:
        """Cycles over the rows of Z, from products G and C without the penalty."""
        G = G + G.dtype.type(self.l2) * np.eye(len(G), dtype=G.dtype)
        kernels.cycles(G, C, Z, Z.dtype.type(self.l1), self.positive, passes)

    def distance(self, g: Array, Z: Array) -> float:
        """dist(−g, ∂ of the penalty at Z), g the gradient of the squares."""
        g = g + self.l2 * Z
        if self.positive:
            return norm(np.where(Z > 0, g + self.l1, np.minimum(g + self.l1, 0.0)))
        at_zero = np.maximum(abs(g) - self.l1, 0.0)
        return norm(np.where(Z != 0, g + self.l1 * np.sign(Z), at_zero))


class UnitBall:
    """Rows of Euclidean norm at most 1."""

    def value(self, Z: Array) -> float:
        """Zero: the rows are in the ball."""
        return 0.0

    def minimise(self, G: Array, C: Array, Z: Array, passes: int) -> None:
        """Cycles over the rows of Z; one that no code uses stays."""
        for _ in range(passes):
            for t in np.flatnonzero(np.diag(G)):
                z = Z[t] + (C[t] - G[t] @ Z) / G[t, t]
                Z[t] = z / max(1.0, norm(z))

    def distance(self, g: Array, Z: Array) -> float:
        """dist(−g, normal cones of the ball at the rows of Z): on the sphere these are rays."""
        on = np.einsum("tj,tj->t", Z, Z) >= 1.0 - 8.0 * np.finfo(Z.dtype).eps
        outward = np.where(on, np.maximum(-np.einsum("tj,tj->t", g, Z), 0.0), 0.0)
        return norm(g + outward[:, None] * Z)


class Products:
    """½ ‖X − AᵀB‖² for X (n, p), A (k, n) and B (k, p), with penalties on A and on B.

    The product BXᵀ of a measurement is that of the next cycle, and AX is still there from the last:
    a measurement costs little more than k² (n + p) multiplications. Without `b` B stays as it is.
    """

    def __init__(self, X: Any, A: Array, B: Array, a: Separable, b: Any) -> None:
        self.X, self.A, self.B, self.a, self.b = X, A, B, a, b
        k, (n, p) = len(A), X.shape
        self.passes_A, self.passes_B = (
            1 + min(size // (2 * k), MOST_PASSES - 1) for size in (p, n)
        )
        self.BX, self.BB = times(B, X.T), B @ B.T

    def cycle(self) -> None:
        """One minimisation over the rows of A, and one over those of B."""
        self.a.minimise(self.BB, self.BX, self.A, self.passes_A)
        if self.b is None:
            return
        self.AX, self.AA = times(self.A, self.X), self.A @ self.A.T
        self.b.minimise(self.AA, self.AX, self.B, self.passes_B)
        self.BX, self.BB = times(self.B, self.X.T), self.B @ self.B.T

    def measure(self) -> tuple[float, float]:
        """dist(0, ∂F) after a cycle, and ‖(BXᵀ, AX)‖, to which it is compared."""
        distance, size = self.a.distance(self.BB @ self.A - self.BX, self.A), norm(self.BX)
        if self.b is not None:
            distance_B = self.b.distance(self.AA @ self.B - self.AX, self.B)
            distance, size = np.hypot(distance, distance_B), np.hypot(size, norm(self.AX))
        return float(distance), float(size)

    def values(self) -> tuple[float, float]:
        """½ ‖X − AᵀB‖² (of a sparse X from products, so up to rounding of ‖X‖²), and penalties."""
        penalty = self.a.value(self.A) + (self.b.value(self.B) if self.b is not None else 0.0)
        if isinstance(self.X, np.ndarray):
            return 0.5 * norm(self.X - self.A.T @ self.B) ** 2, penalty
        square = norm(self.X.data) ** 2 - 2.0 * np.vdot(self.BX, self.A)
        return max(0.5 * float(square + np.vdot(self.BB, self.A @ self.A.T)), 0.0), penalty


class Entries:
    """½ Σ s_ij (x_ij − a_i·b_j)² over seen entries, A (n, k) and B (p, k), with penalties."""

    def __init__(self, X: Any, S: Any, A: Array, B: Array, a: Separable, b: Any) -> None:
        self.A, self.B, self.a, self.b = A, B, a, b
        columns = (X.tocsc(), S.tocsc()) if b is not None else (X, S)
        self.by_rows, self.by_columns = (
            (one.indptr, one.indices, weights.data, one.data)
            for one, weights in ((X, S), columns)
        )  # fmt: skip

    def cycle(self) -> None:
        """One minimisation over all a_i, and one over all b_j."""
        self._minimise(self.by_rows, self.B, self.A, self.a)
        if self.b is not None:
            self._minimise(self.by_columns, self.A, self.B, self.b)

    def _minimise(self, seen: Any, fixed: Array, moving: Array, r: Separable) -> None:
        l1, l2 = moving.dtype.type(r.l1), moving.dtype.type(r.l2)
        kernels.seen_rows(seen, fixed, moving, l1, l2, r.positive)

    def measure(self) -> tuple[float, float]:
        """dist(0, ∂F), and the norm of the gradient's part that X enters."""
        g = np.empty_like(self.A)
        square = kernels.seen_gradient(self.by_rows, self.B, self.A, g)[1]
        distance = self.a.distance(g, self.A)
        if self.b is not None:
            g = np.empty_like(self.B)
            square += kernels.seen_gradient(self.by_columns, self.A, self.B, g)[1]
            distance = np.hypot(distance, self.b.distance(g, self.B))
        return float(distance), float(np.sqrt(square))

    def values(self) -> tuple[float, float]:
        """½ Σ s_ij (x_ij − a_i·b_j)², and penalties."""
        penalty = self.a.value(self.A) + (self.b.value(self.B) if self.b is not None else 0.0)
        loss, _ = kernels.seen_gradient(self.by_rows, self.B, self.A, np.empty_like(self.A))
        return float(loss), penalty


def norm(a: Any) -> float:
    """The Euclidean norm of all entries, summed in double precision."""
    return float(np.sqrt(np.sum(np.square(a, dtype=np.float64))))


def times(Z: Array, X: Any) -> Array:
    """ZX with neighbours in memory along rows; X may be sparse."""
    return Z @ X if isinstance(X, np.ndarray) else np.ascontiguousarray((X.T @ Z.T).T)
