"""The wheel in empty environments: extras one by one, and what README tells its readers to run.

    python tests/packaging/wheel.py dist --constraints constraints.txt     # extras, this Python
    python tests/packaging/wheel.py dist --python python3.10 python3.13 --extra core linear
    python tests/packaging/wheel.py dist --python python3.10 --constraints constraints-lowest.txt
    python tests/packaging/wheel.py dist --csv docs/benchmarks/wheels.csv  # outcomes, for the docs

Each environment is made from nothing in a temporary folder, gets the wheel with one extra, and runs
there: the command line, the examples of README and of the first pages whose packages it has, the
table in chunks with `dask`, and a run of one epoch with `experiments`. An example that needs a
package beyond its extra must say so by its import. Exit 1 if anything fails. The file of `--csv`
keeps one line for each Python, set of versions and extra; a new run replaces its own lines.
"""

from __future__ import annotations

import argparse
import ast
import csv
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NEEDS = {  # what an example may import with each extra, beside cyclade and NumPy
    "core": set(),
    "linear": {"cyclade.linear", "cyclade.decomposition", "sklearn", "scipy"},
    "dask": {"cyclade.linear", "sklearn", "dask"},
    "torch": {"torch", "cyclade.optim"},
    "experiments": {"torch", "cyclade.optim", "cyclade.experiments", "sklearn"},
}
CHUNKS = """
import dask.array as da, numpy as np
from cyclade.linear import Lasso
X = np.random.default_rng(0).standard_normal((1000, 20))
y = X[:, 0] - X[:, 1]
chunked = Lasso(alpha=0.1).fit(da.from_array(X, (250, 20)), da.from_array(y, 250))
assert chunked.certificate_.reached
assert np.allclose(chunked.coef_, Lasso(alpha=0.1).fit(X, y).coef_, atol=1e-3)
"""
VERSIONS = """
import platform, re
from importlib.metadata import PackageNotFoundError, requires, version
print(platform.python_version())
for line in requires("cyclade"):
    if "extra ==" not in line or re.search(r"extra == .({wanted}).$", line):
        name = re.match("[a-zA-Z0-9-]+", line)[0]
        if name != "cyclade":
            try:
                print(name, version(name))
            except PackageNotFoundError:  # only on other Pythons
                pass
"""
BRINGS = {"dask": "dask|linear", "experiments": "experiments|torch"}  # extras within extras
BESIDE = {"linear": ["pandas"], "dask": ["pandas"]}  # what the install line of README adds
HEAD = ("python", "versions", "extra", "outcome", "commands", "seconds", "installed")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("start-*.md"))]


def main() -> None:
    """Try every Python with every extra."""
    os.environ.pop("PYTHONPATH", None)  # else pip finds a checkout there, and installs nothing
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dist", type=Path, help="the folder that holds the wheel")
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="interpreters")
    parser.add_argument("--extra", nargs="+", default=list(NEEDS), choices=list(NEEDS))
    parser.add_argument("--constraints", type=Path, help="versions to install, as pip reads them")
    parser.add_argument("--csv", type=Path, help="a table to which the outcomes are added")
    options = parser.parse_args()
    wheels = sorted(options.dist.glob("cyclade-*.whl"))
    if len(wheels) != 1:
        parser.error(f"{options.dist} must hold one wheel, and holds {len(wheels)}: make dist")
    versions = options.constraints.name if options.constraints else "newest"
    failures = 0
    for python in options.python:
        for extra in options.extra:
            began = time.perf_counter()
            problem, count, found = attempt(python, wheels[0].resolve(), extra, options.constraints)
            seconds = f"{time.perf_counter() - began:.0f}"
            print(f"{python} [{extra}]: {problem or 'ok'} ({seconds} s)", flush=True)
            failures += bool(problem)
            if options.csv and found:
                told = problem.splitlines()[0] if problem else "ok"
                line = (found[0], versions, extra, told, str(count), seconds)
                keep(options.csv, (*line, ", ".join(sorted(set(found[1:])))))
    sys.exit(1 if failures else 0)


def attempt(
    python: str, wheel: Path, extra: str, constraints: Path | None
) -> tuple[str, int, list[str]]:
    """One environment: what went wrong (empty if nothing did), commands run, what is installed."""
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder)
        wanted = str(wheel) if extra == "core" else f"{wheel}[{extra}]"
        install = ["venv/bin/python", "-m", "pip", "install", "--quiet", wanted]
        install += BESIDE.get(extra, [])
        if constraints is not None:
            install += ["-c", str(constraints.resolve())]
        for command in ([python, "-m", "venv", "venv"], install):
            if problem := outcome(command, there):
                return problem, 0, []
        code = VERSIONS.replace("{wanted}", BRINGS.get(extra, extra))
        asked = ["venv/bin/python", "-c", code]
        found = subprocess.run(asked, cwd=there, capture_output=True, text=True, check=True)
        tried = list(commands(extra))
        problem = next((p for c in tried if (p := outcome(c, there))), "")
        return problem, len(tried), found.stdout.splitlines()


def keep(path: Path, line: tuple[str, ...]) -> None:
    """One line of the table anew."""
    lines: list[tuple[str, ...]] = []
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            lines = [tuple(old) for old in list(csv.reader(file))[1:] if tuple(old[:3]) != line[:3]]
    order = list(NEEDS)
    lines.append(line)
    lines.sort(key=lambda old: (old[1], [int(n) for n in old[0].split(".")], order.index(old[2])))
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEAD, *lines])


def commands(extra: str) -> Iterator[list[str]]:
    """What a reader of README would run."""
    yield ["venv/bin/cyclade", "--version"]
    yield ["venv/bin/cyclade", "--help"]
    yield ["venv/bin/cyclade", "doctor"]
    for page in PAGES:
        for code in examples(page):
            if runs_with(extra, code):
                yield ["venv/bin/python", "-W", "error", "-c", code]
    if extra == "dask":
        yield ["venv/bin/python", "-W", "error", "-c", CHUNKS]
    if extra == "experiments":
        yield ["venv/bin/cyclade", "run", "--epochs", "1", "--quiet", "--out", "run"]


def runs_with(extra: str, code: str) -> bool:
    """Whether an example needs no more than an extra brings."""
    return imports(code) <= NEEDS[extra] | {
        "cyclade",
        "cyclade.problems",
        "cyclade.theory",
        "numpy",
    }


def examples(path: Path) -> list[str]:
    """The Python blocks of a page."""
    return re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.S)


def imports(code: str) -> set[str]:
    """The packages an example imports; of cyclade, its parts."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        found |= {".".join(n.split(".")[: 2 if n.startswith("cyclade") else 1]) for n in names}
    return found


def outcome(command: list[str], folder: Path) -> str:
    """The last lines of a command that failed."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=1800, check=False
    )
    if done.returncode == 0:
        return ""
    shown = " ".join(command)
    last = "\n  ".join((done.stdout + done.stderr).strip().splitlines()[-6:])
    return f"failed: {shown if len(shown) < 100 else shown[:97] + '…'}\n  {last}\n"


if __name__ == "__main__":
    main()
