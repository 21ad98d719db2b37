"""The command line: a module for the commands of a run, and one for those of many.

Every error that a user can put right is one line and the exit code 2.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cyclade
from cyclade._checks import meant
from cyclade.experiments import METHODS
from cyclade.files.errors import printable

if TYPE_CHECKING:
    from cyclade.experiments import RunConfig

BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 2, 130, 141
HOMES = {
    "config": "runs", "data": "runs", "run": "runs", "show": "runs", "tune": "plans",
    "reproduce": "plans", "study": "plans", "report": "plans", "doctor": "doctor",
}  # fmt: skip
"""The module of each command: it is loaded for that command, and for lists of all of them."""


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
    from cyclade.experiments.errors import ExperimentError
    from cyclade.experiments.folder import warnings_shown

    try:
        with warnings_shown():
            chosen.command(chosen)
        return 0
    except ExperimentError as error:
        _print_error(str(error))
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "cyclade":
            raise
        _print_error(
            f"this command needs {error.name}, which is not installed: in a checkout of cyclade, "
            "pip install '.[experiments]'; cyclade doctor lists what is missing"
        )
    return BAD_INPUT


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
    commands = whole.add_subparsers(
        title="commands", required=True, metavar="COMMAND", parser_class=Parser
    )
    for home in [HOMES[command]] if command in HOMES else dict.fromkeys(HOMES.values()):
        import_module(f"cyclade.cli.{home}").add(commands)
    return whole


# ---------------------------------------------------------------- the same words for the same thing


class Parser(argparse.ArgumentParser):
    """A parser whose help ends with an example, and which says what may have been meant."""

    def __init__(self, *, example: str = "", **options: Any) -> None:
        formatter = argparse.RawDescriptionHelpFormatter
        epilog = f"example:\n  {example}"
        super().__init__(epilog=epilog, formatter_class=formatter, **options)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = list(map(str, action.choices))
            raise argparse.ArgumentError(
                action, f"{value!r} is none of {', '.join(known)}{meant(value, known)}"
            )

    def options(self) -> list[str]:
        """All options that it takes."""
        return [option for action in self._actions for option in action.option_strings]


def tell(text: str, end: str = "\n") -> None:
    """Print; what comes out of files does not move the terminal."""
    print(printable(text), end=end, flush=True)


SHORT = ("dataset", "method", "lr", "epochs", "seed")
"""Keys of the config that have an option of their own; the others go by --set."""
OPTIONS: dict[str, dict[str, Any]] = {
    "--dataset": {"metavar": "NAME", "help": "the data set (default: digits)"},
    "--method": {"metavar": "METHOD", "help": f"{', '.join(METHODS[:-1])} or {METHODS[-1]}"},
    "--lr": {
        "type": float,
        "metavar": "LR",
        "help": "the initial learning rate (default: by data set and method)",
    },
    "--epochs": {"type": int, "metavar": "N", "help": "passes over the training images"},
    "--seed": {"type": int, "metavar": "SEED", "help": "of weights, batches and random orders"},
    "--out": {"metavar": "DIR"},
    "--json": {"action": "store_true", "help": "print JSON instead of a table"},
    "--data-dir": {
        "metavar": "DIR",
        "help": "where the data lies (default: $CYCLADE_DATA, else cyclade in the user's cache)",
    },
    "--device": {"metavar": "DEVICE", "help": "auto, cpu, cuda or cuda:N"},
    "--quiet": {"action": "store_true", "help": "no progress, only the outcome"},
    "--jobs": {
        "type": int,
        "metavar": "N",
        "help": "runs side by side (default: what the GPU or the cores bear)",
    },
}
"""Options of several commands: the same words for the same thing."""


def command(commands: Any, name: str, run: Callable[[argparse.Namespace], None]) -> Parser:
    """A command that calls `run` with what was chosen; its docstring is what the help says."""
    brief, _, text = cleandoc(run.__doc__ or ".").partition("\n\n")
    description, _, example = text.partition("\n\nexample:\n  ")
    parser: Parser = commands.add_parser(
        name, help=brief[0].lower() + brief[1:-1], description=description, example=example
    )
    parser.set_defaults(command=run, parser=parser)
    return parser


def add_options(parser: Parser, *names: str, **changes: Any) -> None:
    """Some of the `OPTIONS`; `changes` are for all of them."""
    for name in names:
        parser.add_argument(name, **OPTIONS[name] | changes)


def add_seeds(parser: Parser, what: str) -> None:
    """How many seeds, or which."""
    parser.add_argument("--seeds", type=int, metavar="N", help=f"{what}: N seeds, from 0 on")
    parser.add_argument("--seed-list", metavar="SEED,SEED,…", help="these seeds instead: 0,3,7")


def seeds_of(chosen: argparse.Namespace) -> tuple[int, ...] | int | None:
    """A count, or the seeds themselves; None if nothing was said."""
    from cyclade.experiments import ConfigError

    count: int | None = chosen.seeds
    if chosen.seed_list is None:
        return count
    if count is not None:
        raise ConfigError("give --seeds or --seed-list, not both")
    try:
        given = tuple(map(int, chosen.seed_list.split(",")))
    except ValueError:
        raise ConfigError(
            f"--seed-list takes integers with commas between, got {chosen.seed_list!r}"
        ) from None
    if len(set(given)) < len(given):
        raise ConfigError(f"seeds must differ, got {', '.join(map(str, given))}")
    return given


def add_config(parser: Parser, *short: str) -> None:
    """A config file, and values that replace its own."""
    parser.add_argument("config", nargs="?", metavar="CONFIG.toml", help="the config of the run")
    add_options(parser, *(f"--{key}" for key in short or SHORT))
    meaning = "replace any value (`cyclade config` lists the keys)"
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=meaning)


def config_of(chosen: argparse.Namespace, method: str | None = None) -> RunConfig:
    """The config that was asked for, with the defaults of its data set and of this method."""
    from cyclade.experiments import ConfigError, RunConfig
    from cyclade.experiments.config import value_of

    changes: dict[str, Any] = {}
    for setting in chosen.set:
        key, equals, text = setting.partition("=")
        if not equals:
            raise ConfigError(f"--set takes key=value, got {setting!r}")
        changes[key.strip()] = value_of(text.strip())
    named = {key: getattr(chosen, key, None) for key in (*SHORT, "device")}
    named["method"] = method or named["method"]
    changes |= {key: given for key, given in named.items() if given is not None}
    if chosen.config is not None:
        if "=" in chosen.config and not Path(chosen.config).exists():
            raise ConfigError(f"{chosen.config} is no file; --set {chosen.config} sets a value")
        return RunConfig.read(chosen.config, changes)
    return RunConfig.from_dict(changes)
