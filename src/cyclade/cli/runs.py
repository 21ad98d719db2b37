"""`cyclade run` and `cyclade show`: one run, and a table of many."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cyclade.cli.arguments import add_config, add_data_dir, add_device, config_of, with_example

if TYPE_CHECKING:
    from cyclade.experiments import RunResult


def add(commands: Any) -> None:
    """Both commands."""
    run = with_example(
        commands.add_parser,
        name="run",
        help="train one run, or resume it",
        description="Train one run; the same command resumes it after an interruption.",
        example=(
            "cyclade run --epochs 5 --out out/first\n"
            "  cyclade run --dataset mnist --method VRO-CCD --lr 0.005 --out out/vro\n"
            "  cyclade run run.toml --seed 1 --set batch=256 --device cuda --out out/seed1"
        ),
    )
    add_config(run)
    run.add_argument("--out", required=True, metavar="DIR", help="the folder of the run")
    add_data_dir(run)
    add_device(run)
    run.set_defaults(command=_run)

    show = with_example(
        commands.add_parser,
        name="show",
        help="a table of runs",
        description="A table of all runs at or below a folder.",
        example="cyclade show out",
    )
    show.add_argument("folder", metavar="DIR", help="a run folder, or one that holds run folders")
    show.set_defaults(command=_show)


def _run(chosen: argparse.Namespace) -> None:
    from cyclade.experiments import run
    from cyclade.experiments.display import Display

    config = config_of(chosen)
    with Display(not chosen.quiet) as display:
        result = run(
            config,
            chosen.out,
            data_dir=chosen.data_dir,
            watch=lambda row: display.show(config, row),
        )
    print(_sentence(result))
    hint = _hint(result)
    if hint:
        print(hint)


def _show(chosen: argparse.Namespace) -> None:
    from cyclade.experiments import ExperimentError, find_runs

    results = [r for r in find_runs(chosen.folder) if r.history]
    if not results:
        raise ExperimentError(f"no runs in {chosen.folder}")
    print(_table(results))


def _sentence(result: RunResult) -> str:
    row = result.last
    if result.status == "diverged":
        return f"{result.config.method} diverged in epoch {row.epoch} ({result.folder})"
    return (
        f"{result.config.method}: train loss {row.train_loss:.4f}, test accuracy "
        f"{row.test_accuracy:.4f} after {row.epoch} epochs, {row.seconds:.1f} s of training "
        f"({result.folder})"
    )


def _hint(result: RunResult) -> str:
    """What to try when nothing was learnt."""
    from cyclade.experiments.datasets import find
    from cyclade.experiments.tune import learnt

    c = result.config
    info = find(c.dataset)
    if result.status == "diverged":
        return f"A smaller lr may help: {info.learning_rate(c.method):g} is usual here."
    if learnt(c, result.last.test_accuracy):
        return ""
    return (
        f"Nothing was learnt: guessing gives {1 / info.classes:g}. More epochs or another lr may "
        f"help ({info.learning_rate(c.method):g} at batch {info.batch_of(c.method)} is usual "
        "here), or "
        "`cyclade tune`."
    )


def _table(results: Sequence[RunResult]) -> str:
    """One line per run."""
    head = [
        "dataset", "method", "spectral", "lr", "b", "seed", "epochs", "status", "train loss",
        "held out", "test acc", "seconds", "folder",
    ]  # fmt: skip
    lines = [head]
    for r in results:
        c, row = r.config, r.last
        held = "-" if row.held_out_accuracy is None else f"{row.held_out_accuracy:.4f}"
        lines.append(
            [
                c.dataset, c.method, c.spectral or "-", f"{c.lr:g}", str(c.batch), str(c.seed),
                f"{row.epoch}/{c.epochs}", r.status, f"{row.train_loss:.4f}", held,
                f"{row.test_accuracy:.4f}", f"{row.seconds:.2f}", r.folder.name,
            ]
        )  # fmt: skip
    return aligned(lines)


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Cells in columns."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
