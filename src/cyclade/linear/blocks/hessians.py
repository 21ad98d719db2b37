"""The Hessians of groups, as the compiled steps want them: eigenbases, or matrices and bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

LARGEST = 512
"""Groups of more columns have no Hessian of their own: they move by proximal steps."""


class Hessians:
    """Q, q0 and D of `steps.block_step` for all groups; filled in for those that are asked for.

    The arrays are reserved for all groups at once and touched only where needed.
    """

    def __init__(self, starts: Array, rotated: bool) -> None:
        sizes = np.diff(starts)
        self.starts, self.rotated = starts, rotated
        self.q0 = np.concatenate([[0], np.cumsum(np.where(sizes <= LARGEST, sizes**2, 0))])
        self.Q = np.empty(int(self.q0[-1]))
        self.D = np.zeros(int(starts[-1]))
        self.known = np.zeros(sizes.size, bool)

    def unknown(self, blocks: Array) -> Array:
        """Those of the blocks that were not yet asked for."""
        return blocks[~self.known[blocks]]

    def finish(self, blocks: Array, bound: Any) -> None:
        """Take the Hessians that now stand in Q apart; `bound(k)` bounds those of large groups."""
        self.known[blocks] = True
        sizes = np.diff(self.starts)[blocks]
        for m in np.unique(sizes):
            ks = blocks[sizes == m]
            columns = self.starts[ks][:, None] + np.arange(m)
            if m > LARGEST:
                for k, own in zip(ks, columns, strict=True):
                    self.D[own] = bound(k)
                continue
            entries = self.q0[ks][:, None] + np.arange(m * m)
            H = self.Q[entries].reshape(-1, m, m)
            if self.rotated:
                values, vectors = np.linalg.eigh(H)
                self.Q[entries] = vectors.reshape(-1, m * m)
                self.D[columns] = np.maximum(values, 0.0)
            else:
                self.D[columns] = np.maximum(np.linalg.eigvalsh(H)[:, -1:], 0.0)


def largest_eigenvalue(apply: Any, m: int) -> float:
    """λ_max of a large Hessian by power iteration, with 5 % to spare as that comes from below."""
    v = np.random.default_rng(0).standard_normal(m)
    value = 0.0
    for _ in range(50):
        v /= np.linalg.norm(v) or 1.0
        v = apply(v)
        new = float(np.linalg.norm(v))
        if abs(new - value) <= 1e-3 * new:
            value = new
            break
        value = new
    return 1.05 * value
