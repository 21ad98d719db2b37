"""The page: one HTML file with its styles, scripts and data inside, and nothing outside.

``page.html`` is its template; here is what stands in it.
"""

from __future__ import annotations

import base64
import json
import shlex
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

import cyclade
from cyclade.experiments.config import RunConfig
from cyclade.experiments.report import tables
from cyclade.experiments.report.board import ALONE, Board
from cyclade.experiments.report.claims import RULE, claims_table, headline
from cyclade.experiments.report.figures import WITHOUT, Printed
from cyclade.experiments.report.tables import Table


def page(board: Board, data: dict[str, Any], printed: Printed | None) -> str:
    """The whole page; `data` is its `payload`, `printed` the figures beside it (None: none)."""
    plan, timing = board.plan, board.timing
    verdict, sentence = headline(board)
    everything: dict[str, Any] = {
        "board": board,
        "plan": plan,
        "panels": board.panels,
        "entries": board.entries,
        "timing": timing,
        "title": plan.title or plan.name or f"Runs in {board.root.resolve().name}",
        "css": Markup(_resource("page.css")),
        "script": Markup(f"{_resource('chart.js')}\n{_resource('page.js')}"),
        "data": data,
        "version": cyclade.__version__,
        "times_table": timing and tables.timing_table(timing),
        "verdict": verdict,
        "sentence": sentence,
        "claims": claims_table(board),
        "rule": RULE if any(claim.checks for claim in plan.paper) else "",
        "ends": tables.full_table(board),
        "tunings": tables.tuning_tables(board),
        "runs": tables.run_table(board),
        "machines": _machines(board),
        "own_axis": data["overview"] is not None,
        "seconds_alone": ALONE in board.x_keys,
        "beside": max((s.get("side_by_side", 1) for r in board.runs for s in r.starts), default=1),
        "made_by": f"cyclade report {shlex.quote(str(board.root))}",
        "printed": printed,
        "picture": printed and base64.b64encode(printed.main).decode(),
        "without": WITHOUT,
        "count": count,
        "toml": _without_seed,
    }
    return _templates().get_template("page.html").render(everything)


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
    made = Environment(
        loader=FunctionLoader(_resource), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return made


# --------------------------------------------------------------------------- how it was made


def _without_seed(config: RunConfig) -> str:
    """A config for all seeds."""
    lines = config.to_toml().splitlines(True)
    return "".join(line for line in lines if not line.startswith("seed "))


def _machines(board: Board) -> Table:
    """Every set of versions and hardware that some run was started with, once."""
    found: dict[str, tuple[dict[str, Any], set[Path]]] = {}
    for run in (*board.runs, *board.timed_runs):
        for start in run.starts:
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
