"""The page: one HTML file with its styles, scripts and data inside, and nothing outside.

``page.html`` is its template; here is what stands in it.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import asdict, fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

import cyclade
from cyclade.experiments.archive import starts
from cyclade.experiments.config import RunConfig
from cyclade.experiments.report import tables
from cyclade.experiments.report.board import ALONE, Board, overview
from cyclade.experiments.report.claims import RULE, claims_table, headline
from cyclade.experiments.report.figures import WITHOUT, Printed
from cyclade.experiments.report.payload import embedded
from cyclade.experiments.report.tables import Table


def page(board: Board, data: dict[str, Any], printed: Printed | None) -> str:
    """The whole page; `data` is its `payload`, `printed` the figures beside it (None: none)."""
    plan = board.plan
    verdict, sentence = headline(board)
    script = f"{_resource('chart.js')}\n{_resource('page.js')}"
    everything: dict[str, Any] = {
        "title": plan.title or plan.name or f"Runs in {board.root.resolve().name}",
        "css": Markup(_resource("page.css")),
        "version": cyclade.__version__,
        "plan": plan,
        "panels": board.panels,
        "entries": board.entries,
        "timing": board.timing,
        "times_table": board.timing and tables.timing_table(board.timing),
        "verdict": verdict,
        "sentence": sentence,
        "facts": list(_facts(board)),
        "bad": list(_unended(board)),
        "claims": claims_table(board),
        "rule": RULE if any(claim.checks for claim in plan.paper) else "",
        "ends": tables.full_table(board),
        "tunings": tables.tuning_tables(board),
        "runs": tables.run_table(board),
        "machines": _machines(board),
        "configurations": list(_configurations(board)),
        "commands": [
            *filter(None, [plan.command]), f"cyclade report {shlex.quote(str(board.root))}"
        ],
        "printed": printed,
        "picture": printed and base64.b64encode(printed.main).decode(),
        "without": WITHOUT,
        "figure_notes": list(_figure_notes(board)),
        "data": Markup(embedded(data)),
        "script": Markup(script),
        "count": count,
    }  # fmt: skip
    return _templates().get_template("page.html").render(everything)


def rendered(table: Table, name: str, kind: str = "") -> str:
    """A table as it stands in the page."""
    module: Any = _templates().get_template("macros.html").module
    return str(module.table(table, name, kind))


def count(n: int, what: str) -> str:
    """So many of something.

    >>> count(1, "run"), count(3, "run")
    ('1 run', '3 runs')
    """
    return f"{n} {what}{'' if n == 1 else 's'}"


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


@cache
def _templates() -> Environment:
    return Environment(
        loader=FunctionLoader(_resource), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip


# --------------------------------------------------------------------------- the top, the figures


def _facts(board: Board) -> Iterator[str]:
    if board.plan.times:
        yield f"{count(len(board.timing.rows if board.timing else ()), 'configuration')} timed"
        return
    yield count(len(board.runs), "run")
    yield count(len(board.groups), "configuration")
    yield count(len({run.config.seed for run in board.runs}), "seed")


def _unended(board: Board) -> Iterator[str]:
    for status in ("diverged", "unfinished"):
        found = sum(run.status == status for run in board.runs)
        if found:
            yield f"{found} {status}"


def _figure_notes(board: Board) -> Iterator[str]:
    yield (
        "Lines are means over seeds, taken epoch by epoch; on the other axes a point lies at the "
        "mean of where its seeds were after that epoch. A line fades where not all seeds have got "
        "to yet. Runs that diverged are left out of means: they are thin lines that end in a cross."
    )
    beside = [start.get("side_by_side", 1) for run in board.runs for start in starts(run)]
    if max(beside, default=1) > 1:
        yield (
            f"Recorded seconds are of up to {max(beside)} runs side by side on one machine, so "
            "they are longer than those of a run alone."
        )
    if ALONE in board.x_keys and board.timing is not None:
        where = f" on {board.timing.device}" if board.timing.device else ""
        yield f"“Of a run alone” is the epoch times the seconds per epoch timed{where}."
    if overview(board) is not None:
        yield "Open circles are means over fewer runs, as some of them did not finish."
    if board.copies:
        were = "was" if board.copies == 1 else "were"
        yield (
            f"{count(board.copies, 'run')} with the same config and seed as another {were} counted "
            "once."
        )


# --------------------------------------------------------------------------- how it was made


def _configurations(board: Board) -> Iterator[dict[str, Any]]:
    for panel, number, group in ((p, *member) for p in board.panels for member in p.members):
        seeds = "seed" if len(group.runs) == 1 else "seeds"
        seeds += f" {', '.join(str(run.config.seed) for run in group.runs)}"
        lines = group.config.to_toml().splitlines(True)
        yield {
            "name": ", ".join(filter(None, (board.entries[number].label, panel.title))),
            "seeds": f"lr {group.config.lr:g}, {seeds}",
            "toml": "".join(line for line in lines if not line.startswith("seed ")),
            "commands": [_command(run.config, _again(run.folder, board)) for run in group.runs],
        }


def _again(folder: Path, board: Board) -> Path:
    """Where a run would be made again: packed results are no place for new ones."""
    if not board.packed:
        return folder
    return Path("out") / os.path.relpath(folder, board.root.parent)


def _command(config: RunConfig, folder: Path) -> str:
    """The command that makes one run again: what differs from the defaults."""
    mine = asdict(config)
    settings = [
        f"--set {shlex.quote(f'{field.name}={_setting(mine[field.name])}')}"
        for field in fields(RunConfig)
        if mine[field.name] != field.default
    ]
    return " ".join(["cyclade run", *settings, f"--out {shlex.quote(str(folder))}"])


def _setting(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(list(value)) if isinstance(value, tuple) else str(value)


def _machines(board: Board) -> Table:
    """Every set of versions and hardware that some run was started with, once."""
    found: dict[str, tuple[dict[str, Any], set[Path]]] = {}
    for run in (*board.runs, *board.timed_runs):
        for start in starts(run):
            kept = {k: v for k, v in start.items() if k not in ("time", "from_epoch")}
            found.setdefault(json.dumps(kept, sort_keys=True), (kept, set()))[1].add(run.folder)
    table = Table(("hardware", "system", "versions", "side by side", "runs"))
    for kept, folders in found.values():
        hardware = dict(kept.get("hardware") or {})
        name = hardware.get("gpu") or hardware.get("processor") or "?"
        versions = [f"{k} {v}" for k, v in (kept.get("versions") or {}).items()]
        versions += [f"{k} {hardware[k]}" for k in ("cuda", "cudnn") if hardware.get(k)]
        tf32 = hardware.get("tf32")
        if isinstance(tf32, dict):
            versions.append(f"TF32 {', '.join(k for k, v in tf32.items() if v) or 'off'}")
        table.add(
            f"{name} ({kept.get('device', '?')})",
            " ".join(filter(None, (str(kept.get("system")), hardware.get("machine")))),
            " ".join(versions),
            str(kept.get("side_by_side", 1)),
            str(len(folders)),
        )
    return table
