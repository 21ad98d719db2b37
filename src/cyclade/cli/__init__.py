"""The command line: `cyclade data`, `run`, `show`, `tune`, `reproduce`, `study` and `report`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import cyclade
from cyclade.cli import data, plans, report, runs, tuning
from cyclade.cli.arguments import with_example

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    chosen = parser().parse_args(arguments)
    chosen.arguments = arguments
    try:
        from cyclade.experiments import ExperimentError
    except ImportError as error:
        print(f"cyclade: {error}: pip install 'cyclade[experiments]'", file=sys.stderr)
        return FAILED
    try:
        chosen.command(chosen)
    except ExperimentError as error:
        print(f"cyclade: {' '.join(str(error).split())}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("cyclade: interrupted; the same command goes on from here", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone
        sys.stderr.close()
        return FAILED
    except OSError as error:
        print(f"cyclade: {error}", file=sys.stderr)
        return FAILED
    return 0


def parser() -> argparse.ArgumentParser:
    """All commands."""
    whole = with_example(
        argparse.ArgumentParser,
        prog="cyclade",
        description="Cyclic block coordinate descent with variance reduction: the experiments.",
        example="cyclade reproduce fig1 --quick --out out",
    )
    whole.add_argument("--version", action="version", version=f"cyclade {cyclade.__version__}")
    commands = whole.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for part in (data, runs, tuning, plans, report):
        part.add(commands)
    return whole
