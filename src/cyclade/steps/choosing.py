"""From what a user gives as `L` to a `Steps` object."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

from cyclade._arrays import Array, array_namespace, kind
from cyclade._checks import is_number, listed, positive, shown, unmasked
from cyclade.blocks import Layout, Point
from cyclade.steps.backtracking import Backtracking
from cyclade.steps.base import RunSteps
from cyclade.steps.curvature import Curvature
from cyclade.steps.fixed import Fixed
from cyclade.steps.matrix import Matrix

STEPS = ("begin", "current", "metric", "prepare", "memory", "recall", "rate", "slow", "blocks",
         "measured", "remark")  # fmt: skip
ACCEPTED = (
    "'backtracking', 'scaled', 'estimate', 'search', a number, one number, diagonal or Matrix per "
    "block, or a Steps object"
)


def as_steps(
    L: Any,
    eta: Any,
    layout: Layout,
    user_layout: Layout,
    x0: Point,
    deterministic: bool,
    shrink_every: int = 1,
) -> RunSteps:
    """The steps for `layout`; Λ may be given for the blocks of `user_layout`, which it merges.

    For a method that samples, ``L=None`` and ``L="estimate"`` are made from component-wise
    smoothness instead, by the caller, which has the oracle to measure it with.
    """
    if callable(getattr(L, "at", None)):
        if eta is not None:
            raise ValueError("eta is part of the Steps object given as L: set it there")
        lacking = [name for name in STEPS if not hasattr(L, name)]
        if lacking:
            raise TypeError(
                f"L: {type(L).__name__} lacks {', '.join(lacking)} of a Steps object; "
                "cyclade.steps.Rated has them"
            )
        if L.blocks not in (None, layout.m):
            raise ValueError(f"L is a Steps object for {L.blocks} blocks, but there are {layout.m}")
        return copy.deepcopy(L)  # type: ignore[no-any-return]  # it learns; the user's stays as it was
    eta = (1.0 if deterministic else 0.15) if eta is None else eta
    if L is None:
        L = "backtracking" if deterministic else "estimate"
    if isinstance(L, str):
        if L in ("backtracking", "scaled"):
            guesses = [math.nan] * layout.m
            return Backtracking(guesses, eta, scaled=L == "scaled", shrink_every=shrink_every)
        if L == "estimate":
            return Curvature(layout.m, eta)
        if L == "search":
            raise ValueError(
                "L='search' is for methods that sample (give n= or stream=): use 'backtracking'"
            )
        raise ValueError(f"L={L!r} is unknown: use {ACCEPTED}")
    Lambda = _per_block(L, user_layout, x0)
    if layout.m != user_layout.m:
        Lambda = [_merged(Lambda, user_layout, x0)]
    return Fixed(Lambda, eta)


def _per_block(L: Any, layout: Layout, x0: Point) -> list[Any]:
    if isinstance(L, Mapping):
        if sorted(map(str, L)) != sorted(layout.names):
            raise ValueError(f"L must have the blocks' names {list(layout.names)}, got {list(L)}")
        named = {str(name): entry for name, entry in L.items()}
        L = [named[name] for name in layout.names]
    if is_number(L) or isinstance(L, Matrix):
        L = [L] * layout.m
    try:
        entries = listed("L", unmasked("L", L), ACCEPTED)
    except ValueError as error:
        raise TypeError(str(error)) from None
    if len(entries) != layout.m:
        raise ValueError(
            f"L must have one entry for each of the {layout.m} blocks, got {len(entries)}"
        )
    return [
        _checked(entry, j, shape, x0.leaves[0])
        for j, (entry, shape) in enumerate(zip(entries, layout.block_shapes, strict=True))
    ]


def _checked(entry: Any, j: int, shape: tuple[int, ...], like: Array) -> Any:
    if isinstance(entry, Matrix):
        size = math.prod(shape)
        if entry.size not in (None, size):
            raise ValueError(f"L[{j}] must be {size} x {size} like its block, got {entry!r}")
        if entry.matrix is not None and kind(entry.matrix) != kind(like):
            raise TypeError(f"L[{j}] must be a matrix of the array library of x0, {kind(like)}")
        return entry
    if is_number(entry):
        try:
            value = positive(f"L[{j}]", entry)
            if math.isinf(1.0 / value):
                raise ValueError
        except ValueError:
            raise ValueError(f"L[{j}] must be positive and finite, got {shown(entry)}") from None
        return value
    if isinstance(entry, str | bytes | bool):
        raise TypeError(f"L[{j}] must be a number or an array, got {entry!r}")
    try:
        diagonal = array_namespace(like).asarray(unmasked(f"L[{j}]", entry), dtype=like.dtype)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise TypeError(f"L[{j}] must be a number or an array, got {shown(entry)}") from None
    if tuple(diagonal.shape) != shape:
        raise ValueError(
            f"L[{j}] must have the shape {shape} of its block, got {tuple(diagonal.shape)}"
        )
    if not bool((diagonal > 1e-300).all()) or not math.isfinite(float(diagonal.sum())):
        raise ValueError(f"L[{j}] must be positive and finite in every entry")
    return diagonal.to(like.device) if kind(like) == "torch" else diagonal


def _merged(Lambda: list[Any], layout: Layout, x0: Point) -> Any:
    """Λ of all of x as one block: a number if all blocks share one, else a diagonal."""
    if any(isinstance(entry, Matrix) for entry in Lambda):
        raise ValueError("L: a Matrix per block needs a method that moves blocks one by one")
    if all(isinstance(entry, float) and entry == Lambda[0] for entry in Lambda):
        return Lambda[0]
    like = x0.leaves[0]
    xp = array_namespace(like)
    device = {"device": like.device} if kind(like) == "torch" else {}
    diagonal = xp.ones((layout.d,), dtype=like.dtype, **device)
    for index, entry in zip(layout.flat_index(), Lambda, strict=True):
        diagonal[index] = entry if isinstance(entry, float) else entry.reshape(-1)
    return diagonal
