"""From one λ of a path to the next: which columns come after."""

from __future__ import annotations

from typing import Any

from cyclade.linear.kernels.jit import compiled


@compiled
def strong(x: Any, g: Any, zero_threshold: Any, before: Any, stride: float, out: Any) -> int:
    """Names with x_j ≠ 0 or |g_j| > still_j − (before_j − still_j), and how many they are.

    `zero_threshold` holds the thresholds at the new λ, `before` those at the last; −1 if any of
    them has come down to less than the part `stride`.
    """
    many = 0
    for j in range(x.shape[0]):
        if zero_threshold[j] < stride * before[j]:
            return -1
        if x[j] != 0.0 or abs(g[j]) > 2.0 * zero_threshold[j] - before[j]:
            out[many] = j
            many += 1
    return many


@compiled
def pulled(x: Any, g: Any, zero_threshold: Any, part: float, out: Any) -> tuple[int, int]:
    """Names with x_j ≠ 0, or at rest with |g_j| − still_j > part · max; how many, and at rest.

    The maximum is over the names at rest, and at least 0.
    """
    top = 0.0
    for j in range(x.shape[0]):
        if x[j] == 0.0:
            top = max(top, abs(g[j]) - zero_threshold[j])
    many, resting = 0, 0
    for j in range(x.shape[0]):
        at_rest = x[j] == 0.0
        if not at_rest or abs(g[j]) - zero_threshold[j] > part * top:
            out[many] = j
            many += 1
            resting += at_rest
    return many, resting


@compiled
def drawn(
    x: Any, g: Any, zero_threshold: Any, part: float, support: Any, close: Any
) -> tuple[int, int]:
    """Names with x_j ≠ 0, and at rest with |g_j| > part · still_j; how many of each."""
    inside, many = 0, 0
    for j in range(x.shape[0]):
        if x[j] != 0.0:
            support[inside] = j
            inside += 1
        elif abs(g[j]) > part * zero_threshold[j]:
            close[many] = j
            many += 1
    return inside, many
