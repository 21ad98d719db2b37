"""The demo and the benchmarks run, small, and leave what they promise."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
METHODS = ["P-CCD", "SCCD", "VR-CCD", "VRO-CCD", "PAGE", "SGD"]


def _run(script, *arguments):
    shown = subprocess.run(
        [sys.executable, str(ROOT / script), *map(str, arguments)],
        capture_output=True, text=True, encoding="utf-8", check=False,
        env={"COLUMNS": "140", "PYTHONIOENCODING": "utf-8", "PATH": ""},
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


def test_the_demo_solves_with_every_method_and_draws(tmp_path):
    picture = tmp_path / "deep" / "demo.png"
    shown = _run("examples/demo.py", "--quick", "--out", picture)
    assert all(method in shown for method in METHODS)
    assert str(picture) in shown
    assert picture.stat().st_size > 10_000


def test_the_sample_benchmark_fills_its_table(tmp_path):
    shown = _run(
        "benchmarks/samples.py", "digits", "--epochs", 2, "--seeds", 1, "--jobs", 1,
        "--target", 1e-2, "--out", tmp_path,
    )  # fmt: skip
    with (tmp_path / "samples-digits.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 * 5 + 2
    assert {row["method"] for row in rows} == set(METHODS)
    assert "not reached (best" in shown  # two passes are not enough for all
    assert (tmp_path / "samples-digits.png").exists()


def test_a_missing_table_is_named():
    with pytest.raises(AssertionError, match="a9a needs --data-dir"):
        _run("benchmarks/samples.py", "a9a", "--jobs", 1)
