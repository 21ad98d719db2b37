"""Steps from estimated curvature: the norm of each block's Hessian, by power iteration."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from cyclade._arrays import Array, norm2, random_like
from cyclade._checks import generator, positive, whole_number
from cyclade.steps.base import Eta, Rated

MOST_BLOCKS = 10**9


class Curvature(Rated):
    """Λ_j = L_j I with L_j = `safety` · ‖∇²_jj f‖ at the current point, by power iteration.

    Each estimate is `iterations` Hessian-vector products on the sample in hand, started from the
    vector the last one ended with. L_j is estimated at the block's first turn, and again every
    `every` cycles (never again with `every=None`). The result is a local estimate, not a bound.
    """

    measured = True
    learnt = ("L", "vectors", "due")

    def __init__(
        self,
        m: int,
        eta: Eta = 1.0,
        every: int | None = None,
        iterations: int = 20,
        safety: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__(eta)
        m = whole_number("m", m, 1, MOST_BLOCKS)
        if every is not None:
            every = whole_number("every", every, 1)
        iterations = whole_number("iterations", iterations, 1)
        safety = positive("safety", safety)
        self.L = [math.nan] * m
        self.blocks = m
        self.every, self.iterations, self.safety = every, iterations, safety
        self.vectors: list[Array | None] = [None] * m
        self._rng = generator("seed", seed)
        self.due = [True] * m

    def begin(self, k: int) -> None:
        """Take η_k; every `every` cycles the estimates are due again."""
        super().begin(k)
        if self.every is not None and k > 0 and k % self.every == 0:
            self.due = [True] * len(self.due)

    def metric(self, j: int) -> float:
        """L_j."""
        return self.L[j]

    def at(self, j: int, now: Any, gj: Array, reg: Any) -> tuple[Array, float]:
        """g^j and η / L_j, estimated first if it is due."""
        if self.due[j]:
            self.measure(j, now)
        return gj, self.current(j)

    def measure(self, j: int, now: Any) -> None:
        """Estimate L_j on the sample of `now`."""
        start = self.vectors[j]
        if start is None:
            start = random_like(now.get(j), self._rng)
        norm, self.vectors[j] = power_iteration(lambda v: now.hvp(j, v), start, self.iterations)
        # A block on which f is flat bounds nothing; any step will do, and 1 is a step.
        self.L[j] = self.safety * norm if norm > 0 else 1.0
        self.due[j] = False

    def prepare(self, at_x0: Any) -> None:
        """Estimate every L_j at x_0."""
        for j in range(len(self.L)):
            self.measure(j, at_x0)


def power_iteration(
    apply: Callable[[Array], Array], start: Array, iterations: int, tol: float = 1e-4
) -> tuple[float, Array]:
    """The norm of a symmetric operator, from below, and the vector it was found with."""
    v, norm = start / math.sqrt(norm2(start)), 0.0
    for _ in range(iterations):
        w = apply(v)
        new = math.sqrt(norm2(w))
        if new == 0.0 or not math.isfinite(new):
            return norm, v
        v, last, norm = w / new, norm, new
        if abs(norm - last) <= tol * norm:
            break
    return norm, v
