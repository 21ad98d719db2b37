"""`kernels.curved_path` said literally: Newton models one after another, in plain NumPy.

The intercept is one more column, without a penalty; models are minimised by cycles until nothing
moves; losses and penalties are those of the library, by their methods.
"""

from __future__ import annotations

import numpy as np


def model_minimum(H, g, x, penalty, cols, columns):
    """min over v of gᵀd + ½ dᵀHd + r(v), d = v − x, on the columns `cols` of H; from x."""
    v, moved = x.copy(), 1.0
    while moved > 1e-15 * (1.0 + abs(v).max()):
        moved = 0.0
        for j in cols:
            slope = g[j] + H[j] @ (v - x)
            if j < columns:
                new = penalty.prox(v[j] - slope / H[j, j], 1.0 / H[j, j], j)
            else:
                new = v[j] - slope / H[j, j]
            moved, v[j] = max(moved, abs(new - v[j])), new
    return v


def newton_path(loss, X, y, s, offset, penalty, lams, intercept, strong_step, steps):
    """All points passed, (λ by λ and step by step) of shape (len(lams), steps, p + 1)."""
    n, p = X.shape
    A = np.column_stack([X, np.ones(n)])
    x, z, points = np.zeros(p + 1), offset.copy(), []
    zs = []
    for k, lam in enumerate(lams):
        r = penalty.scaled(lam)
        zero = np.array([r.threshold(j) for j in range(p)])
        before = zero * lams[k - 1] / lam if k > 0 else zero
        near = k > 0 and lam >= strong_step * lams[k - 1]
        inside, here = np.zeros(p, bool), []
        zs.append(z)
        for step in range(steps):
            way = z
            if step == 0 and k > 1 and near:
                t = min((lams[k - 1] - lam) / (lams[k - 2] - lams[k - 1]), 1.0)
                way = z + 0.5 * t * (zs[-1] - zs[-2])
            w, u = s * loss.curvature(y, way), s * loss.gradient(y, z)
            g = A.T @ u
            limit = 2.0 * zero - before if step == 0 and near else zero
            inside |= (x[:p] != 0) | (abs(g[:p]) > limit)
            cols = [*np.flatnonzero(inside), *([p] if intercept else [])]
            new = model_minimum((A.T * w) @ A, g, x, r, cols, p)
            dz = A @ (new - x)
            change = r.total(new[:p]) - r.total(x[:p])
            first, t = u @ dz + change, 1.0
            while True:
                left = (s * loss.gradient(y, z + t * dz)) @ dz + change
                if left <= 1e-15 or (left <= -0.25 * first and t * abs(dz).max() <= 1.0):
                    break
                t *= 0.5
            x = x + t * (new - x)
            z = z + t * dz
            here.append(x)
        points.append(here)
    return np.array(points)
