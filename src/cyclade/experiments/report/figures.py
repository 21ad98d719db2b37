"""The figures in print: PNG and PDF, drawn by matplotlib, the same bytes every time."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cyclade.experiments.report.board import (
    ALONE,
    X_LABELS,
    Y_LABELS,
    Board,
    Entry,
    value,
)
from cyclade.experiments.report.groups import Group, Point, curve, ended, last
from cyclade.experiments.report.limits import limits
from cyclade.experiments.report.overview import Overview, overview
from cyclade.experiments.storage import write

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


@dataclass(frozen=True)
class Printed:
    """The figures beside a page: their names, the endings of each, and the first one in small."""

    names: tuple[str, ...]
    endings: tuple[str, ...]
    main: bytes


def print_figures(board: Board, folder: Path) -> Printed | None:
    """Write the figures into a folder; None without matplotlib.

    Of results to keep those on the plan's own axis are written, as PNG alone.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        return None
    endings = ("png",) if board.packed else tuple(_FORMATS)
    names, main = [], b""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # whatever the user has set: the figures are the same everywhere
        matplotlib.rcParams.update(_RC)
        for name, x in _wanted(board):
            figure = _draw(Figure, board, x)
            for ending in endings:
                buffer = io.BytesIO()
                figure.savefig(buffer, format=ending, **_FORMATS[ending])
                figure.set_layout_engine("none")  # laid out once, the same in every format
                content = buffer.getvalue()
                write(folder / f"{name}.{ending}", smaller(content) if ending == "png" else content)
            main = main or _small(figure)
            names.append(name)
    return Printed(tuple(names), endings, main)


def _small(figure: Any) -> bytes:
    """A picture to put into the page."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=85, metadata={"Software": None})
    return smaller(buffer.getvalue())


def smaller(png: bytes) -> bytes:
    """The picture in its 256 commonest colours: a third of the bytes."""
    from PIL import Image  # matplotlib needs it, too

    buffer = io.BytesIO()
    with Image.open(io.BytesIO(png)) as picture:
        few = picture.convert("RGB").quantize(dither=Image.Dither.NONE)
        few.save(buffer, "png", optimize=True)
    return buffer.getvalue()


_FORMATS: dict[str, dict[str, Any]] = {
    "png": {"dpi": 150, "metadata": {"Software": None}},
    "pdf": {"metadata": {"Creator": "cyclade", "Producer": None, "CreationDate": None}},
}


def _wanted(board: Board) -> Iterator[tuple[str, str]]:
    """The plan's own axis under the plan's name, then the other axes."""
    name = re.sub(r"[^\w.-]+", "-", board.plan.name).strip("-.") or "curves"
    found = overview(board)
    if found is not None:
        yield name, found.key
        yield f"{name}-{_SUFFIX[board.x]}", board.x
    else:
        yield name, board.x
    if board.packed:
        return
    shown = ALONE if ALONE in board.x_keys else "seconds"
    for x in ("epoch", "samples", "multiply_adds", shown):
        if x != board.x:
            yield f"{name}-{_SUFFIX[x]}", x


def _draw(figure_class: Any, board: Board, x: str) -> Any:
    """One picture: the panels by rows, or the ends of all runs where `x` is what was varied."""
    found = overview(board)
    ends = found is not None and x == found.key
    rows, columns = 1 if ends else len(board.panels), len(board.columns)
    figure = figure_class(figsize=(4.6 * columns, 2.75 * rows + 0.65), layout="constrained")
    share = "col" if board.same_scale and not ends else "none"
    axes = figure.subplots(rows, columns, squeeze=False, sharex=share, sharey=share)
    if found is not None and ends:
        for y, ax in zip(board.columns, axes[0], strict=True):
            _by_number(ax, board, found, y)
        axes[0][0].set_title(found.title, loc="left", fontsize=9, color="#333333")
    else:
        _by_epoch(axes, board, x)
    figure.legend(
        handles=[_handle(entry.label, entry.style) for entry in board.entries],
        loc="outside upper center",
        ncols=_legend_columns(board, 4.6 * columns),
        frameon=False,
        handlelength=2.6,
    )
    return figure


def _by_epoch(axes: Any, board: Board, x: str) -> None:
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
                _limit(ax, limits(board, panel, y))
            for number, group in panel.members:
                _diverged(ax, group, board, number, x, y)
            if not ax.has_data():
                ax.text(0.5, 0.5, "not known on this axis", transform=ax.transAxes, ha="center")
    for panel, line in zip(board.panels, axes, strict=True):  # now that every scale is settled
        for y, ax in zip(board.columns, line, strict=True):
            ends = []
            for number, group in panel.members:
                points = curve(group.averaged, board.place(group, x), value(y))
                _beyond(ax, points, board.entries[number].style.light)
                if points and points[-1].y.mean is not None:
                    ends.append((points[-1].x, points[-1].y.mean, board.entries[number]))
            _names(ax, ends)


def _by_number(ax: Any, board: Board, found: Overview, y: str) -> None:
    """Means against the number that was varied, with the range of the seeds as bars."""
    ends, some_lost = [], False
    for number, groups in found.ends.items():
        style = board.entries[number].style
        there = [(found.place(at), last(ended(group), value(y))) for at, group in groups]
        known = [(at, s.mean, s.low, s.high) for at, s in there if s.mean is not None]
        xs, means = [k[0] for k in known], [k[1] for k in known]
        lows, highs = [k[2] or 0.0 for k in known], [k[3] or 0.0 for k in known]
        ax.plot(xs, means, color=style.light, linestyle=_linestyle(style.dash), marker="o", ms=3.5)
        ax.vlines(xs, lows, highs, color=style.light, linewidth=1, alpha=_SINGLE)
        lost = [
            (found.place(at), last(ended(group), value(y)).mean)
            for at, group in groups
            if len(ended(group)) < len(group.runs)
        ]
        for at, mean in lost:
            ax.plot(at, mean, "o", ms=4.5, color=style.light, markerfacecolor="white", zorder=4)
            some_lost = True
        ends += [(xs[-1], means[-1], board.entries[number])] if xs else []
    ax.set_xticks([found.place(at) for at in found.values], [f"{at:,g}" for at in found.values])
    ax.set_xlabel(found.label + ("; open circles: some runs diverged" if some_lost else ""))
    ax.set_ylabel(f"{Y_LABELS[y]} at the end")
    _names(ax, ends)


def _limit(ax: Any, wanted: tuple[float, float] | None) -> None:
    """Cut the axis where a spike would flatten all curves."""
    if wanted is not None:
        low, high = ax.get_ylim()
        room = 0.02 * (wanted[1] - wanted[0])
        ax.set_ylim(max(low, wanted[0] - room), min(high, wanted[1] + room))


def _beyond(ax: Any, points: list[Point], colour: str) -> None:
    """A triangle at the edge above or below which a curve or its range goes on."""
    low, high = ax.get_ylim()
    above = [p for p in points if p.y.high is not None and p.y.high > high]
    below = [p for p in points if p.y.low is not None and p.y.low < low]
    for some, edge, marker in ((above, 1.0, "^"), (below, 0.0, "v")):
        if some:
            worst = max(some, key=lambda p: abs((p.y.high if edge else p.y.low) or 0.0))
            ax.plot(
                worst.x, edge, marker=marker, color=colour, markersize=5, clip_on=False,
                transform=ax.get_xaxis_transform(), zorder=5,
            )  # fmt: skip


_HEIGHT, _NAME = 150.0, 8.0  # of an axis and of a name, in points


def _names(ax: Any, ends: list[tuple[float, float, Entry]]) -> None:
    """Names at the ends of the lines, moved apart where they would lie on one another."""
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=2, foreground="white")]
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    ends = sorted(ends, key=lambda end: end[1])
    across = [(x - left) / (right - left) for x, _, _ in ends]
    up = [_HEIGHT * min(max((y - low) / (high - low), 0.0), 1.0) for _, y, _ in ends]
    pairs = [(a, b) for b in range(len(ends)) for a in range(b)]
    for _ in range(60):
        for a, b in pairs:
            missing = _NAME - (up[b] - up[a])
            if missing > 0 and abs(across[a] - across[b]) < 0.25:
                up[a] -= missing / 2
                up[b] += missing / 2
    for (x, _, entry), at in zip(ends, up, strict=True):
        ax.annotate(
            entry.label, xy=(x, at / _HEIGHT), xycoords=ax.get_xaxis_transform(),
            xytext=(5, 0), textcoords="offset points", va="center", fontsize=7,
            color=entry.style.light, annotation_clip=False, path_effects=halo,
        )  # fmt: skip


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
