"""Arguments that several commands share: the same words for the same thing."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from inspect import cleandoc
from typing import TYPE_CHECKING, Any

from cyclade._checks import meant
from cyclade.experiments import METHODS
from cyclade.files.errors import printable

if TYPE_CHECKING:
    from cyclade.experiments import RunConfig

SHORT: dict[str, tuple[Any, str, str]] = {
    "dataset": (str, "NAME", "the data set (default: digits)"),
    "method": (str, "METHOD", f"{', '.join(METHODS[:-1])} or {METHODS[-1]}"),
    "lr": (float, "LR", "the initial learning rate (default: by data set and method)"),
    "epochs": (int, "N", "passes over the training images"),
    "seed": (int, "SEED", "of weights, batches and random orders"),
}
"""Keys of the config that have an option of their own; the others go by --set."""


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


OPTIONS: dict[str, dict[str, Any]] = {
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


def add_seeds(parser: Parser, what: str, *, former: bool = False) -> None:
    """How many seeds, or which. `former`: several numbers after --seeds are a list."""
    parser.add_argument(
        "--seeds",
        type=int,
        nargs="+" if former else None,
        metavar="N",
        help=f"{what}: N seeds, from 0 on",
    )
    parser.add_argument("--seed-list", metavar="SEED,SEED,…", help="these seeds instead: 0,3,7")


def seeds_of(chosen: argparse.Namespace) -> tuple[int, ...] | int | None:
    """A count, or the seeds themselves; None if nothing was said."""
    from cyclade.experiments import ConfigError

    given: int | list[int] | None = chosen.seeds
    if chosen.seed_list is not None:
        if given is not None:
            raise ConfigError("give --seeds or --seed-list, not both")
        try:
            given = [*map(int, chosen.seed_list.split(","))]
        except ValueError:
            raise ConfigError(
                f"--seed-list takes integers with commas between, got {chosen.seed_list!r}"
            ) from None
    elif isinstance(given, list) and len(given) == 1:
        return given[0]
    if not isinstance(given, list):
        return given
    if len(set(given)) < len(given):
        raise ConfigError(f"seeds must differ, got {', '.join(map(str, given))}")
    return tuple(given)


def add_config(parser: Parser, *short: str) -> None:
    """A config file, and values that replace its own."""
    parser.add_argument("config", nargs="?", metavar="CONFIG.toml", help="the config of the run")
    for key in short or SHORT:
        kind, metavar, meaning = SHORT[key]
        parser.add_argument(f"--{key}", type=kind, metavar=metavar, help=meaning)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="replace any value (`cyclade config` lists the keys)",
    )


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
    for key in (*SHORT, "device"):
        given = getattr(chosen, key, None)
        if given is not None:
            changes[key] = given
    if method is not None:
        changes["method"] = method
    if chosen.config is not None:
        return RunConfig.read(chosen.config, changes)
    return RunConfig.from_dict(changes)
