"""Products of all columns of a tall X, sixteen at a time.

Columns are taken by fours: eight of them have sixteen products, so that a number that is loaded
takes part in four multiplications, as many as there are sums in registers for. Of a block of rows
all columns fit in a cache. The code is compiled for the machine that it runs on; a BLAS that is
shipped for all machines leaves wide registers unused on some: for 80 to 300 columns it takes 1.6 to
2.5 times as long here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cyclade.linear.kernels.dense import centre_columns, centre_rows
from cyclade.linear.kernels.jit import compiled, inner, reductions

BLOCK = 2**20  # bytes of a block: a second-level cache holds them
LONG = 3200  # bytes of a column of it at most: a first-level cache holds eight


def room(p: int, dtype: Any) -> Any:
    """For a block of p columns: each begins a line of a cache, in turn at every place of it."""
    size = np.dtype(dtype).itemsize
    line = 64 // size
    rows = (max(min(BLOCK // p, LONG) // 128, 2) * 2 + 1) * line
    space = np.empty(p * rows + line, dtype)
    first = -(space.__array_interface__["data"][0] // size) % line
    return space[first : first + p * rows].reshape(p, rows)


@reductions
def spread_means(XT: Any, count: int, out: Any) -> None:
    """The mean of each column, a row of XT, over about so many rows that are far apart."""
    n = XT.shape[1]
    step = max(n // count, 1)
    for j in range(out.shape[0]):
        a, total = XT[j], 0.0
        for i in range(0, n, step):
            total += a[i]
        out[j] = total / ((n + step - 1) // step)


@reductions
def sixteen(A: Any, i: int, j: int, out: Any) -> None:
    """out = products of columns i, … with j, …, four each or those that are left; rows of A."""
    m = A.shape[0] - 1
    a0, a1, a2, a3 = A[i], A[min(i + 1, m)], A[min(i + 2, m)], A[min(i + 3, m)]
    b0, b1, b2, b3 = A[j], A[min(j + 1, m)], A[min(j + 2, m)], A[min(j + 3, m)]
    zero = A.dtype.type(0)
    s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = zero
    s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = zero
    for k in range(a0.shape[0]):
        u0, u1, u2, u3 = a0[k], a1[k], a2[k], a3[k]
        v0, v1, v2, v3 = b0[k], b1[k], b2[k], b3[k]
        s00 += u0 * v0
        s01 += u0 * v1
        s02 += u0 * v2
        s03 += u0 * v3
        s10 += u1 * v0
        s11 += u1 * v1
        s12 += u1 * v2
        s13 += u1 * v3
        s20 += u2 * v0
        s21 += u2 * v1
        s22 += u2 * v2
        s23 += u2 * v3
        s30 += u3 * v0
        s31 += u3 * v1
        s32 += u3 * v2
        s33 += u3 * v3
    out[0, 0], out[0, 1], out[0, 2], out[0, 3] = s00, s01, s02, s03
    out[1, 0], out[1, 1], out[1, 2], out[1, 3] = s10, s11, s12, s13
    out[2, 0], out[2, 1], out[2, 2], out[2, 3] = s20, s21, s22, s23
    out[3, 0], out[3, 1], out[3, 2], out[3, 3] = s30, s31, s32, s33


@inner
def add_upper(A: Any, G: Any) -> None:
    """G ← G + A Aᵀ on and above the diagonal."""
    p, out = A.shape[0], np.empty((4, 4), A.dtype)
    for i in range(0, p, 4):
        for j in range(i, p, 4):
            sixteen(A, i, j, out)
            for k in range(min(4, p - i)):
                for h in range(min(4, p - j)):
                    G[i + k, j + h] += out[k, h]


@compiled
def add_products(
    XT: Any, rank: int, ranks: int, centres: Any, s: Any, v: Any, A: Any, out: Any
) -> None:
    """out ← out + [Σ s (a − centre)(a − centre)ᵀ, Σ s (a − centre), Σ v (a − centre)], by rows.

    Sums over a block are as precise as A (p, rows), which has room for it, those of blocks as
    `out`. Of every `ranks` blocks the one numbered `rank` is taken. Nothing is added below the
    diagonal.
    """
    (p, n), step = XT.shape, A.shape[1]
    G, sums, dots = out[:p], out[p], out[p + 1]
    for first in range(rank * step, n, ranks * step):
        last = min(first + step, n)
        if last - first < A.shape[1]:
            A = np.empty((p, last - first), A.dtype)
        some = s[first:last], np.sqrt(s[first:last]), v[first:last]
        if XT.strides[1] == XT.itemsize:
            centre_columns(XT, first, centres, *some, A, sums, dots)
        else:
            centre_rows(XT.T, first, centres, *some, A, sums, dots)
        add_upper(A, G)


@compiled
def centre_products(out: Any, centred: bool, centres: Any) -> None:
    """The products of `out`, as `add_products` leaves it, about means if `centred`; all of them.

    The means replace `centres`.
    """
    p = centres.shape[0]
    G, sums = out[:p], out[p]
    for i in range(p):
        shift = sums[i] if centred else 0.0
        centres[i] += shift
        for j in range(i, p):
            if centred:
                G[i, j] -= shift * sums[j]
            G[j, i] = G[i, j]
