"""Checks of what a user gives to an optimizer."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from cyclade.optim.steps import PRECONDITIONERS
from cyclade.orders import Custom

_RANGES: dict[str, tuple[Any, str]] = {
    "weight_decay": (lambda v: 0 <= v < math.inf, "at least 0 and finite"),
    "momentum": (lambda v: 0 <= v < 1, "in [0, 1)"),
    "clip_norm": (lambda v: v > 0, "positive or None"),
    "damping": (lambda v: 0 <= v < math.inf, "at least 0 and finite"),
    "beta2": (lambda v: 0 <= v < 1, "in [0, 1)"),
    "eps": (lambda v: 0 < v < math.inf, "positive and finite"),
    "curvature_every": (lambda v: v >= 1, "at least 1"),
    "curvature_iterations": (lambda v: v >= 1, "at least 1"),
}


def check_numbers(**given: Any) -> None:
    """Refuse numbers that make no sense, by name."""
    for name, (fits, accepted) in _RANGES.items():
        value = given[name]
        if name == "clip_norm" and value is None:
            continue
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not fits(value):
            raise ValueError(f"{name} must be {accepted}, got {value!r}")
    if given["nesterov"] and given["momentum"] == 0:
        raise ValueError("nesterov=True needs a momentum")
    if given["precondition"] not in PRECONDITIONERS:
        raise ValueError(
            f"precondition must be one of {PRECONDITIONERS}, got {given['precondition']!r}"
        )


def rates_of(lr: Any, m: int) -> list[Any]:
    """One learning rate per block."""
    rates = list(lr) if isinstance(lr, list | tuple) else [lr] * m
    if len(rates) != m:
        raise ValueError(
            f"lr must be one number, or one for each of the {m} blocks, got {len(rates)}"
        )
    for rate in rates:
        if not isinstance(rate, int | float | Tensor) or isinstance(rate, bool):
            raise TypeError(f"lr must be a number or a tensor, got {type(rate).__name__}")
        if not 0 <= float(rate) < math.inf:
            raise ValueError(f"lr must be at least 0 and finite, got {float(rate)}")
    if isinstance(lr, Tensor):  # one tensor per group, so that schedulers may differ
        return [lr.clone() for _ in rates]
    return rates


def direction(order: Any) -> str | list[int]:
    """The order as the cost model knows it; random and greedy ones count as shuffled."""
    if isinstance(order, Custom):
        return order.sequence
    if isinstance(order, list | tuple):
        return list(order)
    name = order if isinstance(order, str) else type(order).__name__.lower()
    return name if name in ("forward", "backward") else "shuffled"


def refuse_half() -> None:
    """Refuse float16 autocast, which needs a loss scaler."""
    for device in ("cuda", "cpu"):
        if torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) == torch.float16:
            raise ValueError(
                "float16 autocast needs a GradScaler, which cannot scale block after block: use "
                "bfloat16"
            )
