"""The examples in the README and the guides run as they stand, and every link leads somewhere."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from cyclade.linear import losses, penalties

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


def test_the_readme_counts_the_losses_and_penalties() -> None:
    known = {**losses.BY_NAME, **losses.FURTHER}
    said = re.search(r"There are (\d+) losses and (\d+) penalties", README.read_text("utf-8"))
    assert said is not None
    assert (int(said[1]), int(said[2])) == (len(known), len(penalties.BY_NAME))


def test_the_first_example_prints_what_the_readme_shows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    exec(compile(EXAMPLES[0], "README.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    shown = re.findall(r"```text\n(.*?)```", README.read_text("utf-8"), re.S)[0].splitlines()
    coefficients = len(shown) - 1  # the last line shown is the gap, which is rounding
    assert printed[:coefficients] == shown[:coefficients]
    assert printed[coefficients].startswith("gap ")


GUIDES = [
    path
    for path in sorted((ROOT / "docs").glob("**/*.md"))
    if "_build" not in path.parts and path.name != "scaling.md" and blocks(path)
]


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_the_examples_of_a_page_run_one_after_the_other(path: Path) -> None:
    names: dict[str, object] = {}
    for code in blocks(path):
        exec(compile(code, path.name, "exec"), names)
        assert path.stem != "minimize" or names["res"].success  # type: ignore[attr-defined]


def test_the_examples_of_many_processes_run_as_one_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchrun's variables for a group of one; tests/optim/test_distributed.py has two ranks."""
    dist = pytest.importorskip("torch.distributed")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    rank = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": port}
    for name, value in rank.items():
        monkeypatch.setenv(name, value)
    names: dict[str, object] = {}
    try:
        for code in blocks(ROOT / "docs" / "scaling.md"):
            exec(compile(code, "scaling.md", "exec"), names)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
    assert {"opt", "res"} <= set(names)


def test_the_readme_the_guides_and_the_first_steps_have_examples() -> None:
    assert len(EXAMPLES) >= 3
    assert {"linear", "minimize", "nets", "recipes", "start-linear", "loss", "penalty"} <= {
        path.stem for path in GUIDES
    }


OPTIONAL = {
    f"{path.stem}-{package}": (package, code)
    for path in sorted((ROOT / "docs").glob("*.md"))
    for package, code in re.findall(
        r"```py\n# needs: (\w+)\n(.*?)```", path.read_text("utf-8"), re.S
    )
}


@pytest.mark.filterwarnings("ignore")  # theirs
@pytest.mark.parametrize("name", OPTIONAL)
def test_examples_with_other_packages_run_where_they_are_installed(name: str) -> None:
    package, code = OPTIONAL[name]
    pytest.importorskip(package)
    exec(compile(code, name, "exec"), {})


def fences(path: Path) -> list[tuple[str, str]]:
    """The language and the text of every block of code; shell commands have no language."""
    found = re.findall(r"^```(\S*)[^\n]*\n(.*?)^```", path.read_text("utf-8"), re.S | re.M)
    return [(language, text) for language, text in found if not language.startswith("{")]


def test_no_block_of_code_is_left_out() -> None:
    """Python is run by the tests above; `text` is a picture or pseudo-code."""
    for path in committed(".md"):
        for language, code in fences(path):
            assert language in ("python", "py", "text", ""), f"{path}: {language}"
            assert language != "py" or code.startswith("# needs: "), f"{path}: {code}"


def commands() -> Iterator[tuple[str, list[str]]]:
    """The shell commands of the pages, in blocks and within a line."""
    for path in committed(".md"):
        if path.name == "CHANGELOG.md":  # it speaks of what was
            continue
        text = path.read_text("utf-8")
        lines = "\n".join(code for language, code in fences(path) if not language).split("\n")
        lines += re.findall(r"^    (\S.*)$", text, re.M)
        lines += re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))
        for line in lines:
            if re.match(r"(cyclade|python) [a-z]", line):
                yield path.name, shlex.split(line, comments=True)


def refused(arguments: list[str]) -> bool:
    """Whether the command line ends with an error; a command named alone is asked for its help."""
    first, *rest = arguments
    try:
        importlib.import_module("cyclade.cli").parser().parse_args([first, *(rest or ["--help"])])
    except SystemExit as stopped:
        return stopped.code != 0
    return False


def test_every_command_of_the_pages_is_understood() -> None:
    found = list(commands())
    assert sum(program == "cyclade" for _, (program, *_) in found) >= 20
    for page, (program, *rest) in found:
        if program == "python":
            assert (ROOT / rest[0]).exists(), f"{page}: python {rest[0]}"
        else:
            assert not refused(rest), f"{page}: cyclade {' '.join(rest)}"
    assert refused(["reproduce", "fig9", "--out", "out"])
    assert refused(["run", "--joy", "1"])


# ---------------------------------------------------------------------------------- names of code

MENTIONED = [p for p in (ROOT / "docs").glob("**/*.md") if "_build" not in p.parts] + [
    README, ROOT / "CONTRIBUTING.md",
]  # fmt: skip
WRITTEN_BY_RUNS = {"history.csv"}


@pytest.mark.parametrize("path", MENTIONED, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_and_name_that_a_page_speaks_of_is_there(path: Path) -> None:
    text = path.read_text("utf-8")
    files = [f"/{p.relative_to(ROOT).as_posix()}" for p in committed("")]
    for name in re.findall(r"`([\w./-]+\.(?:py|js|css|toml|txt|yml|csv|json))(?:::\w+)?`", text):
        there = name in WRITTEN_BY_RUNS or any(f.endswith(f"/{name}") for f in files)
        assert there, name
    for name in re.findall(r"\bcyclade(?:\.(?!py\b)[A-Za-z_]\w*)+", text):
        found: object = importlib.import_module("cyclade")
        parts = name.split(".")
        for i, part in enumerate(parts[1:], 2):
            if not hasattr(found, part):
                found = importlib.import_module(".".join(parts[:i]))
            else:
                found = getattr(found, part)


NOT_LISTED = {
    "cyclade": {"__version__"},
    "cyclade.linear": {"losses", "penalties", "CrossValidated", "LinearModel"},
    "cyclade.linear.losses": {"BY_NAME"},
    "cyclade.linear.penalties": {"ShippedScalar"},  # of the engine
}


@pytest.mark.parametrize(
    "module", ["cyclade.optim", "cyclade.decomposition", "cyclade.theory", *NOT_LISTED]
)
def test_every_public_name_is_in_the_reference(module: str) -> None:
    listed, current = set(), ""
    for path in sorted((ROOT / "docs" / "api").glob("*.rst")):
        for line in path.read_text("utf-8").splitlines():
            if line.startswith(".. currentmodule::"):
                current = line.split()[-1]
            elif re.fullmatch(r"   \w+", line):
                listed.add((current, line.strip()))
    found = importlib.import_module(module)
    names = dir(found) if module == "cyclade.linear" else found.__all__  # estimators come later
    public = set(names) - NOT_LISTED.get(module, set())
    assert {name for name in public if (module, name) not in listed} == set()


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
    if "_dask_" in path.stem:
        pytest.importorskip("dask")
    subprocess.run([sys.executable, str(path)], check=True, timeout=600, capture_output=True)


# ----------------------------------------------------------------------------------------- links


def committed(*endings: str) -> list[Path]:
    """The files of the repository with these endings; of an unpacked sdist, all that it holds."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
        files = [ROOT / name for name in listed.stdout.splitlines()]
    else:
        made = re.compile(r"\.(?!github)|(out|build|dist|docs/(_build|gallery|api/generated))/")
        files = [p for p in ROOT.rglob("*") if not made.match(p.relative_to(ROOT).as_posix())]
    return [path for path in files if path.name.endswith(endings) and path.is_file()]


def written(text: str) -> str:
    """Markdown without its code, where brackets are not links."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))


def links(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    return re.findall(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)", written(text))


def places(path: Path) -> set[str]:
    """The headings of a file, as GitHub names them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)
    heads = re.findall(r"^#+\s+(.*?)\s*$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def broken(path: Path) -> Iterator[str]:
    """The links of a file that lead nowhere from where it lies."""
    for link in links(path):
        if re.match(r"[a-z]+:", link):  # elsewhere, or data
            continue
        name, _, anchor = unquote(link).partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.exists() or (
            anchor and target.suffix == ".md" and anchor not in places(target)
        ):
            yield link


PAGES = committed(".md")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(path: Path) -> None:
    assert list(broken(path)) == []


def test_links_that_lead_nowhere_are_seen(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A head, and more\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](there.md) [b](there.md#a-head-and-more) [c](#none) [d](gone.png) `[e](code.md)`\n"
        '[f](https://example.org) ![g](gone.svg "title")\n```\n[h](block.md)\n```\n'
    )
    assert list(broken(page)) == ["#none", "gone.png", "gone.svg"]
