"""Tables as HTML."""

from __future__ import annotations

from html import escape

from cyclade.experiments.report.tables import Table


def rendered(table: Table, name: str, kind: str = "") -> str:
    """A table as HTML; numbers stand to the right, words to the left.

    It may scroll by itself, so the keyboard reaches it, and screen readers hear its `name`.
    """
    words = {i for i, _ in enumerate(table.head) if _wordy(table, i)}
    head = "".join(
        f'<th scope="col"{" class=word" if i in words else ""}>{escape(cell)}</th>'
        for i, cell in enumerate(table.head)
    )
    lines = []
    for number, line in enumerate(table.lines):
        if number in table.titles:
            lines.append(
                f'<tr class="part"><th scope="rowgroup" colspan="{len(table.head)}">'
                f"<span>{escape(table.titles[number])}</span></th></tr>"
            )
        cells = []
        for i, cell in enumerate(line):
            classes = [
                *(["word"] if i in words else []),
                *(["best"] if (number, i) in table.best else []),
                *(["bad"] if (number, i) in table.bad else []),
            ]
            named = f' class="{" ".join(classes)}"' if classes else ""
            cells.append(f"<td{named}>{escape(cell)}</td>")
        taken = ' class="taken"' if number in table.taken else ""
        lines.append(f"<tr{taken}>{''.join(cells)}</tr>")
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(name)}">'
        f'<table class="{kind}">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def code(text: str) -> str:
    """Commands or a file as HTML; long lines scroll, by the keyboard too."""
    return f'<pre tabindex="0"><code>{escape(text)}</code></pre>'


def _wordy(table: Table, column: int) -> bool:
    """Whether a column is read as words (to the left) rather than numbers (to the right)."""
    texts = [line[column] for line in table.lines]
    return any(text[:1].isalpha() or " finished" in text for text in texts)


def count(n: int, what: str) -> str:
    """So many of something.

    >>> count(1, "run"), count(3, "run")
    ('1 run', '3 runs')
    """
    return f"{n} {what}{'' if n == 1 else 's'}"
