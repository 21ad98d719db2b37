"""The page: one HTML file with its styles, scripts and data inside, and nothing outside."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from html import escape
from importlib.resources import files

import cyclade
from cyclade.experiments.archive import starts
from cyclade.experiments.report import tables
from cyclade.experiments.report.board import ALONE, Board
from cyclade.experiments.report.claims import claims_table, headline
from cyclade.experiments.report.figures import WITHOUT, Printed
from cyclade.experiments.report.making import making
from cyclade.experiments.report.markup import count, rendered
from cyclade.experiments.report.overview import overview
from cyclade.experiments.report.payload import embedded, payload
from cyclade.experiments.report.times import timing_table
from cyclade.experiments.report.tuning import tuning_tables
from cyclade.experiments.report.verdicts import RULE


def page(board: Board, printed: Printed | None) -> str:
    """The whole page; `printed` are the figures beside it, None without matplotlib."""
    plan = board.plan
    title = plan.title or plan.name or f"Runs in {board.root.resolve().name}"
    parts = {
        "title": escape(title),
        "css": _resource("page.css") + _entry_colours(board),
        "head": _head(board, title),
        "first": _times(board) if plan.times else "",
        "figures": _figures(board, printed) if board.panels else "",
        "tables": _tables(board),
        "making": making(board),
        "scripts": _scripts(board) if board.panels else "",
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
    facts = [count(len(board.runs), "run"), count(len(groups), "configuration")]
    facts.append(count(len(seeds), "seed"))
    if plan.times:
        facts = [f"{count(len(board.timing.rows if board.timing else ()), 'configuration')} timed"]
    bad = []
    if diverged:
        bad.append(f"{diverged} diverged")
    if unfinished:
        bad.append(f"{unfinished} unfinished")
    parts = [f"<h1>{escape(title)}</h1>"]
    if plan.question:
        parts.append(f'<p class="question">{escape(plan.question)}</p>')
    verdict, sentence = headline(board)
    if verdict:
        said = f"<strong>{escape(verdict)}</strong>{escape(sentence)}"
        parts.append(f'<p class="headline">{said}</p>')
    chips = [f'<li class="chip">{fact}</li>' for fact in facts]
    chips += [f'<li class="chip bad">{fact}</li>' for fact in bad]
    if plan.quick:
        chips.append('<li class="chip bad">quick: shortened, not the paper’s setting</li>')
    parts.append(f'<ul class="chips">{"".join(chips)}</ul>')
    if plan.paper:
        parts.append(f"<section><h2>Claims, and what was seen</h2>{_claims(board)}</section>")
    if plan.notes:
        parts.append(f"<ul class=notes>{''.join(f'<li>{escape(n)}</li>' for n in plan.notes)}</ul>")
    return "\n".join(parts)


def _claims(board: Board) -> str:
    rule = "" if all(not claim.checks for claim in board.plan.paper) else RULE
    return f'{rendered(claims_table(board), "Claims", "claims")}<p class="fine">{escape(rule)}</p>'


# --------------------------------------------------------------------------------------- figures


def _figures(board: Board, printed: Printed | None) -> str:
    parts = {
        "legend": "".join(_legend(board)),
        "static": _static(board, printed),
        "figures_note": _figures_note(board),
        "printed": _printed(printed),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _resource("figures.html"))


def _scripts(board: Board) -> str:
    return (
        f'<script type="application/json" id="data">{embedded(payload(board))}</script>\n'
        f"<script>\n{_resource('chart.js')}\n{_resource('page.js')}\n</script>"
    )


def _static(board: Board, printed: Printed | None) -> str:
    """The main figure for those who read without JavaScript."""
    if printed is None:
        return f'<p class="missing">{escape(WITHOUT)}</p>'
    picture = base64.b64encode(printed.main).decode()
    names = ", ".join(entry.label for entry in board.entries)
    return f'<img alt="Curves of {escape(names)}" src="data:image/png;base64,{picture}">'


def _legend(board: Board) -> Iterable[str]:
    for i, entry in enumerate(board.entries):
        dash = " ".join(map(str, entry.style.dash)) or "none"
        yield (
            f'<button type="button" class="entry e{i}" data-entry="{i}" aria-pressed="true">'
            f'<svg width="30" height="10" aria-hidden="true"><line x1="1" y1="5" x2="29" y2="5" '
            f'stroke-dasharray="{dash}"/></svg><b class="key">{i + 1}</b>{escape(entry.label)}'
            "</button>"
        )


def _figures_note(board: Board) -> str:
    notes = [
        "Lines are means over seeds, taken epoch by epoch; on the other axes a point lies at the "
        "mean of where its seeds were after that epoch. A line fades where not all seeds have got "
        "to yet. Runs that diverged are left out of means: they are thin lines that end in a cross."
    ]
    shared = max(
        (start.get("side_by_side", 1) for run in board.runs for start in starts(run)),
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
    if overview(board) is not None:
        notes.append("Open circles are means over fewer runs, as some of them did not finish.")
    if board.copies:
        notes.append(
            f"{count(board.copies, 'run')} with the same config and seed as another "
            f"{'was' if board.copies == 1 else 'were'} counted once."
        )
    return escape(" ".join(notes))


def _printed(printed: Printed | None) -> str:
    if printed is None:
        return f'<p class="fine missing">{escape(WITHOUT)}</p>'
    links = "".join(
        f"<li>{escape(name)} "
        + " ".join(
            f'<a href="figures/{escape(name)}.{ending}">{ending.upper()}</a>'
            for ending in printed.endings
        )
        + "</li>"
        for name in printed.names
    )
    return f'<div class="fine printed">In print, beside this page: <ul>{links}</ul></div>'


# ---------------------------------------------------------------------------------------- tables


def _ends(board: Board) -> str:
    return "\n".join(
        (
            "<section><h2>Where the runs ended</h2>",
            rendered(tables.full_table(board), "Where the runs ended", "ends"),
            '<p class="fine">Mean ± standard deviation over the finished runs, after the last '
            "epoch. Bold: the best mean of its panel among those of which every run finished; that "
            "is no test of significance, which stands beside the claims. Samples are counted as "
            "the paper does (a small step is b′) and as they are read (2b′).</p></section>",
        )
    )


def _tables(board: Board) -> str:
    parts = [_ends(board)] if board.panels else []
    if not board.plan.times:
        parts.append(_times(board))
    found = tuning_tables(board)
    if found:
        parts += [
            "<section><h2>How the learning rates were chosen</h2>",
            "<p>On images held out from the training set; the test set was not looked at. Bold: "
            "the best mean. Shaded: the learning rate taken.</p>",
            '<div class="tunings">',
            *(
                f'<div class="tuning"><h3>{escape(name)}</h3>{rendered(table, name)}</div>'
                for name, table in found
            ),
            "</div></section>",
        ]
    return "\n".join(parts)


def _times(board: Board) -> str:
    if board.timing is None:
        return ""
    device = f" on {escape(board.timing.device)}" if board.timing.device else ""
    beside = ", beside the paper’s Table 1" if board.timing.paper else ""
    return (
        f"<section><h2>Time</h2><p>Of a run alone{device}{beside}.</p>"
        f"{rendered(timing_table(board.timing), 'Times', 'timing')}</section>"
    )
