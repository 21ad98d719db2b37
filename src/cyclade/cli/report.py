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
            "as PNG and PDF beside it. With --pack, results to keep: the runs as two tables\n"
            "(runs.jsonl, histories.csv) in another folder, and the page there."
        ),
        example="cyclade report out/fig1\n  cyclade report out/fig1 --out page.html\n"
        "  cyclade report out/fig1 --pack docs/results/fig1",
    )
    parser.add_argument("folder", metavar="RUNS", help="a folder with runs")
    parser.add_argument("--out", metavar="PAGE", help="the page (default: RUNS/report.html)")
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--pack", metavar="DIR", help="pack the runs into DIR; the page goes there")
    other.add_argument("--unpack", metavar="DIR", help="packed runs as run folders into DIR")
    parser.set_defaults(command=_report)


def _report(chosen: argparse.Namespace) -> None:
    from cyclade.experiments.archive import pack, unpack
    from cyclade.experiments.report import report, summary

    if chosen.unpack:
        print(f"Run folders: {unpack(chosen.folder, chosen.unpack).resolve()}")
        return
    if chosen.pack:
        chosen.folder = pack(chosen.folder, chosen.pack)
    print(summary(chosen.folder))
    print(f"\nReport: {report(chosen.folder, chosen.out).resolve()}")
