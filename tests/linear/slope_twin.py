"""SLOPE written out literally, in plain Python and NumPy: slow, and easy to read."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np


def value(x, lam):
    return float(np.sort(np.abs(x))[::-1] @ lam)


def pool(v):
    """The decreasing least-squares fit to v: blocks are joined while a later mean is no smaller."""
    blocks = []
    for number in v:
        blocks.append([number])
        while len(blocks) > 1 and np.mean(blocks[-2]) <= np.mean(blocks[-1]):
            last = blocks.pop()
            blocks[-1] = blocks[-1] + last
    return np.array([np.mean(block) for block in blocks for _ in block])


def prox(u, lam):
    order = np.argsort(-np.abs(u), kind="stable")
    out = np.zeros_like(u)
    out[order] = np.maximum(pool(np.abs(u)[order] - lam), 0.0)
    return np.sign(u) * out


def prox_by_enumeration(u, lam):
    """The best of all points that some order and some cut into clusters could make optimal."""
    p = u.size
    best, found = np.inf, None
    for order in map(list, permutations(range(p))):
        for cuts in product([False, True], repeat=p - 1):
            blocks = np.split(np.arange(p), np.flatnonzero(cuts) + 1)
            sizes = [np.mean(np.abs(u[order])[block] - lam[block]) for block in blocks]
            for last in {sizes[-1], 0.0} if sizes else {0.0}:
                x = np.zeros(p)
                for block, size in zip(blocks, [*sizes[:-1], last], strict=True):
                    x[np.array(order)[block]] = max(size, 0.0)
                x *= np.sign(u)
                tried = 0.5 * np.sum((x - u) ** 2) + value(x, lam)
                if tried < best:
                    best, found = tried, x
    return found, best


def distances(x, g, lam):
    """−g less its projection onto ∂r(x), largest cluster first; sorted within each."""
    found, k = [], 0
    for size in sorted(set(np.abs(x)), reverse=True):
        inside = np.abs(x) == size
        pulls = -g[inside] * np.sign(x[inside]) if size > 0 else np.abs(g[inside])
        fit = pool(np.sort(pulls)[::-1] - lam[k : k + inside.sum()])
        found.append(fit if size > 0 else np.maximum(fit, 0.0))
        k += int(inside.sum())
    return np.concatenate(found)


def line_minimum(pull, bend, members, others, lam):
    """argmin over b ≥ 0 of ½ bend b² − pull b + r, by its one-sided derivatives at every kink."""

    def slope(larger):
        return lam[larger : larger + members].sum()

    kinks = sorted({0.0, *others}, reverse=True)
    for kink in kinks:
        right = bend * kink - pull + slope(np.sum(others > kink))
        left = bend * kink - pull + slope(np.sum(others >= kink))
        if right < 0:  # the minimum is above this kink, and below the one before
            return (pull - slope(np.sum(others > kink))) / bend
        if kink == 0.0 or left <= 0:
            return kink
    raise AssertionError


def cycle(A, t, x, lam):
    """One cycle over the clusters of x, largest first, then over its zeros; R is made afresh."""
    x = x.copy()
    groups = [list(np.flatnonzero(np.abs(x) == s)) for s in sorted(set(np.abs(x[x != 0])))[::-1]]
    joined = set()
    for k, group in enumerate(groups):
        if k in joined:
            continue
        signs, size = np.sign(x[group]), abs(x[group[0]])
        others = np.abs(np.delete(x, group))
        d, R = signs @ A[group], t - x @ A
        pull, bend = float(d @ R) + float(d @ d) * size, float(d @ d)
        b = line_minimum(abs(pull), bend, len(group), others[others > 0], lam)
        for h, other in enumerate(groups):
            if h != k and h not in joined and b > 0 and abs(x[other[0]]) == b:
                other.extend(group)
                joined.add(k)
        x[group] = b * np.sign(pull) * signs
    for j in np.flatnonzero(x == 0):
        R = t - x @ A
        pull, bend = float(A[j] @ R), float(A[j] @ A[j])
        x[j] = np.sign(pull) * line_minimum(abs(pull), bend, 1, np.abs(x[x != 0]), lam)
    return x


def proximal_gradient(X, y, lam, steps):
    """min ‖Xx − y‖²/2n + r(x), accelerated, without intercept."""
    n = len(y)
    L = np.linalg.norm(X, 2) ** 2 / n
    x = v = np.zeros(X.shape[1])
    k = 1.0
    for _ in range(steps):
        new = prox(v - X.T @ (X @ v - y) / (n * L), lam / L)
        ahead = (1 + np.sqrt(1 + 4 * k * k)) / 2
        v, x, k = new + (k - 1) / ahead * (new - x), new, ahead
    return x
