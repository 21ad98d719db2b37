"""Compiled block minimisers: cycles on products, and least squares on the entries seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from cyclade.linear.kernels.jit import compiled, inner
from cyclade.linear.kernels.linalg import dot, factor, substitute, subtract
from cyclade.linear.numerics import ROOT


@inner
def shrunk(v: float, l1: float, positive: bool) -> float:
    """The minimiser of ½(z − v)² + l1 |z|, over z ≥ 0 if `positive`."""
    if v > l1:
        return v - l1
    return v + l1 if v < -l1 and not positive else v - v


@compiled
def cycles(G: Any, C: Any, Z: Any, l1: float, positive: bool, passes: int) -> None:
    """Minimise ½ tr ZᵀGZ − tr CᵀZ + l1 Σ|Z| over row after row of Z (k, n), `passes` times.

    Each row is minimised over exactly. A row with G_tt = 0 moves only where the penalty wants it at
    zero.
    """
    k, n = Z.shape
    g = np.empty(n, Z.dtype)
    for _ in range(passes):
        for t in range(k):
            z, q = Z[t], G[t, t]
            g[:] = C[t]
            for s in range(k):
                if s != t:
                    other, weight = Z[s], G[t, s]
                    for i in range(n):
                        g[i] -= weight * other[i]
            if q > 0.0:
                for i in range(n):
                    z[i] = shrunk(g[i], l1, positive) / q
            elif l1 > 0.0:
                z[:] = 0.0


@compiled
def seen_rows(seen: Any, B: Any, A: Any, l1: float, l2: float, positive: bool) -> None:
    """Minimise ½ Σ_e s_e (a_i·b_j − x_e)² + l1 Σ|A| + ½ l2 ‖A‖² over each row a_i of A (n, k).

    `seen` holds the entries e = (i, j) by rows: where rows start, j, s and x. Without l1 and signs
    a row is minimised over as a whole; else, and where its products are singular, over coordinate
    after coordinate, along the residuals r of its entries.
    """
    starts, columns, weights, values = seen
    k, widest = A.shape[1], 1
    for i in range(A.shape[0]):
        widest = max(widest, starts[i + 1] - starts[i])
    b, sb = np.empty((k, widest), A.dtype), np.empty((k, widest), A.dtype)
    r, c = np.empty(widest, A.dtype), np.empty(k, A.dtype)
    G, H = np.empty((k, k), A.dtype), np.empty((k, k), A.dtype)
    for i in range(A.shape[0]):
        a, first, m = A[i], starts[i], starts[i + 1] - starts[i]
        if l1 == 0.0 and not positive:
            normal_equations(seen, B, i, G, c)
            for t in range(k):
                G[t, t] += l2
            H[:] = G
            regular = factor(H)
            for t in range(k if regular else 0):
                regular = regular and H[t, t] * H[t, t] > ROOT * G[t, t]
            if regular:
                substitute(H, c, k)
                a[:] = c
                continue
        for e in range(m):
            row, s, left = B[columns[first + e]], weights[first + e], values[first + e]
            for t in range(k):
                b[t, e], sb[t, e] = row[t], s * row[t]
                left -= a[t] * row[t]
            r[e] = left
        for t in range(k):
            new, q = a[t], dot(sb[t], b[t], m)
            if q + l2 > 0.0:
                new = shrunk(dot(sb[t], r, m) + q * a[t], l1, positive) / (q + l2)
            elif l1 > 0.0:
                new = 0.0 * l1
            if new != a[t]:
                subtract(r, b[t], new - a[t], m)
                a[t] = new


@inner
def normal_equations(seen: Any, B: Any, i: int, G: Any, c: Any) -> None:
    """G = Σ_e s_e b_j b_jᵀ and c = Σ_e s_e x_e b_j over the entries e = (i, j) of row i."""
    starts, columns, weights, values = seen
    G[:], c[:] = 0.0, 0.0
    for e in range(starts[i], starts[i + 1]):
        b, s = B[columns[e]], weights[e]
        for t in range(c.shape[0]):
            d, row = s * b[t], G[t]
            c[t] += d * values[e]
            for r in range(t + 1):
                row[r] += d * b[r]
    for t in range(c.shape[0]):
        for r in range(t):
            G[r, t] = G[t, r]


@compiled
def seen_gradient(seen: Any, B: Any, A: Any, out: Any) -> tuple[float, float]:
    """out_i = Σ_e s_e r_e b_j with r_e = a_i·b_j − x_e.

    Returns ½ Σ_e s_e r_e² and Σ_i ‖Σ_e s_e x_e b_j‖².
    """
    starts, columns, weights, values = seen
    k, loss, size = A.shape[1], 0.0, 0.0
    c = np.empty(k, A.dtype)
    for i in range(A.shape[0]):
        a, g = A[i], out[i]
        g[:], c[:] = 0.0, 0.0
        for e in range(starts[i], starts[i + 1]):
            b, r = B[columns[e]], -values[e]
            for t in range(k):
                r += a[t] * b[t]
            loss += 0.5 * weights[e] * r * r
            r *= weights[e]
            d = weights[e] * values[e]
            for t in range(k):
                g[t] += r * b[t]
                c[t] += d * b[t]
        for t in range(k):
            size += c[t] * c[t]
    return loss, size
