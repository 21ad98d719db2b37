"""Decreasing least-squares fits by pooling adjacent violators, with a stack."""

from __future__ import annotations

from typing import Any

import numpy as np

from cyclade.linear.kernels.jit import compiled


@compiled
def pool(v: Any, out: Any) -> None:
    """out = argmin of ‖out − v‖² over out_1 ≥ out_2 ≥ …; entries of one pool are exactly equal."""
    total, size = np.empty(v.shape[0]), np.empty(v.shape[0], np.int64)
    top = -1
    for i in range(v.shape[0]):
        s, count = v[i], 1
        while top >= 0 and total[top] * count <= s * size[top]:  # its mean is no larger
            s += total[top]
            count += size[top]
            top -= 1
        top += 1
        total[top], size[top] = s, count
    i = 0
    for block in range(top + 1):
        mean = total[block] / size[block]
        for _ in range(size[block]):
            out[i] = mean
            i += 1


@compiled
def pool_clusters(size: Any, v: Any, out: Any) -> None:
    """`pool` on each run of equal `size`; on the run of zeros, which is last, cut off at zero."""
    first = 0
    for i in range(1, size.shape[0] + 1):
        if i == size.shape[0] or size[i] != size[first]:
            pool(v[first:i], out[first:i])
            if size[first] == 0.0:
                for k in range(first, i):
                    out[k] = max(out[k], 0.0)
            first = i
