"""Penalties by name or as objects, as estimators take them."""

from __future__ import annotations

from typing import Any

from cyclade.linear import penalties

NAMES = ("l1", "elastic_net", "mcp", "scad", "log_sum", "nonnegative_l1")


def named_penalty(name: str) -> Any:
    """The penalty of that name at λ = 1, with its usual parameters."""
    return penalties.get(name, 1.0)


def any_penalty(penalty: Any) -> Any:
    """A penalty by name (at λ = 1) or the object, which may be of the user's own writing."""
    if isinstance(penalty, str):
        return penalties.get(penalty, 1.0)
    if isinstance(penalty, type):
        raise ValueError(f"penalty: give an object, {penalty.__name__}(...), not the class")
    return penalty
