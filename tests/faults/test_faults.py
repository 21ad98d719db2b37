"""A small part of `make faults`, the same damages every time: mended or refused, never silent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from faults import DAMAGES, RECOVERED, REFUSED, Stage, in_this_process


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(tmp_path_factory.mktemp("stage"), in_this_process, names=["run"])


@pytest.mark.parametrize("number", range(16))
def test_a_damage(number: int, stage: Stage) -> None:
    what, outcome, why = stage.damage(number, seed=1)
    assert outcome in (RECOVERED, REFUSED), why
    assert what.removeprefix("run, ") in DAMAGES


def test_faults_of_ranks() -> None:
    """A small part of `ranks.py`: it forks ranks, so it has a process of its own."""
    counts = "--kills 1 --hangs 0 --nans 1 --damages 6 --torchruns 0"
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("ranks.py")), *counts.split()],
        text=True, timeout=200, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "6 a damaged file, checkpoints of training: 6 as it should be" in done.stdout


def test_the_script_sees_what_is_wrong(stage: Stage, tmp_path: Path) -> None:
    """Given an undamaged folder of another seed, it does not call that recovered."""
    from faults import SILENT, TRACEBACK, judged

    wanted = stage.wanted["run"]
    assert judged(0, "", stage.whole("run", 0), wanted) == (RECOVERED, "")
    assert judged(0, "", stage.whole("run", 1), wanted)[0] == SILENT
    assert judged(0, "", tmp_path, wanted)[0] == SILENT
    assert judged(1, "Traceback …", tmp_path, wanted)[0] == TRACEBACK
    assert judged(2, "cyclade: one\nand two\n", tmp_path, wanted)[0] == TRACEBACK
    assert judged(2, "cyclade: warning: a\ncyclade: b\n", tmp_path, wanted) == (REFUSED, "")


def operations(code: str) -> subprocess.CompletedProcess[str]:
    """What `operations.py` finds, in a process of its own, since it forks."""
    return subprocess.run(
        [sys.executable, "-c", code],
        text=True, cwd=Path(__file__).parent, timeout=200,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def test_faults_at_file_operations() -> None:
    """A small part of `operations.py`: every third operation of a run of `minimize`."""
    done = operations(
        "import sys, operations; sys.argv[1:] = '--of minimize --every 3'.split()\n"
        "sys.exit(operations.main())"
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("{'as it should be': ") == 3


def test_the_script_sees_what_is_lost() -> None:
    """Checkpoints that are written in their place do not pass."""
    done = operations(
        "import os, sys, operations, cyclade.files.checkpoint as arrays\n"
        "def write(path, content, *, keep=None):\n"
        "    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)\n"
        "    os.write(handle, content)\n"
        "    os.close(handle)\n"
        "arrays.write = write\n"
        "sys.argv[1:] = '--of minimize --every 4'.split()\n"
        "sys.exit(operations.main())"
    )
    assert done.returncode == 1, done.stdout
    assert "'lost': " in done.stdout
