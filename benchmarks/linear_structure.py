"""What a reader of `cyclade.linear` has to carry: lines, files, constants, loops, modules visited.

    python benchmarks/linear_structure.py                     # this tree
    python benchmarks/linear_structure.py OLD_TREE .          # two trees side by side
    python benchmarks/linear_structure.py OLD_TREE . --csv docs/benchmarks/linear-structure.csv

Counted by the syntax tree, so old trees need not be importable; the modules that a fit visits are
traced in a process of its own, with that tree's `src` first on the path.
"""

from __future__ import annotations

import argparse
import ast
import csv
import io
import json
import os
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

LINEAR = Path("src/cyclade/linear")
FITS = ("Lasso", "GroupLasso", "SlopeRegression", "RobustRegression")
# Features that came after the rebuild, by their modules: small, tall and sampled tables, several λ
# at once, tables in chunks, classes.
ADDED = (
    "products.fits", "products.folds", "products.moments", "products.shorter",
    "kernels.block_gram", "kernels.curved_path", "kernels.forecast", "kernels.gram_path",
    "kernels.smooth_losses", "subproblem.classes",
)  # fmt: skip
CONSTANT = re.compile(r"[A-Z][A-Z0-9_]*$")
TRACER = """
import json, sys, numpy as np
from cyclade import linear
rng = np.random.default_rng(0)
X = rng.standard_normal((30, 40)); y = X[:, :3].sum(axis=1) + rng.standard_normal(30)
visited = {}
def note(frame, event, arg):
    name = frame.f_globals.get("__name__", "")
    if event == "call" and name.startswith("cyclade.linear") and name not in seen:
        seen.append(name)
for name in sys.argv[1:]:
    model = getattr(linear, name)(0.1, **({"groups": 4} if name == "GroupLasso" else {}))
    model.fit(X, y)
    seen = visited[name] = []
    sys.setprofile(note)
    model.fit(X, y)
    sys.setprofile(None)
print(json.dumps(visited))
"""


def modules(tree: Path) -> dict[str, ast.Module]:
    """The syntax tree of every module of `cyclade.linear`, by name."""
    out = {}
    for path in sorted((tree / LINEAR).rglob("*.py")):
        parts = path.relative_to(tree / "src").with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        out[name] = ast.parse(path.read_text())
    return out


def constants(module: ast.Module) -> list[str]:
    """Names in capitals that are set to numbers at the top of a module."""
    out: list[str] = []
    for node in module.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(node, ast.AnnAssign):
            target = node.target
        value = getattr(node, "value", None)
        pairs: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=True))
        elif isinstance(target, ast.expr) and isinstance(value, ast.expr):
            pairs = [(target, value)]
        out += [
            name.id
            for name, number in pairs
            if isinstance(name, ast.Name) and CONSTANT.match(name.id) and is_number(number)
        ]
    return out


def is_number(node: ast.expr) -> bool:
    """Whether an expression is made of numbers alone."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    return isinstance(node, ast.Tuple) and bool(node.elts) and all(map(is_number, node.elts))


def code_lines(text: str) -> int:
    """Lines that hold code: no blank ones, comments and docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    strings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            strings.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    empty = (
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
        tokenize.ENDMARKER,
    )  # fmt: skip
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in empty:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - strings)


def tuned(trees: dict[str, ast.Module]) -> int:
    """Fields of `Tuning` and `CostModel`."""
    return sum(
        isinstance(field, ast.AnnAssign)
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name in ("Tuning", "CostModel")
        for field in node.body
    )


def named(trees: dict[str, ast.Module]) -> int:
    """Those, and the names in capitals of `numerics` and `limits`."""
    rest = (trees.get(f"cyclade.linear.{name}") for name in ("numerics", "limits"))
    return tuned(trees) + sum(
        isinstance(node, ast.Assign) for tree in rest if tree for node in tree.body
    )


def compiled(module: ast.Module) -> int:
    """Functions compiled by numba."""
    marks = ("compiled", "reductions", "inner", "pasted", "njit")
    return sum(
        any(mark in ast.unparse(decorator) for mark in marks for decorator in node.decorator_list)
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef)
    )


def imports(module: ast.Module, name: str, known: set[str]) -> Iterator[str]:
    """Modules of `cyclade.linear` that one imports at run time, inside functions included.

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


def cycles(trees: dict[str, ast.Module]) -> list[list[str]]:
    """Sets of modules that import one another, directly or through others (Tarjan)."""
    known = set(trees)
    graph = {name: set(imports(tree, name, known)) - {name} for name, tree in trees.items()}
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == index[name]:
            at = stack.index(name)
            component = stack[at:]
            del stack[at:]
            if len(component) > 1:
                found.append(sorted(component))

    for name in graph:
        if name not in index:
            visit(name)
    return found


def visited(tree: Path) -> dict[str, list[str]]:
    """Modules of `cyclade.linear` whose functions a second fit of each kind calls, in order."""
    environment = os.environ | {"PYTHONPATH": str((tree / "src").resolve())}
    found = subprocess.run(
        [sys.executable, "-c", TRACER, *FITS], env=environment, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    return dict(json.loads(found.stdout))


def added(path: Path) -> bool:
    """Whether a file of `cyclade.linear` belongs to a feature that came after the rebuild."""
    parts = ".".join(path.with_suffix("").parts)
    return parts in ADDED or parts.split(".")[0] in ADDED


def counts(tree: Path) -> dict[str, str]:
    """The rows of the table, for one tree."""
    trees = modules(tree)
    files = sorted((tree / LINEAR).rglob("*.py"))
    classes = [n.name for t in trees.values() for n in ast.walk(t) if isinstance(n, ast.ClassDef)]
    texts = [path.read_text() for path in files]
    lines = {path: len(text.splitlines()) for path, text in zip(files, texts, strict=True)}
    rows = {
        "lines": str(sum(lines.values())),
        "lines without features added since": str(
            sum(many for path, many in lines.items() if not added(path.relative_to(tree / LINEAR)))
        ),
        "lines of code": str(sum(map(code_lines, texts))),
        "files": str(len(files)),
        "constants in modules": str(sum(len(constants(t)) for t in trees.values())),
        "constants in `Tuning`": str(tuned(trees)),
        "the same with rounding and guards": str(named(trees)),
        "compiled functions": str(sum(compiled(t) for t in trees.values())),
        "import cycles": str(len(cycles(trees))),
    }
    for word in ("Problem", "State", "Measured"):
        rows[f"classes called {word}"] = str(sum(name.endswith(word) for name in classes))
    paths = visited(tree)
    for name, found in paths.items():
        rows[f"modules that `{name}.fit` visits"] = str(len(found))
    shared = set.intersection(*map(set, paths.values()))
    rows["modules that all four visit"] = str(len(shared))
    return rows


def main() -> None:
    """Print the table, and the modules that `Lasso.fit` visits in the last tree."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", nargs="*", type=Path, default=[Path()])
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    columns = [counts(tree) for tree in options.trees]
    for row in columns[0]:
        print(f"{row:40s}" + "".join(f"{column[row]:>10s}" for column in columns))
    if options.csv:
        head = ["before", "after"] if len(columns) == 2 else [str(tree) for tree in options.trees]
        with options.csv.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["", *head])
            writer.writerows([row, *(column[row] for column in columns)] for row in columns[0])
    print("\nLasso.fit:", *visited(options.trees[-1])["Lasso"], sep="\n  ")


if __name__ == "__main__":
    main()
