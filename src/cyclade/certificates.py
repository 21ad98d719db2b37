"""How far a point is from stationary: dist²(∂F(x), 0) in the norm of Λ^{−1}.

That norm certifies only where Λ is of the size of the curvature of f: see `metric_inflation`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from cyclade._arrays import Array, kind, norm2, random_like, rounding_unit
from cyclade._checks import function, shown
from cyclade.blocks import Point
from cyclade.steps.matrix import largest_entry

TOO_LARGE = 1e4  # how many times the curvature around x Λ may be
PROBES = 3


class Distances(Protocol):
    """The part of a separable regulariser that certifies."""

    def distance(self, j: int, u: Array, v: Array, w: Array | float) -> float:
        """The minimum over s in ∂r^j(u) of ‖v + s‖ in the norm with weights w."""


def certificate(
    x: Sequence[Array],
    gradient: Sequence[Array],
    reg: Distances,
    metric: Callable[[int], Any],
) -> float:
    """dist²(∂F(x), 0) = Σ_j min over s ∈ ∂r^j(x^j) of ‖∇^j f(x) + s‖² in the norm of Λ_j^{−1}.

    `x` and `gradient` are lists of blocks, `reg` the separable regulariser (`PerBlock`), and
    ``metric(j)`` is Λ_j, a number or a diagonal. It is zero exactly at the stationary points of F.

    Example
    -------
    >>> import numpy as np
    >>> from cyclade.regularisers import L1, per_block
    >>> x, gradient = [np.array([0.0, 1.0])], [np.array([0.5, -0.9])]
    >>> certificate(x, gradient, per_block(L1(1.0), 1), lambda j: 2.0)  # (1 - 0.9)² / 2
    0.005
    """
    for name, blocks in (("x", x), ("gradient", gradient)):
        if not isinstance(blocks, list | tuple):
            raise TypeError(f"{name} must be a list of blocks, got {type(blocks).__name__}")
    if len(x) != len(gradient):
        raise ValueError(f"gradient must have {len(x)} blocks like x, got {len(gradient)}")
    if not callable(getattr(reg, "distance", None)):
        raise TypeError(f"reg must be a PerBlock (see per_block), got {type(reg).__name__}")
    function("metric", metric, "a function j -> Λ_j")
    total = 0.0
    for j, (u, v) in enumerate(zip(x, gradient, strict=True)):
        if not kind(u) or kind(u) != kind(v) or u.shape != v.shape:
            raise ValueError(
                f"gradient[{j}] must be an array like x[{j}], of shape "
                f"{getattr(u, 'shape', None)}, got {shown(v)} for {shown(u)}"
            )
        try:
            weight = 1.0 / metric(j)
        except (TypeError, ZeroDivisionError):
            raise ValueError(f"metric must give a positive number or array for {j}") from None
        try:
            total += reg.distance(j, u, v, weight) ** 2
        except (IndexError, ValueError) as error:
            raise ValueError(f"x[{j}] does not fit reg and metric: {error}") from None
    return total


def metric_inflation(
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
    eps = rounding_unit(x.leaves[0])
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
    cut = [
        max(min(L, TOO_LARGE * seen), 1e-300) for L, seen in zip(largest, curvature, strict=True)
    ]
    if cut == largest:
        return 0.0
    dist2 = certificate(x.blocks(), list(gradient), reg, lambda j: cut[j])
    if math.sqrt(dist2) <= tol:
        return 0.0
    return max(L / max(seen, 1e-300) for L, seen in zip(largest, curvature, strict=True))
