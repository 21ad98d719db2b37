"""The figures in print: PNG and PDF, drawn by matplotlib from what the page's script draws from."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cyclade.experiments.report.board import ALONE, Board
from cyclade.files.disk import write

WITHOUT = (
    "The figures were not printed as PNG and PDF, because matplotlib is not installed: "
    "pip install 'cyclade[experiments]'"
)
_ENDS = "ends"
_RC: dict[Any, Any] = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.color": "#e4e4e4", "grid.linewidth": 0.6, "axes.edgecolor": "#888888",
    "axes.linewidth": 0.8, "xtick.color": "#444444", "ytick.color": "#444444",
    "axes.axisbelow": True, "pdf.fonttype": 42, "lines.dash_capstyle": "butt",
}  # fmt: skip
_FORMATS: dict[str, dict[str, Any]] = {
    "png": {"dpi": 150, "metadata": {"Software": None}},
    "pdf": {"metadata": {"Creator": "cyclade", "Producer": None, "CreationDate": None}},
}


@dataclass(frozen=True)
class Printed:
    """The figures beside a page: their names, the endings of each, and the first one in small."""

    names: tuple[str, ...]
    endings: tuple[str, ...]
    main: bytes


def print_figures(board: Board, data: dict[str, Any], folder: Path) -> Printed | None:
    """Write the figures of a board and its `payload` into a folder; None without matplotlib.

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
        for name, x in _wanted(board, data):
            figure = _draw(Figure, board, data, x)
            for ending in endings:
                content = _saved(figure, ending, **_FORMATS[ending])
                write(folder / f"{name}.{ending}", content)
            main = main or _saved(figure, "png", dpi=85, metadata={"Software": None})
            names.append(name)
    return Printed(tuple(names), endings, main)


def _saved(figure: Any, ending: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=ending, **options)
    figure.set_layout_engine("none")  # laid out once, the same in every format
    return smaller(buffer.getvalue()) if ending == "png" else buffer.getvalue()


def smaller(png: bytes) -> bytes:
    """The picture in its 256 commonest colours: a third of the bytes."""
    from PIL import Image  # matplotlib needs it, too

    buffer = io.BytesIO()
    with Image.open(io.BytesIO(png)) as picture:
        few = picture.convert("RGB").quantize(dither=Image.Dither.NONE)
        few.save(buffer, "png", optimize=True)
    return buffer.getvalue()


def _wanted(board: Board, data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The plan's own axis under the plan's name, then the other axes."""
    name = re.sub(r"[^\w.-]+", "-", board.plan.name).strip("-.") or "curves"
    yield name, _ENDS if data["overview"] else board.x
    seconds = ALONE if ALONE in board.x_keys else "seconds"
    others = [] if board.packed else ["epoch", "samples", "multiply_adds", seconds]
    own = [board.x] if data["overview"] else []
    for x in [*own, *(other for other in others if other != board.x)]:
        yield f"{name}-by-{x.replace('_', '-')}", x


def _draw(figure_class: Any, board: Board, data: dict[str, Any], x: str) -> Any:
    """One picture: the panels by rows, or the ends of all runs by what was varied."""
    panels = [data["overview"]] if x == _ENDS else data["panels"]
    rows, columns = len(panels), len(board.columns)
    figure = figure_class(figsize=(4.6 * columns, 2.75 * rows + 0.65), layout="constrained")
    share = "col" if data["sameScale"] else "none"
    axes = figure.subplots(rows, columns, squeeze=False, sharex=share, sharey=share)
    x_labels = {axis["key"]: axis["label"] for axis in data["x"]}
    y_labels = {axis["key"]: axis["label"] for axis in data["y"]}
    for panel, line in zip(panels, axes, strict=True):
        own = panel.get("axis")
        for y, ax in zip(board.columns, line, strict=True):
            for series in panel["series"]:
                _series(ax, board, series, own["key"] if own else x, y, dots=bool(own))
            if not ax.has_data():
                ax.text(0.5, 0.5, "not known on this axis", transform=ax.transAxes, ha="center")
            elif panel["limits"][y]:  # a spike must not flatten all curves
                low, high = panel["limits"][y]
                room = 0.02 * (high - low)
                there = ax.get_ylim()
                ax.set_ylim(max(there[0], low - room), min(there[1], high + room))
            if own:
                ax.set_xticks(*zip(*own["ticks"], strict=True))
            ax.set_xlabel(own["label"] if own else x_labels[x])
            ax.set_ylabel(y_labels[y])
        title = panel["title"] or panel["subtitle"]
        line[0].set_title(title, loc="left", fontsize=9, color="#333333")
    _legend(figure, board)
    return figure


def _series(ax: Any, board: Board, series: dict[str, Any], x: str, y: str, dots: bool) -> None:
    """The mean, faded where not all seeds have got to; their range; what diverged, to a cross."""
    style = board.entries[series["entry"]].style
    mean = series["mean"]["y"][y]
    names = ("mean", "low", "high", "n")
    places = zip(series["mean"]["x"][x], *(mean[name] for name in names), strict=True)
    points = [point for point in places if None not in point[:2]]
    look = {"color": style.light, "linestyle": _linestyle(style.dash)}
    for point in points if dots else points[:1] if len(points) == 1 else ():
        few = point[4] < series["seeds"]
        ax.plot(*point[:2], "o", ms=4, color=style.light, mfc="white" if few else None, zorder=4)
    if points:
        xs, means, lows, highs, counts = (list(column) for column in zip(*points, strict=True))
        if series["seeds"] > 1:
            ax.fill_between(xs, lows, highs, color=style.light, alpha=0.16, linewidth=0)
        whole = next((i for i, n in enumerate(counts) if n < series["seeds"]), len(xs))
        whole = len(xs) if dots else whole
        rest = slice(max(whole - 1, 0), len(xs) if whole < len(xs) else 0)
        ax.plot(xs[:whole], means[:whole], **look)
        ax.plot(xs[rest], means[rest], alpha=0.4, **look)
    for run in series["runs"]:
        seen = [p for p in zip(run["x"][x], run["y"][y], strict=True) if None not in p]
        if run["status"] == "diverged" and seen:
            ax.plot(*zip(*seen, strict=True), color=style.light, linewidth=0.8, alpha=0.55)
            ax.plot(*seen[-1], "x", color=style.light)


def _legend(figure: Any, board: Board) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=e.style.light, linestyle=_linestyle(e.style.dash), label=e.label)
        for e in board.entries
    ]
    widest = 0.75 + 0.075 * max(len(entry.label) for entry in board.entries)
    fitting = max(1, min(len(handles), int(4.6 * len(board.columns) / widest)))
    figure.legend(
        handles=handles, loc="outside upper center", ncols=fitting, frameon=False, handlelength=2.6
    )


def _linestyle(dash: tuple[int, ...]) -> Any:
    """Dashes in pixels of the page, here in points of a line 1.5 wide."""
    return (0, tuple(length / 2 for length in dash)) if dash else "-"
