"""What mypy says of a user's file: estimators have types, and a misspelt option is an error."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2] / "src"
USERS = """\
import numpy as np

from cyclade.linear import *
from cyclade import linear

X, y = np.eye(4), np.ones(4)
reveal_type(Lasso(0.1).fit(X, y))
reveal_type(linear.LassoCV(rule="1se").fit(X, y).alpha_)
reveal_type(SparseLogisticRegressionCV().certificate_)
reveal_type(solve(X, y).objective)
reveal_type(GroupLasso(groups=[["a", "b"]]).path(X, y).alphas)
LassoCV(rulee="1se")
LassoCV(rule="2se")
linear.LassoCV(alpha=0.1)
linear.MCPRegression(gama=2.0)
linear.no_such_estimator_at_all
"""
EXPECTED = {
    7: "Lasso",
    8: "float",
    9: "Certificate",
    10: "float",
    11: "ndarray",
    12: 'Unexpected keyword argument "rulee" for "LassoCV"',
    13: 'Argument "rule" to "LassoCV" has incompatible type',
    14: 'Unexpected keyword argument "alpha" for "LassoCV"',
    15: 'Unexpected keyword argument "gama" for "MCPRegression"',
}


def test_mypy_reads_a_users_file(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "user.py").write_text(USERS)
    (tmp_path / "mypy.ini").write_text("[mypy]\nignore_missing_imports = True\n")
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", "cache",
         "--follow-imports", "silent", "user.py"],
        cwd=tmp_path, env={**os.environ, "MYPYPATH": str(SRC)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    said: dict[int, str] = {}
    for line in run.stdout.splitlines():
        found = re.match(r"user\.py:(\d+): (?:error|note): (.*)", line)
        if found:
            said[int(found[1])] = said.get(int(found[1]), "") + found[2]
    assert set(said) == set(EXPECTED), run.stdout + run.stderr
    for number, text in EXPECTED.items():
        assert text in said[number], run.stdout


def test_a_star_import_gives_estimators():
    names: dict[str, object] = {}
    exec("from cyclade.linear import *", names)
    assert {"Lasso", "LassoCV", "StochasticLinear", "solve", "plot_path"} <= set(names)
