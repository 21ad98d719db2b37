"""`cyclade tune`, `reproduce`, `study` and `report`: outcomes, exit codes, one-line errors."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_command_line import failing
from test_reproduce import TINY, contents

from cyclade.cli import main
from cyclade.experiments import plans
from cyclade.experiments import reproduce as module


def test_tune(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["tune", "--set", "batch=700", "--set", "epochs=1", "--device", "cpu", "--jobs", "1"]
    command += ["--methods", "SGD", "SCCD", "--lrs", "0.2", "0.4", "--quiet"]
    command += ["--out", str(tmp_path)]
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["method", "lr", "held", "out"]
    best = [line.split() for line in lines if line.endswith("best")]
    assert [cells[0] for cells in best] == ["SGD", "SCCD"]
    assert lines[-1] == f"Runs: {tmp_path}"
    before = contents(tmp_path)
    assert main(command) == 0
    assert contents(tmp_path) == before


def test_reproduce_and_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = []
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # pictures take longer than such runs

    def tiny(settings: plans.Settings) -> plans.Plan:
        seen.append(settings)
        return replace(TINY, curves=TINY.curves[1:])

    monkeypatch.setitem(plans.PAPER, "fig1", tiny)
    options = ["--quick", "--dataset", "digits", "--epochs", "3", "--seeds", "4", "--device", "cpu"]
    options += ["--tune-epochs", "2", "--jobs", "1", "--out", str(tmp_path)]
    assert main(["reproduce", "fig1", *options]) == 0
    printed = capsys.readouterr().out
    assert seen == [plans.Settings(True, "digits", 3, 2, 4, "cpu")]
    assert "A tiny plan" in printed
    assert "SCCD" in printed
    assert printed.splitlines()[-1] == f"Report: {tmp_path / 'tiny' / 'report.html'}"
    text = (tmp_path / "tiny" / "plan.json").read_text()
    assert "cyclade reproduce fig1 --quick" in text

    assert main(["report", str(tmp_path / "tiny"), "--out", str(tmp_path / "p.html")]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"Report: {tmp_path / 'p.html'}"


@pytest.mark.parametrize("kind", ["study", "reproduce"])
def test_which_plans_are_made(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[str] = []

    def make(plan: plans.Plan, out: str, **options: Any) -> Path:
        made.append(plan.name)
        return Path(out) / "page.html"

    monkeypatch.setattr(module, "reproduce", make)
    monkeypatch.setattr("cyclade.experiments.report.summary", lambda root: "the table")
    name = "batch" if kind == "study" else "all"
    assert main([kind, name, "--quick", "--quiet", "--device", "cpu", "--out", str(tmp_path)]) == 0
    assert made == (["study-batch"] if kind == "study" else list(plans.PAPER))
    printed = capsys.readouterr().out
    assert printed.count("Report: ") == len(made)
    assert printed.count("the table") == len(made) - ("table1" in made)  # it has only times


def test_the_names_on_the_command_line() -> None:
    from cyclade.cli import plans as command

    assert tuple(plans.PAPER) == command.PAPER
    assert tuple(plans.STUDIES) == command.STUDIES


# -------------------------------------------------------- the same words for the same thing


@pytest.mark.parametrize(
    ("words", "seeds"),
    [
        (["--seeds", "2"], (0, 1)),
        (["--seed-list", "5,0,3"], (5, 0, 3)),
        ([], None),
    ],
)
def test_seeds_of_tune(
    words: list[str],
    seeds: tuple[int, ...] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(
        "cyclade.experiments.tune.tune", lambda *a, **options: asked.append(options["seeds"]) or []
    )
    assert main(["tune", *words, "--out", str(tmp_path)]) == 0
    assert asked == [seeds]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seeds", "2", "--seed-list", "1"], "give --seeds or --seed-list, not both"),
        (["--seed-list", "1,x"], "--seed-list takes integers with commas between, got '1,x'"),
        (["--seed-list", "1,1"], "seeds must differ, got 1, 1"),
        (["--seeds", "0"], "seeds must be from 1 to 1000000, got 0"),
        (["--seed-list", "-1"], "seed must be an integer from 0 to"),
    ],
)
@pytest.mark.parametrize("command", [["tune"], ["reproduce", "fig1", "--quick"]])
def test_wrong_seeds(
    command: list[str],
    words: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [f"{words[0]}={words[1]}", *words[2:]]  # "-1" is no option
    assert message in failing(capsys, *command, *words, "--out", str(tmp_path / "out"))


def test_seeds_and_epochs_of_plans() -> None:
    plan = plans.PAPER["fig1"](plans.Settings(quick=True, seeds=(5, 0)))
    assert [run.seed for run in plan.runs(plan.curves[0])] == [5, 0]
    assert plan.content()["seeds"] == [5, 0]
    counted = plans.PAPER["fig1"](plans.Settings(quick=True, seeds=3))
    assert [run.seed for run in counted.runs(counted.curves[0])] == [0, 1, 2]
    assert counted.content()["seeds"] == 3
    for settings, epochs in ((plans.Settings(), 12), (plans.Settings(epochs=5), 5)):
        assert {c.epochs for c in plans.PAPER["table1"](settings).timed} == {epochs}
