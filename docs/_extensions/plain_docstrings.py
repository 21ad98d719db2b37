"""Docstrings are plain Unicode mathematics: |x| is an absolute value, coef_ a name.

reStructuredText would read substitutions and links there, so bars and closing underscores are
escaped outside code, and a formula that goes on in an indented line stays one paragraph.
``Example`` is numpydoc's ``Examples``, ``Args:`` its ``Parameters``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_CODE = re.compile(r"(``[^`]+``|:[\w:]+:`[^`]+`|`[^`]+`)")
_ITEM = re.compile(r"([-*•]|\d+\.) ")


def plain(lines: list[str]) -> list[str]:
    """The lines of a docstring as numpydoc reads them.

    >>> plain(["λ|x| of coef_, as `|x|`::", "", "    |u|", "", "Example", "-------"])
    ['λ\\\\|x\\\\| of coef\\\\_, as `|x|`::', '', '    |u|', '', 'Examples', '--------']
    >>> plain(["Args:", "    x: a point", "        or two"])
    ['Parameters', '----------', 'x', '    a point', '    or two']
    >>> plain(["F = a", "    + b"])
    ['F = a', '+ b']
    """
    return list(_escaped(list(_joined(list(_sections(lines))))))


def _sections(lines: list[str]) -> Iterator[str]:
    """Headings by numpydoc's names."""
    arguments, before = False, ""
    for line in lines:
        if line.strip() == "Args:":
            arguments = True
            yield from ("Parameters", "----------")
        elif line.strip() == "Example" and not line.startswith(" "):
            yield "Examples"
        elif line == "-------" and before == "Example":
            yield "--------"
        elif arguments and re.match(r"    \S", line):
            name, _, text = line.strip().partition(": ")
            yield from (name, f"    {text}")
        elif arguments and line.strip() and line.startswith(" "):
            yield f"    {line.strip()}"
        else:
            arguments = False
            yield line
        before = line


def _joined(lines: list[str]) -> Iterator[str]:
    """Before the first section, no line of a paragraph is indented."""
    before = ""
    sections = False
    for line in lines:
        sections = sections or (len(line) > 2 and set(line) == {"-"})
        text = before.strip() and not before.startswith(" ") and not before.endswith("::")
        if not sections and text and not _ITEM.match(before) and line.startswith(" "):
            line = line.strip()
        yield line
        before = line


def _escaped(lines: list[str]) -> Iterator[str]:
    """Bars and closing underscores mean themselves outside code."""
    literal, doctest = -1, False
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            doctest = False
        elif literal >= 0 and indent <= literal:
            literal = -1
        doctest = doctest or line.lstrip().startswith(">>>")
        if literal < 0 and not doctest:
            parts = _CODE.split(line)
            parts[::2] = [
                re.sub(r"(\w)_(?!\w)", r"\1\\_", p.replace("|", "\\|")) for p in parts[::2]
            ]
            line = "".join(parts)
            literal = indent if line.rstrip().endswith("::") else -1
        yield line


def _apply(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = plain(lines)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register, ahead of numpydoc."""
    app.connect("autodoc-process-docstring", _apply, priority=100)
    return {"parallel_read_safe": True, "version": "1"}
