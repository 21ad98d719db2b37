"""The command line: a module for the commands of a run, and one for those of many.

Every error that a user can put right is one line and the exit code 2.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

import cyclade
from cyclade._checks import meant
from cyclade.cli.arguments import Parser
from cyclade.files.errors import printable

BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 2, 130, 141
HOMES = {
    "config": "runs", "data": "runs", "run": "runs", "show": "runs", "tune": "plans",
    "reproduce": "plans", "study": "plans", "report": "plans", "doctor": "doctor",
    "completion": "completion",
}  # fmt: skip
"""The module of each command: it is loaded for that command, and for lists of all of them."""
ANYWHERE = ("doctor", "completion")
"""Commands that need no more than `import cyclade` does."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    try:
        _ready_to_print()
        code = _run(sys.argv[1:] if arguments is None else list(arguments))
        if sys.stdout is not None:
            sys.stdout.flush()  # what cannot be written shows here, not when Python ends
        return code
    except KeyboardInterrupt:
        _print_error("interrupted; the same command goes on from here")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone: end as other tools do
        _drop_output()
        return BROKEN_PIPE
    except OSError as error:
        _drop_output()
        where = f"{error.filename}: " if error.filename else ""
        _print_error(f"{where}{error.strerror or error}")
        return BAD_INPUT


def _run(arguments: list[str]) -> int:
    if not arguments:
        parser().print_help(sys.stderr)
        return BAD_INPUT
    chosen, unknown = parser(arguments[0]).parse_known_args(arguments)
    if unknown:
        hint = meant(unknown[0], chosen.parser.options()) if unknown[0].startswith("-") else ""
        chosen.parser.error(f"{unknown[0]!r} is not known here{hint}")
    chosen.arguments = arguments
    try:
        if arguments[0] in ANYWHERE:
            chosen.command(chosen)
            return 0
        return _experiment(chosen)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "cyclade":
            raise
        _print_error(
            f"this command needs {error.name}, which is not installed: in a checkout of cyclade, "
            "pip install '.[experiments]'; cyclade doctor lists what is missing"
        )
        return BAD_INPUT


def _experiment(chosen: argparse.Namespace) -> int:
    from cyclade.experiments.display import warnings_shown
    from cyclade.experiments.errors import ExperimentError

    try:
        with warnings_shown():
            chosen.command(chosen)
    except ExperimentError as error:
        _print_error(str(error))
        return BAD_INPUT
    return 0


def _print_error(message: str) -> None:
    print(printable(f"cyclade: {' '.join(message.split())}"), file=sys.stderr)


def _ready_to_print() -> None:
    """Any path can be printed, whatever the locale; what it has no letters for is escaped."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """What is still in the buffer cannot be written, and Python shall not try again."""
    with suppress(OSError, ValueError, AttributeError):  # it is no file, or not there
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parser(command: str = "") -> Parser:
    """All commands; or one alone, with those that live beside it."""
    whole = Parser(
        prog="cyclade",
        description="Cyclic block coordinate descent with variance reduction: the experiments.",
        example=(
            "cyclade reproduce fig1 --quick --out out\n"
            "  cyclade run --method SCCD --epochs 5 --out out/first"
        ),
    )
    whole.add_argument("--version", action="version", version=f"cyclade {cyclade.__version__}")
    whole.set_defaults(whole=whole)
    commands = whole.add_subparsers(
        title="commands", required=True, metavar="COMMAND", parser_class=Parser
    )
    alone = command in HOMES and command != "completion"  # which writes down all of them
    for home in [HOMES[command]] if alone else dict.fromkeys(HOMES.values()):
        import_module(f"cyclade.cli.{home}").add(commands)
    return whole
