"""`cyclade doctor`: every part, what it needs, and what to do where something is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata

import pytest

from cyclade.cli import main
from cyclade.cli.doctor import ALONE, PARTS, Need, needs, report

REQUIRED = [
    "numpy>=1.26",
    'torch>=2.4; extra == "torch"',
    'scipy>=1.11; extra == "linear"',
    'no-such-package>=3; extra == "linear"',
    'cyclade[torch]; extra == "experiments"',
    'tomli>=2; python_version < "3.0" and extra == "experiments"',
]


def test_it_says_which_parts_can_be_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    parts = [*PARTS.values(), *ALONE.values()]
    assert all(part in shown for part in parts)
    assert f"numpy {metadata.version('numpy')}" in shown
    assert "device: " in shown
    assert main(["doctor", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [part["part"] for part in answer["parts"]] == parts
    assert all(part["usable"] == (not part["missing"]) for part in answer["parts"])


def test_without_a_command_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    shown = capsys.readouterr().err
    assert all(f"\n    {name}" in shown for name in ("run", "reproduce", "doctor"))


def test_what_is_missing_comes_with_the_command_that_brings_it(monkeypatch) -> None:
    lines = report(REQUIRED).splitlines()
    at = lines.index("no   linear models")
    assert lines[at + 1].endswith("no-such-package ≥ 3 (not installed)")
    command = "pip install 'cyclade[linear]' (in a checkout: pip install '.[linear]')"
    assert lines[at + 2] == f"     to have it: {command}"
    assert f"yes  {PARTS['']}" in lines
    monkeypatch.setattr("cyclade.cli.doctor._version", lambda name: None)
    lines = report([*REQUIRED, 'pandas>=2.1; extra == "dev"']).splitlines()
    at = lines.index(f"no   {ALONE['pandas']}")
    assert lines[at + 1] == "     pandas ≥ 2.1 (not installed)"
    assert lines[at + 2] == "     to have it: pip install pandas"


def test_a_version_below_the_bound_is_not_enough() -> None:
    assert [need.name for need in needs("experiments", REQUIRED)] == ["torch"]  # through an extra
    old = Need("numpy", "1.26", "1.9.5")
    assert not old.met
    assert str(old) == "numpy 1.9.5 (needs ≥ 1.26)"
    assert Need("numpy", "1.26", "2.0.0rc1").met


def test_every_part_is_an_extra_of_the_package() -> None:
    extras = metadata.metadata("cyclade").get_all("Provides-Extra") or []
    assert set(PARTS) - {""} <= set(extras)


def test_it_runs_where_only_the_core_is_installed() -> None:
    code = (
        "import sys; missing = ('torch', 'tomli', 'tomllib', 'sklearn', 'scipy', 'numba')\n"
        "sys.modules.update(dict.fromkeys(missing))\n"
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name in missing else find(name, *a)\n"
        "from cyclade.cli import main\n"
        "assert main(['config']) == 0\n"
        "assert main(['run', '--out', 'nowhere']) == 2\n"
        "sys.exit(main(['doctor']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "GPUs are used through torch, which is not installed" in done.stdout
    assert done.stderr.startswith("cyclade: this command needs torch")
    assert done.stderr.count("\n") == 1
