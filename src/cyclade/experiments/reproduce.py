"""An experiment from its plan to its report: tune, train, time, and draw.

All of it lies in one folder, and every part of it resumes, so the same call goes on where it was
stopped. A folder of another plan is an error, and nothing in it is touched.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from cyclade.experiments import archive
from cyclade.experiments.device import resolve
from cyclade.experiments.errors import FolderError
from cyclade.experiments.folder import holds
from cyclade.experiments.official import verify
from cyclade.experiments.plans import Curve, Plan
from cyclade.experiments.report import report
from cyclade.experiments.report.board import read as read_board
from cyclade.experiments.report.claims import claims_table
from cyclade.experiments.report.groups import named
from cyclade.experiments.report.page import count
from cyclade.experiments.running import check_jobs
from cyclade.experiments.timing import time_alone
from cyclade.experiments.tune import Tuned, longest_first, tune
from cyclade.files.disk import read_json, sweep, write_json
from cyclade.files.lock import locked

PLAN, RUNS, TUNE = "plan.json", "runs", "tune"

Log = Callable[[str], None]


def reproduce(
    plan: Plan,
    out: str | Path,
    *,
    data_dir: str | Path | None = None,
    jobs: int | None = None,
    progress: bool = True,
    command: str = "",
    log: Log = lambda line: None,
) -> Path:
    """Make everything of a plan in the folder ``out/plan.name``; returns the path of its report.

    What cannot work (data that is not there, a device that is not there, a folder of another plan)
    is an error before anything is done. `log` is called with a line for whatever begins; `command`
    is noted.

    Example
    -------
    ::

        from cyclade.experiments.plans import PAPER, Settings
        from cyclade.experiments.reproduce import reproduce

        page = reproduce(PAPER["fig1"](Settings(quick=True)), "out")
    """
    check(plan, out, data_dir=data_dir, jobs=jobs)
    options = {"data_dir": data_dir, "jobs": jobs, "progress": progress}
    return _made(plan, Path(out), command, log, options)


def _made(plan: Plan, out: Path, command: str, log: Log, options: dict[str, Any]) -> Path:
    """Tune, train, time and report; the plans that this one shows come first."""
    root = out / plan.name
    with locked(root):
        sweep(root)
        write_json(root / PLAN, plan.described(command))
        for other in plan.shows:
            _made(other, out, command, log, options)
        curves, notes = _tuned(plan, root, log, options)
        write_json(root / PLAN, replace(plan, notes=plan.notes + notes).described(command))
        runs = [run for curve in curves for run in plan.runs(curve)]
        if runs:
            log(f"{plan.name}: {count(len(runs), 'run')}")
            longest_first(runs, root / RUNS, **options)
        if plan.timed:
            log(f"{plan.name}: {count(len(plan.timed), 'run')} to time, one after the other")
            keep = None if plan.curves else root / RUNS
            time_alone(plan.timed, root, keep=keep, data_dir=options["data_dir"])
        return report(root)


def _tuned(
    plan: Plan, root: Path, log: Log, options: dict[str, Any]
) -> tuple[list[Curve], tuple[str, ...]]:
    """The curves with their lr found, and what is to be said of the search."""
    grids = {plan.tuning(curve): curve.lrs for curve in plan.curves if curve.lrs}
    if not grids:
        return list(plan.curves), ()
    runs = count(sum(map(len, grids.values())), "run")
    log(f"{plan.name}: {runs} to tune the learning rates of {len(grids)} curves")
    tuned = tune(list(grids), root / TUNE, lrs=lambda base: grids[base] or (), **options)
    found = dict(zip(grids, tuned, strict=True))
    for one in tuned:
        log(f"  {_sentence(one)}")
    curves = [
        Curve(replace(c.config, lr=found[plan.tuning(c)].lr)) if c.lrs else c for c in plan.curves
    ]
    edge = "The search ended at the edge of its grid"
    notes = [f"{edge}: {_sentence(one)}" for one in tuned if one.at_edge]
    nothing = "Nothing was learnt in the search, at any learning rate"
    notes += [f"{nothing}: {_sentence(one)}" for one in tuned if not one.learnt]
    return curves, tuple(notes)


# ------------------------------------------------------------------------- before any work begins


def check(
    plan: Plan, out: str | Path, *, data_dir: str | Path | None = None, jobs: int | None = None
) -> None:
    """What cannot work is an error here, and nothing has been touched yet."""
    check_jobs(jobs)
    for config in (*(curve.config for curve in plan.curves), *plan.timed):
        resolve(config.device)
    _check_folder(plan, Path(out) / plan.name)
    for other in plan.shows:
        check(other, out, data_dir=data_dir, jobs=jobs)
    for name in plan.datasets():
        verify(name, data_dir)


def _check_folder(plan: Plan, root: Path) -> None:
    """The folder is this plan's, or new."""
    if (root / archive.RUNS).exists():
        raise FolderError(f"{root} holds packed results, which are final: give another --out")
    if not holds(root, PLAN):
        return
    try:
        there = read_json(root / PLAN)["content"]
    except KeyError as error:
        raise FolderError(f"{root / PLAN} cannot be read as a plan: it has no {error}") from error
    here = json.loads(json.dumps(plan.content()))
    different = _differences(there, here)
    if different:
        raise FolderError(
            f"{root} holds results of another plan ({'; '.join(different[:3])}): give another --out"
        )


def _differences(there: Any, here: Any, name: str = "") -> list[str]:
    """Where two plain values differ, in words."""
    if there == here:
        return []
    if isinstance(there, dict) and isinstance(here, dict) and there.keys() == here.keys():
        return [line for key in here for line in _differences(there[key], here[key], key)]
    if isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        lines = (_differences(a, b, name) for a, b in zip(there, here, strict=True))
        return list(dict.fromkeys(line for some in lines for line in some))
    if isinstance(here, list | dict):
        return [f"other {name}"]
    return [f"{name} = {there!r} there, {here!r} here"]


# ------------------------------------------------------------------------------ files and words


def _sentence(tuned: Tuned) -> str:
    """What the search found for one config."""
    told = ("dataset", "batch", "spectral", "precondition", "order", "blocks")
    keys = [key for key in told if getattr(tuned.config, key) not in (None, "forward")]
    grid = ", ".join(
        f"{one.lr:g}{' diverged' if one.status == 'diverged' else ''}" for one in tuned.tried
    )
    edge = ", at the edge" if tuned.at_edge else ""
    edge += "" if tuned.learnt else ": nothing learnt"
    return (
        f"{named(tuned.config, keys)}: lr {tuned.lr:g} with {tuned.held_out_accuracy:.4f} on the "
        f"images held out (tried {grid}{edge})"
    )


def outline(plan: Plan, out: str | Path) -> str:
    """What a plan will do, where its results go, and that it may be stopped."""
    parts = [f"{other.name} first, whose runs it shows" for other in plan.shows]
    grids = {plan.tuning(curve): curve.lrs for curve in plan.curves if curve.lrs}
    if grids:
        runs = sum(len(lrs or ()) for lrs in grids.values())
        curves = count(len(grids), "curve")
        parts.append(f"{runs} runs to find the learning rates of {curves}")
    finals = sum(len(plan.runs(curve)) for curve in plan.curves)
    if finals:
        parts.append(f"{finals} runs with them" if grids else f"{finals} runs")
    if plan.timed:
        parts.append(f"{len(plan.timed)} runs that are timed alone")
    parts.append("a page with every curve, table and claim")
    small = ", in small" if plan.quick else ""
    return (
        f"{plan.title}{small}\n{plan.question}\n"
        f"What will be done: {'; '.join(parts)}.\n"
        f"It goes to {Path(out) / plan.name}; Ctrl-C loses nothing, the same command goes on."
    )


def findings(root: str | Path) -> str:
    """The verdict on every claim of a plan."""
    table = claims_table(read_board(root)).text("compared", "verdict", "seen")
    return f"What was seen, claim by claim:\n{table}"
