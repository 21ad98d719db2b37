"""The cycle of `core.py` asks nothing of arrays that the array API standard does not have.

Regularisers and layouts take NumPy and torch alone, and use what these two share.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cyclade.core import cycle

strict = pytest.importorskip("array_api_strict")


class Quadratic:
    """½ ‖Ax − b‖² by blocks of columns, on any arrays: the sweep and the lagged sweep at once."""

    def __init__(self, of: Any, A: Any, b: Any, blocks: list[slice]) -> None:
        self.A, self.b = [of.asarray(A[:, block]) for block in blocks], of.asarray(b)
        self.x: Any = [of.zeros(part.shape[1]) for part in self.A]

    def get(self, j: int) -> Any:
        return self.x[j]

    def set(self, j: int, u: Any) -> None:
        self.x[j] = u

    def grad(self, j: int) -> Any:
        rest = -self.b
        for part, x in zip(self.A, self.x, strict=True):
            rest = rest + part @ x
        return self.A[j].T @ rest

    def follow(self, j: int, old: Any, new: Any) -> None:
        self.x[j] = new

    def at(self, j: int, now: Any, gj: Any, reg: Any) -> tuple[Any, float]:
        return gj, 0.02

    def prox(self, j: int, u: Any, t: float) -> Any:
        return u / (1.0 + t)


class Kept(dict[int, Any]):
    def set(self, j: int, g: Any) -> None:
        self[j] = g


def test_cycles_on_strict_arrays_are_those_on_numpy() -> None:
    rng = np.random.default_rng(0)
    A, b, blocks = rng.standard_normal((12, 5)), rng.standard_normal(12), [slice(2), slice(2, 5)]
    ends = []
    for of in (np, strict):
        now, lag, g = Quadratic(of, A, b, blocks), Quadratic(of, A, b, blocks), Kept()
        for refresh in (True, False, False, True, False):
            cycle(range(2), now, lag, g, now, now, refresh)  # type: ignore[arg-type]
        ends.append(np.concatenate([np.asarray(x) for x in now.x]))
    assert np.abs(ends[0]).max() > 0.01
    np.testing.assert_allclose(ends[1], ends[0], rtol=1e-12)
