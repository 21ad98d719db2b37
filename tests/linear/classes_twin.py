"""Cycles over rows of classes with the whole Hessian, literally: nothing is carried along."""

from __future__ import annotations

import numpy as np


def hessians(p):
    """diag(p_i) − p_i p_iᵀ of every row."""
    return np.array([np.diag(q) - np.outer(q, q) for q in p])


def bounds(p):
    """The diagonal above each of them: p_t (1 + q), and q (1 − q²) for the largest entry q."""
    out = p * (1.0 + p.max(axis=1, keepdims=True))
    for i, top in enumerate(p.argmax(axis=1)):
        out[i, top] = p[i, top] * (1.0 - p[i, top] ** 2)
    return out


def literal_cycles(A, p, s, g_z, x, solve_row, intercept, count):
    """Points (x, c) after each of `count` cycles on the model with gradient g_z at the start.

    `solve_row(v, D, j)` minimises ½ Σ D_t u_t² − v·u + r_j(u) over u. Columns are centred.
    """
    H, D, n = hessians(p), np.einsum("i,ij,it->jt", s, A**2, bounds(p)), len(s)
    x, c, start, points = x.copy(), np.zeros(p.shape[1]), x.copy(), []
    corner = np.einsum("i,itv->tv", s, H)
    for _ in range(count):
        for j in range(A.shape[1]):
            dz = A @ (x - start) + c
            U = -(g_z + np.stack([s[i] * H[i] @ dz[i] for i in range(n)]))
            x[j] = solve_row(A[:, j] @ U + D[j] * x[j], D[j], j)
        if intercept:
            dz = A @ (x - start) + c
            U = -(g_z + np.stack([s[i] * H[i] @ dz[i] for i in range(n)]))
            c = c + np.linalg.pinv(corner) @ U.sum(axis=0)
        points.append((x.copy(), c.copy()))
    return points
