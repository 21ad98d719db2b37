"""The Triton kernel of `cyclade.optim.fused`; importing this needs Triton."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def update(  # type: ignore[no-untyped-def]
    xs,
    nows,
    thens,
    g,
    lagged,
    rate,
    shrink,
    scale,
    start,
    SIZES: tl.constexpr,
    CORRECTS: tl.constexpr,
    KEEPS: tl.constexpr,
    LAGS: tl.constexpr,
    SCALES: tl.constexpr,
    LANES: tl.constexpr,
):
    """x ← (x − η g) / (1 + η wd) over the tensors of a block, g and x_lag beside it.

    Program number pid has LANES entries of one of the tensors; `start` is where the first tensor
    lies in the vectors g and x_lag.
    """
    pid = tl.program_id(0)
    first = 0
    at = start
    for i in tl.static_range(len(SIZES)):
        programs = tl.cdiv(SIZES[i], LANES)
        if (pid >= first) & (pid < first + programs):
            own = (pid - first) * LANES + tl.arange(0, LANES)
            inside = own < SIZES[i]
            x = tl.load(xs[i] + own, mask=inside)
            d = tl.load(nows[i] + own, mask=inside)
            if SCALES:
                d = d * tl.load(scale)
            if CORRECTS:
                before = tl.load(g + at + own, mask=inside)
                d = before + (d - tl.load(thens[i] + own, mask=inside))
            if KEEPS:
                tl.store(g + at + own, d, mask=inside)
            if LAGS:
                tl.store(lagged + at + own, x, mask=inside)
            moved = x - tl.load(rate) * d
            by = tl.load(shrink)
            if x.dtype == tl.float32:
                moved = tl.div_rn(moved, by + tl.zeros_like(moved))
            else:
                moved = moved / by
            tl.store(xs[i] + own, moved, mask=inside)
        first += programs
        at += SIZES[i]
