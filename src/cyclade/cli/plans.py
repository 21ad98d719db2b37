"""`cyclade tune`, `reproduce`, `study` and `report`: searches, experiments, and their pages."""

from __future__ import annotations

import argparse
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclade.cli import (
    Parser,
    add_config,
    add_options,
    add_seeds,
    command,
    config_of,
    seeds_of,
    tell,
)

if TYPE_CHECKING:
    from cyclade.experiments.tune import Tuned

PAPER = ("fig1", "table1", "fig-time", "fig-vr", "fig-same-lr")
STUDIES = ("batch", "order")
WHERE = ("--data-dir", "--device", "--quiet", "--jobs")


def add(commands: Any) -> None:
    """The four commands."""
    tune = command(commands, "tune", _tune)
    add_config(tune, "dataset", "epochs")
    tune.add_argument(
        "--methods", nargs="+", metavar="METHOD", help="instead of the config's method"
    )
    tune.add_argument(
        "--lrs", nargs="+", type=float, metavar="LR", help="the grid (default: one that is near)"
    )
    tune.add_argument(
        "--held-out", type=float, default=0.1, metavar="SHARE", help="of the training images (0.1)"
    )
    add_seeds(tune, "judge by the mean over")
    add_options(tune, "--out", help="the folder of the search (default: out/tune)")
    add_options(tune, *WHERE)

    _add_settings(command(commands, "reproduce", _reproduce), (*PAPER, "all"))
    _add_settings(command(commands, "study", _study), STUDIES)

    report = command(commands, "report", _report)
    report.add_argument("folder", metavar="RUNS", help="a folder with runs")
    report.add_argument("--out", metavar="PAGE", help="the page (default: RUNS/report.html)")
    other = report.add_mutually_exclusive_group()
    other.add_argument("--pack", metavar="DIR", help="pack the runs into DIR; the page goes there")
    other.add_argument("--unpack", metavar="DIR", help="packed runs as run folders into DIR")


def _add_settings(parser: Parser, names: tuple[str, ...]) -> None:
    parser.add_argument("name", choices=names, metavar="NAME", help="see above")
    parser.add_argument(
        "--quick", action="store_true", help="in small: digits, few epochs, minutes on two cores"
    )
    add_options(parser, "--out", help="results go to DIR/NAME (default: out)")
    add_options(parser, "--dataset", help="instead of the plan's own")
    add_options(parser, "--epochs", help="of the final runs")
    parser.add_argument("--tune-epochs", type=int, metavar="N", help="of the tuning runs")
    add_seeds(parser, "final runs of each curve")
    add_options(parser, *WHERE)


# -------------------------------------------------------------------------------------------- tune


def _tune(chosen: argparse.Namespace) -> None:
    """Search the initial learning rate.

    Search the initial learning rate of a config by grid, for each method given, on
    images held out of the training set. The grid grows where the best is at its edge.
    The same command resumes.

    example:
      cyclade tune --epochs 20 --methods SGD SCCD --lrs 0.05 0.1 0.2 --out out/tune
      cyclade tune run.toml --seeds 3 --device cuda --data-dir data --out out/tune
    """
    from cyclade.experiments import verify
    from cyclade.experiments.device import resolve
    from cyclade.experiments.plans import Settings
    from cyclade.experiments.plans.grids import learning_rates
    from cyclade.experiments.tune import tune

    bases = [config_of(chosen, method) for method in chosen.methods or [None]]
    seeds = Settings(seeds=seeds_of(chosen)).seeds
    resolve(bases[0].device)
    verify(bases[0].dataset, chosen.data_dir)
    out = Path(chosen.out or "out/tune")
    tuned = tune(
        bases,
        out,
        lrs=chosen.lrs or learning_rates,
        held_out=chosen.held_out,
        seeds=tuple(range(seeds)) if isinstance(seeds, int) else seeds,
        data_dir=chosen.data_dir,
        jobs=chosen.jobs,
        progress=not chosen.quiet,
    )
    tell(_tuned_table(tuned))
    for one in tuned:
        if one.at_edge:
            tell(f"{one.config.method}: lr {one.lr:g} is at the edge of its grid")
        if not one.learnt:
            tell(
                f"{one.config.method}: nothing was learnt at any lr; the one with the lowest train "
                "loss is taken: try more epochs"
            )
    tell(f"Runs: {out.resolve()}")


def _tuned_table(tuned: list[Tuned]) -> str:
    from cyclade.experiments.display import aligned

    lines = [["method", "lr", "held out", ""]]
    for one in tuned:
        for tried in one.tried:
            accuracy = tried.held_out_accuracy
            reached = tried.status if accuracy is None else f"{accuracy:.4f}"
            best = "best" if tried.lr == one.lr else ""
            lines.append([one.config.method, f"{tried.lr:g}", reached, best])
    return aligned(lines)


# ------------------------------------------------------------------------------- reproduce, study


def _reproduce(chosen: argparse.Namespace) -> None:
    """The paper's experiments.

    Make an experiment of the paper from tuning to report. The same command goes on
    after an interruption.

      fig1         SGD, SCCD, PAGE, VRO-CCD by epoch, each at its best learning rate
      table1       seconds per iteration and per epoch, with multiply-adds
      fig-time     fig1 against seconds
      fig-vr       VR-CCD against VRO-CCD on MNIST and CIFAR-10
      fig-same-lr  fig1 with the same learning rate for all
      all          all of these

    example:
      cyclade reproduce fig1 --quick
      cyclade reproduce fig1 --data-dir data --device cuda --out out
      cyclade reproduce all --quick --seeds 1 --out out/small
    """
    _make(chosen)


def _study(chosen: argparse.Namespace) -> None:
    """Experiments beyond the paper.

    Where does the cyclic scheme win, and what does it cost?

      batch        SGD and three kinds of SCCD as the batch grows
      order        orders of the blocks, and their number

    example:
      cyclade study batch --quick
      cyclade study order --data-dir data --device cuda --out out
    """
    _make(chosen)


def _make(chosen: argparse.Namespace) -> None:
    from cyclade.experiments import plans
    from cyclade.experiments.datasets import find
    from cyclade.experiments.display import duration
    from cyclade.experiments.report import summary
    from cyclade.experiments.report.files import read_timing
    from cyclade.experiments.report.tables import timing_table
    from cyclade.experiments.reproduce import check, findings, outline, reproduce

    if chosen.dataset is not None:
        find(chosen.dataset)
    known = plans.PAPER | plans.STUDIES
    settings = plans.Settings(
        quick=chosen.quick,
        dataset=chosen.dataset,
        epochs=chosen.epochs,
        tune_epochs=chosen.tune_epochs,
        seeds=seeds_of(chosen),
        device=chosen.device or "auto",
    )
    out = Path(chosen.out or "out")
    made = [known[name](settings) for name in (PAPER if chosen.name == "all" else [chosen.name])]
    for plan in made:  # all of them, before the first begins
        check(plan, out, data_dir=chosen.data_dir, jobs=chosen.jobs)
    for plan in made:
        root = out / plan.name
        if not chosen.quiet and not (root / "plan.json").exists():
            tell(outline(plan, out))
        began = time.monotonic()
        page = reproduce(
            plan,
            out,
            data_dir=chosen.data_dir,
            jobs=chosen.jobs,
            progress=not chosen.quiet,
            command=shlex.join(["cyclade", *chosen.arguments]),
            log=lambda line: None if chosen.quiet else tell(line),
        )
        tell(f"\n{plan.title}\n")
        if plan.curves or plan.shows:  # else there are only times
            tell(f"{summary(root)}\n")
        timing = read_timing(root)
        if timing is not None:
            tell(f"{timing_table(timing).text()}\n")
        if plan.paper and not chosen.quiet:
            tell(f"{findings(root)}\n")
        if plan.quick:
            tell("These are small runs: they show how it works, and decide nothing.")
        took = f"It took {duration(time.monotonic() - began)}. " if not chosen.quiet else ""
        tell(f"{took}Open the report in a browser; it needs no network.")
        tell(f"Report: {page.resolve()}")


# ------------------------------------------------------------------------------------------ report


def _report(chosen: argparse.Namespace) -> None:
    """A page with figures and tables.

    Write one self-contained page about all runs at or below a folder, and its figures
    as PNG and PDF beside it. With --pack, results to keep: the runs as two tables
    (runs.jsonl, histories.csv) in another folder, and the page there.

    example:
      cyclade report out/fig1
      cyclade report out/fig1 --out page.html
      cyclade report out/fig1 --pack docs/results/fig1
    """
    from cyclade.experiments.archive import pack, unpack
    from cyclade.experiments.report import report, summary

    if chosen.unpack:
        tell(f"Run folders: {unpack(chosen.folder, chosen.unpack).resolve()}")
        return
    if chosen.pack:
        chosen.folder = pack(chosen.folder, chosen.pack)
    tell(summary(chosen.folder))
    tell(f"\nReport: {report(chosen.folder, chosen.out).resolve()}")
