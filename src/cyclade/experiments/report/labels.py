"""How groups are told apart: legends, panels and their titles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from cyclade.experiments.config import RunConfig
from cyclade.experiments.datasets import find
from cyclade.experiments.report.groups import Group

_KEYS = tuple(f.name for f in fields(RunConfig) if f.name not in ("method", "seed"))
# Tuned for each method, or following from something else: named only if nothing else differs.
_FOLLOWING = ("lr", "b_small", "p", "epochs", "held_out", "capture", "tf32", "threads", "device")
_SPECTRAL = {
    None: "without spectral normalisation",
    "step": "with spectral normalisation",
    "step-all": "with spectral normalisation of all layers",
    "reparam": "spectral W/σ(W)",
}
_PLAIN = {
    "batch": "b", "b_small": "b′", "weight_decay": "weight decay", "held_out": "held out",
}  # fmt: skip


def said(key: str, value: Any) -> str:
    """A value of a config in a few words.

    >>> said("batch", 512), said("spectral", None), said("order", (0, 2, 1))
    ('b = 512', 'without spectral normalisation', 'order 0-2-1')
    """
    if key == "method":
        return str(value)
    if key == "dataset":
        return find(str(value)).label
    if key == "spectral":
        return _SPECTRAL[value]
    if key == "precondition":
        return "one lr" if value is None else f"Λ by {value}"
    if key == "blocks":
        if isinstance(value, int):
            return f"m = {value}"
        return "a block per layer" if value is None else "blocks " + "+".join(value)
    if key == "order":
        return f"order {'-'.join(map(str, value))}" if isinstance(value, tuple) else str(value)
    if key == "schedule":
        return f"{value} schedule"
    if key == "epochs":
        return f"{value} epoch{'' if value == 1 else 's'}"
    if isinstance(value, bool):
        return key if value else f"no {key}"
    if key == "device":
        return f"on {value}"
    if key == "lr":
        return f"lr {value:g}"
    name = _PLAIN.get(key, key)
    shown = "default" if value is None else f"{value:g}" if isinstance(value, float) else value
    return f"{name} = {shown}"


def varying(groups: Iterable[Group]) -> list[str]:
    """The keys, but for method and seed, in which any two groups differ."""
    return different([group.config for group in groups])


def different(configs: Sequence[RunConfig]) -> list[str]:
    """The keys, but for method and seed, in which any two configs differ."""
    return [key for key in _KEYS if len({getattr(config, key) for config in configs}) > 1]


def split_keys(groups: Sequence[Group]) -> tuple[str, ...]:
    """What panels are split by when nobody says: data sets, and spectral steps."""
    return tuple(key for key in ("dataset", "spectral") if key in varying(groups))


def panels(groups: Sequence[Group], keys: Sequence[str]) -> dict[tuple[Any, ...], list[Group]]:
    """The groups by their values of these keys; None first, numbers by size."""
    found: dict[tuple[Any, ...], list[Group]] = {}
    for group in groups:
        found.setdefault(tuple(getattr(group.config, key) for key in keys), []).append(group)
    return dict(sorted(found.items(), key=lambda item: tuple(map(_rank, item[0]))))


def _rank(value: Any) -> tuple[int, float, str]:
    if value is None:
        return 0, 0.0, ""
    if isinstance(value, int | float):
        return 1, float(value), ""
    return 2, 0.0, str(value)


def names(groups: Sequence[Group], keys: Sequence[str]) -> dict[Group, str]:
    """The legend's name of each group, where panels are split by `keys`.

    It is the method, with what tells apart the groups of that method within a panel; what is None
    goes without saying. A tuned lr is named only if nothing else tells groups apart: the same name
    then stands in every panel.
    """
    found: dict[Group, str] = {}
    for method in {group.config.method: None for group in groups}:
        mine = [group for group in groups if group.config.method == method]
        apart = _apart(list(panels(mine, keys).values()), keys)
        for group in mine:
            values = ((key, getattr(group.config, key)) for key in apart)
            found[group] = ", ".join([method, *(said(k, v) for k, v in values if v is not None)])
    return found


def _apart(within: Sequence[Sequence[Group]], keys: Sequence[str]) -> list[str]:
    """The keys that tell groups apart within every panel."""
    candidates = [
        key for key in _KEYS if key not in keys and any(key in varying(some) for some in within)
    ]
    chosen = [key for key in candidates if key not in _FOLLOWING]
    for key in (key for key in _FOLLOWING if key in candidates):
        if all(_unique(some, chosen) for some in within):
            break
        chosen.append(key)
    return chosen


def _unique(groups: Sequence[Group], keys: Sequence[str]) -> bool:
    values = [tuple(getattr(group.config, key) for key in keys) for group in groups]
    return len(set(values)) == len(values)


def title(keys: Sequence[str], values: Sequence[Any]) -> str:
    """The title of a panel."""
    return ", ".join(said(key, value) for key, value in zip(keys, values, strict=True))


def subtitle(groups: Sequence[Group], keys: Sequence[str]) -> str:
    """What all groups of a panel share, of the things one asks for first."""
    apart, config = varying(groups), groups[0].config
    shared = [
        key
        for key in ("dataset", "batch", "epochs", "schedule", "weight_decay", "lr")
        if key not in apart and key not in keys
    ]
    return " · ".join(said(key, getattr(config, key)) for key in shared)
