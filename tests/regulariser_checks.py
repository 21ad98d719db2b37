"""Distances that can be worked out by hand, as checks which `test_mutations` breaks on purpose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cyclade.regularisers import NonNegative, NuclearNorm, SquaredL2
from cyclade.regularisers.joined import Joined


def check_rank_of_the_nuclear_norm() -> None:
    """A small singular value is rounding, and free, only below 8 max(rows, columns) epsilons.

    At u = diag(1, σ) and v = -diag(1, 1/2): if σ counts, ∂r(u) = {I} and the distance is 1/2;
    if it does not, the second entry of s may be anything up to 1, and the distance is 0.
    """
    for dtype in ("float32", "float64"):
        tolerance = 8 * 2 * float(np.finfo(dtype).eps)
        for factor, expected in ((2.0, 0.5), (0.5, 0.0)):
            u = np.diag([1.0, factor * tolerance]).astype(dtype)
            v = -np.diag([1.0, 0.5]).astype(dtype)
            blocks: list[tuple[Any, Any]] = [(u, v), (torch.as_tensor(u), torch.as_tensor(v))]
            for point, gradient in blocks:
                distance = NuclearNorm(1.0).distance(point, gradient)
                assert distance == pytest.approx(expected, abs=1e-6)


def check_joined_distances() -> None:
    """Distances of parts add up as lengths do: 3 and 4 make 5, also with weights."""
    parts = [(slice(0, 2), (2,), SquaredL2(1.0)), (slice(2, 3), (1,), NonNegative())]
    u, v = np.array([1.0, 2.0, 0.0]), np.array([2.0, -2.0, -4.0])
    assert Joined(parts).distance(u, v) == pytest.approx(5.0)
    weights = np.array([4.0, 1.0, 0.25])
    assert Joined(parts).distance(u, v, weights) == pytest.approx(np.hypot(6.0, 2.0))
