"""Extrapolation between cycles: Anderson acceleration with a descent safeguard.

A cycle of Algorithm 1 is a map x_k = T(x_{k−1}). From the last K + 1 iterates Anderson
extrapolation takes the affine combination of x_k, …, x_{k−K+1} whose steps x_i − x_{i−1} nearly
cancel,

    min_c ‖Σ_i c_i (x_i − x_{i−1})‖²  with Σ_i c_i = 1,   x_e = Σ_i c_i x_i.

The run goes on from x_e only if F(x_e) < F(x_k); either way the memory starts anew. Cycles stay
those of the algorithm, so its certificate and its descent hold as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from cyclade._arrays import Array, array_namespace
from cyclade.blocks import Point
from cyclade.core import State
from cyclade.files.objects import stored

DEPTH = 5  # steps that are combined


@stored
class Anderson:
    """The memory of the extrapolation: the last `DEPTH` + 1 iterates, each as one vector."""

    def __init__(self) -> None:
        self.iterates: list[Array] = []

    def see(self, x: Point) -> Array | None:
        """Remember x_k; the extrapolated point x_e when `DEPTH` steps are there, else None."""
        self.iterates.append(flat(x))
        if len(self.iterates) <= DEPTH:
            return None
        points, self.iterates = self.iterates, []
        steps = [b - a for a, b in pairwise(points)]
        gram = np.array([[float((a * b).sum()) for b in steps] for a in steps])
        # Steps of a converging run are almost parallel: a little of the identity keeps c finite.
        scale = np.trace(gram)
        if not (np.isfinite(scale) and scale > 0):
            return None
        try:
            c = np.linalg.solve(gram / scale + 1e-10 * np.eye(len(steps)), np.ones(len(steps)))
        except np.linalg.LinAlgError:
            return None
        if not np.isfinite(c).all() or c.sum() == 0:
            return None
        c /= c.sum()
        extrapolated = c[0] * points[1]
        for weight, point in zip(c[1:].tolist(), points[2:], strict=True):
            extrapolated = extrapolated + weight * point
        return extrapolated

    def forget(self) -> None:
        """Start anew: the point was moved by something else."""
        self.iterates = []


def extrapolated(
    states: Iterator[State], memory: Anderson, F: Callable[[Point], float]
) -> Iterator[State]:
    """The states of a run, each moved on to the extrapolated point where F is smaller there."""
    for state in states:
        candidate = memory.see(state.x)
        if candidate is not None:
            there = state.x.copy()
            set_flat(there, candidate)
            if F(there) < F(state.x):
                set_flat(state.x, candidate)
        yield state


def flat(x: Point) -> Array:
    """All of x as one vector (a copy)."""
    xp = array_namespace(x.leaves[0])
    parts = [x.layout.copy(a).reshape(-1) for a in x.leaves]
    return parts[0] if len(parts) == 1 else xp.concat(parts)


def set_flat(x: Point, vector: Any) -> None:
    """Give x the value that `flat` would return as `vector`."""
    for j, index in enumerate(x.layout.flat_index()):
        x.set(j, vector[index].reshape(x.layout.block_shapes[j]))
