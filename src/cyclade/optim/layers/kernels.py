"""Triton kernels of small layers; importing this needs Triton.

A convolution here has stride 1 and no dilation, and is followed by max-pooling over windows of
2 x 2. Pixels are numbered over all images; "patch" is the part of the input that a weight sees.
Sums over pixels are made in two kernels, parts and their sum, so that they repeat bit for bit.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def conv_forward(  # type: ignore[no-untyped-def]
    x, w, b, y, place, pixels,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, D: tl.constexpr,
    PH: tl.constexpr, PW: tl.constexpr, R: tl.constexpr, S: tl.constexpr, PAD: tl.constexpr,
    BP: tl.constexpr, BK: tl.constexpr, BO: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """y = maxpool(relu(conv(x, w) + b)); place says which of the four won, 4 for none (ReLU)."""
    K: tl.constexpr = C * R * S
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    inside = p < pixels
    n, py, px = p // (PH * PW), (p // PW) % PH, p % PW
    o = tl.arange(0, BO)
    row, col = 2 * py - PAD, 2 * px - PAD
    base = x + n * (C * H * W) + row * W + col
    zero = tl.zeros([BP, BO], tl.float32)
    a0, a1, a2, a3 = zero, zero, zero, zero
    for first in range(0, K, BK):
        k = first + tl.arange(0, BK)
        c, r, s = k // (R * S), (k // S) % R, k % S
        wk = tl.load(
            w + o[None, :] * K + k[:, None], mask=(k < K)[:, None] & (o < D)[None, :], other=0.0
        )
        at = base[:, None] + (c * (H * W) + r * W + s)[None, :]
        ok = inside[:, None] & (k < K)[None, :]
        if PAD == 0:
            a0 = tl.dot(tl.load(at, mask=ok, other=0.0), wk, a0, input_precision=PRECISION)
            a1 = tl.dot(tl.load(at + 1, mask=ok, other=0.0), wk, a1, input_precision=PRECISION)
            a2 = tl.dot(tl.load(at + W, mask=ok, other=0.0), wk, a2, input_precision=PRECISION)
            a3 = tl.dot(tl.load(at + W + 1, mask=ok, other=0.0), wk, a3, input_precision=PRECISION)
        else:
            i, j = row[:, None] + r[None, :], col[:, None] + s[None, :]
            up, down = (i >= 0) & (i < H), (i >= -1) & (i < H - 1)
            left, right = (j >= 0) & (j < W), (j >= -1) & (j < W - 1)
            v = tl.load(at, mask=ok & up & left, other=0.0)
            a0 = tl.dot(v, wk, a0, input_precision=PRECISION)
            v = tl.load(at + 1, mask=ok & up & right, other=0.0)
            a1 = tl.dot(v, wk, a1, input_precision=PRECISION)
            v = tl.load(at + W, mask=ok & down & left, other=0.0)
            a2 = tl.dot(v, wk, a2, input_precision=PRECISION)
            v = tl.load(at + W + 1, mask=ok & down & right, other=0.0)
            a3 = tl.dot(v, wk, a3, input_precision=PRECISION)
    bias = tl.load(b + o, mask=o < D)[None, :]
    best = a0 + bias
    won = tl.zeros([BP, BO], tl.int32)
    v = a1 + bias
    take = (v > best) | (v != v)
    best, won = tl.where(take, v, best), tl.where(take, 1, won)
    v = a2 + bias
    take = (v > best) | (v != v)
    best, won = tl.where(take, v, best), tl.where(take, 2, won)
    v = a3 + bias
    take = (v > best) | (v != v)
    best, won = tl.where(take, v, best), tl.where(take, 3, won)
    off = best <= 0  # not where it is NaN
    best, won = tl.where(off, 0.0, best), tl.where(off, 4, won)
    to = n[:, None] * (D * PH * PW) + o[None, :] * (PH * PW) + (py * PW + px)[:, None]
    ok = inside[:, None] & (o < D)[None, :]
    tl.store(y + to, best, mask=ok)
    tl.store(place + to, won.to(tl.uint8), mask=ok)


@triton.jit  # type: ignore[untyped-decorator]
def conv_weight(  # type: ignore[no-untyped-def]
    x, g, place, parts, pixels, share,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, D: tl.constexpr,
    PH: tl.constexpr, PW: tl.constexpr, R: tl.constexpr, S: tl.constexpr, PAD: tl.constexpr,
    BP: tl.constexpr, BK: tl.constexpr, BO: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Parts of the gradients of w and b from `share` pooled pixels: row i is part i, w before b."""
    K: tl.constexpr = C * R * S
    part = tl.program_id(0)
    k = tl.program_id(1) * BK + tl.arange(0, BK)
    o = tl.arange(0, BO)
    c, r, s = k // (R * S), (k // S) % R, k % S
    acc = tl.zeros([BO, BK], tl.float32)
    bias = tl.zeros([BO], tl.float32)
    for first in range(0, share, BP):
        p = part * share + first + tl.arange(0, BP)
        inside = (p < pixels) & (first + tl.arange(0, BP) < share)
        n, py, px = p // (PH * PW), (p // PW) % PH, p % PW
        to = n[None, :] * (D * PH * PW) + o[:, None] * (PH * PW) + (py * PW + px)[None, :]
        ok = inside[None, :] & (o < D)[:, None]
        gy = tl.load(g + to, mask=ok, other=0.0)
        won = tl.load(place + to, mask=ok, other=4)
        bias += tl.sum(tl.where(won < 4, gy, 0.0), 1)
        row, col = 2 * py - PAD, 2 * px - PAD
        at = x + (n * (C * H * W) + row * W + col)[:, None]
        at = at + (c * (H * W) + r * W + s)[None, :]
        ok = inside[:, None] & (k < K)[None, :]
        i, j = row[:, None] + r[None, :], col[:, None] + s[None, :]
        for q in tl.static_range(4):
            seen = ok
            if PAD > 0:
                seen = ok & (i + q // 2 >= 0) & (i + q // 2 < H)
                seen = seen & (j + q % 2 >= 0) & (j + q % 2 < W)
            v = tl.load(at + ((q // 2) * W + q % 2), mask=seen, other=0.0)
            acc = tl.dot(tl.where(won == q, gy, 0.0), v, acc, input_precision=PRECISION)
    row_of = parts + part * (D * K + D)
    tl.store(row_of + o[:, None] * K + k[None, :], acc, mask=(o < D)[:, None] & (k < K)[None, :])
    if tl.program_id(1) == 0:
        tl.store(row_of + D * K + o, bias, mask=o < D)


@triton.jit  # type: ignore[untyped-decorator]
def unpool(  # type: ignore[no-untyped-def]
    g, place, before, size,
    OH: tl.constexpr, OW: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """The gradient before the pooling and the ReLU: g where a pixel won, 0 elsewhere."""
    e = tl.program_id(0) * LANES + tl.arange(0, LANES)
    channel, i, j = e // (OH * OW), (e // OW) % OH, e % OW
    seen = (e < size) & (i < 2 * PH) & (j < 2 * PW)
    at = channel * (PH * PW) + (i // 2) * PW + j // 2
    won = tl.load(place + at, mask=seen, other=4)
    value = tl.load(g + at, mask=seen, other=0.0)
    tl.store(before + e, tl.where(won == (i % 2) * 2 + j % 2, value, 0.0), mask=e < size)


@triton.jit  # type: ignore[untyped-decorator]
def sum_parts(parts, dw, db, size, count, biases, LANES: tl.constexpr, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The sum of the rows of `parts`: the first `size` columns to dw, the rest to db."""
    e = tl.program_id(0) * LANES + tl.arange(0, LANES)
    total = tl.zeros([LANES], tl.float32)
    width = size + biases
    for first in range(0, count, ROWS):
        row = first + tl.arange(0, ROWS)
        ok = (row < count)[:, None] & (e < width)[None, :]
        total += tl.sum(tl.load(parts + row[:, None] * width + e[None, :], mask=ok, other=0.0), 0)
    tl.store(dw + e, total, mask=e < size)
    tl.store(db + (e - size), total, mask=(e >= size) & (e < width))


@triton.jit  # type: ignore[untyped-decorator]
def linear_forward(  # type: ignore[no-untyped-def]
    x, w, b, y, n, K: tl.constexpr, D: tl.constexpr, RELU: tl.constexpr,
    BN: tl.constexpr, BO: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """y = x wᵀ + b, and its ReLU if asked."""
    i = tl.program_id(0) * BN + tl.arange(0, BN)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    acc = tl.zeros([BN, BO], tl.float32)
    for first in range(0, K, BK):
        k = first + tl.arange(0, BK)
        xk = tl.load(
            x + i[:, None] * K + k[None, :], mask=(i < n)[:, None] & (k < K)[None, :], other=0.0
        )
        wk = tl.load(
            w + o[None, :] * K + k[:, None], mask=(k < K)[:, None] & (o < D)[None, :], other=0.0
        )
        acc = tl.dot(xk, wk, acc, input_precision=PRECISION)
    acc += tl.load(b + o, mask=o < D, other=0.0)[None, :]
    if RELU:
        acc = tl.where(acc <= 0, 0.0, acc)
    tl.store(y + i[:, None] * D + o[None, :], acc, mask=(i < n)[:, None] & (o < D)[None, :])


@triton.jit  # type: ignore[untyped-decorator]
def linear_input(  # type: ignore[no-untyped-def]
    g, y, w, dx, n, K: tl.constexpr, D: tl.constexpr, RELU: tl.constexpr,
    BN: tl.constexpr, BO: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dx = (g where y is not 0) w."""
    i = tl.program_id(0) * BN + tl.arange(0, BN)
    k = tl.program_id(1) * BK + tl.arange(0, BK)
    acc = tl.zeros([BN, BK], tl.float32)
    for first in range(0, D, BO):
        o = first + tl.arange(0, BO)
        ok = (i < n)[:, None] & (o < D)[None, :]
        gy = tl.load(g + i[:, None] * D + o[None, :], mask=ok, other=0.0)
        if RELU:
            seen = tl.load(y + i[:, None] * D + o[None, :], mask=ok, other=0.0)
            gy = tl.where(seen <= 0, 0.0, gy)
        wk = tl.load(
            w + o[:, None] * K + k[None, :], mask=(o < D)[:, None] & (k < K)[None, :], other=0.0
        )
        acc = tl.dot(gy, wk, acc, input_precision=PRECISION)
    tl.store(dx + i[:, None] * K + k[None, :], acc, mask=(i < n)[:, None] & (k < K)[None, :])


@triton.jit  # type: ignore[untyped-decorator]
def linear_weight(  # type: ignore[no-untyped-def]
    g, y, x, dw, db, n, K: tl.constexpr, D: tl.constexpr, RELU: tl.constexpr,
    BN: tl.constexpr, BO: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dw = (g where y is not 0)ᵀ x and db, its sum over samples."""
    o = tl.program_id(0) * BO + tl.arange(0, BO)
    k = tl.program_id(1) * BK + tl.arange(0, BK)
    acc = tl.zeros([BO, BK], tl.float32)
    bias = tl.zeros([BO], tl.float32)
    for first in range(0, n, BN):
        i = first + tl.arange(0, BN)
        ok = (o < D)[:, None] & (i < n)[None, :]
        gy = tl.load(g + i[None, :] * D + o[:, None], mask=ok, other=0.0)
        if RELU:
            seen = tl.load(y + i[None, :] * D + o[:, None], mask=ok, other=0.0)
            gy = tl.where(seen <= 0, 0.0, gy)
        bias += tl.sum(gy, 1)
        xk = tl.load(
            x + i[:, None] * K + k[None, :], mask=(i < n)[:, None] & (k < K)[None, :], other=0.0
        )
        acc = tl.dot(gy, xk, acc, input_precision=PRECISION)
    tl.store(dw + o[:, None] * K + k[None, :], acc, mask=(o < D)[:, None] & (k < K)[None, :])
    if tl.program_id(1) == 0:
        tl.store(db + o, bias, mask=o < D)
