"""From what a user gives as `L` to a `Steps` object."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from cyclade._arrays import Array, array_namespace, kind
from cyclade.blocks import Layout, Point
from cyclade.steps import Backtracking, Curvature, Fixed, Steps


def as_steps(
    L: Any, eta: Any, layout: Layout, user_layout: Layout, x0: Point, deterministic: bool
) -> Steps:
    """The steps for `layout`; Λ may be given for the blocks of `user_layout`, which it merges."""
    if callable(getattr(L, "at", None)):
        if eta is not None:
            raise ValueError("eta is part of the Steps object given as L: set it there")
        blocks = getattr(L, "blocks", layout.m)
        if blocks != layout.m:
            raise ValueError(f"L is a Steps object for {blocks} blocks, but there are {layout.m}")
        return copy.deepcopy(L)  # type: ignore[no-any-return]  # it learns; the user's stays as it was
    eta = (1.0 if deterministic else 0.15) if eta is None else eta
    if L is None:
        L = "backtracking" if deterministic else "estimate"
    if isinstance(L, str):
        if L == "backtracking":
            return Backtracking([math.nan] * layout.m, eta)
        if L == "estimate":
            return Curvature(layout.m, eta)
        raise ValueError(
            f"L={L!r} is unknown: use 'backtracking', 'estimate', a number, one number or diagonal "
            "per block, or a Steps object"
        )
    Lambda = _per_block(L, user_layout, x0)
    if layout.m != user_layout.m:
        Lambda = [_merged(Lambda, user_layout, x0)]
    return Fixed(Lambda, eta)


def _per_block(L: Any, layout: Layout, x0: Point) -> list[Array | float]:
    if isinstance(L, Mapping):
        if sorted(L) != sorted(layout.names):
            raise ValueError(f"L must have the blocks' names {list(layout.names)}, got {list(L)}")
        L = [L[name] for name in layout.names]
    if np.ndim(L) == 0:
        L = [L] * layout.m
    entries = list(L)
    if len(entries) != layout.m:
        raise ValueError(
            f"L must have one entry for each of the {layout.m} blocks, got {len(entries)}"
        )
    return [
        _checked(entry, j, shape, x0.leaves[0])
        for j, (entry, shape) in enumerate(zip(entries, layout.block_shapes, strict=True))
    ]


def _checked(entry: Any, j: int, shape: tuple[int, ...], like: Array) -> Array | float:
    if not kind(entry) and isinstance(entry, int | float) and not isinstance(entry, bool):
        value = float(entry)
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"L[{j}] must be positive and finite, got {entry}")
        return value
    try:
        diagonal = array_namespace(like).asarray(entry, dtype=like.dtype)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"L[{j}] must be a number or an array, got {entry!r}") from None
    if diagonal.ndim == 0:
        return _checked(float(diagonal), j, shape, like)
    if tuple(diagonal.shape) != shape:
        raise ValueError(f"L[{j}] must have the shape {shape} of its block, got {diagonal.shape}")
    if not bool((diagonal > 0).all()) or not math.isfinite(float(diagonal.sum())):
        raise ValueError(f"L[{j}] must be positive and finite in every entry")
    return diagonal.to(like.device) if kind(like) == "torch" else diagonal


def _merged(Lambda: list[Array | float], layout: Layout, x0: Point) -> Array | float:
    """Λ of all of x as one block: a number if all blocks share one, else a diagonal."""
    if all(isinstance(entry, float) and entry == Lambda[0] for entry in Lambda):
        return Lambda[0]
    like = x0.leaves[0]
    xp = array_namespace(like)
    device = {"device": like.device} if kind(like) == "torch" else {}
    diagonal = xp.ones((layout.d,), dtype=like.dtype, **device)
    for index, entry in zip(layout.flat_index(), Lambda, strict=True):
        diagonal[index] = entry if isinstance(entry, float) else entry.reshape(-1)
    return diagonal
