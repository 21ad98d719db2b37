"""What a stranger has to walk through: modules that a task visits, and who imports whom.

    python benchmarks/structure.py            # the table, the graph of rooms, upward arrows, cycles
    python benchmarks/structure.py --modules  # and the modules of every walk, by name

A room is a package of `cyclade`, or one of its modules that is in none. Arrows are meant to lead
down the list of `LAYERS`. Only functions that are entered count as visits: each task is done once
before it is traced, so nothing is imported while it is. A Lasso is fitted to six kinds of table. Of
linear models constants, other numbers and arguments are counted too.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LAYERS = [
    {"_arrays", "_checks", "_extras", "files"},
    set(),  # every room that is named nowhere here: the method itself
    {"decomposition", "problems", "optim", "linear"},
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
FITS = ("Lasso", "GroupLasso", "SlopeRegression", "RobustRegression")
# Of kernels: lines and registers of a machine, polynomials, and numbers that stand for names.
LAYOUT = {
    "BLOCK", "COLUMNS", "EXPONENT", "GAMMA", "INTEGER_BITS", "LARGEST", "LINE", "LINES",
    "LOG2_E", "LOGISTIC", "LOG_2_HIGH", "LOG_2_LOW", "LONG", "ONES", "ONE_BITS", "POISSON",
    "ROOT_BITS", "TO_INTEGER",
}  # fmt: skip
# The rooms of linear models between the front ends and the kernels.
ENGINE = {
    "loss_at", "panels", "penalty_bound", "problem", "products", "quadratic", "screening", "starts",
    "state", "subproblem", "threads", "working_set",
}  # fmt: skip
# What a Lasso is fitted to, at a tenth of λ_max.
TABLES = (
    (30, 40, "C"), (100, 500, "C"), (500, 30, "C"), (6_000, 800, "F"), (60_000, 290, "F"),
    (4_000, 3_000, "sparse"),
)  # fmt: skip
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

def table(n, p, order, rng):
    if order == "sparse":
        from scipy import sparse
        X = sparse.random(n, p, 0.01, format="csc", random_state=0)
        return X, X @ np.ones(p) + 0.1 * rng.standard_normal(n)
    X = np.asarray(rng.standard_normal((n, p)), order=order)
    return X, X[:, :3].sum(axis=1) + rng.standard_normal(n)

def fit(name):
    from cyclade import linear
    models, rng = [], np.random.default_rng(0)
    for n, p, order in json.loads(sys.argv[1]) if name == "Lasso" else [(30, 40, "C")]:
        X, y = table(n, p, order, rng)
        alpha = 0.1 * np.abs(X.T @ (y - y.mean())).max() / n if name == "Lasso" else 0.1
        model = getattr(linear, name)(alpha, **({"groups": 4} if name == "GroupLasso" else {}))
        models.append((model, X, y))
    return lambda: [model.fit(X, y) for model, X, y in models]

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

out = {name: seen(globals()[name]() if name in globals() else fit(name)) for name in sys.argv[2:]}
print("\\n" + json.dumps(out))
"""


def modules(tree: Path = ROOT, package: str = "cyclade") -> dict[str, ast.Module]:
    """The syntax trees of all modules of a package, by name."""
    found = {}
    for path in sorted((tree / "src" / package.replace(".", "/")).rglob("*.py")):
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


def imports(module: ast.Module, known: set[str]) -> Iterator[str]:
    """The known modules that one imports at run time, inside functions included.

    Imports under TYPE_CHECKING are left out. A package is imported before what is in it, which is
    no dependency of the reader's, so it counts only if something is taken from it.
    """
    hidden = {
        inner
        for node in ast.walk(module)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(module):
        if node in hidden:
            continue
        if isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known else str(node.module)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)


def imported(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """What every module imports of the others."""
    return {name: set(imports(tree, set(trees))) - {name} for name, tree in trees.items()}


def cycles(direct: dict[str, set[str]]) -> list[list[str]]:
    """Sets of modules that import one another, directly or through others."""
    reached: dict[str, set[str]] = {}
    for name in direct:
        found, todo = set[str](), set(direct[name])
        while todo:
            found |= todo
            todo = set().union(*(direct[other] for other in todo)) - found
        reached[name] = found
    circles = {
        tuple(sorted(other for other in reached[name] if name in reached[other]))
        for name in direct
        if name in reached[name]
    }
    return sorted(map(list, circles))


def arrows(direct: dict[str, set[str]]) -> dict[str, set[str]]:
    """Which rooms a room imports. The package itself, which gathers public names, is left out."""
    found: dict[str, set[str]] = {}
    for name, others in direct.items():
        for other in others if name != "cyclade" else ():
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
    command = [sys.executable, "-c", TASKS, json.dumps(TABLES), *names]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


# ------------------------------------------------------------------------ linear models


def constants(module: ast.Module) -> list[str]:
    """Names in capitals that are set to numbers at the top of a module."""
    found: list[str] = []
    for node in module.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
        pairs = [(target, node.value)]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(target.elts, node.value.elts, strict=True))
        found += [
            name.id
            for name, number in pairs
            if isinstance(name, ast.Name)
            and re.fullmatch(r"[A-Z][A-Z0-9_]*", name.id)
            and re.fullmatch(r"[\d\s.e_()*/+,-]+", ast.unparse(number))
        ]
    return found


def tuned(trees: dict[str, ast.Module]) -> int:
    """Fields of `Tuning` and `CostModel` that are numbers."""
    return sum(
        isinstance(field, ast.AnnAssign) and ast.unparse(field.annotation) != "CostModel"
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name in ("Tuning", "CostModel")
        for field in node.body
    )


def named(trees: dict[str, ast.Module]) -> int:
    """Those, the names in capitals of `numerics` and `limits`, and thresholds of kernels."""
    rest = (trees.get(f"cyclade.linear.{name}") for name in ("numerics", "limits"))
    own = (
        name
        for module, tree in trees.items()
        if module.startswith("cyclade.linear.kernels.")
        for name in constants(tree)
    )
    return (
        tuned(trees)
        + sum(isinstance(node, ast.Assign) for tree in rest if tree for node in tree.body)
        + sum(name not in LAYOUT for name in own)
    )


def engine(trees: dict[str, ast.Module]) -> dict[str, ast.Module]:
    """Its rooms."""
    return {name: tree for name, tree in trees.items() if ENGINE & set(name.split(".")[2:3])}


def literals(tree: ast.Module) -> list[float]:
    """Numbers in functions other than 0, 1, 2 and ½ of either sign."""
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))
    found = {id(n): n for function in functions for n in ast.walk(function)}.values()
    values: list[Any] = [n.value for n in found if isinstance(n, ast.Constant)]
    numbers = [float(value) for value in values if type(value) in (int, float)]
    return [number for number in numbers if abs(number) not in (0.0, 0.5, 1.0, 2.0)]


def dispatches(tree: ast.Module) -> int:
    """How often a dictionary is asked for the type of an object."""
    return sum(
        isinstance(node, (ast.Subscript, ast.Call, ast.Compare))
        and bool(re.match(r"[\w.]+(\[|\.get\()type\(|type\([\w.]+\) in ", ast.unparse(node)))
        for node in ast.walk(tree)
    )


def most_arguments(trees: dict[str, ast.Module]) -> int:
    """Of a kernel."""
    return max(
        len(node.args.args)
        for name, tree in trees.items()
        if ".kernels." in name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    )


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--modules", action="store_true", help="name the modules of every walk")
    shown = parser.parse_args().modules
    for name, found in visited((*WALKS, *FITS)).items():
        goal = f" (goal: {GOALS[name]})" if name in GOALS else ""
        print(f"{WALKS.get(name, f'{name}.fit')}: {len(found)} modules{goal}")
        if shown:
            print(*found, sep="\n    ", end="\n\n")
    trees = modules()
    direct = imported(trees)
    graph = arrows(direct)
    print(f"\n{len(trees)} modules in {len({room(name) for name in trees})} rooms")
    for one in sorted(graph, key=lambda name: (layer(name), name)):
        print(f"  {layer(one)} {one} -> {', '.join(sorted(graph[one]))}")
    print("upward arrows:", ", ".join(upward(graph)) or "none")
    print("modules that import one another:", "; ".join(map(", ".join, cycles(direct))) or "none")
    linear = modules(package="cyclade.linear")
    rooms = engine(linear).values()
    print("named constants of linear models:", named(linear))
    print("other numbers in functions of their engine:", sum(len(literals(r)) for r in rooms))
    print("dictionaries asked for a type:", sum(map(dispatches, linear.values())))
    print("arguments of a kernel, at most:", most_arguments(linear))


if __name__ == "__main__":
    main()
