"""Pages are short and their sentences plain; `docs/_extensions/sentences.py` counts them."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [
    *(
        ROOT / name
        for name in ("README.md", "CHANGELOG.md", "SECURITY.md", "SUPPORT.md", "CODE_OF_CONDUCT.md")
    ),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs").glob("extend/*.md")),
    *sorted((ROOT / "docs").glob("benchmarks/*.md")),
    *sorted((ROOT / "docs").glob("design/*.md")),
]
GUIDES = ("linear", "minimize", "nets", "scaling", "how-do-i")


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "docs" / "_extensions")
    return importlib.import_module("sentences")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_sentences_are_short(path: Path, counting: Any) -> None:
    text = path.read_text("utf-8")
    found = counting.lengths(text)
    if not found:
        return  # a list of pages
    long = [s for s in counting.sentences(text) if len(re.sub(r"`[^`]*`", "x", s).split()) > 40]
    assert not long
    assert sum(found) / len(found) < 20


@pytest.mark.parametrize("name", GUIDES)
def test_guides_end_within_eight_screens(name: str) -> None:
    assert len((ROOT / "docs" / f"{name}.md").read_text("utf-8").split()) <= 2700


def test_the_readme_has_two_screens_of_words() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 1100


def test_the_address_of_the_repository_is_one() -> None:
    pages = [*PAGES, ROOT / "pyproject.toml"]
    found = {a for p in pages for a in re.findall(r"github\.com/[\w-]+/cyclade", p.read_text())}
    assert len(found) == 1
