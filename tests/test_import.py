"""`import cyclade` is light."""

from __future__ import annotations

import subprocess
import sys

import pytest


def test_import_brings_in_nothing_heavy() -> None:
    code = (
        "import sys, cyclade; print([m for m in "
        "('torch', 'numba', 'sklearn', 'scipy', 'matplotlib', 'rich', 'pandas', 'pyproximal') "
        "if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("absent", "code", "extra"),
    [
        ("sklearn", "from cyclade.linear import Lasso", "linear"),
        ("numba", "from cyclade.linear import Lasso; Lasso().fit([[1.0]], [1.0])", "linear"),
        ("numba", "from cyclade.linear import solve; solve([[1.0]], [1.0], alpha=0.1)", "linear"),
        ("sklearn", "from cyclade.decomposition import NMF", "linear"),
        ("numba", "from cyclade.decomposition import CP", "linear"),
        ("torch", "from cyclade.optim import SCCD", "torch"),
        ("torch", "from cyclade.experiments import run", "experiments"),
    ],
)
def test_a_missing_extra_is_named(absent: str, code: str, extra: str) -> None:
    whole = f"import sys; sys.modules[{absent!r}] = None; {code}"
    found = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True)
    assert found.returncode == 1
    last = found.stderr.strip().splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: cyclade.")
    assert f"needs {absent}, which is not installed: pip install 'cyclade[{extra}]'" in last


def test_problems_need_numpy_alone() -> None:
    code = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numba", "scipy", "sklearn", "joblib", "threadpoolctl", "torch"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
from cyclade.problems import LinearProblem, Logistic
problem = LinearProblem([[1.0, 0.0], [0.0, 2.0]], [1.0, -1.0], Logistic(), blocks=2)
print(problem.L, problem.minimize(tol=1e-2).success)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[0.125, 0.5] True"
