"""The engine of linear models stays one that a reader can follow."""

from __future__ import annotations

import ast
import gc
import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

from cyclade.linear import path, solve
from cyclade.linear.penalties import L1, GroupL2, Slope

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("s", ROOT / "benchmarks" / "structure.py")
structure = importlib.util.module_from_spec(spec)
spec.loader.exec_module(structure)

# Parts with constants of their own: kernels (compile time), formulas of losses and penalties, other
# methods and front ends.
APART = (
    "kernels", "losses", "penalties", "estimators", "plots", "numerics", "limits",
    "statistics",  # beside the engine
)  # fmt: skip
# What a fit walks through, besides its estimator, loss, penalty and kernels.
SHARED = {
    "api", "threads", "problem", "penalty_bound", "loss_at", "state", "results", "working_set",
}  # fmt: skip


@pytest.fixture(scope="module")
def trees():
    return structure.modules(ROOT, "cyclade.linear")


@pytest.fixture(scope="module")
def walked():
    """Modules that fits of four kinds visit."""
    return structure.visited(structure.FITS)


def part(name):
    return name.removeprefix("cyclade.linear.").split(".")[0]


def test_import_cycles_would_be_found():
    texts = {
        "cyclade.linear.a": "def f():\n    from cyclade.linear.b import g\n",
        "cyclade.linear.b": "from cyclade.linear import c\n",
        "cyclade.linear.c": "import cyclade.linear.a\n",
        "cyclade.linear.d": "import cyclade.linear.a\n",
        "cyclade.linear": "",
    }
    trees = {name: ast.parse(text) for name, text in texts.items()}
    circle = ["cyclade.linear.a", "cyclade.linear.b", "cyclade.linear.c"]
    assert structure.cycles(structure.imported(trees)) == [circle]


def test_constants_of_the_engine_are_in_tuning(trees):
    found = {
        name: structure.constants(tree) for name, tree in trees.items() if part(name) not in APART
    }
    assert {name: names for name, names in found.items() if names} == {}


def test_every_constant_says_what_it_is():
    for name, pattern in (
        ("tuning", r"    \w+: \S.* = "), ("limits", r"[A-Z]+ = "), ("numerics", r"[A-Z]+ = "),
    ):  # fmt: skip
        lines = (ROOT / "src" / "cyclade" / "linear" / f"{name}.py").read_text().splitlines()
        fields = [line for line in lines if re.match(pattern, line)]
        bare = [line for line in fields if "#" not in line and "CostModel" not in line]
        assert fields
        assert [line for line in bare if not line.startswith("EPS")] == []


def test_named_constants_are_few(trees):
    assert structure.named(trees) <= 45


def test_numbers_without_a_name_do_not_grow(trees):
    engine = structure.engine(trees)
    assert sum(len(structure.literals(tree)) for tree in engine.values()) <= 63


def test_numbers_without_a_name_are_found():
    tree = ast.parse("A = 7\ndef f(x=3):\n    '''9'''\n    return -1 * x[2] + 0.5 - 1e-3\n")
    assert structure.literals(tree) == [3.0, 1e-3]


def test_types_are_asked_of_few_dictionaries(trees):
    assert sum(map(structure.dispatches, trees.values())) <= 3
    tree = ast.parse("A[type(x)]\nA.get(type(x.y), 1)\ntype(x) in A\ntype(x)\n")
    assert structure.dispatches(tree) == 3


def test_kernels_have_few_arguments(trees):
    assert structure.most_arguments(trees) <= 10


def test_a_lasso_meets_few_modules_over_six_kinds_of_table(walked):
    rooms = [name for name in walked["Lasso"] if name.startswith("linear/")]
    assert len([name for name in rooms if not name.startswith("linear/kernels/")]) <= 20


def test_losses_are_told_apart_by_properties(trees):
    """No `type(loss) is …`: a loss says itself that it is quadratic."""
    found = [
        name
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        and any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops)
        and re.fullmatch(r"type\([\w.]*loss\)", ast.unparse(node.left))
    ]
    assert found == []


def test_one_problem_one_state_one_measurement(trees):
    engine = [tree for name, tree in trees.items() if part(name) != "estimators"]
    classes = [n.name for tree in engine for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    for word in ("Problem", "State", "Measured", "Certificate", "Stopping"):
        assert [name for name in classes if name.endswith(word)] == [word]


@pytest.mark.parametrize(
    ("estimator", "subproblem"),
    [
        ("Lasso", "coordinate"), ("GroupLasso", "group"), ("SlopeRegression", "sorted_l1"),
        ("RobustRegression", "active_set"),
    ],
)  # fmt: skip
def test_fits_walk_the_same_modules(walked, estimator, subproblem):
    visited = [
        name.removeprefix("linear/").removesuffix(".py").replace("/", ".")
        for name in walked[estimator]
        if name.startswith("linear/")
    ]
    engine = {
        name for name in visited
        if part(name) not in ("estimators", "losses", "penalties", "kernels")
    }  # fmt: skip
    assert engine >= SHARED
    assert f"subproblem.{subproblem}" in engine
    assert len(engine) <= 20


@pytest.mark.parametrize("fit", [solve, path])
@pytest.mark.parametrize(
    ("loss", "penalty"),
    [
        ("squared", L1(0.1)), ("logistic", L1(0.05)), ("cauchy", L1(0.05)),
        ("squared", GroupL2(0.1, 2)), ("squared", Slope(0.1)),
    ],
)  # fmt: skip
def test_fits_leave_no_reference_cycles(fit, loss, penalty):
    # Arrays that wait for the collector make every fit touch fresh memory.
    X = np.random.default_rng(0).standard_normal((20, 6))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    fit(X, y, loss, penalty)
    gc.freeze()  # only what comes from now on is looked through, not all that is loaded
    gc.disable()
    try:
        fit(X, y, loss, penalty)
        assert gc.collect() == 0
    finally:
        gc.enable()
        gc.unfreeze()
