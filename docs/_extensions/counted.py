"""The role {lines}`path::Name`: how many lines of code a file, a class or a function has.

Blank lines, comments and docstrings do not count, so a page can say what an addition costs, and
the number is that of the code as it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes
from line_count import count
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxRole

ROOT = Path(__file__).resolve().parents[2]


class Lines(SphinxRole):
    """The number, as text."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Count."""
        path, _, name = self.text.partition("::")
        self.env.note_dependency(str(ROOT / path))
        return [nodes.Text(str(count((ROOT / path).read_text("utf-8"), name or None)))], []


def setup(app: Sphinx) -> dict[str, Any]:
    """Register."""
    app.add_role("lines", Lines())
    return {"parallel_read_safe": True, "version": "1"}
