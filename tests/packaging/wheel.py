"""The wheel in empty environments: extras one by one, and what README tells its readers to run.

    python tests/packaging/wheel.py dist --constraints constraints.txt     # extras, this Python
    python tests/packaging/wheel.py dist --python python3.10 python3.13 --extra core linear
    python tests/packaging/wheel.py dist --python python3.10 --constraints constraints-lowest.txt

Each environment is made from nothing in a temporary folder, gets the wheel with one extra, and runs
there: the command line, the examples of README whose packages it has, and, with `experiments`, a
run of one epoch. An example that needs a package beyond its extra must say so by its import.
Exit 1 if anything fails.
"""

from __future__ import annotations

import argparse
import ast
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
    "linear": {"cyclade.linear"},
    "torch": {"torch", "cyclade.optim"},
    "experiments": {"torch", "cyclade.optim", "cyclade.experiments"},
}


def main() -> None:
    """Try every Python with every extra."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dist", type=Path, help="the folder that holds the wheel")
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="interpreters")
    parser.add_argument("--extra", nargs="+", default=list(NEEDS), choices=list(NEEDS))
    parser.add_argument("--constraints", type=Path, help="versions to install, as pip reads them")
    options = parser.parse_args()
    wheels = sorted(options.dist.glob("cyclade-*.whl"))
    if len(wheels) != 1:
        parser.error(f"{options.dist} must hold one wheel, and holds {len(wheels)}: make dist")
    failures = 0
    for python in options.python:
        for extra in options.extra:
            began = time.perf_counter()
            problem = attempt(python, wheels[0].resolve(), extra, options.constraints)
            seconds = time.perf_counter() - began
            print(f"{python} [{extra}]: {problem or 'ok'} ({seconds:.0f} s)", flush=True)
            failures += bool(problem)
    sys.exit(1 if failures else 0)


def attempt(python: str, wheel: Path, extra: str, constraints: Path | None) -> str:
    """What went wrong in one environment; empty if nothing did."""
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder)
        wanted = str(wheel) if extra == "core" else f"{wheel}[{extra}]"
        install = ["venv/bin/python", "-m", "pip", "install", "--quiet", wanted]
        if constraints is not None:
            install += ["-c", str(constraints.resolve())]
        for command in ([python, "-m", "venv", "venv"], install):
            problem = outcome(command, there)
            if problem:
                return problem
        return next((p for c in commands(extra) if (p := outcome(c, there))), "")


def commands(extra: str) -> Iterator[list[str]]:
    """What a reader of README would run."""
    yield ["venv/bin/cyclade", "--version"]
    yield ["venv/bin/cyclade", "--help"]
    yield ["venv/bin/cyclade", "doctor"]
    for code in examples(ROOT / "README.md"):
        if imports(code) <= NEEDS[extra] | {"cyclade", "numpy"}:
            yield ["venv/bin/python", "-W", "error", "-c", code]
    if extra == "experiments":
        yield ["venv/bin/cyclade", "run", "--epochs", "1", "--quiet", "--out", "run"]


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
