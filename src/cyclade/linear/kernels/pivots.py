"""An active-set method for ½ xᵀGx − bᵀx + Σ_j λ_j |x_j|, one coordinate in or out at a time.

On a support S with signs s the minimum is where c_S = λ_S s with c = b − Gx: a linear system, whose
Cholesky factor L Lᵀ = G_SS follows S at k² per change. A step towards it ends where a coordinate
gets to zero, which then leaves; at the minimum the coordinate that violates |c_j| ≤ λ_j most comes
in. Columns that are nearly dependent, as when S has as many columns as X has rows, cost no more
than others here, while cycles hardly move along what they have in common. G need only be positive
definite on the first S: a coordinate along which it is not stays out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cyclade.linear.kernels.jit import compiled, inner, pasted, reductions

RIDGE = 1e-11  # of G_jj: the least a new column counts as independent of those in S
TINY = 2.2250738585072014e-308
CORRECTIONS = 2  # times that what rounding has left on S is solved for
BENT = -1e-8  # of G_jj: what is left of it is less only if G is not positive there


@reductions
def dot(a: Any, b: Any, m: int) -> float:
    """Σ_{i<m} a_i b_i."""
    s = 0.0
    for i in range(m):
        s += a[i] * b[i]
    return s


@reductions
def subtract(a: Any, row: Any, d: float, m: int) -> None:
    """a_i ← a_i − d row_i for i < m."""
    for i in range(m):
        a[i] -= d * row[i]


@inner
def forward(L: Any, v: Any, k: int) -> None:
    """v ← L⁻¹ v."""
    for i in range(k):
        v[i] = (v[i] - dot(L[i], v, i)) / L[i, i]


@pasted
def backward(L: Any, v: Any, k: int) -> None:
    """v ← L⁻ᵀ v, by rows of L."""
    for i in range(k - 1, -1, -1):
        v[i] /= L[i, i]
        subtract(v, L[i], v[i], i)


@pasted
def append(L: Any, G: Any, S: Any, k: int, j: int) -> bool:
    """Column j after the k of S; no if G is not positive definite with it."""
    row = L[k]
    for i in range(k):
        row[i] = G[j, S[i]]
    forward(L, row, k)
    left = G[j, j] - dot(row, row, k)
    if G[j, j] <= 0.0 or left < BENT * G[j, j]:
        return False
    row[k] = math.sqrt(max(left, RIDGE * G[j, j]))
    return True


@pasted
def remove(L: Any, S: Any, k: int, q: int, y: Any) -> None:
    """Take the q-th of k columns out: the rows below move up and are rotated back to triangles.

    Each row is a chain of rotations, so four go through those that are known side by side. y goes
    through all of them: where it was L⁻¹ v it then is that of v without its q-th entry.
    """
    cosine, sine, last = np.empty(k), np.empty(k), np.empty(4)
    for first in range(q, k - 1, 4):
        count = min(4, k - 1 - first)
        for a in range(count):
            S[first + a] = S[first + a + 1]
            for i in range(q):
                L[first + a, i] = L[first + a + 1, i]
            last[a] = L[first + a + 1, q]
        known = first if count == 4 else q
        if count == 4:
            four_rows(L, first, q, cosine, sine, last)
        for a in range(count):
            r = first + a
            end = one_row(L, r, known, cosine, sine, last[a])
            size = math.hypot(end, L[r + 1, r + 1])
            cosine[r], sine[r] = end / size, L[r + 1, r + 1] / size
            L[r, r] = size
    carried = y[q]
    for i in range(q, k - 1):
        below = y[i + 1]
        y[i], carried = cosine[i] * carried + sine[i] * below, cosine[i] * below - sine[i] * carried


@pasted
def one_row(L: Any, r: int, q: int, cosine: Any, sine: Any, last: float) -> float:
    """Row r + 1 into row r through rotations q, …, r − 1; what is carried on."""
    row, below = L[r], L[r + 1]
    for i in range(q, r):
        row[i] = cosine[i] * last + sine[i] * below[i + 1]
        last = cosine[i] * below[i + 1] - sine[i] * last
    return last


@pasted
def four_rows(L: Any, r: int, q: int, cosine: Any, sine: Any, last: Any) -> None:
    """Rows r + 1, …, r + 4 into rows r, …, r + 3 through rotations q, …, r − 1."""
    r0, r1, r2, r3, r4 = L[r], L[r + 1], L[r + 2], L[r + 3], L[r + 4]
    e0, e1, e2, e3 = last[0], last[1], last[2], last[3]
    for i in range(q, r):
        c, s = cosine[i], sine[i]
        b0, b1, b2, b3 = r1[i + 1], r2[i + 1], r3[i + 1], r4[i + 1]
        r0[i], e0 = c * e0 + s * b0, c * b0 - s * e0
        r1[i], e1 = c * e1 + s * b1, c * b1 - s * e1
        r2[i], e2 = c * e2 + s * b2, c * b2 - s * e2
        r3[i], e3 = c * e3 + s * b3, c * b3 - s * e3
    last[0], last[1], last[2], last[3] = e0, e1, e2, e3


@compiled
def pivots(
    G: Any, c: Any, x: Any, lam: Any, L: Any, S: Any, k: int, most: int, goal: float
) -> tuple[int, int, int]:
    """Change the support at most `most` times, until |c_j| ≤ λ_j + goal at rest.

    Returns the changes, its size, and how many coordinates were kept out. S holds the k coordinates
    with x ≠ 0 and L the factor of G_SS; both have room for all.

    y = L⁻¹ (c_S − λ_S s) is what is left to go: a step of length t leaves 1 − t of it, and at the
    minimum of S only the coordinate that comes in has any. So it need not be solved for.
    """
    m = x.shape[0]
    inside, barred = np.zeros(m, np.bool_), np.zeros(m, np.bool_)
    d, y, moved, begun = np.empty(m), np.empty(m), np.zeros(m), c.copy()
    sign, done, kept_out, corrections, solved = np.sign(x), 0, 0, 0, False
    for i in range(k):
        inside[S[i]] = True
    while True:
        if not solved:
            for i in range(k):
                y[i] = c[S[i]] - lam[S[i]] * sign[S[i]]
            forward(L, y, k)
            solved = True
        for i in range(k):
            d[i] = y[i]
        backward(L, d, k)
        t, out = 1.0, -1
        for i in range(k):
            j = S[i]
            if (x[j] + d[i]) * sign[j] < 0.0 and -x[j] / d[i] < t:
                t, out = -x[j] / d[i], i
        for i in range(k):
            x[S[i]] += t * d[i]
            moved[S[i]] += t * d[i]
            y[i] *= 1.0 - t
        if out >= 0:
            x[S[out]], inside[S[out]] = 0.0, False
            remove(L, S, k, out, y)
            k -= 1
        if out < 0 or done == most:
            for j in range(m):  # c of those at rest is wanted only now
                if not inside[j]:
                    c[j] = begun[j] - dot(G[j], moved, m)
            new = entering(c, lam, inside, barred, goal)
            while new >= 0 and done < most and not append(L, G, S, k, new):
                barred[new], kept_out = True, kept_out + 1
                new = entering(c, lam, inside, barred, goal)
            if new < 0 or done == most:
                left = 0.0
                for i in range(k):
                    j = S[i]
                    c[j] = begun[j] - dot(G[j], moved, m)
                    left = max(left, abs(c[j] - lam[j] * sign[j]))
                if done == most or left <= goal or corrections == CORRECTIONS:
                    break
                corrections, solved = corrections + 1, False  # rounding has added up
                continue
            S[k], inside[new], sign[new] = new, True, np.sign(c[new])
            y[k] = (c[new] - lam[new] * sign[new]) / L[k, k]
            k += 1
        done += 1
    return done, k, kept_out


@inner
def entering(c: Any, lam: Any, inside: Any, barred: Any, goal: float) -> int:
    """The coordinate at rest that violates |c_j| ≤ λ_j most, by more than the goal; −1 if none."""
    worst, new = goal, -1
    for j in range(c.shape[0]):
        if not inside[j] and not barred[j] and abs(c[j]) - lam[j] > worst:
            worst, new = abs(c[j]) - lam[j], j
    return new


@compiled
def soft_cycles(G: Any, c: Any, x: Any, lam: Any, most: int, enough: float) -> int:
    """Cycles over all coordinates, as `kernels.gram.cycles` under r = Σ λ_j |x_j|; how many.

    With other penalties left out there is little to compile.
    """
    m, done, largest = x.shape[0], 0, np.inf
    while done < most and largest > enough:
        largest = 0.0
        for j in range(m):
            u = x[j] * G[j, j] + c[j]
            new = math.copysign(max(abs(u) - lam[j], 0.0), u) / max(G[j, j], TINY)
            d = new - x[j]
            if d != 0.0:
                x[j] = new
                largest = max(largest, abs(d) * G[j, j])
                subtract(c, G[j], d, m)
        done += 1
    return done
