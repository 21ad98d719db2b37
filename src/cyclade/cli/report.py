"""`cyclade report`: one page about any folder with runs."""

from __future__ import annotations

import argparse
from typing import Any

from cyclade.cli.arguments import with_example


def add(commands: Any) -> None:
    """The command."""
    parser = with_example(
        commands.add_parser,
        name="report",
        help="a page with figures and tables",
        description=(
            "Write one self-contained page about all runs at or below a folder, and its figures\n"
            "as PNG and PDF beside it."
        ),
        example="cyclade report out/fig1\n  cyclade report out/fig1 --out page.html",
    )
    parser.add_argument("folder", metavar="RUNS", help="a folder with runs")
    parser.add_argument("--out", metavar="PAGE", help="the page (default: RUNS/report.html)")
    parser.set_defaults(command=_report)


def _report(chosen: argparse.Namespace) -> None:
    from cyclade.experiments.report import report, summary

    print(summary(chosen.folder))
    print(f"\nReport: {report(chosen.folder, chosen.out).resolve()}")
