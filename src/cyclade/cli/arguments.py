"""Arguments that several commands share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cyclade.experiments import RunConfig


def with_example(make: Any, *, example: str, **options: Any) -> argparse.ArgumentParser:
    """A parser whose help ends with an example."""
    made: argparse.ArgumentParser = make(
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        **options,
    )
    return made


def add_data_dir(parser: argparse.ArgumentParser) -> None:
    """Where the data lies."""
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        help="where the data lies (default: $CYCLADE_DATA, else cyclade in the user's cache)",
    )


def add_device(parser: argparse.ArgumentParser) -> None:
    """Where to train, and whether to show it."""
    parser.add_argument("--device", metavar="DEVICE", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the outcome")


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """How many at once."""
    parser.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="runs side by side (default: what the GPU or the cores bear)",
    )


def add_config(parser: argparse.ArgumentParser) -> None:
    """A config file, and values that replace its own."""
    parser.add_argument("config", nargs="?", metavar="CONFIG.toml", help="the config of the run")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="replace a value"
    )


def config_of(chosen: argparse.Namespace) -> RunConfig:
    """The config that was asked for."""
    from cyclade.experiments import ConfigError, RunConfig
    from cyclade.experiments.config import value_of

    changes: dict[str, Any] = {}
    for setting in chosen.set:
        key, equals, text = setting.partition("=")
        if not equals:
            raise ConfigError(f"--set takes key=value, got {setting!r}")
        changes[key.strip()] = value_of(text.strip())
    if chosen.device is not None:
        changes["device"] = chosen.device
    if chosen.config is not None:
        return RunConfig.read(chosen.config, changes)
    return RunConfig.from_dict(changes)
