"""Markdown links that lead to files beside the site.

The guides are read on the site and in the repository, so their links are relative paths. Those that
lead to another page are Sphinx's own business. A file of the repository that is not a page (code,
a result) is copied beside the pages, and the link leads there. A folder leads to the list of its
files, one with the tables of an experiment to the report made from them.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from cyclade.experiments.report import report

ROOT = Path(__file__).resolve().parents[2]
BESIDE = "_files"


class ToRepository(SphinxTransform):
    """Links to files that are not pages."""

    default_priority = 5  # before the links of Markdown are resolved

    def apply(self, **options: Any) -> None:
        """Copy what is linked, and link to the copy."""
        here = Path(self.env.doc2path(self.env.docname)).parent
        up = "../" * self.env.docname.count("/")
        for node in list(self.document.findall(nodes.Node)):
            name = _target(node)
            if name is None:
                continue
            target = (here / name).resolve()
            if not target.exists() or not target.is_relative_to(ROOT) or _is_page(target):
                continue
            inside = target.relative_to(ROOT)
            page = "/report.html" if _is_experiment(target) else "/index.html"
            uri = f"{up}{BESIDE}/{inside.as_posix()}" + (page if target.is_dir() else "")
            link = nodes.reference("", "", *_text(node), refuri=uri, internal=False)
            node.replace_self(link)
            wanted: set[str] = self.env.app.builder.__dict__.setdefault("files_beside", set())
            wanted.add(str(inside))
            _copy(inside, Path(self.env.app.outdir))


def _target(node: nodes.Node) -> str | None:
    """The relative path that a link names; none for other nodes."""
    if not isinstance(node, nodes.Element) or not isinstance(node, nodes.Inline):
        return None
    name = node.get("reftarget") or node.get("refuri")
    if node.get("reftype") not in ("myst", "doc", None) and not name:
        return None
    if not isinstance(name, str) or ":" in name or name.startswith("#"):
        return None
    return name.partition("#")[0] or None


def _is_page(path: Path) -> bool:
    docs = ROOT / "docs"
    return path.suffix in (".md", ".rst") and path.is_relative_to(docs)


def _is_experiment(path: Path) -> bool:
    return (path / "plan.json").exists()


def _text(node: nodes.Node) -> list[nodes.Node]:
    return [child.deepcopy() for child in node.children]


def _copy(inside: Path, out: Path) -> None:
    source, target = ROOT / inside, out / BESIDE / inside
    if _is_experiment(source):
        target.mkdir(parents=True, exist_ok=True)
        if not (target / "report.html").exists():
            report(source, target / "report.html")
    elif source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        items = []
        for path in sorted(source.iterdir()):
            if path.is_file() or _is_experiment(path):
                _copy(inside / path.name, out)
            else:
                continue
            name = path.name if path.is_file() else f"{path.name}/report.html"
            items.append(f'<li><a href="{name}">{name}</a></li>')
        (target / "index.html").write_text(
            "<!doctype html><html lang=en><meta charset=utf-8><title>"
            f"{inside.as_posix()}</title><meta name=viewport content='width=device-width'>"
            "<style>body{font:1rem/1.6 sans-serif;margin:2rem;color-scheme:light dark}</style>"
            f"<h1>{inside.as_posix()}</h1><ul>{''.join(items)}</ul></html>\n",
            encoding="utf-8",
        )
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or os.path.getmtime(target) < os.path.getmtime(source):
            shutil.copy2(source, target)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register."""
    app.add_transform(ToRepository)
    return {"parallel_read_safe": False, "version": "1"}
