"""The examples in the README and the guides run as they stand, and every link leads somewhere."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


def blocks(path: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.S)


EXAMPLES = blocks(README)


@pytest.mark.parametrize("code", EXAMPLES, ids=range(len(EXAMPLES)))
def test_readme_examples_run(code: str) -> None:
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    if "res" in names:
        assert names["res"].success  # type: ignore[attr-defined]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 3


GUIDES = [  # docs/linear.md has its examples run by tests/linear/test_estimators_written.py
    path
    for path in sorted((ROOT / "docs").glob("**/*.md"))
    if "_build" not in path.parts and path.name != "linear.md" and blocks(path)
]


SLOW = {"penalty"}  # it compiles the penalty that docs/linear.md has compiled too


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=pytest.mark.slow if p.stem in SLOW else ()) for p in GUIDES],
    ids=lambda path: path.stem,
)
def test_the_examples_of_a_page_run_one_after_the_other(path: Path) -> None:
    names: dict[str, object] = {}
    for code in blocks(path):
        exec(compile(code, path.name, "exec"), names)


def test_the_guides_and_the_first_steps_have_examples() -> None:
    assert {"minimize", "nets", "recipes", "start-linear", "loss"} <= {path.stem for path in GUIDES}


OPTIONAL = {
    f"{path.stem}-{package}": (package, code)
    for path in sorted((ROOT / "docs").glob("*.md"))
    for package, code in re.findall(
        r"```py\n# needs: (\w+)\n(.*?)```", path.read_text("utf-8"), re.S
    )
}


@pytest.mark.parametrize("name", OPTIONAL)
def test_examples_with_other_packages_run_where_they_are_installed(name: str) -> None:
    package, code = OPTIONAL[name]
    pytest.importorskip(package)
    exec(compile(code, name, "exec"), {})


# ---------------------------------------------------------------------------------------- gallery

GALLERY = sorted((ROOT / "examples" / "gallery").glob("*/plot_*.py"))


@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_examples_of_the_gallery_are_short_and_begin_with_words(path: Path) -> None:
    text = path.read_text("utf-8")
    assert len(text.splitlines()) < 80
    title = ast.get_docstring(ast.parse(text))
    assert title is not None
    assert set(title.splitlines()[1]) == {"="}


@pytest.mark.slow
@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_examples_of_the_gallery_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    subprocess.run([sys.executable, str(path)], check=True, timeout=600, capture_output=True)


# ----------------------------------------------------------------------------------------- links


def committed(*endings: str) -> list[Path]:
    """The files of the repository with these endings; without git, all that are there."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    names = listed.stdout.splitlines()
    if listed.returncode != 0:
        names = [str(p.relative_to(ROOT)) for p in ROOT.glob("docs/**/*")] + ["README.md"]
    return [ROOT / name for name in names if name.endswith(endings) and (ROOT / name).exists()]


class Links(HTMLParser):
    """Where a page leads, and the places in it that can be led to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.targets += [v for k in ("href", "src") if (v := found.get(k)) is not None]
        self.places |= {v for v in (found.get("id"), found.get("name")) if v is not None}


def written(text: str) -> str:
    """Markdown without its code, where brackets are not links."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))


def links(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".html":
        return Links(text).targets
    return re.findall(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)", written(text))


def places(path: Path) -> set[str]:
    """The anchors of a file: ids, or headings as GitHub names them."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".html":
        return Links(text).places
    heads = re.findall(
        r"^#+\s+(.*?)\s*$", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M), re.M
    )
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def broken(path: Path) -> Iterator[str]:
    """The links of a file that lead nowhere from where it lies."""
    for link in links(path):
        if re.match(r"[a-z]+:", link):  # elsewhere, or data
            continue
        name, _, anchor = unquote(link).partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.exists() or (
            anchor and target.suffix in (".md", ".html") and anchor not in places(target)
        ):
            yield link


PAGES = committed(".md", ".html")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(path: Path) -> None:
    if "experiments/report" in path.as_posix():
        pytest.skip("a template")
    assert list(broken(path)) == []


def test_links_that_lead_nowhere_are_seen(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A head, and more\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](there.md) [b](there.md#a-head-and-more) [c](#none) [d](gone.png) `[e](code.md)`\n"
        '[f](https://example.org) ![g](gone.svg "title")\n```\n[h](block.md)\n```\n'
    )
    assert list(broken(page)) == ["#none", "gone.png", "gone.svg"]
    page = tmp_path / "page.html"
    page.write_text('<a href="there.md">x</a><img src="gone.png"><a href="#y" id="y">y</a>')
    assert list(broken(page)) == ["gone.png"]
