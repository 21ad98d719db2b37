"""How high and how low an axis may reach, so that a spike does not flatten all curves."""

from __future__ import annotations

from collections.abc import Iterable

from cyclade.experiments.report.board import Board, Panel, value
from cyclade.experiments.report.groups import curve

_TAIL, _ROOM = 0.1, 0.75
"""The share of values at either end that may lie outside, and the room beyond the others in units
of their range."""

Limits = tuple[float, float]


def limits(board: Board, panel: Panel, y: str) -> Limits | None:
    """Between which values a panel's axis lies at most; None if there is nothing to draw.

    They hold nine tenths of all means and ranges on either side, with room, and every curve's
    start. What lies beyond is marked at the edge. Panels on one scale have the same limits.
    """
    values, starts = [], []
    for one in board.panels if board.same_scale else (panel,):
        for _, group in one.members:
            points = curve(group.averaged, value("epoch"), value(y))
            for point in points:
                values += [v for v in (point.y.low, point.y.mean, point.y.high) if v is not None]
            starts += [v for p in points[:1] for v in (p.y.low, p.y.high) if v is not None]
    return bounds(values, starts) if values else None


def bounds(values: Iterable[float], starts: Iterable[float] = ()) -> Limits | None:
    """The limits for some values; None if most are one and the same, and nothing is far from it.

    Example
    -------
    >>> bounds([*range(100), 10_000])
    (-50.0, 150.0)
    """
    ordered = sorted(values)
    last = len(ordered) - 1
    low, high = (ordered[round(share * last)] for share in (_TAIL, 1 - _TAIL))
    if low == high:
        return None
    room = _ROOM * (high - low)
    return min([low - room, *starts]), max([high + room, *starts])
