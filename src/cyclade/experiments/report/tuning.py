"""How learning rates were chosen: what every one came to on the held-out images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cyclade.experiments.config import RunConfig
from cyclade.experiments.report import labels
from cyclade.experiments.report.board import Board, value
from cyclade.experiments.report.groups import Group, ended, last
from cyclade.experiments.report.plan import Search
from cyclade.experiments.report.tables import NOTHING, Table, plus_minus, state


def tuning_tables(board: Board) -> list[tuple[str, Table]]:
    """A table for each config that was tuned, with a line for every lr.

    They are read from the tuning runs, or where these are gone from ``tune/tuned.json``.
    """
    searches = {_untuned(search.config): search for search in board.searches}
    families: dict[RunConfig, list[Group]] = {}
    for group in board.tuning:
        families.setdefault(_untuned(group.config), []).append(group)
    taken = {_untuned(group.config): group.config.lr for group in board.groups}
    taken |= {family: search.config.lr for family, search in searches.items()}
    everything = list(dict.fromkeys([*families, *searches]))
    tables = []
    for family in everything:
        if family in families:
            table = _from_runs(families[family], taken.get(family))
        else:
            table = _from_search(searches[family])
        edge = family in searches and searches[family].at_edge
        name = _name(family, everything) + (" (at the edge of the grid)" if edge else "")
        tables.append((name, table))
    return tables


def _from_runs(groups: Sequence[Group], taken: float | None) -> Table:
    table = Table(("lr", "seeds", "held-out accuracy", "train loss", "runs"), [])
    groups = sorted(groups, key=lambda group: group.config.lr)
    means = [last(ended(group), value("held_out_accuracy")).mean for group in groups]
    best = max((mean for mean in means if mean is not None), default=None)
    for i, (group, mean) in enumerate(zip(groups, means, strict=True)):
        runs = ended(group)
        if mean is not None and mean == best:
            table.best.add((i, 2))
        if group.of_status("diverged") or group.of_status("unfinished"):
            table.bad.add((i, 4))
        if group.config.lr == taken:
            table.taken.add(i)
        table.lines.append(
            (
                f"{group.config.lr:g}",
                str(len(runs)),
                plus_minus(last(runs, value("held_out_accuracy"))),
                plus_minus(last(runs, value("train_loss"))),
                state(group),
            )
        )
    return table


def _from_search(search: Search) -> Table:
    table = Table(("lr", "held-out accuracy", "runs"), [])
    for i, one in enumerate(search.tried):
        accuracy = one.get("held_out_accuracy")
        if one["lr"] == search.config.lr:
            table.taken.add(i)
        if one.get("status") != "finished":
            table.bad.add((i, 2))
        table.lines.append(
            (
                f"{one['lr']:g}",
                NOTHING if accuracy is None else f"{accuracy:.4f}",
                str(one.get("status", "")),
            )
        )
    return table


def _name(family: RunConfig, families: Sequence[RunConfig]) -> str:
    """The method, and what tells it apart from the others that were tuned."""
    apart = labels.different(families)
    values = ((key, getattr(family, key)) for key in apart)
    return ", ".join([family.method, *(labels.said(k, v) for k, v in values if v is not None)])


def _untuned(config: RunConfig) -> RunConfig:
    """The config without what tuning changes (lr, seed, length, images held out) or ignores."""
    return replace(config, lr=1.0, seed=0, epochs=1, held_out=0.0, device="auto")
