"""The slow literal twin of `cyclade.linear.kernels.pivots`: every system is solved from scratch."""

import numpy as np

BENT = -1e-8  # of G_jj, as in the kernel


def literal_pivots(G, b, x, lam, goal):
    """Minimise ½ xᵀGx − bᵀx + Σ_j λ_j |x_j| from x, one coordinate in or out at a time.

    After each move (x, S, kept_out): the point, its support in the order it came in, and how many
    coordinates were kept out because G is not positive definite with them. A move goes to the
    minimum on S with the signs there are, or as far as the first coordinate that gets to zero,
    which then leaves; at the minimum, the one at rest that violates |c_j| ≤ λ_j most comes in.
    """
    x, S, barred = x.copy(), list(np.flatnonzero(x)), set()
    sign = np.sign(x)
    while True:
        left_to_go = (b - G @ x)[S] - lam[S] * sign[S]
        d = np.linalg.solve(G[np.ix_(S, S)], left_to_go)
        crossing = [i for i, j in enumerate(S) if (x[j] + d[i]) * sign[j] < 0]
        lengths = [-x[S[i]] / d[i] for i in crossing]
        t = min([1.0, *lengths])
        x[S] += t * d
        leaves = t < 1.0
        if leaves:
            x[S.pop(crossing[int(np.argmin(lengths))])] = 0.0
        yield x.copy(), list(S), len(barred)
        if leaves:
            continue
        c = b - G @ x
        while True:
            over = np.abs(c) - lam
            over[[*S, *barred]] = -np.inf
            j = int(np.argmax(over))
            if not over[j] > goal:
                return
            if positive_with(G, S, j):
                break
            barred.add(j)
        S.append(j)
        sign[j] = np.sign(c[j])


def positive_with(G, S, j):
    """Whether what G_jj keeps, once S has been minimised over, is not negative."""
    kept = G[j, j] - G[j, S] @ np.linalg.solve(G[np.ix_(S, S)], G[S, j])
    return G[j, j] > 0 and kept >= BENT * G[j, j]
