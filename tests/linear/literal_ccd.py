"""P-CCD on a linear model, literally: the slow twin of the compiled engine.

`core.cycle` with exact L_j on a `LinearSweep`, any loss with bounded curvature and any penalty, in
plain NumPy and Python. Use it to check the engine, or to look inside a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from cyclade._arrays import Array
from cyclade.core import iterate, start
from cyclade.linear.penalties import BlockPenalty
from cyclade.rows.oracle import Features, LinearOracle, Separable, by_blocks
from cyclade.rows.steps import diagonal
from cyclade.sampling.orders import as_order
from cyclade.sampling.samplers import ALL, Full
from cyclade.steps import Fixed


@dataclass(frozen=True)
class Iterate:
    """Where P-CCD stands after `k` cycles."""

    k: int
    coef: Array  # (p,) or (p, T)
    intercept: Any  # a number, or (T,); 0 where none is fitted
    objective: float
    distance: float  # dist(∂F, 0): Euclidean, over all coordinates and the intercept


def cycles(
    X: Any,
    y: Any,
    loss: Any,
    penalty: Any,
    *,
    sample_weight: Any = None,
    offset: Any = None,
    fit_intercept: bool = False,
    coef: Any = None,
    intercept: Any = None,
    blocks: Any = None,
    order: Any = "forward",
    outputs: int | None = None,
    total: float | None = None,
) -> Iterator[Iterate]:
    """P-CCD without end: yields x_0, then the iterate after each cycle.

        F(x, c) = (1/total) Σ_i s_i φ(y_i, z_i) + r(x),   z = X x + c + offset

    `blocks` are of the features: by default the groups of the penalty, or single coordinates. The
    intercept is a block of its own, the last. `order` is of the blocks, as in `cyclade.minimize`.
    z has `outputs` columns. The sum over rows is divided by `total`, by default Σ_i s_i. With
    ``total=1`` and the squared loss it is ½ Σ_i s_i (z_i − y_i)² + r(x).
    """
    X = X if callable(getattr(X, "tocsr", None)) else np.asarray(X)
    dtype = X.dtype if X.dtype.kind == "f" else np.dtype(np.float64)
    p = X.shape[1]
    if blocks is None:
        grouped = isinstance(penalty, BlockPenalty)
        blocks = [block.tolist() for block in penalty.blocks(p)] if grouped else "coordinates"
    features = Features(p, blocks, fit_intercept=fit_intercept, outputs=outputs, dtype=dtype)
    oracle = LinearOracle(
        X, np.asarray(y), loss, features, sample_weight=_array(sample_weight, dtype),
        offset=_array(offset, dtype), total=total,
    )  # fmt: skip
    r = by_blocks(penalty, features)
    m = features.layout.m
    steps = Fixed(exact(oracle.rows(ALL), loss.bound, m))
    sampler, rng = Full(int(oracle.n)), np.random.default_rng(0)
    state = start(oracle, features.point(coef, intercept), sampler, rng)
    yield _seen(0, state.x, oracle, features, r)
    for now in iterate(state, oracle, r, steps, sampler, as_order(order, m)):
        yield _seen(now.k, now.x, oracle, features, r)


def run(X: Any, y: Any, loss: Any, penalty: Any, *, K: int, **options: Any) -> list[Iterate]:
    """x_0, …, x_K of `cycles`."""
    return list(islice(cycles(X, y, loss, penalty, **options), K + 1))


def exact(rows: Any, bound: float, m: int) -> list[float]:
    """L_j of each block, where `bound` is the supremum of φ''; 1 where f is flat."""
    return [float(diagonal(rows, j, bound, rows.n, n=rows.n, even=True)[0]) for j in range(m)]


def _array(values: Any, dtype: Any) -> Array | None:
    return None if values is None else np.asarray(values, dtype)


def _seen(k: int, x: Any, oracle: LinearOracle, features: Features, r: Separable) -> Iterate:
    """The iterate, with F and dist(∂F, 0) from a freshly computed z."""
    at = oracle.sweep(x.copy(), ALL)
    blocks = range(features.layout.m)
    objective = at.value() + sum(r.value(j, x.get(j)) for j in blocks)
    squares = sum(r.distance(j, x.get(j), at.grad(j)) ** 2 for j in blocks)
    found = features.fitted(x, features.dtype)
    return Iterate(k, *found, float(objective), float(np.sqrt(squares)))
