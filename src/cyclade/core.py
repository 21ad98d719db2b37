"""Algorithms 1 and 2 of the paper, in one text.

    F(x) = f(x) + r(x),  x = (x^1, …, x^m)

Every method is a choice of arguments:

============  ==========================  ===============  =========
method        sampler                     resample         blocks
============  ==========================  ===============  =========
P-CCD         Full                        each cycle       m
SCCD          Minibatch(b)                each cycle       m
VR-CCD        Page(b, b', p)              each block       m
VRO-CCD       Page(b, b', p)              each cycle       m
PAGE          Page(b, b', p)              each cycle       1
SGD           Minibatch(b)                each cycle       1
============  ==========================  ===============  =========

What differs between kinds of problem is only how cheaply a point moves along a cycle on a fixed
sample. That is a `Sweep`, and `cycle` never asks which one it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, Protocol

import numpy as np

from cyclade._arrays import Array, norm2
from cyclade.blocks import Blocks, Point
from cyclade.blocks.lag import Lag
from cyclade.blocks.layout import NoEstimate, Stored
from cyclade.files.objects import stored
from cyclade.sampling.orders import Order
from cyclade.sampling.samplers import Sample, Sampler
from cyclade.steps import Steps


class Sweep(Blocks, Protocol):
    """A point moving along one cycle on a fixed sample S; it writes through to the point."""

    def grad(self, j: int) -> Array:
        """∇^j f_S at the current point."""


class SearchSweep(Sweep, Protocol):
    """A sweep with what line searches and curvature estimates ask for beside gradients."""

    def value(self) -> float:
        """f_S at the current point."""

    def trial(self, j: int, u: Array) -> float:
        """f_S at the point with block j at `u`; the point itself stays."""

    def trial_grad(self, j: int, u: Array) -> Array:
        """∇^j f_S at the point with block j at `u`; the point itself stays."""

    def hvp(self, j: int, v: Array) -> Array:
        """∇²_jj f_S v at the current point."""


class Oracle(Protocol):
    """The smooth part f."""

    def sweep(self, x: Blocks, sample: Sample) -> Sweep:
        """A sweep that starts at (and moves) `x`, on `sample`."""

    def evaluate(self, x: Blocks, sample: Sample) -> tuple[float, list[Array]]:
        """f_S(x), and ∇f_S(x) by blocks."""


class Trail(Protocol):
    """Where each estimate g^j was formed: x_{k−2,j}. See `Lag`."""

    def grad(self, j: int) -> Array:
        """∇^j f_S at the point where g^j was last formed."""

    def follow(self, j: int, old: Array, new: Array) -> None:
        """Block j, whose g^j was formed just now, moves from `old` to `new`."""


class Prox(Protocol):
    """The separable r, by blocks."""

    def prox(self, j: int, u: Array, t: Array | float) -> Array:
        """The minimiser over z of r^j(z) + ½ Σ_i (z_i − u_i)² / t_i."""


def cycle(
    turns: Iterable[int], now: Sweep, lag: Trail, g: Blocks, reg: Prox, steps: Steps, refresh: bool
) -> None:
    """Algorithm 2, lines 4–8, over the blocks in `turns`; with refresh always true, Algorithm 1."""
    for j in turns:  # line 4; `now` is at x_{k−1,j} (line 5)
        gj = now.grad(j)  # line 6, with probability p
        if not refresh:
            gj = g.get(j) + (gj - lag.grad(j))  # line 6, with probability 1 − p
        g.set(j, gj)
        xj, (dj, t) = now.get(j), steps.at(j, now, gj, reg)  # x^j_{k−1}; g^j_{k−1}, η Λ_j^{−1}
        u = reg.prox(j, xj - t * dj, t)  # line 7
        lag.follow(j, xj, u)  # x_{k−2,j} → x_{k−2,j+1}
        now.set(j, u)  # x_{k−1,j} → x_{k−1,j+1}


@stored
@dataclass
class State:
    """Everything a method carries from one cycle to the next; picklable, and enough to resume."""

    k: int  # cycles done
    x: Point  # x_k
    lag: Any  # where each g^j was formed (x_{k−1,j}); NoEstimate for Algorithm 1
    g: Any  # g_{k−1}; NoEstimate for Algorithm 1
    sample_rng: np.random.Generator
    order_rng: np.random.Generator


def start(oracle: Oracle, x0: Point, sampler: Sampler, rng: np.random.Generator) -> State:
    """Algorithm 2, lines 1 and 2: x_0 = x_{−1}, and g_{−1} from a large batch at x_0."""
    start_rng, sample_rng, order_rng = rng.spawn(3)
    x = x0.copy()
    if not sampler.recursive:  # Algorithm 1 has neither g nor a lagged point
        return State(0, x, NoEstimate(), NoEstimate(), sample_rng, order_rng)
    at_x0 = oracle.sweep(x, sampler.large(start_rng))
    g = Stored(at_x0.grad(j) for j in range(x.layout.m))  # line 2
    return State(0, x, Lag(x), g, sample_rng, order_rng)


def iterate(
    state: State,
    oracle: Oracle,
    reg: Prox,
    steps: Steps,
    sampler: Sampler,
    order: Order,
    resample: Literal["cycle", "block"] = "cycle",
) -> Iterator[State]:
    """Algorithms 1 and 2, lines 3–9, without end: yields `state` (live) after each cycle.

    A fresh coin and sample are drawn for every cycle, or for every block (VR-CCD).
    """
    m = state.x.layout.m
    turns_per_draw = m if resample == "cycle" else 1
    while True:  # line 3
        steps.begin(state.k)
        now: Sweep
        turns = order.turns(m, state.order_rng, lambda: scores(now, reg, steps, m))  # noqa: B023
        for _ in range(m // turns_per_draw):
            sample, refresh = sampler.draw(state.sample_rng)
            now = oracle.sweep(state.x, sample)
            if not refresh:
                state.lag.board(oracle.sweep(state.lag.point, sample))
            cycle(islice(turns, turns_per_draw), now, state.lag, state.g, reg, steps, refresh)
        state.lag.trim()
        state.k += 1
        yield state


def scores(now: Sweep, reg: Prox, steps: Steps, m: int) -> list[float]:
    """How far each block would move from `now`, in the norm of Λ_j / η (squared)."""
    lengths = []
    for j in range(m):
        xj, t = now.get(j), steps.current(j)
        lengths.append(norm2(reg.prox(j, xj - t * now.grad(j), t) - xj, 1.0 / t))
    return lengths
