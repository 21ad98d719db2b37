"""The last part of the page: commands, versions and hardware, configs, single runs."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import asdict, fields
from html import escape
from pathlib import Path
from typing import Any

from cyclade.experiments.archive import starts
from cyclade.experiments.config import RunConfig
from cyclade.experiments.report import tables
from cyclade.experiments.report.board import Board
from cyclade.experiments.report.groups import Group
from cyclade.experiments.report.markup import code, count, rendered
from cyclade.experiments.report.tables import Table


def making(board: Board) -> str:
    """How the runs were made, and how to make them again."""
    parts = ["<section><h2>How it was made</h2>", "<h3>Commands</h3>", _commands(board)]
    parts += ["<h3>Versions and hardware</h3>", _machines(board)]
    if not board.panels:
        return "\n".join([*parts, "</section>"])
    parts.append("<h3>Configurations</h3>")
    for panel in board.panels:
        for number, group in panel.members:
            name = ", ".join(filter(None, (board.entries[number].label, panel.title)))
            parts.append(_configuration(name, group, board))
    runs = tables.run_table(board)
    parts.append(
        f"<h3>Runs</h3><details class=all><summary>{count(len(runs.lines), 'run')}</summary>"
        f"{rendered(runs, 'Runs')}</details></section>"
    )
    return "\n".join(parts)


def _commands(board: Board) -> str:
    root = shlex.quote(str(board.root))
    lines = [board.plan.command] if board.plan.command else []
    lines.append(f"cyclade report {root}")
    return code("\n".join(lines))


def _configuration(name: str, group: Group, board: Board) -> str:
    seeds = ", ".join(str(run.config.seed) for run in group.runs)
    toml = "".join(
        line for line in group.config.to_toml().splitlines(True) if not line.startswith("seed ")
    )
    commands = "\n".join(_command(run.config, _again(run.folder, board)) for run in group.runs)
    return (
        f"<details><summary>{escape(name)} <span class=fine>lr {group.config.lr:g}, "
        f"{'seed' if len(group.runs) == 1 else 'seeds'} {seeds}</span></summary>"
        f"{code(toml)}{code(commands)}</details>"
    )


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


def _machines(board: Board) -> str:
    """Every set of versions and hardware that some run was started with, once."""
    found: dict[str, tuple[dict[str, Any], set[Path]]] = {}
    for run in (*board.runs, *board.timed_runs):
        for start in starts(run):
            kept = {k: v for k, v in start.items() if k not in ("time", "from_epoch")}
            found.setdefault(json.dumps(kept, sort_keys=True), (kept, set()))[1].add(run.folder)
    if not found:
        device = board.timing.device if board.timing else ""
        return f"<p>{escape(device)}</p>" if device else "<p>Not recorded.</p>"
    lines: list[tuple[str, ...]] = []
    for kept, folders in found.values():
        hardware = dict(kept.get("hardware") or {})
        name = hardware.pop("gpu", None) or hardware.get("processor") or "?"
        versions = " ".join(f"{k} {v}" for k, v in (kept.get("versions") or {}).items())
        tf32 = hardware.pop("tf32", None)
        rest = " ".join(f"{k} {hardware[k]}" for k in ("cuda", "cudnn") if hardware.get(k))
        if isinstance(tf32, dict):
            on = [k for k, v in tf32.items() if v]
            rest += f" TF32 {', '.join(on) if on else 'off'}"
        lines.append(
            (
                f"{name} ({kept.get('device', '?')})",
                " ".join(filter(None, (str(kept.get("system")), hardware.get("machine")))),
                f"{versions} {rest}".strip(),
                str(kept.get("side_by_side", 1)),
                str(len(folders)),
            )
        )
    head = ("hardware", "system", "versions", "side by side", "runs")
    return rendered(Table(head, lines), "Versions and hardware")
