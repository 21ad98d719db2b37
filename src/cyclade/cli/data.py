"""`cyclade data`: fetch or check the data sets."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from cyclade.cli.arguments import add_data_dir, with_example


def add(commands: Any) -> None:
    """The command."""
    parser = with_example(
        commands.add_parser,
        name="data",
        help="fetch or check the data sets",
        description="Fetch data sets from their official sources and check every file.",
        example="cyclade data cifar10 mnist --data-dir data\n  cyclade data cifar10 --check",
    )
    parser.add_argument(
        "names", nargs="+", metavar="NAME", help="a data set; an unknown one lists them all"
    )
    add_data_dir(parser)
    parser.add_argument("--check", action="store_true", help="only check what is there")
    parser.set_defaults(command=_data)


def _data(chosen: argparse.Namespace) -> None:
    from cyclade.experiments import fetch, verify

    for name in chosen.names:
        if chosen.check:
            folder = verify(name, chosen.data_dir)
        else:
            folder = fetch(name, chosen.data_dir, progress=sys.stdout.isatty())
        where = "comes with scikit-learn" if folder is None else f"complete in {folder}"
        print(f"{name}: {where}")
