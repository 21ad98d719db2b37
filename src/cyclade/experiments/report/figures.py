"""The figures in print: PNG and PDF, drawn by matplotlib, the same bytes every time."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cyclade.experiments.report.board import (
    ALONE,
    X_LABELS,
    Y_LABELS,
    Board,
    value,
)
from cyclade.experiments.report.groups import Group, Point, curve
from cyclade.experiments.writing import write

WITHOUT = (
    "The figures were not printed as PNG and PDF, because matplotlib is not installed: "
    "pip install 'cyclade[experiments]'"
)
_FADED, _BAND, _SINGLE = 0.4, 0.16, 0.55
_SUFFIX = {
    "samples_paper": "by-samples-paper", "samples": "by-samples",
    "multiply_adds": "by-multiply-adds", "seconds": "by-seconds", ALONE: "by-seconds-alone",
    "epoch": "by-epoch",
}  # fmt: skip
_RC: dict[Any, Any] = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.color": "#e4e4e4", "grid.linewidth": 0.6, "axes.edgecolor": "#888888",
    "axes.linewidth": 0.8, "xtick.color": "#444444", "ytick.color": "#444444",
    "axes.axisbelow": True, "pdf.fonttype": 42, "lines.dash_capstyle": "butt",
}  # fmt: skip


def print_figures(board: Board, folder: Path) -> list[str] | None:
    """Write every figure into a folder; their names, or None without matplotlib."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        return None
    names = []
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # whatever the user has set: the figures are the same everywhere
        matplotlib.rcParams.update(_RC)
        for name, x in _wanted(board):
            figure = _draw(Figure, board, x)
            for ending, options in _FORMATS.items():
                buffer = io.BytesIO()
                figure.savefig(buffer, format=ending, **options)
                figure.set_layout_engine("none")  # laid out once, the same in every format
                write(folder / f"{name}.{ending}", buffer.getvalue())
            names.append(name)
    return names


_FORMATS: dict[str, dict[str, Any]] = {
    "png": {"dpi": 150, "metadata": {"Software": None}},
    "pdf": {"metadata": {"Creator": "cyclade", "Producer": None, "CreationDate": None}},
}


def _wanted(board: Board) -> Iterator[tuple[str, str]]:
    """The plan's own axis under the plan's name, then the other axes."""
    name = re.sub(r"[^\w.-]+", "-", board.plan.name).strip("-.") or "curves"
    yield name, board.x
    shown = ALONE if ALONE in board.x_keys else "seconds"
    for x in ("epoch", "samples", "multiply_adds", shown):
        if x != board.x:
            yield f"{name}-{_SUFFIX[x]}", x


def _draw(figure_class: Any, board: Board, x: str) -> Any:
    rows, columns = len(board.panels), len(board.columns)
    figure = figure_class(figsize=(4.1 * columns, 2.75 * rows + 0.65), layout="constrained")
    share = "col" if board.same_scale else "none"
    axes = figure.subplots(rows, columns, squeeze=False, sharex=share, sharey=share)
    for panel, line in zip(board.panels, axes, strict=True):
        for y, ax in zip(board.columns, line, strict=True):
            for number, group in panel.members:
                points = curve(group.averaged, board.place(group, x), value(y))
                _mean(ax, points, board.entries[number].style, len(group.averaged))
            ax.set_xlabel(X_LABELS[x])
            ax.set_ylabel(Y_LABELS[y])
        line[0].set_title(panel.title or panel.subtitle, loc="left", fontsize=9, color="#333333")
    for panel, line in zip(board.panels, axes, strict=True):
        for y, ax in zip(board.columns, line, strict=True):
            if ax.has_data():  # a run on its way to infinity must not flatten the others
                ax.autoscale_view()
                ax.autoscale(False)
            for number, group in panel.members:
                _diverged(ax, group, board, number, x, y)
            if not ax.has_data():
                ax.text(0.5, 0.5, "not known on this axis", transform=ax.transAxes, ha="center")
    figure.legend(
        handles=[_handle(entry.label, entry.style) for entry in board.entries],
        loc="outside upper center",
        ncols=_legend_columns(board, 4.1 * columns),
        frameon=False,
        handlelength=2.6,
    )
    return figure


def _legend_columns(board: Board, inches: float) -> int:
    """As many as fit beside each other, by the longest name."""
    widest = 0.75 + 0.075 * max(len(entry.label) for entry in board.entries)
    return max(1, min(len(board.entries), int(inches / widest)))


def _handle(label: str, style: Any) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=style.light, linestyle=_linestyle(style.dash), label=label)


def _linestyle(dash: tuple[int, ...]) -> Any:
    """Dashes in pixels of the page, here in points of a line 1.5 wide."""
    return (0, tuple(length / 2 for length in dash)) if dash else "-"


def _mean(ax: Any, points: list[Point], style: Any, seeds: int) -> None:
    """The mean as a line, faded where not all seeds have got to, and their range as a band."""
    if not points:
        return
    xs = [point.x for point in points]
    if seeds > 1:
        lows, highs = [p.y.low for p in points], [p.y.high for p in points]
        ax.fill_between(xs, lows, highs, color=style.light, alpha=_BAND, linewidth=0)
    whole = next((i for i, point in enumerate(points) if point.y.n < seeds), len(points))
    rest = points[max(whole - 1, 0) :] if whole < len(points) else []
    for part, alpha in ((points[:whole], 1.0), (rest, _FADED)):
        ax.plot(
            [p.x for p in part],
            [p.y.mean for p in part],
            color=style.light,
            linestyle=_linestyle(style.dash),
            marker="o" if len(part) == 1 == len(points) else None,
            linewidth=1.5,
            alpha=alpha,
        )


def _diverged(ax: Any, group: Group, board: Board, number: int, x: str, y: str) -> None:
    """A thin line to a cross where the run was last seen."""
    colour = board.entries[number].style.light
    for run in group.of_status("diverged"):
        points = curve([run], board.place(group, x), value(y))
        if ax.get_autoscale_on():
            points = _before_it_blew_up(points)
        if points:
            ax.plot(
                [p.x for p in points],
                [p.y.mean for p in points],
                color=colour,
                linewidth=0.8,
                alpha=_SINGLE,
            )
            ax.plot(points[-1].x, points[-1].y.mean, marker="x", color=colour, clip_on=True)


def _before_it_blew_up(points: list[Point]) -> list[Point]:
    """The part that can be drawn to scale, where there is nothing else to set the scale."""
    if not points or points[0].y.mean is None:
        return []
    limit = 3 * abs(points[0].y.mean) + 1
    return [p for p in points if p.y.mean is not None and abs(p.y.mean) <= limit]
