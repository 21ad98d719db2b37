"""The ends of all runs against the number that was varied, such as the batch size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from cyclade.experiments.report.board import Board
from cyclade.experiments.report.groups import Group, ended

_LABELS = {"batch": "b, images in a batch"}
_ENOUGH = 3


@dataclass(frozen=True)
class Overview:
    """For every entry of the legend the value of `key` and the group that ended there."""

    key: str
    values: tuple[float, ...]
    ends: Mapping[int, tuple[tuple[float, Group], ...]]
    subtitle: str

    @property
    def label(self) -> str:
        """Of the axis."""
        return _LABELS.get(self.key, self.key)

    @property
    def title(self) -> str:
        """Of the panel."""
        return f"Where the runs ended, by {self.key}"

    def place(self, number: float) -> float:
        """Where a value lies on the axis: batches grow by factors."""
        return math.log2(number)


def overview(board: Board) -> Overview | None:
    """The ends by the key that panels are split by; None if that is not some positive numbers."""
    if len(board.split) != 1 or len(board.panels) < _ENOUGH:
        return None
    (key,) = board.split
    ends: dict[int, list[tuple[float, Group]]] = {}
    for panel in board.panels:
        for number, group in panel.members:
            at = getattr(group.config, key)
            if isinstance(at, bool) or not isinstance(at, int | float) or at <= 0:
                return None
            if ended(group):
                ends.setdefault(number, []).append((at, group))
    values = sorted({at for some in ends.values() for at, _ in some})
    return Overview(
        key, tuple(values), {n: tuple(some) for n, some in ends.items()}, board.panels[0].subtitle
    )
