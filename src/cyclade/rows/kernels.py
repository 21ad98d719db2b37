"""Cycles on samples of the rows, compiled: each entry of a batch is read a fixed number of times.

A visit of a block reads its entries in the batch twice: once for the gradient at both points, once
to move both. What is drawn comes from outside, so a compiled run draws as the literal one does.

Columns lie block after block; the intercept is coordinate p, a column of ones, and moves with the
last block. X is a table, or the entries of a CSR matrix with the bounds of every block in a row.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from cyclade.linear import losses
from cyclade.linear.kernels.jit import compiled
from cyclade.linear.kernels.shipped import prox
from cyclade.linear.kernels.smooth_losses import exponentials

SQUARED, HUBER, QUANTILE, HINGE, LOGISTIC, POISSON, GAMMA, CAUCHY, WELSCH, GEMAN, TUKEY = range(11)
LOOSE = {"reassoc", "contract", "nsz"}  # sums in any order; what calls others must not have it
KINDS: dict[type, Any] = {
    losses.Squared: lambda loss: (SQUARED, 1.0, 1.0),
    losses.Huber: lambda loss: (HUBER, loss.delta, loss.factor),
    losses.Quantile: lambda loss: (QUANTILE, loss.q, loss.smoothing),
    losses.SquaredHinge: lambda loss: (HINGE, 1.0, 1.0),
    losses.Logistic: lambda loss: (LOGISTIC, 1.0, 1.0),
    losses.Poisson: lambda loss: (POISSON, 1.0, 1.0),
    losses.Gamma: lambda loss: (GAMMA, 1.0, 1.0),
    losses.Cauchy: lambda loss: (CAUCHY, loss.scale, 1.0),
    losses.Welsch: lambda loss: (WELSCH, loss.scale, 1.0),
    losses.GemanMcClure: lambda loss: (GEMAN, loss.scale, 1.0),
    losses.Tukey: lambda loss: (TUKEY, loss.scale, 1.0),
}


@compiled
def slopes(loss: Any, y: Any, z: Any, w: Any, out: Any, e: Any, room: Any) -> None:
    """out = w φ'(y, z); `e` and `room` are overwritten."""
    kind, a, b = loss
    n = z.shape[0]
    if kind in (LOGISTIC, POISSON, GAMMA, WELSCH):
        for i in range(n):
            if kind == LOGISTIC:
                out[i] = y[i] * z[i]
            elif kind == POISSON:
                out[i] = z[i]
            elif kind == GAMMA:
                out[i] = -z[i]
            else:
                out[i] = -(((z[i] - y[i]) / a) ** 2)
        exponentials(out, e, room)
    if kind == LOGISTIC:
        for i in range(n):
            out[i] = -w[i] * y[i] / (1.0 + e[i])
    elif kind == SQUARED:
        for i in range(n):
            out[i] = w[i] * (z[i] - y[i])
    elif kind == HUBER:
        for i in range(n):
            out[i] = w[i] * b * min(max(z[i] - y[i], -a), a)
    elif kind == HINGE:
        for i in range(n):
            out[i] = -2.0 * w[i] * y[i] * max(1.0 - y[i] * z[i], 0.0)
    elif kind == POISSON:
        for i in range(n):
            out[i] = w[i] * (e[i] - y[i])
    elif kind == GAMMA:
        for i in range(n):
            out[i] = w[i] * (1.0 - y[i] * e[i])
    elif kind == QUANTILE:
        for i in range(n):
            out[i] = w[i] * (0.5 - a - 0.5 * min(max((y[i] - z[i]) / b, -1.0), 1.0))
    elif kind == WELSCH:
        for i in range(n):
            out[i] = w[i] * (z[i] - y[i]) * e[i]
    else:
        for i in range(n):
            t = ((z[i] - y[i]) / a) ** 2
            if kind == CAUCHY:
                weight = 1.0 / (1.0 + t)
            elif kind == GEMAN:
                weight = 1.0 / (1.0 + t) ** 2
            else:
                weight = (1.0 - min(t, 1.0)) ** 2
            out[i] = w[i] * (z[i] - y[i]) * weight


@numba.njit(fastmath=LOOSE, cache=True, nogil=True, error_model="numpy")
def dots(X: Any, idx: Any, i: int, lo: int, hi: int, x: Any, v: Any) -> tuple[float, float]:
    """Row i times x, and times v, over its entries (or columns) from lo to hi."""
    s, q = 0.0, 0.0
    if X.ndim == 2:
        for c in range(lo, hi):
            s += X[i, c] * x[c]
            q += X[i, c] * v[c]
    else:
        for k in range(lo, hi):
            s += X[k] * x[idx[k]]
            q += X[k] * v[idx[k]]
    return s, q


@numba.njit(fastmath=LOOSE, cache=True, nogil=True, error_model="numpy")
def dot(X: Any, idx: Any, i: int, lo: int, hi: int, x: Any) -> float:
    """Row i times x over its entries (or columns) from lo to hi."""
    s = 0.0
    if X.ndim == 2:
        for c in range(lo, hi):
            s += X[i, c] * x[c]
    else:
        for k in range(lo, hi):
            s += X[k] * x[idx[k]]
    return s


@numba.njit(fastmath=LOOSE, cache=True, nogil=True, error_model="numpy")
def add(X: Any, idx: Any, i: int, lo: int, hi: int, r: float, d: Any) -> None:
    """d += r times row i over its entries (or columns) from lo to hi."""
    if X.ndim == 2:
        for c in range(lo, hi):
            d[c] += r * X[i, c]
    else:
        for k in range(lo, hi):
            d[idx[k]] += r * X[k]


@compiled
def bounds(indptr: Any, idx: Any, starts: Any, ends: Any) -> None:
    """ends_ij: where block j begins among the entries of row i, which are sorted by column."""
    m = starts.shape[0] - 1
    for i in range(ends.shape[0]):
        k = indptr[i]
        for j in range(m):
            while k < indptr[i + 1] and idx[k] < starts[j]:
                k += 1
            ends[i, j] = k
        ends[i, m] = indptr[i + 1]


@compiled
def moments(X: Any, idx: Any, indptr: Any, w: Any, out: Any) -> None:
    """Σ_i w_i a_ik^q of every column k for q = 0 (where a_ik ≠ 0), 1, 2 and 4, added to out."""
    for i in range(w.shape[0]):
        dense = X.ndim == 2
        for k in range(0 if dense else indptr[i], X.shape[1] if dense else indptr[i + 1]):
            c = k if dense else idx[k]
            entry = float(X[i, k]) if X.ndim == 2 else float(X[k])
            square = entry * entry
            out[0, c] += w[i] if entry != 0.0 else 0.0
            out[1, c] += w[i] * entry
            out[2, c] += w[i] * square
            out[3, c] += w[i] * square * square


@compiled
def distinct(u: Any, places: Any, out: Any) -> None:
    """len(u) distinct numbers below n, from uniform u; `places` is 0, …, n − 1 before and after."""
    n, b = places.shape[0], u.shape[0]
    for i in range(b):
        k = i + int(u[i] * (n - i))
        out[i], places[k] = places[k], places[i]
        places[i] = out[i]
    for i in range(b):
        places[out[i]] = out[i]
        places[i] = i


@compiled
def cycles(
    table: Any, loss: Any, penalty: Any, cols: Any, starts: Any, turns: Any, per_draw: int,
    free_last: bool, shares: Any, point: Any, before: Any, metric: Any, beta: Any, top: Any,
    rule: Any, draws: Any, everyone: Any, rooms: Any,
) -> float:  # fmt: skip
    """Algorithm 2, lines 4 to 8, for each of the draws; returns the terms that searches looked at.

    `before` becomes x at the beginning of the last cycle. With `sparse_moves` (sparse X, convex
    r), coordinates that are zero, stayed so, and are in no row of the batch are left alone: whether
    zero is where the prox leads depends on g alone, not on the step.
    """
    X, idx, ends, y_all, w_all, shift_all = table
    x, xl, g = point
    large, shrink, slack, rounded, least, most, sparse_moves = rule
    sizes, refreshes, etas, samples = draws
    n, p, m = y_all.shape[0], x.shape[0] - 1, starts.shape[0] - 1
    dense = X.ndim == 2
    d, du, dl = np.zeros(p + 1), np.zeros(p + 1), np.zeros(p + 1)
    used, visit, tried = 0, 0, 0.0
    listed, inside = np.empty(p, np.int64), np.zeros(p, np.bool_)  # by block, from starts[j] on
    count, known = np.zeros(m, np.int64), np.zeros(m, np.bool_)
    for draw in range(sizes.shape[0]):
        b, refresh, eta = sizes[draw], refreshes[draw], etas[draw]
        if visit % m == 0 and (sizes.shape[0] - draw) * per_draw <= m:
            before[:] = x
        if b == n:
            S = everyone[:n]
            for a in range(n):
                S[a] = a
        else:
            S = samples[used : used + b]
            used += b
        z, zl, y, w, rz = rooms[0, :b], rooms[1, :b], rooms[2, :b], rooms[3, :b], rooms[4, :b]
        rl, new, along, there = rooms[5, :b], rooms[6, :b], rooms[7, :b], rooms[8, :b]
        e, room = rooms[9, :b], rooms[10, :b]
        for a in range(b):
            i = S[a]
            lo, hi = (0, p) if dense else (ends[i, 0], ends[i, m])
            shift = shift_all[i] if shift_all.shape[0] > 0 else 0.0
            y[a], w[a] = y_all[i], w_all[i] * (n / b)
            if refresh:
                z[a] = dot(X, idx, i, lo, hi, x) + x[p] + shift
            else:
                s, q = dots(X, idx, i, lo, hi, x, xl)
                z[a], zl[a] = s + x[p] + shift, q + xl[p] + shift
        slopes(loss, y, z, w, rz, e, room)
        looks = b < large
        for turn in range(per_draw):
            j, more = turns[visit % m], turn < per_draw - 1
            visit += 1
            first, last = starts[j], starts[j + 1]
            free = free_last and j == m - 1  # the intercept moves with this block
            if not refresh:
                slopes(loss, y, zl, w, rl, e, room)
            lean = sparse_moves and known[j] and not refresh
            if lean:  # those that may move, and those that the batch touches
                for a in range(b):
                    for k in range(ends[S[a], j], ends[S[a], j + 1]):
                        if not inside[idx[k]]:
                            inside[idx[k]] = True
                            listed[first + count[j]] = idx[k]
                            count[j] += 1
            width = count[j] if lean else last - first
            for q in range(width):
                d[listed[first + q] if lean else first + q] = 0.0
            total = 0.0
            for a in range(b):
                r = rz[a] if refresh else rz[a] - rl[a]
                if r != 0.0:
                    i = S[a]
                    lo, hi = (first, last) if dense else (ends[i, j], ends[i, j + 1])
                    add(X, idx, i, lo, hi, r, d)
                    total += r
            for q in range(width):
                c = listed[first + q] if lean else first + q
                g[c] = d[c] if refresh else g[c] + d[c]
                dl[c] = x[c] - xl[c]
            if free:
                g[p] = total if refresh else g[p] + total
                dl[p] = x[p] - xl[p]
            follows = more and not refresh  # the lagged point is needed for the next block
            trials = 0
            while True:
                length, step = 0.0, eta / beta[j]
                for q in range(width):
                    c = listed[first + q] if lean else first + q
                    t = step / metric[c]
                    du[c] = prox(penalty, x[c] - t * g[c], t, cols[c]) - x[c]
                    length += metric[c] * du[c] * du[c]
                if free:
                    du[p] = -step / metric[p] * g[p]
                    length += metric[p] * du[p] * du[p]
                moves = not length <= 0.0  # or is not finite
                if follows or (moves and (more or looks)):
                    for a in range(b):
                        i = S[a]
                        lo, hi = (first, last) if dense else (ends[i, j], ends[i, j + 1])
                        if follows:
                            s, s_lag = dots(X, idx, i, lo, hi, du, dl)
                            zl[a] += s_lag + (dl[p] if free else 0.0)
                        else:
                            s = dot(X, idx, i, lo, hi, du)
                        along[a] = s + (du[p] if free else 0.0)
                    follows = False
                if not moves or not (more or looks):
                    break
                for a in range(b):
                    there[a] = z[a] + along[a]
                slopes(loss, y, there, w, new, e, room)
                if not looks:
                    break
                tried += b * shares[j]
                bend, size = 0.0, 0.0
                for a in range(b):
                    bend += (new[a] - rz[a]) * along[a]
                    size += abs(rz[a] * along[a])
                if abs(bend) <= rounded * size:
                    break
                bend /= length
                trials += 1
                if bend <= slack * beta[j]:
                    top[0] = max(top[0], beta[j])
                    beta[j] = max(max(shrink * beta[j], bend), least * top[0])
                    break
                most_now = 16.0 * beta[j]
                beta[j] = most_now if np.isnan(bend) else min(max(2.0 * beta[j], bend), most_now)
                if trials == most:
                    break
            for q in range(width):
                c = listed[first + q] if lean else first + q
                xl[c] = x[c]
                x[c] += du[c]
            if sparse_moves:  # a zero that stayed with its gradient stays until that changes
                kept = 0
                for q in range(width):
                    c = listed[first + q] if lean else first + q
                    inside[c] = x[c] != 0.0 or xl[c] != 0.0
                    if inside[c]:
                        listed[first + kept] = c
                        kept += 1
                    else:
                        d[c], du[c], dl[c] = 0.0, 0.0, 0.0
                count[j], known[j] = kept, True
            if free:
                xl[p] = x[p]
                x[p] += du[p]
            if moves and more:
                for a in range(b):
                    z[a], rz[a] = there[a], new[a]
    return tried
