"""Λ_j and η for methods that sample: component-wise smoothness, and Theorem 2's largest η.

Variance reduction is stable only where steps fit the single terms f_i, not their mean alone.
Assumption 5 asks for E_i‖∇^j f_i(x) − ∇^j f_i(y)‖² ≤ L_j² ‖x^j − y^j‖²; near a point that is
L_j² = ‖E_i[H_{i,jj}²]‖ with H_i the Hessian of f_i. It is estimated from a few batches S of s
terms: the mean of H_S² over batches is H² plus 1/s of the variance of H_i, which is scaled up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from cyclade._arrays import Array, norm2, random_like, rounding_unit
from cyclade.blocks import Point
from cyclade.sampling.samplers import Minibatch, Sample, Source, StreamEnded
from cyclade.steps.base import as_schedule
from cyclade.steps.fixed import Fixed
from cyclade.theory import max_eta

BATCHES = 8  # how many batches are looked at
ITERATIONS = 8  # of the power method
SEPARATELY = 8  # up to this many blocks are measured one by one, more all at once

Watch = Callable[[float], None]
Blocks = list[Array]
Product = Callable[[Blocks], Blocks]


class Smoothness(NamedTuple):
    """L_j of every block, the curvatures ‖H_jj‖ of f itself, and L̂ in the norm of Λ_j = L_j I."""

    L: list[float]
    curvature: list[float]
    L_hat: float


class Estimated(Fixed):
    """Steps η / L_j with estimated L_j and η; `metric` is the curvature of f, not of its terms."""

    measured = True
    learnt = ("Lambda", "curvature", "estimate")
    why_short = "single terms curved so much more than their mean at x0"

    def __init__(self, L: Sequence[float], curvature: Sequence[float], eta: float) -> None:
        super().__init__(L, eta)
        self.curvature, self.estimate = list(curvature), eta

    def metric(self, j: int) -> float:
        """‖∇²_jj f‖, as estimated."""
        return self.curvature[j]

    def recall(self, memory: dict[str, Any]) -> None:
        """Go on with these estimates."""
        super().recall(memory)
        self.eta = as_schedule(self.estimate)


def estimated_steps(
    oracle: Any, x: Point, sampler: Minibatch, rng: np.random.Generator, watch: Watch
) -> Estimated:
    """Λ_j from component-wise smoothness at x, and the largest η that Theorem 2 allows with it.

    `watch` is called before every product with a Hessian, with the samples that it costs more.
    """
    source = sampler.source
    batches, size = batches_to_look_at(source, rng)
    found = expected_smoothness(oracle, x, batches, size, source.n, rng, watch)
    L_tilde = found.L_hat if x.layout.m > 1 else 0.0
    eta = max_eta(found.L_hat, L_tilde, source.n, sampler.b, sampler.b_small, sampler.p)
    return Estimated(found.L, found.curvature, eta)


def batches_to_look_at(source: Source, rng: np.random.Generator) -> tuple[list[Sample], int]:
    """Disjoint batches of about √n terms, and their size; single terms where n is small."""
    if not math.isfinite(source.n):
        size, batches = 16, []
        try:
            for _ in range(BATCHES):
                batches.append(source.take(size, rng))
        except StreamEnded:  # a short stream: look at what came
            if not batches:
                raise
        return batches, size
    n = int(source.n)
    count = min(BATCHES, n)
    size = max(1, min(math.isqrt(n), n // count))
    terms = rng.choice(n, size=count * size, replace=False)
    return list(terms.reshape(count, size)), size


def expected_smoothness(
    oracle: Any, x: Point, batches: Sequence[Sample], size: int, n: float,
    rng: np.random.Generator, watch: Watch = lambda samples: None,
) -> Smoothness:  # fmt: skip
    """L_j of Assumption 5 at x, and L̂ with Λ_j = L_j I, estimated on `batches` of `size` terms."""
    m, count = x.layout.m, len(batches)
    scale = 1.0
    if count > 1:  # how much of the variance of H_i the batches show
        scale = size * count / (count - 1)
        scale *= (n - 1) / (n - size) if math.isfinite(n) and n > size else 1.0
    whole = [_whole_product(oracle, x, batch, lambda: watch(size)) for batch in batches]
    start = [random_like(x.get(j), rng) for j in range(m)]
    if m <= SEPARATELY:
        sweeps = [oracle.sweep(x.copy(), batch) for batch in batches]
        pairs = []
        for j, one in enumerate(start):
            products = [_block_product(sweep, j, lambda: watch(0.0)) for sweep in sweeps]
            pairs.append([_norms_of_second_moments(products, by, [one])[0] for by in (scale, 0.0)])
        moments: Any = zip(*pairs, strict=True)
    else:
        moments = (_norms_of_second_moments(whole, by, start, False) for by in (scale, 0.0))
    L, curvature = ([math.sqrt(value) for value in of] for of in moments)
    largest = max(L)
    if not largest > 0 or not math.isfinite(largest):
        return Smoothness([1.0] * m, [1.0] * m, 1.0)
    # A block on which f is flat bounds nothing; its gradient will be small too.
    L = [value if value > 1e-8 * largest else largest for value in L]
    known = zip(L, curvature, strict=True)
    curvature = [min(most, value) if value > 1e-8 * largest else most for most, value in known]
    roots = [math.sqrt(value) for value in L]
    scaled = [_scaled(product, roots) for product in whole]
    start = [random_like(x.get(j), rng) for j in range(m)]
    (L_hat,) = _norms_of_second_moments(scaled, scale, start)
    return Smoothness(L, curvature, L_hat if L_hat > 0 and math.isfinite(L_hat) else 1.0)


def _block_product(sweep: Any, j: int, watch: Callable[[], None]) -> Product:
    def product(v: Blocks) -> Blocks:
        watch()
        return [sweep.hvp(j, v[0])]

    return product


def _whole_product(oracle: Any, x: Point, sample: Sample, watch: Callable[[], None]) -> Product:
    """The map v ↦ ∇²f_S(x) v over all blocks, by central differences of gradients."""
    norm = math.sqrt(sum(norm2(a) for a in x.leaves))
    length = rounding_unit(x.leaves[0]) ** (1 / 3) * (1.0 + norm)

    def product(v: Blocks) -> Blocks:
        size = math.sqrt(sum(norm2(vj) for vj in v))
        if size == 0.0:
            return v
        watch()
        h = length / size
        sides = []
        for sign in (h, -h):
            there = x.copy()
            for j, vj in enumerate(v):
                there.set(j, there.get(j) + sign * vj)
            sides.append(oracle.evaluate(there, sample)[1])
        return [(a - b) / (2 * h) for a, b in zip(*sides, strict=True)]

    return product


def _scaled(product: Product, roots: list[float]) -> Product:
    """Λ^{−1/2} H_S Λ^{−1/2}."""

    def apply(v: Blocks) -> Blocks:
        inner = product([vj / root for vj, root in zip(v, roots, strict=True)])
        return [w / root for w, root in zip(inner, roots, strict=True)]

    return apply


def _norms_of_second_moments(
    products: Sequence[Product], scale: float, v: Blocks, together: bool = True
) -> list[float]:
    """‖E_i[H_i²]‖ by the power method, from below, from batches with 1/`scale` of the variance.

    `together` it is that of all of v; else that on each block, with what the other blocks add.
    """
    found = [0.0] * (1 if together else len(v))
    for _ in range(ITERATIONS if together else ITERATIONS // 2):
        sizes = [math.sqrt(norm2(vj)) for vj in v]
        if together:
            sizes = [math.hypot(*sizes)] * len(v)
        v = [vj / size if size > 0 else vj for vj, size in zip(v, sizes, strict=True)]
        seen = [product(v) for product in products]
        mean = [sum(parts[1:], parts[0]) / len(seen) for parts in zip(*seen, strict=True)]
        # H̄² + scale (E_S[H_S²] − H̄²) = E_S[H_S (scale H_S + (1 − scale) H̄)]
        spread = [
            [scale * p + (1 - scale) * w for p, w in zip(parts, mean, strict=True)]
            for parts in seen
        ]
        again = [product(u) for product, u in zip(products, spread, strict=True)]
        v = [sum(parts[1:], parts[0]) / len(again) for parts in zip(*again, strict=True)]
        squares = [  # E_i‖H_i v‖² by blocks: Rayleigh quotients
            max(scale * sum(map(norm2, parts)) / len(seen) + (1 - scale) * norm2(w), 0.0)
            for parts, w in zip(zip(*seen, strict=True), mean, strict=True)
        ]
        seen_now = [float(sum(squares))] if together else squares
        found = [max(most, now) for most, now in zip(found, seen_now, strict=True)]
    return found
