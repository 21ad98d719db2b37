"""`cyclade config`: what can be set of a run."""

from __future__ import annotations

import argparse
import textwrap
from dataclasses import fields
from typing import Any

from cyclade.cli.arguments import add_config, config_of, with_example


def add(commands: Any) -> None:
    """The command."""
    parser = with_example(
        commands.add_parser,
        name="config",
        help="every key of a run, and what it accepts",
        description=(
            "List every key of a run's config with its type, default and range. With --toml,\n"
            "print a whole config to start from."
        ),
        example=(
            "cyclade config\n  cyclade config --toml --dataset mnist --method PAGE > run.toml"
        ),
    )
    parser.add_argument("--toml", action="store_true", help="print a config instead of the list")
    add_config(parser)
    parser.set_defaults(command=_config)


def _config(chosen: argparse.Namespace) -> None:
    made = config_of(chosen)  # what was given is checked in any case
    print(made.to_toml() if chosen.toml else listed(), end="" if chosen.toml else "\n")


def listed() -> str:
    """Every key in a few lines."""
    from cyclade.experiments.config import RunConfig, keys

    defaults = {field.name: field.default for field in fields(RunConfig)}
    parts = []
    for name, key in keys().items():
        default = key.usual or _shown(defaults[name])
        parts.append(f"{name}  ({key.kind}, default {default})")
        parts += textwrap.wrap(
            f"{key.meaning}: {key.accepted}", 88, initial_indent="    ", subsequent_indent="    "
        )
    parts += ["", "lr and batch by data set:", *_by_dataset()]
    return "\n".join(parts)


def _by_dataset() -> list[str]:
    from cyclade.experiments import METHODS
    from cyclade.experiments.datasets import known

    lines = []
    for info in known().values():
        usual: dict[str, list[str]] = {}
        for method in METHODS:
            batch, lr = info.batch_of(method), info.learning_rate(method)
            b_small = info.b_small_of(method, batch)
            words = f"batch {batch}{f', b_small {b_small}' if b_small else ''} and lr {lr:g}"
            usual.setdefault(words, []).append(method)
        whole = "; ".join(f"{words} for {', '.join(names)}" for words, names in usual.items())
        lines += textwrap.wrap(
            f"{info.name}: {whole}", 92, initial_indent="    ", subsequent_indent="        "
        )
    return lines


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
