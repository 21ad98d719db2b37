"""Cycles on samples of the rows, compiled: each entry of a batch is read a fixed number of times.

A visit of a block reads its entries in the batch twice: once for the gradient at both points, once
to move both. What is drawn comes from outside, so a compiled run draws as the literal one does.

Columns lie block after block; the intercept is coordinate p, a column of ones, and moves with the
last block. X is a table, or the entries of a CSR matrix. Rows and vectors are cut to size before a
loop: of what might be a negative index the compiler makes no vectors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from cyclade.linear import losses
from cyclade.linear.kernels.jit import compiled
from cyclade.linear.kernels.shipped import prox
from cyclade.linear.kernels.smooth_losses import exponential
from cyclade.steps.searched import LEAST, MOST_TRIALS, ROUNDED, SHRINK, SLACK

SQUARED, HUBER, QUANTILE, HINGE, LOGISTIC, POISSON, GAMMA, CAUCHY, WELSCH, GEMAN, TUKEY = range(11)
CHUNK = 256  # rows whose z, φ' and entries stay in a cache
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
        for i in range(n):
            e[i] = exponential(out[i])
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
def dot(X: Any, idx: Any, i: int, lo: int, hi: int, x: Any) -> float:
    """Row i times x over its entries (or columns) from lo to hi."""
    s = 0.0
    if X.ndim == 2:
        row, x = X[i, lo:hi], x[lo:hi]
        for c in range(row.shape[0]):
            s += row[c] * x[c]
    else:
        for k in range(lo, hi):
            s += X[k] * x[idx[k]]
    return s


@numba.njit(fastmath=LOOSE, cache=True, nogil=True, error_model="numpy")
def add(X: Any, idx: Any, i: int, lo: int, hi: int, r: float, d: Any) -> None:
    """d += r times row i over its entries (or columns) from lo to hi."""
    if X.ndim == 2:
        row, d = X[i, lo:hi], d[lo:hi]
        for c in range(row.shape[0]):
            d[c] += r * row[c]
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
    some, first, second, fourth = out[0], out[1], out[2], out[3]
    for i in range(w.shape[0]):
        row = X[i] if X.ndim == 2 else X[indptr[i] : indptr[i + 1]]
        for k in range(row.shape[0]):
            c = k if X.ndim == 2 else idx[indptr[i] + k]
            entry = float(row[k])
            square = entry * entry
            some[c] += w[i] if entry != 0.0 else 0.0
            first[c] += w[i] * entry
            second[c] += w[i] * square
            fourth[c] += w[i] * square * square


class Table(NamedTuple):
    """The data: entries of X with their columns and the bounds of blocks, and what rows have."""

    X: Any  # (n, p), or (entries,) of a CSR matrix
    idx: Any  # columns of the entries, unsigned: an index that may be negative takes twice as long
    ends: Any  # (n, m + 1): where the blocks of a row begin among the entries, or the columns
    y: Any
    weight: Any
    offset: Any  # empty: none


class Blocks(NamedTuple):
    """What moves when: block j has the columns starts[j], …, starts[j + 1] − 1."""

    cols: Any  # by which the penalty knows a column
    starts: Any
    turns: Any
    shares: Any  # of a block in a component gradient
    intercept: bool  # whether column p moves with the last block


class Draws(NamedTuple):
    """Samples of cycles k, k + 1, … until so many gradients are counted: see `cycles`."""

    b: int
    b_small: int
    p: float
    early: tuple[int, int]  # cycles (from 1) that refresh for sure; 0 is none
    per_cycle: int
    k: int
    gradients: float
    until: float
    large: float  # steps are not searched on samples of so many rows


@compiled
def distinct(rng: Any, places: Any, out: Any) -> None:
    """Distinct numbers below n, uniformly; `places` is 0, …, n − 1 before and after."""
    n, b = places.shape[0], out.shape[0]
    for i in range(b):
        k = i + int(rng.random() * (n - i))
        out[i], places[k] = places[k], places[i]
        places[i] = out[i]
    for i in range(b):
        places[out[i]] = out[i]
        places[i] = i


@compiled
def cycles(
    table: Any, loss: Any, penalty: Any, blocks: Any, point: Any, steps: Any, draws: Any, rng: Any,
    rooms: Any,
) -> tuple[int, float, float]:  # fmt: skip
    """Algorithm 2, lines 4 to 8, cycle after cycle.

    Returns the cycles made, the component gradients so far, and the terms that searches looked at.

    `point` is x, the lagged point, g, and what becomes x at the beginning of the last cycle;
    `steps` are D, β_j, the largest β_j so far, and η of each cycle.
    """
    X, idx, ends = table.X, table.idx, table.ends
    cols, starts, turns, shares = blocks.cols, blocks.starts, blocks.turns, blocks.shares
    x, xl, g, before = point
    metric, beta, top, rates = steps
    places, taken, cut_room, room = rooms
    n, p, m = places.shape[0], x.shape[0] - 1, starts.shape[0] - 1
    per_draw = m // draws.per_cycle
    d, du, dl = np.zeros(p + 1), np.zeros(p + 1), np.zeros(p + 1)
    gradients, tried, made = draws.gradients, 0.0, 0
    before_j, one, one_lag = 0, 0.0, 0.0
    while made == 0 or gradients < draws.until:
        before[:] = x
        eta, cycle = rates[made], draws.k + made + 1
        for visit in range(m):
            j = turns[visit]
            if visit % per_draw == 0:  # a sample, and z and φ' on it
                refresh = draws.p == 1.0 or rng.random() < draws.p
                refresh = refresh or cycle == draws.early[0] or cycle == draws.early[1]
                b = draws.b if refresh else draws.b_small
                z, zl, rz, rl = room[0, :b], room[1, :b], room[2, :b], room[3, :b]
                new, along, there = room[4, :b], room[5, :b], room[6, :b]
                e, more_room = room[7, :b], room[8, :b]
                S, y, w, cut = places[:b], table.y[:b], table.weight[:b], ends
                if b < n:
                    S, y, w, cut = taken[:b], room[9, :b], room[10, :b], cut_room
                    distinct(rng, places, S)
                    for a in range(b):
                        y[a], w[a] = table.y[S[a]], table.weight[S[a]] * (n / b)
                        cut[a] = ends[S[a]]
                share = 1.0 if draws.per_cycle == 1 else shares[j]
                looks = b < draws.large
                gradients += b * share * (1.0 if refresh else 2.0)
            fresh, more = visit % per_draw == 0, visit % per_draw < per_draw - 1
            first, last = starts[j], starts[j + 1]
            free = blocks.intercept and j == m - 1  # the intercept moves with this block
            d[first:last] = 0.0
            total = 0.0
            for begin in range(0, b, CHUNK):  # of rows that stay in a cache
                part = slice(begin, min(begin + CHUNK, b))
                for a in range(part.start, part.stop):
                    i = S[a]
                    if fresh:
                        lo, hi = cut[a, 0], cut[a, m]
                        shift = table.offset[i] if table.offset.shape[0] > 0 else 0.0
                        z[a] = dot(X, idx, i, lo, hi, x) + x[p] + shift
                        if not refresh:
                            zl[a] = dot(X, idx, i, lo, hi, xl) + xl[p] + shift
                    elif not looks:  # the block before has moved
                        lo, hi = cut[a, before_j], cut[a, before_j + 1]
                        z[a] += dot(X, idx, i, lo, hi, du) + one
                        if not refresh:
                            zl[a] += dot(X, idx, i, lo, hi, dl) + one_lag
                if fresh or not looks:
                    slopes(loss, y[part], z[part], w[part], rz[part], e, more_room)
                if not refresh:
                    slopes(loss, y[part], zl[part], w[part], rl[part], e, more_room)
                for a in range(part.start, part.stop):
                    r = rz[a] if refresh else rz[a] - rl[a]
                    if r != 0.0:
                        lo, hi = cut[a, j], cut[a, j + 1]
                        add(X, idx, S[a], lo, hi, r, d)
                        total += r
            for c in range(first, last):
                g[c] = d[c] if refresh else g[c] + d[c]
                dl[c] = x[c] - xl[c]
            if free:
                g[p] = total if refresh else g[p] + total
                dl[p] = x[p] - xl[p]
            follows = more and not refresh  # the lagged point is needed for the next block
            trials = 0
            while True:
                length, step = 0.0, eta / beta[j]
                for c in range(first, last):
                    t = step / metric[c]
                    du[c] = prox(penalty, x[c] - t * g[c], t, cols[c]) - x[c]
                    length += metric[c] * du[c] * du[c]
                if free:
                    du[p] = -step / metric[p] * g[p]
                    length += metric[p] * du[p] * du[p]
                moves = not length <= 0.0  # or is not finite
                if not looks or not (moves or follows):
                    break
                for a in range(b):
                    lo, hi = cut[a, j], cut[a, j + 1]
                    if follows:
                        zl[a] += dot(X, idx, S[a], lo, hi, dl) + (dl[p] if free else 0.0)
                    along[a] = dot(X, idx, S[a], lo, hi, du) + (du[p] if free else 0.0)
                    there[a] = z[a] + along[a]
                follows = False
                if not moves:
                    break
                slopes(loss, y, there, w, new, e, more_room)
                tried += b * shares[j]
                bend, size = 0.0, 0.0
                for a in range(b):
                    bend += (new[a] - rz[a]) * along[a]
                    size += abs(rz[a] * along[a])
                if abs(bend) <= ROUNDED * size:
                    break
                bend /= length
                trials += 1
                if bend <= SLACK * beta[j]:
                    top[0] = max(top[0], beta[j])
                    beta[j] = max(max(SHRINK * beta[j], bend), LEAST * top[0])
                    break
                most_now = 16.0 * beta[j]
                beta[j] = most_now if np.isnan(bend) else min(max(2.0 * beta[j], bend), most_now)
                if trials == MOST_TRIALS:
                    break
            for c in range(first, last):
                xl[c] = x[c]
                x[c] += du[c]
            if free:
                xl[p] = x[p]
                x[p] += du[p]
            before_j, one, one_lag = j, du[p] if free else 0.0, dl[p] if free else 0.0
            if looks and moves and more:
                for a in range(b):
                    z[a], rz[a] = there[a], new[a]
        made += 1
    return made, gradients, tried
