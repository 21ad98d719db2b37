"""Checks of what a user gives to an optimizer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cyclade.optim.steps import PRECONDITIONERS
from cyclade.orders import Custom


def check_numbers(
    weight_decay: Any, momentum: Any, nesterov: Any, clip_norm: Any, precondition: Any
) -> None:
    """Refuse numbers that make no sense, by name."""
    if not (isinstance(weight_decay, int | float) and weight_decay >= 0):
        raise ValueError(f"weight_decay must be at least 0, got {weight_decay!r}")
    if not 0 <= momentum < 1:
        raise ValueError(f"momentum must be in [0, 1), got {momentum}")
    if nesterov and momentum == 0:
        raise ValueError("nesterov=True needs a momentum")
    if clip_norm is not None and not clip_norm > 0:
        raise ValueError(f"clip_norm must be positive or None, got {clip_norm}")
    if precondition not in PRECONDITIONERS:
        raise ValueError(f"precondition must be one of {PRECONDITIONERS}, got {precondition!r}")


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
        if not float(rate) >= 0:
            raise ValueError(f"lr must be at least 0, got {float(rate)}")
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
