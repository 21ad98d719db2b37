"""Algorithms 1 and 2 literally, storing every partial point: the slow twin of `core`.

Nothing here is shared with the real loop but the random draws (samplers and orders). x is one flat
NumPy vector, a block is an index into it, and every x_{k,j} and every g_k^j that was ever formed is
kept. Use it to check the real loop, or to look inside a run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Vector = np.ndarray[Any, Any]


@dataclass
class Trajectory:
    """All that happened: `x[k]` is x_k, `partial[k]` the points of cycle k, `g[k][j]` g_k^j."""

    x: list[Vector] = field(default_factory=list)
    partial: list[list[Vector]] = field(default_factory=list)
    turns: list[list[int]] = field(default_factory=list)
    refreshed: list[list[bool]] = field(default_factory=list)
    g: list[dict[int, Vector]] = field(default_factory=list)


def run(
    grad: Callable[[Vector, Any, int], Vector],
    x0: Vector,
    index: Sequence[Any],
    prox: Callable[[int, Vector, Any], Vector],
    Lambda: Sequence[Any],
    sampler: Any,
    order: Any,
    *,
    K: int,
    eta: float = 1.0,
    resample: str = "cycle",
    rng: np.random.Generator,
) -> Trajectory:
    """K cycles of Algorithm 2 (of Algorithm 1 when `sampler` always refreshes).

    ``grad(x, sample, j)`` is ∇^j f_S(x); ``index[j]`` picks block j out of a flat vector;
    ``prox(j, u, t)`` is the prox of r^j with step t = η Λ_j^{−1}.
    """
    start_rng, sample_rng, order_rng = rng.spawn(3)
    m = len(index)
    x = np.array(x0, copy=True)
    # Line 1: x_0 = x_{−1} = x_{−1,1} = … = x_{−1,m+1}. `formed_at[j]` is where g^j was formed.
    formed_at = {j: x.copy() for j in range(m)}
    g: dict[int, Vector] = {}
    if sampler.recursive:
        large = sampler.large(start_rng)
        g = {j: grad(x, large, j) for j in range(m)}  # line 2
    done = Trajectory(x=[x.copy()], g=[dict(g)])

    for _k in range(1, K + 1):  # line 3
        partial, turns, coins = [x.copy()], [], []
        sample, refresh = None, True

        def scores() -> list[float]:  # how far each block would move, for the greedy order
            lengths = []
            for j in range(m):
                t = eta / Lambda[j]
                step = prox(j, x[index[j]] - t * grad(x, sample, j), t) - x[index[j]]  # noqa: B023
                lengths.append(float(np.sum(step**2 / t)))
            return lengths

        picks = order.turns(m, order_rng, scores)
        for turn in range(m):  # line 4
            if turn == 0 or resample == "block":
                sample, refresh = sampler.draw(sample_rng)
            j = next(picks)
            here = x.copy()  # line 5: x_{k−1,j}
            if refresh:  # line 6
                gj = grad(here, sample, j)
            else:
                gj = g[j] + (grad(here, sample, j) - grad(formed_at[j], sample, j))
            g[j], formed_at[j] = gj, here
            t = eta / Lambda[j]
            x = here.copy()
            x[index[j]] = prox(j, here[index[j]] - t * gj, t)  # line 7
            partial.append(x.copy())
            turns.append(j)
            coins.append(refresh)
        done.x.append(x.copy())
        done.partial.append(partial)
        done.turns.append(turns)
        done.refreshed.append(coins)
        done.g.append(dict(g))
    return done
