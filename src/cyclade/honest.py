"""Is Λ of the size of the curvature of f? A certificate in the norm of Λ^{−1} needs that."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cyclade._arrays import Array, array_namespace, norm2
from cyclade.blocks import Point
from cyclade.certificate import certificate
from cyclade.steps.curvature import random_like
from cyclade.steps.matrix import largest_entry

TOO_LARGE = 1e4  # how many times the curvature around x Λ may be
PROBES = 3


def inflated(
    oracle: Any,
    x: Point,
    sample: Any,
    gradient: Sequence[Array],
    reg: Any,
    metric: Callable[[int], Any],
    tol: float,
) -> float:
    """How many times too large Λ is, where that alone makes dist(∂F(x), 0) ≤ tol; else 0.

    For normal directions v, ‖(∇²f v)^j‖ is at least about the curvature of block j. Where Λ_j is
    more than `TOO_LARGE` times that, it is cut down to it, and the distance measured again.
    """
    m, rng = x.layout.m, np.random.default_rng(0)
    leaf = x.leaves[0]
    eps = float(array_namespace(leaf).finfo(leaf.dtype).eps)
    h = float(np.cbrt(eps)) * (1.0 + math.sqrt(sum(norm2(a) for a in x.leaves) / x.layout.d))
    curvature = [0.0] * m
    for _ in range(PROBES):
        there = x.copy()
        for j in range(m):
            there.set(j, there.get(j) + h * random_like(x.get(j), rng))
        ahead = oracle.evaluate(there, sample)[1]
        for j in range(m):
            bent = math.sqrt(norm2(ahead[j] - gradient[j])) / h
            curvature[j] = max(curvature[j], bent)
    largest = [largest_entry(metric(j)) for j in range(m)]
    honest = [
        max(min(L, TOO_LARGE * seen), 1e-300) for L, seen in zip(largest, curvature, strict=True)
    ]
    if all(h == L for h, L in zip(honest, largest, strict=True)):
        return 0.0
    dist2 = certificate(x.blocks(), list(gradient), reg, lambda j: honest[j])
    if math.sqrt(dist2) <= tol:
        return 0.0
    return max(L / max(seen, 1e-300) for L, seen in zip(largest, curvature, strict=True))
