"""What a release is made of agrees with itself; `make test-wheel` installs and runs it."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import cyclade

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
USERS = ("torch", "linear", "dask", "experiments")  # extras with a lower bound that users may meet


def text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def bounds() -> dict[str, str]:
    """Every package that users need, with the lowest version that is allowed."""
    extras = PROJECT["optional-dependencies"]
    listed = PROJECT["dependencies"] + [line for extra in USERS for line in extras[extra]]
    found: dict[str, str] = {}
    for line in listed:
        name, _, least = line.partition(";")[0].strip().partition(">=")
        if not name.startswith("cyclade["):
            name = name.partition("[")[0]
            assert least, f"{name} has no lower bound"
            assert found.setdefault(name, least) == least, f"{name} has two lower bounds"
    return found


def pins(name: str) -> dict[str, str]:
    lines = [line for line in text(name).splitlines() if line and not line.startswith("#")]
    assert lines == sorted(lines), f"{name} is not sorted"
    return dict(line.split("==") for line in lines)  # type: ignore[misc]


def test_the_version_stands_in_one_place() -> None:
    assert PROJECT["dynamic"] == ["version"]
    assert re.search(r"^version: (.+)$", text("CITATION.cff"), re.M)[1] == cyclade.__version__  # type: ignore[index]
    pattern = re.escape(cyclade.__version__)
    found = [
        p for p in (ROOT / "src").glob("**/*.py") if re.search(f'"{pattern}"', p.read_text("utf-8"))
    ]
    assert found == [ROOT / "src" / "cyclade" / "__init__.py"]


def test_the_lowest_versions_are_those_that_are_allowed() -> None:
    lowest = pins("constraints-lowest.txt")
    assert set(lowest) == set(bounds())
    for name, least in bounds().items():
        assert lowest[name] == least or lowest[name].startswith(f"{least}."), name


def test_what_users_install_is_pinned_for_the_tests() -> None:
    missing = set(bounds()) - set(pins("constraints.txt")) - {"tomli", "threadpoolctl"}
    assert missing == set()


def test_the_pythons_of_the_classifiers_are_those_of_the_workflow() -> None:
    listed = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if " :: 3." in c]
    assert PROJECT["requires-python"] == f">={listed[0]}"
    workflow = text(".github/workflows/ci.yml")
    assert re.findall(r'"(3\.\d+)"', workflow) == listed
    assert text("Makefile").partition("PYTHONS ?= ")[2].splitlines()[0].split() == [
        f"python{version}" for version in listed
    ]


@pytest.mark.parametrize(
    "name", [".github/workflows/ci.yml", "docs/releasing.md", "CONTRIBUTING.md", "README.md"]
)
def test_every_make_target_that_is_named_exists(name: str) -> None:
    there = set(re.findall(r"^([a-z][\w-]*):", text("Makefile"), re.M))
    named = set(re.findall(r"(?:`|run: |^)make ([a-z][\w-]*)", text(name), re.M))
    assert named, f"{name} names none"
    assert named <= there


def test_every_example_of_the_first_pages_runs_with_some_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(ROOT / "tests" / "packaging")
    wheel = importlib.import_module("wheel")
    found = [(page.name, code) for page in wheel.PAGES for code in wheel.examples(page)]
    assert len({name for name, _ in found}) == 5  # README, and a start for each reader
    for name, code in found:
        assert any(wheel.runs_with(extra, code) for extra in wheel.NEEDS), (name, code)
    assert wheel.NEEDS.keys() == {"core", *USERS}


def test_every_file_of_the_package_is_packed() -> None:
    package = ROOT / "src" / "cyclade"
    others = {
        p.relative_to(package).as_posix()
        for p in package.glob("**/*")
        if p.is_file() and p.suffix not in (".py", ".pyc", ".nbi", ".nbc")
    }
    setuptools = tomllib.loads(text("pyproject.toml"))["tool"]["setuptools"]
    packed = {
        path.relative_to(package).as_posix()
        for module, patterns in setuptools["package-data"].items()
        for pattern in patterns
        for path in (ROOT / "src" / module.replace(".", "/")).glob(pattern)
    }
    assert others == packed


def test_the_page_of_a_release_says_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tests" / "packaging")
    check = importlib.import_module("release_check")
    there = set(re.findall(r"^([a-z][\w-]*):", text("Makefile"), re.M))
    named = [command for command in check.STEPS.values() if command.startswith("make ")]
    assert {command.removeprefix("make ") for command in named} <= there
    fine = {"tests": (True, 2.0, ""), "site": (True, 3.0, "")}
    assert "Ready to be released." in check.page(fine, "0.2.0", "abc")
    page = check.page({**fine, "site": (False, 3.0, "first\nlast line")}, "0.2.0", "abc")
    assert "Not ready: site failed." in page
    assert page.rstrip().endswith("last line\n```")
    assert check.run("exit 3")[0] is False
