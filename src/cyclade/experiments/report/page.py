"""The page: one HTML file with its styles, scripts and data inside, and nothing outside."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import cyclade
from cyclade.experiments.config import RunConfig
from cyclade.experiments.folder import ABOUT
from cyclade.experiments.report import tables
from cyclade.experiments.report.board import ALONE, Board
from cyclade.experiments.report.figures import WITHOUT
from cyclade.experiments.report.groups import Group
from cyclade.experiments.report.payload import embedded, payload
from cyclade.experiments.report.tables import Table


def page(board: Board, out: Path, figures: Sequence[str] | None) -> str:
    """The whole page; `figures` are the names of those printed beside it, None if they were not."""
    plan = board.plan
    title = plan.title or plan.name or f"Runs in {board.root.resolve().name}"
    parts = {
        "title": escape(title),
        "css": _resource("page.css") + _entry_colours(board),
        "head": _head(board, title),
        "legend": "".join(_legend(board)),
        "figures_note": _figures_note(board),
        "printed": _printed(figures),
        "tables": _tables(board),
        "setup": _setup(board),
        "data": embedded(payload(board)),
        "js": _resource("chart.js") + "\n" + _resource("page.js"),
        "version": escape(cyclade.__version__),
    }
    # One pass, so that no text that is put in is itself looked at for names.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _resource("page.html"))


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _entry_colours(board: Board) -> str:
    light = "".join(f".e{i}{{--ink:{e.style.light}}}" for i, e in enumerate(board.entries))
    dark = "".join(f".e{i}{{--ink:{e.style.dark}}}" for i, e in enumerate(board.entries))
    return f"\n{light}\n@media screen and (prefers-color-scheme: dark) {{{dark}}}\n"


# --------------------------------------------------------------------------------------- the top


def _head(board: Board, title: str) -> str:
    plan, groups = board.plan, board.groups
    seeds = sorted({run.config.seed for run in board.runs})
    diverged = sum(len(group.of_status("diverged")) for group in groups)
    unfinished = sum(len(group.of_status("unfinished")) for group in groups)
    facts = [_count(len(board.runs), "run"), _count(len(groups), "configuration")]
    facts.append(_count(len(seeds), "seed"))
    bad = []
    if diverged:
        bad.append(f"{diverged} diverged")
    if unfinished:
        bad.append(f"{unfinished} unfinished")
    parts = [f"<h1>{escape(title)}</h1>"]
    if plan.question:
        parts.append(f'<p class="question">{escape(plan.question)}</p>')
    chips = [f'<li class="chip">{fact}</li>' for fact in facts]
    chips += [f'<li class="chip bad">{fact}</li>' for fact in bad]
    if plan.quick:
        chips.append('<li class="chip bad">quick: shortened, not the paper’s setting</li>')
    parts.append(f'<ul class="chips">{"".join(chips)}</ul>')
    if plan.paper:
        with_values = any(value for _, value in plan.paper)
        columns = 2 if with_values else 1
        head = ("the paper’s claim", "the paper’s number")[:columns]
        claims: list[tuple[str, ...]] = [claim[:columns] for claim in plan.paper]
        parts.append(_table(Table(head, claims), "claims"))
    if plan.notes:
        parts.append(f"<ul class=notes>{''.join(f'<li>{escape(n)}</li>' for n in plan.notes)}</ul>")
    return "\n".join(parts)


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


# --------------------------------------------------------------------------------------- figures


def _legend(board: Board) -> Iterable[str]:
    for i, entry in enumerate(board.entries):
        dash = " ".join(map(str, entry.style.dash)) or "none"
        yield (
            f'<button type="button" class="entry e{i}" data-entry="{i}" aria-pressed="true">'
            f'<svg width="30" height="10" aria-hidden="true"><line x1="1" y1="5" x2="29" y2="5" '
            f'stroke-dasharray="{dash}"/></svg>{escape(entry.label)}</button>'
        )


def _figures_note(board: Board) -> str:
    notes = [
        "Lines are means over seeds, taken epoch by epoch; on the other axes a point lies at the "
        "mean of where its seeds were after that epoch. A line fades where not all seeds have got "
        "to yet. Runs that diverged are left out of means: they are thin lines that end in a cross."
    ]
    shared = max(
        (start.get("side_by_side", 1) for run in board.runs for start in _starts(run.folder)),
        default=1,
    )
    if shared > 1:
        notes.append(
            f"Recorded seconds are of up to {shared} runs side by side on one machine, so they "
            "are longer than those of a run alone."
        )
    if ALONE in board.x_keys and board.timing is not None:
        where = f" on {board.timing.device}" if board.timing.device else ""
        notes.append(f"“Of a run alone” is the epoch times the seconds per epoch timed{where}.")
    if board.copies:
        notes.append(
            f"{_count(board.copies, 'run')} with the same config and seed as another "
            f"{'was' if board.copies == 1 else 'were'} counted once."
        )
    return escape(" ".join(notes))


def _printed(figures: Sequence[str] | None) -> str:
    if figures is None:
        return f'<p class="fine missing">{escape(WITHOUT)}</p>'
    links = "".join(
        f'<li>{escape(name)} <a href="figures/{escape(name)}.png">PNG</a> '
        f'<a href="figures/{escape(name)}.pdf">PDF</a></li>'
        for name in figures
    )
    return f'<div class="fine printed">In print, beside this page: <ul>{links}</ul></div>'


# ---------------------------------------------------------------------------------------- tables


def _tables(board: Board) -> str:
    parts = [
        "<section><h2>Where the runs ended</h2>",
        _table(tables.full_table(board), "ends"),
        '<p class="fine">Mean ± standard deviation over the finished runs, after the last epoch. '
        "Bold: the best mean of its panel, which is no test of significance. Samples are counted "
        "as the paper does (a small step is b′) and as they are read (2b′).</p></section>",
    ]
    if board.timing is not None:
        device = f" on {escape(board.timing.device)}" if board.timing.device else ""
        parts += [
            f"<section><h2>Time</h2><p>A run alone{device}, beside the paper’s Table 1.</p>",
            _table(tables.timing_table(board.timing), "timing"),
            "</section>",
        ]
    if board.tuning:
        found = tables.tuning_tables(board)
        parts += [
            "<section><h2>How the learning rates were chosen</h2>",
            "<p>On images held out from the training set; the test set was not looked at.</p>",
            '<div class="tunings">',
            *(
                f'<div class="tuning"><h3>{escape(name)}</h3>{_table(table, "")}</div>'
                for name, table in found
            ),
            "</div></section>",
        ]
    return "\n".join(parts)


def _table(table: Table, kind: str) -> str:
    words = {i for i, _ in enumerate(table.head) if _wordy(table, i)}
    head = "".join(
        f'<th scope="col"{" class=word" if i in words else ""}>{escape(cell)}</th>'
        for i, cell in enumerate(table.head)
    )
    lines = []
    for number, line in enumerate(table.lines):
        cells = []
        for i, cell in enumerate(line):
            classes = [
                *(["word"] if i in words else []),
                *(["best"] if (number, i) in table.best else []),
                *(["bad"] if (number, i) in table.bad else []),
            ]
            named = f' class="{" ".join(classes)}"' if classes else ""
            cells.append(f"<td{named}>{escape(cell)}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="table"><table class="{kind}">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _wordy(table: Table, column: int) -> bool:
    """Whether a column is read as words (to the left) rather than numbers (to the right)."""
    return any(line[column][:1].isalpha() for line in table.lines) or column == 0


# ----------------------------------------------------------------------------------------- setup


def _setup(board: Board) -> str:
    parts = ["<section><h2>How it was made</h2>", "<h3>Commands</h3>", _commands(board)]
    parts += ["<h3>Versions and hardware</h3>", _machines(board)]
    parts.append("<h3>Configurations</h3>")
    for panel in board.panels:
        for number, group in panel.members:
            name = ", ".join(filter(None, (board.entries[number].label, panel.title)))
            parts.append(_configuration(name, group, board))
    runs = tables.run_table(board)
    parts.append(
        f"<h3>Runs</h3><details class=all><summary>{_count(len(runs.lines), 'run')}</summary>"
        f"{_table(runs, '')}</details></section>"
    )
    return "\n".join(parts)


def _commands(board: Board) -> str:
    root = shlex.quote(str(board.root))
    lines = [board.plan.command] if board.plan.command else []
    lines.append(f"cyclade report {root}")
    return f"<pre><code>{escape(chr(10).join(lines))}</code></pre>"


def _configuration(name: str, group: Group, board: Board) -> str:
    seeds = ", ".join(str(run.config.seed) for run in group.runs)
    toml = "".join(
        line for line in group.config.to_toml().splitlines(True) if not line.startswith("seed ")
    )
    commands = "\n".join(_command(run.config, run.folder, board.root) for run in group.runs)
    return (
        f"<details><summary>{escape(name)} <span class=fine>lr {group.config.lr:g}, "
        f"{'seed' if len(group.runs) == 1 else 'seeds'} {seeds}</span></summary>"
        f"<pre><code>{escape(toml)}</code></pre><pre><code>{escape(commands)}</code></pre></details>"
    )


def _command(config: RunConfig, folder: Path, root: Path) -> str:
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
    for run in board.runs:
        for start in _starts(run.folder):
            kept = {k: v for k, v in start.items() if k not in ("time", "from_epoch")}
            found.setdefault(json.dumps(kept, sort_keys=True), (kept, set()))[1].add(run.folder)
    if not found:
        return "<p>Not recorded.</p>"
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
                " ".join(filter(None, (str(kept.get("system", "")), hardware.get("machine", "")))),
                f"{versions} {rest}".strip(),
                str(kept.get("side_by_side", 1)),
                str(len(folders)),
            )
        )
    return _table(Table(("hardware", "system", "versions", "side by side", "runs"), lines), "")


def _starts(folder: Path) -> list[dict[str, Any]]:
    """What a run noted at its starts; nothing if that cannot be read: it bears on no result."""
    try:
        starts = json.loads((folder / ABOUT).read_text("utf-8"))["starts"]
        return [start for start in starts if isinstance(start, dict)]
    except (OSError, ValueError, KeyError, TypeError):
        return []
