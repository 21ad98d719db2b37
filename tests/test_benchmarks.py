"""Every benchmark script runs, in small: none rots between two measurements."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cyclade.methods import METHODS

ROOT = Path(__file__).parent.parent
BENCHMARKS = ROOT / "benchmarks"
TABLES = "--problems dense --rows 4000 --chunks 2 --workers 1 --repeats 1 --peers"
LASSO = "--only lasso dense /10 --limit 5 --work OUT"
SMALL = {  # arguments; OUT is a folder of the test, with a small table in it
    "distributed": "--ranks 1 --batch 64 --repeats 1",
    "distributed_tables": f"{TABLES} --losses squared",
    "factorisation": "--repeats 1 --half tuned --only 40,",
    "figures": "--check",
    "functions": "--seeds 1 --seconds 1 --only Poisson",
    "interval_coverage": "--draws 1 --designs 1",
    "linear": f"{LASSO} --repeats 1 --solvers ours scikit_learn --out OUT",
    "linear of two trees": f"{LASSO} --duel 1 --versions ROOT ROOT --out OUT",
    "linear_models": "--rounds 1 --lines subsets",
    "linear_products": "--rows 400",
    "minimize": "--repeats 1 --only nmf",
    "net_first_try": "--tasks characters --seeds 1 --rows 128",
    "nets": "--models lenet --repeats 1 --batch 64",
    "nets_resident": "--seconds 0.4",
    "picture": "--out OUT",
    "quick": "--only lasso --csv OUT/quick.csv",
    "rows": "--only scaled --seeds 1 --rows 3000",
    "samples": "digits --epochs 1 --seeds 1 --jobs 1 --out OUT",
    "structure": "",
}
PARTS = {"figures_benchmarks", "figures_results", "measuring", "nets_models", "tables"}  # imported
TESTED = {"pages"}  # in tests/experiments/test_report_claims.py: it writes into docs


def test_every_script_is_known() -> None:
    there = {path.stem for path in BENCHMARKS.glob("*.py")}
    assert there == {name.split()[0] for name in SMALL} | PARTS | TESTED


def run(script: Path, words: list[str], folder: Path) -> str:
    """What a script prints, from start to end."""
    done = subprocess.run(
        [sys.executable, str(script), *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_a_script_runs(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 10))
    np.savez(tmp_path / "small.npz", X=X, y=X[:, 0] > 0)
    words = SMALL[name].replace("OUT", str(tmp_path)).replace("ROOT", str(ROOT)).split()
    run(BENCHMARKS / f"{name.split()[0]}.py", words, tmp_path)


def test_the_demo_solves_with_every_method_and_draws(tmp_path: Path) -> None:
    picture = tmp_path / "deep" / "demo.png"
    shown = run(ROOT / "examples" / "demo.py", ["--quick", "--out", str(picture)], tmp_path)
    assert all(method.name in shown for method in METHODS.values())
    assert str(picture) in shown
    assert picture.stat().st_size > 10_000


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="a9a needs --data-dir"):
        run(BENCHMARKS / "samples.py", ["a9a", "--jobs", "1"], tmp_path)


def test_a_ratio_that_fell_by_a_third_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    quick = importlib.import_module("quick")
    last = {"version": "0.1.0", "lasso": "3.00", "mcp": "1.00", "new": ""}
    found = {"lasso": (0.1, "celer", 1.9), "mcp": (0.1, "skglm", 0.9), "new": (0.1, "none", 0.1)}
    assert quick.fallen(found, last) == ["lasso: 1.90, 3.00 in 0.1.0"]
    head = quick.TABLE.read_text("utf-8").splitlines()[0]
    assert head.split(",") == ["version", "python", "machine", *quick.LINES]
