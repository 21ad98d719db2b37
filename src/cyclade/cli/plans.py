"""`cyclade reproduce` and `cyclade study`: the paper's experiments, and those beyond it."""

from __future__ import annotations

import argparse
import shlex
import time
from pathlib import Path
from typing import Any

from cyclade.cli.arguments import (
    add_data_dir,
    add_device,
    add_jobs,
    add_seeds,
    seeds_of,
    with_example,
)

PAPER = ("fig1", "table1", "fig-time", "fig-vr", "fig-same-lr")
STUDIES = ("batch", "order")


def add(commands: Any) -> None:
    """Both commands."""
    reproduce = with_example(
        commands.add_parser,
        name="reproduce",
        help="the paper's experiments",
        description=(
            "Make an experiment of the paper from tuning to report. The same command goes on\n"
            "after an interruption.\n\n"
            "  fig1         SGD, SCCD, PAGE, VRO-CCD by epoch, each at its best learning rate\n"
            "  table1       seconds per iteration and per epoch, with multiply-adds\n"
            "  fig-time     fig1 against seconds\n"
            "  fig-vr       VR-CCD against VRO-CCD on MNIST and CIFAR-10\n"
            "  fig-same-lr  fig1 with the same learning rate for all\n"
            "  all          all of these"
        ),
        example=(
            "cyclade reproduce fig1 --quick\n"
            "  cyclade reproduce fig1 --data-dir data --device cuda --out out\n"
            "  cyclade reproduce all --quick --seeds 1 --out out/small"
        ),
    )
    reproduce.add_argument("name", choices=(*PAPER, "all"), metavar="NAME", help="see above")
    _add_settings(reproduce)
    reproduce.set_defaults(command=_reproduce)

    study = with_example(
        commands.add_parser,
        name="study",
        help="experiments beyond the paper",
        description=(
            "Where does the cyclic scheme win, and what does it cost?\n\n"
            "  batch        SGD and three kinds of SCCD as the batch grows\n"
            "  order        orders of the blocks, and their number"
        ),
        example=(
            "cyclade study batch --quick\n"
            "  cyclade study order --data-dir data --device cuda --out out"
        ),
    )
    study.add_argument("name", choices=STUDIES, metavar="NAME", help="see above")
    _add_settings(study)
    study.set_defaults(command=_study)


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--quick", action="store_true", help="in small: digits, few epochs, minutes on two cores"
    )
    parser.add_argument(
        "--out", default="out", metavar="DIR", help="results go to DIR/NAME (default: out)"
    )
    parser.add_argument("--dataset", metavar="NAME", help="instead of the plan's own")
    parser.add_argument("--epochs", type=int, metavar="N", help="of the final runs")
    parser.add_argument("--tune-epochs", type=int, metavar="N", help="of the tuning runs")
    add_seeds(parser, "final runs of each curve")
    add_data_dir(parser)
    add_device(parser)
    add_jobs(parser)


def _reproduce(chosen: argparse.Namespace) -> None:
    from cyclade.experiments.plans import PAPER as makes

    _make([makes[name] for name in (PAPER if chosen.name == "all" else [chosen.name])], chosen)


def _study(chosen: argparse.Namespace) -> None:
    from cyclade.experiments.plans import STUDIES as makes

    _make([makes[chosen.name]], chosen)


def _make(makes: list[Any], chosen: argparse.Namespace) -> None:
    from cyclade.experiments.datasets import find
    from cyclade.experiments.display import duration
    from cyclade.experiments.estimate import announced
    from cyclade.experiments.outline import findings, outline
    from cyclade.experiments.plans import Settings
    from cyclade.experiments.report import summary
    from cyclade.experiments.report.files import read_timing
    from cyclade.experiments.report.tables import timing_table
    from cyclade.experiments.reproduce import check, reproduce

    if chosen.dataset is not None:
        find(chosen.dataset)
    settings = Settings(
        quick=chosen.quick,
        dataset=chosen.dataset,
        epochs=chosen.epochs,
        tune_epochs=chosen.tune_epochs,
        seeds=seeds_of(chosen),
        device=chosen.device or "auto",
    )
    plans = [make(settings) for make in makes]
    for plan in plans:  # all of them, before the first begins
        check(plan, chosen.out, data_dir=chosen.data_dir, jobs=chosen.jobs)
    for make, plan in zip(makes, plans, strict=True):
        if not chosen.quiet and not (Path(chosen.out) / plan.name / "plan.json").exists():
            print(outline(plan, chosen.out), flush=True)
            line = announced(plan, make, settings, chosen.jobs)
            if line:
                print(line, flush=True)
        began = time.monotonic()
        page = reproduce(
            plan,
            chosen.out,
            data_dir=chosen.data_dir,
            jobs=chosen.jobs,
            progress=not chosen.quiet,
            command=shlex.join(["cyclade", *chosen.arguments]),
            say=_silent if chosen.quiet else _say,
        )
        root = Path(chosen.out) / plan.name
        print(f"\n{plan.title}\n")
        if plan.curves or plan.shows:  # else there are only times
            print(f"{summary(root)}\n")
        timing = read_timing(root)
        if timing is not None:
            print(f"{timing_table(timing).text()}\n")
        if plan.paper and not chosen.quiet:
            print(f"{findings(root)}\n")
        if plan.quick:
            print("These are small runs: they show how it works, and decide nothing.")
        took = f"It took {duration(time.monotonic() - began)}. " if not chosen.quiet else ""
        print(f"{took}Open the report in a browser; it needs no network.")
        print(f"Report: {page.resolve()}")


def _say(line: str) -> None:
    print(line, flush=True)


def _silent(line: str) -> None:
    """Nothing."""
