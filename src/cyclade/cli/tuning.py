"""`cyclade tune`: the grid search of the initial learning rate."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclade.cli.arguments import (
    add_config,
    add_data_dir,
    add_device,
    add_jobs,
    add_seeds,
    config_of,
    seeds_of,
    with_example,
)
from cyclade.cli.runs import aligned

if TYPE_CHECKING:
    from cyclade.experiments.tune import Tuned


def add(commands: Any) -> None:
    """The command."""
    parser = with_example(
        commands.add_parser,
        name="tune",
        help="search the initial learning rate",
        description=(
            "Search the initial learning rate of a config by grid, for each method given, on\n"
            "images held out of the training set. The grid grows where the best is at its edge.\n"
            "The same command resumes."
        ),
        example=(
            "cyclade tune --epochs 20 --methods SGD SCCD --lrs 0.05 0.1 0.2 --out out/tune\n"
            "  cyclade tune run.toml --seeds 3 --device cuda --data-dir data --out out/tune"
        ),
    )
    add_config(parser, "dataset", "epochs")
    parser.add_argument(
        "--methods", nargs="+", metavar="METHOD", help="instead of the config's method"
    )
    parser.add_argument(
        "--lrs", nargs="+", type=float, metavar="LR", help="the grid (default: one that is near)"
    )
    parser.add_argument(
        "--held-out", type=float, default=0.1, metavar="SHARE", help="of the training images (0.1)"
    )
    add_seeds(parser, "judge by the mean over", former=True)
    parser.add_argument("--out", required=True, metavar="DIR", help="the folder of the search")
    add_data_dir(parser)
    add_device(parser)
    add_jobs(parser)
    parser.set_defaults(command=_tune)


def _tune(chosen: argparse.Namespace) -> None:
    from cyclade.experiments import ConfigError, verify
    from cyclade.experiments.about import resolve
    from cyclade.experiments.plans.grids import learning_rates
    from cyclade.experiments.config import MOST
    from cyclade.experiments.tune import tune

    bases = [config_of(chosen, method) for method in chosen.methods or [None]]
    config = bases[0]
    seeds = seeds_of(chosen)
    if isinstance(seeds, int):
        if not 1 <= seeds <= MOST:
            raise ConfigError(f"seeds must be from 1 to {MOST}, got {seeds}")
        seeds = tuple(range(seeds))
    resolve(config.device)
    verify(config.dataset, chosen.data_dir)
    tuned = tune(
        bases,
        chosen.out,
        lrs=chosen.lrs or learning_rates,
        held_out=chosen.held_out,
        seeds=seeds,
        data_dir=chosen.data_dir,
        jobs=chosen.jobs,
        progress=not chosen.quiet,
    )
    print(_table(tuned))
    for one in tuned:
        if one.at_edge:
            print(f"{one.config.method}: lr {one.lr:g} is at the edge of its grid")
        if not one.learnt:
            print(
                f"{one.config.method}: nothing was learnt at any lr; the one with the lowest train "
                "loss is taken: try more epochs"
            )
    print(f"Runs: {Path(chosen.out).resolve()}")


def _table(tuned: list[Tuned]) -> str:
    lines = [["method", "lr", "held out", ""]]
    for one in tuned:
        for tried in one.tried:
            accuracy = tried.held_out_accuracy
            lines.append(
                [
                    one.config.method,
                    f"{tried.lr:g}",
                    tried.status if accuracy is None else f"{accuracy:.4f}",
                    "best" if tried.lr == one.lr else "",
                ]
            )
    return aligned(lines)
