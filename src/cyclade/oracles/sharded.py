"""A finite sum whose terms are spread over the ranks of a torch.distributed group.

Rank r holds n_r of the n terms, numbered on from those of the ranks before it. Every rank draws the
same sample of all n, calls f on the terms that it holds, and the weighted parts are summed:

    f_S(x) = Σ_r (|S_r| / |S|) f_{S_r}(x),   S_r = the terms of S on rank r.

What a run decides on (values, gradients, products with the Hessian) is therefore the same on all
ranks, and so is the run.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import torch

from cyclade._arrays import Array
from cyclade.blocks import Blocks, Point
from cyclade.ranks import Ranks
from cyclade.sampling.samplers import ALL, Sample


class Sharded:
    """An oracle over all n terms, from one over the terms of this rank."""

    def __init__(self, oracle: Any, n: int, ranks: Ranks) -> None:
        self._oracle, self._ranks, self.calls = oracle, ranks, oracle.calls
        counts = [int(row[0]) for row in ranks.rows([float(n)])]
        self.n = sum(counts)
        self._first = sum(counts[: ranks.rank])
        self._share_of_all = n / self.n
        self._count = n
        # The same array for the same sample, by which the oracle knows what it has computed.
        self._seen: deque[tuple[Sample, Sample, float]] = deque(maxlen=16)

    def sweep(self, x: Blocks, sample: Sample) -> SweepOverRanks:
        """A sweep from `x` on `sample`, which is drawn from all n terms."""
        mine, share = self._part(sample)
        return SweepOverRanks(None if share == 0.0 else self._oracle.sweep(x, mine), x, share, self)

    def evaluate(self, x: Blocks, sample: Sample) -> tuple[float, list[Array]]:
        """f_S(x), and ∇f_S(x) by blocks."""
        assert isinstance(x, Point)
        mine, share = self._part(sample)
        m = x.layout.m
        value, gradient = 0.0, [x.get(j) * 0.0 for j in range(m)]
        if share:
            value, gradient = self._oracle.evaluate(x, mine)
        parts = [_as_tensor(g).reshape(-1) * share for g in gradient]
        total = self.sum_value(value * share)  # in double precision, whatever x is
        summed = self._ranks.sum(torch.cat(parts))
        pieces = torch.split(summed, [part.numel() for part in parts])
        return total, [_like(piece, g) for piece, g in zip(pieces, gradient, strict=True)]

    def sum(self, array: Array, share: float) -> Array:
        """The weighted sum of an array over the ranks."""
        return _like(self._ranks.sum(_as_tensor(array).reshape(-1) * share), array)

    def sum_value(self, value: float) -> float:
        """The sum of a number over the ranks."""
        return float(sum(row[0] for row in self._ranks.rows([float(value)])))

    def _part(self, sample: Sample) -> tuple[Sample, float]:
        """The terms of a sample that are here, by their local numbers, and their share of it."""
        if sample is ALL:
            return ALL, self._share_of_all
        for known, mine, share in self._seen:
            if known is sample:
                return mine, share
        local = np.asarray(sample) - self._first
        mine = local[(local >= 0) & (local < self._count)]
        share = len(mine) / len(local)
        self._seen.append((sample, mine, share))
        return mine, share


class SweepOverRanks:
    """A sweep over the part of a sample that this rank holds (None if it holds none of it)."""

    def __init__(self, sweep: Any, x: Any, share: float, over: Sharded) -> None:
        self._sweep, self._share, self._over = sweep, share, over
        self.get = x.get if sweep is None else sweep.get
        self.set = x.set if sweep is None else sweep.set

    def grad(self, j: int) -> Array:
        """∇^j f_S here."""
        return self._over.sum(self.get(j) if self._idle else self._sweep.grad(j), self._share)

    def value(self) -> float:
        """f_S here."""
        return self._over.sum_value(0.0 if self._idle else self._share * self._sweep.value())

    def trial(self, j: int, u: Array) -> float:
        """f_S at the point with block j at `u`."""
        return self._over.sum_value(0.0 if self._idle else self._share * self._sweep.trial(j, u))

    def trial_grad(self, j: int, u: Array) -> Array:
        """∇^j f_S at the point with block j at `u`."""
        return self._over.sum(u if self._idle else self._sweep.trial_grad(j, u), self._share)

    def hvp(self, j: int, v: Array) -> Array:
        """∇²_jj f_S v here."""
        return self._over.sum(v if self._idle else self._sweep.hvp(j, v), self._share)

    @property
    def _idle(self) -> bool:
        return self._sweep is None


def _as_tensor(array: Array) -> torch.Tensor:
    return array.detach() if isinstance(array, torch.Tensor) else torch.from_numpy(np.array(array))


def _like(flat: torch.Tensor, array: Array) -> Array:
    """A summed vector in the shape and library of `array`."""
    if isinstance(array, torch.Tensor):
        return flat.reshape(array.shape)
    return flat.numpy().reshape(np.shape(array))
