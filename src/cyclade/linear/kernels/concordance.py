"""Pairs of rows whose order in time is known, and how many a score orders rightly."""

from __future__ import annotations

from typing import Any

from cyclade.linear.kernels.jit import compiled


@compiled
def pairs(time: Any, event: Any, rank: Any, w: Any, tree: Any) -> tuple[float, float]:
    """Weights of the pairs that are ordered rightly, ties by half, and of all known pairs.

    Rows come with the latest first, of equal times the censored ones. `tree` is a Fenwick tree of
    the weights of rows that live longer, by rank.
    """
    right, known, total, a, n = 0.0, 0.0, 0.0, 0, time.shape[0]
    while a < n:
        b = a
        while b < n and time[b] == time[a]:
            b += 1
        for events in (False, True):  # the censored live longer than the events of that time
            if events:
                for i in range(a, b):
                    if event[i]:
                        below, upto, k = 0.0, 0.0, rank[i]
                        while k > 0:
                            below += tree[k]
                            k -= k & -k
                        k = rank[i] + 1
                        while k > 0:
                            upto += tree[k]
                            k -= k & -k
                        right += w[i] * 0.5 * (below + upto)
                        known += w[i] * total
            for i in range(a, b):
                if event[i] == events:
                    total += w[i]
                    k = rank[i] + 1
                    while k < tree.shape[0]:
                        tree[k] += w[i]
                        k += k & -k
        a = b
    return right, known
