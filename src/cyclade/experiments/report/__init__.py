"""Reports: one page with everything, the figures in print, and the end table in plain text."""

from __future__ import annotations

from pathlib import Path

from cyclade.experiments.report.board import read
from cyclade.experiments.report.figures import print_figures
from cyclade.experiments.report.page import page
from cyclade.experiments.report.payload import payload
from cyclade.experiments.report.tables import full_table
from cyclade.files.disk import check_writable, write

__all__ = ["report", "summary"]


def report(root: str | Path, out: str | Path | None = None) -> Path:
    """Write one page about all runs at or below `root`, and its figures as PNG and PDF.

    Parameters
    ----------
    root:
        Any folder with runs. A ``plan.json`` in it adds title, question, claims and the layout of
        the panels, a ``timing.json`` the times of runs alone, a ``tune/tuned.json`` the outcome of
        a search. Packed results are read as run folders are. No network is loaded.
    out:
        The page; by default ``root/report.html``. The figures are beside it, in ``figures``.
        Without matplotlib there are none, and the page says so.

    Returns
    -------
    Path
        The page. It is one file that needs nothing else and opens offline.
    """
    board = read(root)
    path = board.root / "report.html" if out is None else Path(out)
    check_writable(path)
    data = payload(board)
    figures = print_figures(board, data, path.parent / "figures") if board.panels else None
    write(path, page(board, data, figures).encode("utf-8", "surrogateescape"))
    return path


def summary(root: str | Path) -> str:
    """The end table of all runs at or below `root` in plain text: mean ± standard deviation.

    Means are over the seeds that finished; how many did, and which diverged, stands beside them.
    """
    columns = ("method", "runs", "lr", "train loss", "test accuracy", "seconds")
    return full_table(read(root)).text(*columns)
