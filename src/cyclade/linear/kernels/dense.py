"""Passes over the columns of a dense X: sums, copies and products, eight columns at a time."""

from __future__ import annotations

from typing import Any

from cyclade.linear.kernels.jit import compiled, reductions


@compiled
def turn(X: Any, columns: Any, first: int, last: int, out: Any) -> None:
    """out_k[i] = X[i, columns[k]] for an X by rows, and rows from `first` to `last`.

    Eight rows of 32 columns at a time: so each line of memory is read and written while a cache
    holds it. NumPy's copies take two to five times as long.
    """
    for i in range(first, last, 8):
        end = min(i + 8, last)
        for a in range(0, columns.shape[0], 32):
            for k in range(a, min(a + 32, columns.shape[0])):
                to, j = out[k], columns[k]
                for row in range(i, end):
                    to[row] = X[row, j]


@reductions
def gather(
    XT: Any, columns: Any, w: Any, root: Any, centred: bool, A: Any, means: Any, L: Any
) -> None:
    """A_k = (a_k − m_k) √w and L_k = ‖A_k‖², m_k the w-mean of a_k (zero unless `centred`)."""
    n = XT.shape[1]
    total = 0.0
    for i in range(n):
        total += w[i]
    for k in range(columns.shape[0]):
        a, out = XT[columns[k]], A[k]
        m = 0.0
        if centred:
            for i in range(n):
                m += w[i] * a[i]
            m /= total
        means[k] = m
        s = 0.0
        for i in range(n):
            scaled = (a[i] - m) * root[i]
            out[i] = scaled
            s += scaled * scaled
        L[k] = s


@reductions
def add_rows(XT: Any, columns: Any, x: Any, z: Any, first: int) -> None:
    """z ← z + Σ_k x_k a_{columns[k]}, eight columns at a time; z may be rows from `first` on."""
    n, m = z.shape[0], columns.shape[0]
    for k in range(0, m - m % 8, 8):
        a0, a1 = XT[columns[k], first:], XT[columns[k + 1], first:]
        a2, a3 = XT[columns[k + 2], first:], XT[columns[k + 3], first:]
        a4, a5 = XT[columns[k + 4], first:], XT[columns[k + 5], first:]
        a6, a7 = XT[columns[k + 6], first:], XT[columns[k + 7], first:]
        x0, x1, x2, x3 = x[k], x[k + 1], x[k + 2], x[k + 3]
        x4, x5, x6, x7 = x[k + 4], x[k + 5], x[k + 6], x[k + 7]
        for i in range(n):
            z[i] += ((a0[i] * x0 + a1[i] * x1) + (a2[i] * x2 + a3[i] * x3)) + (
                (a4[i] * x4 + a5[i] * x5) + (a6[i] * x6 + a7[i] * x7)
            )
    for k in range(m - m % 8, m):
        a0, x0 = XT[columns[k], first:], x[k]
        for i in range(n):
            z[i] += a0[i] * x0


@reductions
def dots(A: Any, R: Any, order: Any, b: int, g: Any) -> None:
    """g = A_B R for the eight columns at b."""
    a0, a1, a2, a3 = A[order[b]], A[order[b + 1]], A[order[b + 2]], A[order[b + 3]]
    a4, a5, a6, a7 = A[order[b + 4]], A[order[b + 5]], A[order[b + 6]], A[order[b + 7]]
    zero = A.dtype.type(0)
    s0, s1, s2, s3, s4, s5, s6, s7 = zero, zero, zero, zero, zero, zero, zero, zero
    for i in range(R.shape[0]):
        r = R[i]
        s0 += a0[i] * r
        s1 += a1[i] * r
        s2 += a2[i] * r
        s3 += a3[i] * r
        s4 += a4[i] * r
        s5 += a5[i] * r
        s6 += a6[i] * r
        s7 += a7[i] * r
    g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7] = s0, s1, s2, s3, s4, s5, s6, s7


@reductions
def correlate(XT: Any, columns: Any, v: Any, out: Any) -> None:
    """out_k = a_{columns[k]} · v, eight columns at a time."""
    m = columns.shape[0]
    for k in range(0, m - m % 8, 8):
        dots(XT, v, columns, k, out[k : k + 8])
    for k in range(m - m % 8, m):
        a = XT[columns[k]]
        s = v.dtype.type(0)
        for i in range(v.shape[0]):
            s += a[i] * v[i]
        out[k] = s


@reductions
def centre_columns(
    XT: Any, first: int, centres: Any, s: Any, root: Any, v: Any, A: Any, sums: Any, dots: Any
) -> None:
    """A = √s (a − centre) for the rows from `first` on, as many as A (p, rows) has room for.

    Added up in the same reading: Σ s (a − centre) and Σ v (a − centre), which are not rounded as A.
    """
    for j in range(A.shape[0]):
        a, out, c = XT[j, first : first + A.shape[1]], A[j], centres[j]
        total, along = 0.0, 0.0
        for i in range(a.shape[0]):
            d = a[i] - c
            out[i] = root[i] * d
            total += s[i] * d
            along += v[i] * d
        sums[j] += total
        dots[j] += along


@reductions
def centre_rows(
    X: Any, first: int, centres: Any, s: Any, root: Any, v: Any, A: Any, sums: Any, dots: Any
) -> None:
    """The same for X by rows."""
    for i in range(A.shape[1]):
        a, r, w, t = X[first + i], root[i], s[i], v[i]
        for j in range(a.shape[0]):
            d = a[j] - centres[j]
            sums[j] += w * d
            dots[j] += t * d
        for j in range(a.shape[0]):
            A[j, i] = r * (a[j] - centres[j])


@reductions
def moments(XT: Any, columns: Any, centred: bool, means: Any, squares: Any) -> None:
    """The mean of each chosen column (zero unless `centred`), and the sum of squares about it.

    The second reading of a column finds it in a cache.
    """
    n = XT.shape[1]
    for k in range(columns.shape[0]):
        a = XT[columns[k]]
        m = 0.0
        if centred:
            for i in range(n):
                m += a[i]
            m /= n
        s = 0.0
        for i in range(n):
            s += (a[i] - m) * (a[i] - m)
        means[k], squares[k] = m, s
