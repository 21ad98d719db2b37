"""`cyclade completion`: the shells complete what the parsers accept."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from cyclade.cli import main, parser
from cyclade.cli.completion import script
from cyclade.experiments import METHODS
from cyclade.experiments.config import RunConfig
from cyclade.experiments.datasets import known

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")


def completed(line: str) -> list[str]:
    """What bash offers at the end of a line."""
    words = line.split(" ")
    asked = (
        f"{script('bash', parser())}\n"
        f"COMP_WORDS=({' '.join(w or chr(39) * 2 for w in words)}); COMP_CWORD={len(words) - 1}\n"
        '_cyclade; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    return done.stdout.split()


@needs_bash
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("cyclade rep", ["reproduce", "report"]),
        ("cyclade reproduce fig-", ["fig-time", "fig-vr", "fig-same-lr"]),
        ("cyclade run --se", ["--seed", "--set"]),
        ("cyclade completion ", ["-h", "--help", "bash", "zsh", "fish"]),
        ("cyclade dance --", []),
        ("cyclade run --method VR", ["VRO-CCD", "VR-CCD"]),
        ("cyclade tune --methods S", ["SGD", "SCCD"]),
        ("cyclade run --dataset ", sorted(known())),
        ("cyclade run --device c", ["cpu", "cuda"]),
        ("cyclade run --out ", []),  # the shell then offers files
    ],
)
def test_bash_completes(line: str, offered: list[str]) -> None:
    assert completed(line) == offered


def test_the_methods_that_are_offered_are_those_of_a_run() -> None:
    for method in METHODS:
        assert RunConfig(method=method).method == method


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_option_is_there(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    printed = capsys.readouterr().out
    for word in ("reproduce", "doctor", "tune-epochs", "fig-same-lr"):
        assert word in printed
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=printed, text=True, check=True)
