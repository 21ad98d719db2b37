"""Diagonal scaling of a block from Hessian-vector products alone.

A diagonal S such that S^{−1/2} H S^{−1/2} has rows of equal norm (H is *equilibrated*) makes steps
S^{−1} g fit blocks whose coordinates have different units: for a Hessian D C D with D diagonal and
C well conditioned, S is about D².
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cyclade._arrays import Array, array_namespace, random_like

ROUNDS, PROBES = 6, 3


def equilibrate(apply: Callable[[Array], Array], like: Array, seed: int = 0) -> Array:
    """S for the symmetric operator `apply`, as an array like the block, with geometric mean 1.

    For normal vectors z, E[(Hz)_i²] is the squared norm of row i. With q = S^{−1/2} the rows of
    the scaled operator have squared norms r_i = E[(q H q z)_i²]; q_i is multiplied by r_i^{−1/4}
    until they are equal. Coordinates on which f is flat keep the mean scale.
    """
    xp, rng = array_namespace(like), np.random.default_rng(seed)
    logs = like * 0.0  # log q
    for _ in range(ROUNDS):
        q = xp.exp(logs)
        rows = like * 0.0
        for _ in range(PROBES):
            row = q * apply(q * random_like(like, rng))
            rows = rows + row * row
        usable = xp.isfinite(rows) & (rows > 0)
        if not bool(usable.any()):
            return like * 0.0 + 1.0
        logs = logs - 0.25 * xp.log(xp.where(usable, rows, like * 0.0 + 1.0))
        mean = float(logs[usable].mean())
        logs = xp.where(usable, logs - mean, like * 0.0)
    logs = xp.clip(logs, -math.log(1e6), math.log(1e6))
    return xp.exp(-2.0 * (logs - logs.mean()))
