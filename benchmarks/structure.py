"""What a stranger has to walk through: modules that a task visits, and who imports whom.

    python benchmarks/structure.py            # the table, the graph of rooms, upward arrows, cycles
    python benchmarks/structure.py --modules  # and the modules of every walk, by name

A room is a package of `cyclade`, or one of its modules that is in none. Arrows are meant to lead
down the list of `LAYERS`. Only functions that are entered count as visits: each task is done once
before it is traced, so nothing is imported while it is.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import linear_structure

ROOT = Path(__file__).resolve().parents[1]
LAYERS = [
    {"_arrays", "_checks", "_extras", "files"},
    set(),  # every room that is named nowhere here: the method itself
    {"problems", "optim", "linear"},
    {"tables", "rows"},
    {"experiments"},
    {"cli"},
]
GOALS = {"minimize": 20, "step": 20, "run": 50}
WALKS = {
    "minimize": "one cycle of minimize on a six-vector",
    "step": "a second step of SCCD",
    "run": "cyclade run",
}
TASKS = """
import json, os, sys, tempfile
import numpy as np
import cyclade

WHERE = os.path.dirname(cyclade.__file__) + os.sep

def minimize():
    def fun(x):
        return 0.5 * float(x @ x)
    return lambda: cyclade.minimize(
        fun, np.ones(6), jac=lambda x: x, blocks=3, tol=None, max_cycles=1
    )

def step():
    import torch
    from cyclade.optim import SCCD
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    opt = SCCD(model, torch.nn.CrossEntropyLoss(), lr=0.1)
    x, y = torch.randn(8, 6), torch.arange(8) % 2
    return lambda: opt.step(x, y)

def run():
    from cyclade.cli import main
    folder = tempfile.mkdtemp()
    count = iter(range(9))
    def one():
        out = os.path.join(folder, str(next(count)))
        command = ["run", "--epochs", "2", "--set", "batch=700", "--device", "cpu", "--quiet"]
        assert main([*command, "--out", out]) == 0
    return one

def seen(task):
    found = set()
    def look(frame, event, argument):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(WHERE):
            found.add(name[len(WHERE):])
    task()
    sys.setprofile(look)
    task()
    sys.setprofile(None)
    return sorted(found)

out = {name: seen(globals()[name]()) for name in sys.argv[1:]}
print("\\n" + json.dumps(out))
"""


def modules(tree: Path = ROOT) -> dict[str, ast.Module]:
    """The syntax trees of all modules of the package, by name."""
    found = {}
    for path in sorted((tree / "src" / "cyclade").rglob("*.py")):
        parts = path.relative_to(tree / "src").with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text("utf-8"))
    return found


def room(name: str) -> str:
    """The room of a module."""
    return [*name.split("."), ""][1]


def layer(name: str) -> int:
    """How far up a room lies; 1 if it is of the method itself."""
    return next((i for i, rooms in enumerate(LAYERS) if name in rooms), 1)


def arrows(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Which rooms a room imports. The package itself, which gathers public names, is left out."""
    known = set(trees)
    found: dict[str, set[str]] = {}
    for name, tree in trees.items():
        if name != "cyclade":
            for other in linear_structure.imports(tree, name, known):
                if room(other) not in ("", room(name)):
                    found.setdefault(room(name), set()).add(room(other))
    return found


def upward(graph: dict[str, set[str]]) -> list[str]:
    """Arrows that lead up."""
    return sorted(
        f"{one} -> {other}"
        for one, others in graph.items()
        for other in others
        if layer(other) > layer(one)
    )


def visited(names: tuple[str, ...] = tuple(WALKS)) -> dict[str, list[str]]:
    """The modules that each task enters, traced in a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", TASKS, *names], env=environment, check=True, capture_output=True,
        text=True,
    )  # fmt: skip
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--modules", action="store_true", help="name the modules of every walk")
    shown = parser.parse_args().modules
    for name, found in visited().items():
        print(f"{WALKS[name]}: {len(found)} modules (goal: {GOALS[name]})")
        if shown:
            print(*found, sep="\n    ", end="\n\n")
    trees = modules()
    graph = arrows(trees)
    print(f"\n{len(trees)} modules in {len({room(name) for name in trees})} rooms")
    for one in sorted(graph, key=lambda name: (layer(name), name)):
        print(f"  {layer(one)} {one} -> {', '.join(sorted(graph[one]))}")
    print("upward arrows:", ", ".join(upward(graph)) or "none")
    circles = linear_structure.cycles(trees)
    print("modules that import one another:", "; ".join(map(", ".join, circles)) or "none")


if __name__ == "__main__":
    main()
