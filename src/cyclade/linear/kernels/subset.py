"""What an exchange of columns costs most: a look at all columns, and a rank-one update."""

from __future__ import annotations

from typing import Any

from cyclade.linear.kernels.jit import compiled
from cyclade.linear.kernels.linalg import subtract


@compiled
def best_column(
    c: Any, left: Any, b: Any, slope: float, share: float, least: Any, inside: Any
) -> tuple[int, float]:
    """The column outside with the largest (c + slope·b)²/(left + share·b²), and that number.

    Columns with no more than `least` left of them beside the support do not count; −1 if all do.
    """
    at, most = -1, -1.0
    for j in range(c.shape[0]):
        rest = left[j] + share * b[j] * b[j]
        if rest > least[j] and not inside[j]:
            d = c[j] + slope * b[j]
            if d * d > most * rest:
                at, most = j, d * d / rest
    return at, most


@compiled
def subtract_rows(B: Any, v: Any, b: Any, k: int) -> None:
    """B_i ← B_i − v_i b for i < k."""
    for i in range(k):
        subtract(B[i], b, v[i], b.shape[0])
