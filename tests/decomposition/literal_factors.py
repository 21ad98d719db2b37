"""Descents written literally, a block at a time, with residuals; and distances of 0 from ∂F."""

from __future__ import annotations

import numpy as np


def prox(z, l1, positive):
    """argmin ½(u − z)² + l1 |u|, over u ≥ 0 if positive."""
    return np.maximum(z - l1, 0) if positive else np.sign(z) * np.maximum(abs(z) - l1, 0)


def components(X, S, W, H, l1, l2, positive, passes):
    """`passes` times over the columns of W; S are the weights of the entries of X."""
    for _ in range(passes):
        for t in range(W.shape[1]):
            rest = S * (X - W @ H + np.outer(W[:, t], H[t]))
            q = S @ H[t] ** 2 + l2
            found = prox(rest @ H[t], l1, positive) / np.where(q > 0, q, 1.0)
            W[:, t] = np.where(q > 0, found, W[:, t])


def least_squares(X, S, W, H, l2):
    """Every row of W, given H, by its normal equations."""
    for i in range(len(W)):
        W[i] = np.linalg.solve(H * S[i] @ H.T + l2 * np.eye(len(H)), H @ (S[i] * X[i]))


def same_product(W, H):
    """The factors of WH with the least sum of squares."""
    P, s, Q = np.linalg.svd(W @ H)
    k = W.shape[1]
    W[:], H[:] = P[:, :k] * np.sqrt(s[:k]), (Q[:k].T * np.sqrt(s[:k])).T


def equal_norms(factors):
    """The scales of components in their factors with the least sum of squares."""
    for r in range(factors[0].shape[1]):
        sizes = [np.linalg.norm(A[:, r]) for A in factors]
        for A, size in zip(factors, sizes, strict=True):
            A[:, r] *= np.prod(sizes) ** (1 / len(factors)) / size


def atoms(X, W, H, passes):
    """`passes` times over the rows of H, each in the unit ball."""
    for _ in range(passes):
        for t in range(len(H)):
            z = W[:, t] @ (X - W @ H + np.outer(W[:, t], H[t])) / (W[:, t] @ W[:, t])
            H[t] = z / max(1.0, np.linalg.norm(z))


def unfolded(X, mode):
    return np.moveaxis(X, mode, 0).reshape(X.shape[mode], -1)


def khatri_rao(factors):
    """Row (i, j, …) is the entrywise product of rows i, j, … of the factors."""
    out = np.ones((1, factors[0].shape[1]))
    for A in factors:
        out = np.einsum("ar,br->abr", out, A).reshape(-1, A.shape[1])
    return out


def tensor_factor(X, factors, mode, l2, positive, passes):
    """One factor, by least squares on the unfolding, or column after column."""
    K = khatri_rao(factors[:mode] + factors[mode + 1 :])
    U, k = unfolded(X, mode), K.shape[1]
    if positive:
        components(U, np.ones(U.shape), factors[mode], K.T, 0.0, l2, True, passes)
    else:
        factors[mode][:] = np.linalg.solve(K.T @ K + l2 * np.eye(k), K.T @ U.T).T


def distance(g, Z, l1=0.0, positive=False):
    """dist(−g, ∂(l1|·| + [≥ 0])(Z)) entry by entry, squared and summed."""
    total = 0.0
    for slope, z in zip(g.ravel(), Z.ravel(), strict=True):
        low, high = (l1, l1) if z > 0 else (-l1, -l1) if z < 0 else (-l1, l1)
        if positive and z == 0:
            low = -np.inf  # the normal cone of z ≥ 0 at 0
        total += max(low + slope, -(high + slope), 0.0) ** 2
    return total


def ball_distance(g, V):
    """dist(−g_t, normal cone of the unit ball at v_t), squared and summed."""
    total = 0.0
    for slope, v in zip(g, V, strict=True):
        if np.linalg.norm(v) > 1 - 1e-12:
            slope = slope + max(0.0, -(slope @ v)) * v
        total += slope @ slope
    return total
