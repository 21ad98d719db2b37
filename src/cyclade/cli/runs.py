"""`cyclade config`, `data`, `run` and `show`: what a run is, its data, one run, and a table."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclade.cli import add_config, add_options, command, config_of, tell

if TYPE_CHECKING:
    from cyclade.experiments import RunResult


def add(commands: Any) -> None:
    """The four commands."""
    config = command(commands, "config", _config)
    config.add_argument("--toml", action="store_true", help="print a config instead of the list")
    add_config(config)

    data = command(commands, "data", _data)
    data.add_argument("names", nargs="*", metavar="NAME", help="a data set (default: list all)")
    add_options(data, "--data-dir")
    data.add_argument("--check", action="store_true", help="only check what is there")

    run = command(commands, "run", _run)
    add_config(run)
    where = "the folder of the run (default: out/runs/ and a name made of its config)"
    add_options(run, "--out", help=where)
    add_options(run, "--data-dir", "--device", "--quiet")

    show = command(commands, "show", _show)
    show.add_argument("folder", metavar="DIR", help="a run folder, or one that holds run folders")
    add_options(show, "--json")


# ------------------------------------------------------------------------------------ config, data


def _config(chosen: argparse.Namespace) -> None:
    """Every key of a run, and what it accepts.

    List every key of a run's config with its type, default and range. With --toml,
    print a whole config to start from.

    example:
      cyclade config
      cyclade config --toml --dataset mnist --method PAGE > run.toml
    """
    made = config_of(chosen)  # what was given is checked in any case
    tell(made.to_toml() if chosen.toml else "\n".join(_listed()), end="" if chosen.toml else "\n")


def _listed() -> Iterator[str]:
    """Every key in a few lines."""
    from cyclade.experiments import METHODS
    from cyclade.experiments.config import RunConfig, keys
    from cyclade.experiments.datasets import known

    defaults = {field.name: field.default for field in fields(RunConfig)}
    for name, key in keys().items():
        yield f"{name}  ({key.kind}, default {key.usual or _shown(defaults[name])})"
        yield textwrap.fill(
            f"{key.meaning}: {key.accepted}", 88, initial_indent="    ", subsequent_indent="    "
        )
    yield "\nlr and batch by data set:"
    for info in known().values():
        usual: dict[str, list[str]] = {}
        for method in METHODS:
            made = RunConfig(dataset=info.name, method=method)
            b_small = f", b_small {made.b_small}" if made.b_small else ""
            words = f"batch {made.batch}{b_small} and lr {made.lr:g}"
            usual.setdefault(words, []).append(method)
        whole = "; ".join(f"{words} for {', '.join(names)}" for words, names in usual.items())
        yield textwrap.fill(
            f"{info.name}: {whole}", 92, initial_indent="    ", subsequent_indent="        "
        )


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _data(chosen: argparse.Namespace) -> None:
    """List, fetch or check the data sets.

    List the data sets; with names, fetch these from their official sources and check
    every file.

    example:
      cyclade data
      cyclade data cifar10 mnist --data-dir data
      cyclade data cifar10 --check
    """
    from cyclade.experiments import fetch, verify

    if not chosen.names:
        tell(_sets(chosen.data_dir))
    for name in chosen.names:
        if chosen.check:
            folder = verify(name, chosen.data_dir)
        else:
            folder = fetch(name, chosen.data_dir, progress=sys.stdout.isatty())
        where = f"complete in {folder}" if folder else "comes with scikit-learn"
        tell(f"{name}: {where}")


def _sets(data_dir: str | None) -> str:
    """Every data set, and whether it is there."""
    from cyclade.experiments.datasets import known
    from cyclade.experiments.display import aligned
    from cyclade.experiments.official import data_folder

    lines = [["name", "images to train on", "to test on", "size of one", "where"]]
    for info in known().values():
        where = "comes with scikit-learn"
        if info.official is not None:
            root = data_folder(data_dir)
            there = all(info.official.locate(root).values())
            where = f"in {root}" if there else f"not there: cyclade data {info.name}"
        shape = " x ".join(map(str, info.shape))
        lines.append([info.name, f"{info.images[0]:,}", f"{info.images[1]:,}", shape, where])
    return aligned(lines)


# --------------------------------------------------------------------------------------- run, show


def _run(chosen: argparse.Namespace) -> None:
    """Train one run, or resume it.

    Train one run; the same command resumes it after an interruption.

    example:
      cyclade run --epochs 5 --out out/first
      cyclade run --dataset mnist --method VRO-CCD --lr 0.005 --out out/vro
      cyclade run run.toml --seed 1 --set batch=256 --device cuda --out out/seed1
    """
    from cyclade.experiments import run
    from cyclade.experiments.datasets import find
    from cyclade.experiments.display import Display

    config = config_of(chosen)
    folder = chosen.out or Path("out") / "runs" / config.slug()
    with nullcontext() if chosen.quiet else Display() as display:
        watch = None if display is None else partial(display.show, config)
        result = run(config, folder, data_dir=chosen.data_dir, watch=watch)
    row = result.last
    info = find(config.dataset)
    rate = info.learning_rate(config.method)
    if result.status == "diverged":
        tell(f"{config.method} diverged in epoch {row.epoch} ({result.folder})")
        tell(f"A smaller lr may help: {rate:g} is usual here.")
        return
    epochs = f"{row.epoch} epoch" if row.epoch == 1 else f"{row.epoch} epochs"
    tell(
        f"{config.method}: train loss {row.train_loss:.4f}, test accuracy "
        f"{row.test_accuracy:.4f} after {epochs}, {row.seconds:.1f} s of training "
        f"({result.folder})"
    )
    if not info.learnt(row.test_accuracy):
        batch = info.batch_of(config.method)
        usual = f" ({rate:g} at batch {batch} is usual here)"
        if (config.lr, config.batch) == (rate, batch):
            usual = ""
        tell(
            f"Little or nothing was learnt: guessing gives {1 / info.classes:g}. More epochs or "
            f"another lr may help{usual}, or `cyclade tune`."
        )


def _show(chosen: argparse.Namespace) -> None:
    """A table of runs.

    A table of all runs at or below a folder.

    example:
      cyclade show out
      cyclade show out --json
    """
    from cyclade.experiments import ExperimentError, find_runs
    from cyclade.experiments.display import aligned

    results = [r for r in find_runs(chosen.folder) if r.history]
    if not results:
        raise ExperimentError(f"no runs in {chosen.folder}")
    if chosen.json:
        tell(json.dumps([_as_json(result) for result in results], indent=1))
        return
    lines = [[
        "dataset", "method", "spectral", "lr", "b", "seed", "epochs", "status", "train loss",
        "held out", "test acc", "seconds", "folder",
    ]]  # fmt: skip
    for r in results:
        c, row = r.config, r.last
        held = "-" if row.held_out_accuracy is None else f"{row.held_out_accuracy:.4f}"
        lines.append([
            c.dataset, c.method, c.spectral or "-", f"{c.lr:g}", str(c.batch), str(c.seed),
            f"{row.epoch}/{c.epochs}", r.status, f"{row.train_loss:.4f}", held,
            f"{row.test_accuracy:.4f}", f"{row.seconds:.2f}", r.folder.name,
        ])  # fmt: skip
    tell(aligned(lines))


def _as_json(result: RunResult) -> dict[str, Any]:
    """A run with its config and its last epoch; what is not finite is null."""
    last = {
        key: None if isinstance(value, float) and value - value != 0 else value
        for key, value in asdict(result.last).items()
    }
    about = {"folder": str(result.folder), "status": result.status}
    return {**about, "config": asdict(result.config), "last": last}
