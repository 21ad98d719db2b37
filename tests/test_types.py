"""What type checkers say of a user's file: names have types, and a misspelt option is an error."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from cyclade.linear.distributions import BY_NAME as FURTHER_LOSSES
from cyclade.linear.losses import BY_NAME as LOSSES
from cyclade.linear.losses import LossName
from cyclade.methods import METHODS, MethodName
from cyclade.sampling.orders import ORDERS, OrderName

SRC = Path(__file__).resolve().parents[1] / "src"
CACHE = SRC.parent / ".mypy_cache" / "user"  # kept: without it mypy takes nine seconds
TOP = """\
import numpy as np

from cyclade import linear, minimize
from cyclade.linear import *

X, y, f = np.eye(4), np.ones(4), lambda x: float(x @ x)
"""
NETS = """\
from torch import nn
from cyclade.optim import SCCD

model = nn.Linear(3, 2)
"""
TYPES = {  # what a line reveals
    "Lasso(0.1).fit(X, y)": "Lasso",
    'linear.LassoCV(rule="1se").fit(X, y).alpha_': "float",
    "SparseLogisticRegressionCV().certificate_": "Certificate",
    "solve(X, y).objective": "float",
    'GroupLasso(groups=[["a", "b"]]).path(X, y).alphas': "ndarray",
    "minimize(f, y).fun": "float",
}
RIGHT = ("solve(X, y, linear.losses.Huber(1.0))", 'minimize(f, y, method="VRO-CCD", n=4)',
         "minimize(f, y, order=[1, 0])")  # fmt: skip
WRONG = {  # what is named in the error of a line
    'LassoCV(rulee="1se")': "rulee",
    'LassoCV(rule="2se")': "rule",
    "linear.LassoCV(alpha=0.1)": "alpha",
    "linear.MCPRegression(gama=2.0)": "gama",
    'solve(X, y, "sqared")': "sqared",
    'GeneralizedLinear("hubber")': "hubber",
    "minimize(f, y, tool=1.0)": "tool",
    'minimize(f, y, method="VRO-CD")': "VRO-CD",
    'minimize(f, y, order="forwards")': "forwards",
}
WRONG_NETS = {"SCCD(model, lrr=0.1)": "lrr", 'SCCD(model, order="forwards")': "forwards"}


def mypy(folder: Path) -> dict[int, str]:
    """What mypy says of each line of `user.py`."""
    (folder / "mypy.ini").write_text("[mypy]\nignore_missing_imports = True\n")
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", str(CACHE),
         "--follow-imports", "silent", "--hide-error-context", "user.py"],
        cwd=folder, env={**os.environ, "MYPYPATH": str(SRC)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    said: dict[int, str] = {}
    for line in run.stdout.splitlines():
        found = re.match(r"user\.py:(\d+): (?:error|note): (.*)", line)
        if found and "defined in" not in found[2]:
            said[int(found[1])] = said.get(int(found[1]), "") + found[2]
    return said


def pyright(folder: Path) -> dict[int, str]:
    """The same by the engine of Pyright and Pylance."""
    settings = {"typeCheckingMode": "standard", "extraPaths": [str(SRC)]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    run = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable,
         "user.py"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    said: dict[int, str] = {}
    for one in json.loads(run.stdout)["generalDiagnostics"]:
        number = one["range"]["start"]["line"] + 1
        said[number] = said.get(number, "") + one["message"]
    return said


@pytest.mark.parametrize(
    ("checker", "module", "top", "wrong"),
    [
        (mypy, "mypy", TOP, WRONG),  # without torch, which takes mypy ten seconds
        pytest.param(
            pyright, "basedpyright", TOP + NETS, WRONG | WRONG_NETS, marks=pytest.mark.slow
        ),
    ],
)
def test_a_users_file_is_checked(checker, module, top, wrong, tmp_path):
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    expected = {
        **{f"reveal_type({line})": kind for line, kind in TYPES.items()},
        **dict.fromkeys(RIGHT),
        **wrong,
    }
    (tmp_path / "user.py").write_text(top + "\n".join(expected) + "\n")
    said = checker(tmp_path)
    first = top.count("\n") + 1
    for number, (line, text) in enumerate(expected.items(), start=first):
        if text is None:
            assert number not in said, (line, said)
        else:
            assert text in said.get(number, ""), (line, said)
    assert min(said) >= first, said


@pytest.mark.parametrize(
    ("names", "known"),
    [
        (MethodName, [one.name for one in METHODS.values()]),
        (OrderName, ORDERS),
        (LossName, {**LOSSES, **FURTHER_LOSSES}),
    ],
)
def test_types_list_every_name(names, known):
    assert sorted(get_args(names)) == sorted(known)


def test_a_star_import_gives_estimators():
    names: dict[str, object] = {}
    exec("from cyclade.linear import *", names)
    assert {"Lasso", "LassoCV", "StochasticLinear", "solve", "plot_path"} <= set(names)
