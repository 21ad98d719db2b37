"""Wrong programs that the tests should notice: python tests/mutants.py --per 30   (`make mutants`)

A mutant is one function with one change: another comparison, sign, constant or Boolean, a condition
that is negated, or a statement that is left out. The code of the live function is exchanged in a
fork, in which the tests of its room run until one fails. Mutants are drawn at random, so many per
room. Those that no test notices are listed, and written into --csv.
"""

from __future__ import annotations

import argparse
import ast
import copy
import csv
import importlib
import inspect
import os
import random
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
ROOMS = {  # files, and the tests that should notice: the quick ones first
    "core": (
        ["cyclade/core.py"],
        ["test_trajectories.py", "test_lag.py", "test_parts.py", "test_returned_iterate.py"],
    ),
    "run": (
        ["cyclade/run"],
        ["test_result.py", "test_returned_iterate.py", "test_certificates.py",
         "test_bad_input.py", "test_better_steps.py", "test_minimize.py",
         "test_minimize_checkpoint.py"],
    ),
    "steps": (
        ["cyclade/steps"], ["test_better_steps.py", "test_line_search.py", "test_searched.py"],
    ),
    "working_set": (
        ["cyclade/linear/working_set.py"],
        ["linear/test_engine_solve.py", "linear/test_screening.py", "linear/test_engine_edges.py",
         "linear/test_promises.py", "linear/test_path_engine.py"],
    ),
}  # fmt: skip
OTHER: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
QUICK = "not seconds"  # tests of clocks fail on a busy machine
LIMIT = 200  # processor seconds of a mutant; one that hangs is noticed


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions and methods by their qualified names."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        for inner in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(inner, ast.FunctionDef):
                yield f"{node.name}.{inner.name}", inner


def changed(node: ast.AST) -> ast.AST | None:
    """The node with one change; None where there is none to make."""
    new: Any = copy.copy(node)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OTHER:
        new.ops = [OTHER[type(node.ops[0])](), *node.ops[1:]]
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in OTHER:
        new.op = OTHER[type(node.op)]()
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        new.test = ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        new.value = not node.value
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        new.value = node.value * 2 + (node.value == 0)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        new = ast.Pass()
    else:
        return None
    return ast.fix_missing_locations(ast.copy_location(new, node))


class Change(ast.NodeTransformer):
    """Puts `new` in the place of `old`."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self.new if node is self.old else self.generic_visit(node)


def mutants(path: Path) -> Iterator[tuple[str, int, str, CodeType]]:
    """Of every change in a file: the function, the line, what became of it, the function's code."""
    tree = ast.parse(path.read_text("utf-8"))
    for name, function in functions(tree):
        silent = {n for a in ast.walk(function) if isinstance(a, ast.Raise) for n in ast.walk(a)}
        nodes = [n for statement in function.body for n in ast.walk(statement)]
        for node in nodes:
            new = None if node in silent else changed(node)
            if new is None:
                continue
            whole = compile(Change(node, new).visit(tree), str(path), "exec")
            tree = Change(new, node).visit(tree)
            said = f"{ast.unparse(node)[:70]} → {ast.unparse(new)[:70]}".replace("\n", " ")
            yield name, node.lineno, said, found(whole, name.split("."))


def found(code: CodeType, names: list[str]) -> CodeType:
    """The code of a function inside that of a module."""
    for name in names:
        code = next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)
    return code


def live(module: str, name: str) -> Any:
    """The function itself, without what is wrapped around it."""
    owner: Any = importlib.import_module(module)
    for part in name.split("."):
        owner = inspect.getattr_static(owner, part)
    owner = getattr(owner, "fget", None) or getattr(owner, "func", None) or owner
    return inspect.unwrap(getattr(owner, "__func__", owner))


def noticed(tests: list[str], function: Any = None, code: CodeType | None = None) -> bool:
    """Whether a test fails in a fork where the function has this code."""
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))
        if code is not None:
            function.__code__ = code
        words = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", QUICK, *tests]
        os._exit(int(pytest.main(words) != 0))
    return os.waitpid(child, 0)[1] != 0


def main() -> None:
    """Draw, try, list."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--of", nargs="+", default=list(ROOMS), choices=list(ROOMS))
    parser.add_argument("--per", type=int, default=30, help="mutants of a room")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--csv", type=Path, help="add what was found to this table")
    options = parser.parse_args()
    for room in options.of:
        places, names = ROOMS[room]
        tests = [str(ROOT / "tests" / name) for name in names]
        pytest.main(["-q", "--collect-only", "-p", "no:cacheprovider", "-p", "no:xdist", *tests])
        if noticed(tests):
            sys.exit(f"{room}: the tests fail without a mutant")
        files = [f for p in places for f in (sorted((SOURCE / p).rglob("*.py")) or [SOURCE / p])]
        drawn = [(file, *mutant) for file in files for mutant in mutants(file)]
        random.Random(options.seed).shuffle(drawn)
        survivors = 0
        for file, name, line, said, code in drawn[: options.per]:
            place = file.relative_to(SOURCE).as_posix()
            module = place.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
            if not noticed(tests, live(module, name), code):
                survivors += 1
                print(f"survived: {place}:{line} {name}: {said}", flush=True)
        row = (room, len(drawn), min(options.per, len(drawn)), survivors, options.seed)
        print(row, flush=True)
        if options.csv is not None:
            fresh = not options.csv.exists()
            with options.csv.open("a", newline="") as out:
                writer = csv.writer(out, lineterminator="\n")
                if fresh:
                    writer.writerow(["room", "mutants", "drawn", "survived", "seed"])
                writer.writerow(row)


if __name__ == "__main__":
    main()
