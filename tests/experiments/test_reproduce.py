"""Plans, and what comes of them: folders, resuming, and folders of other plans."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_resuming import assert_same_end

from cyclade.experiments import ConfigError, ExperimentError, FolderError, RunConfig, find_runs
from cyclade.experiments import reproduce as module
from cyclade.experiments.plans import PAPER, STUDIES, Claim, Curve, Plan, Settings
from cyclade.experiments.report.board import read
from cyclade.experiments.reproduce import check, outline, reproduce
from cyclade.experiments.timing import time_alone

BASE = RunConfig(batch=1200, epochs=2, device="cpu")
TINY = Plan(
    name="tiny",
    title="A tiny plan",
    question="Does it work?",
    curves=(
        Curve(replace(BASE, method="SGD"), (0.2, 0.4)),
        Curve(replace(BASE, method="SCCD", lr=0.3)),
    ),
    seeds=1,
    tune_epochs=1,
    split_by="method",
    paper=(Claim("It works", "1"),),
    notes=("A note.",),
)
LONGER = tuple(replace(curve, config=replace(curve.config, epochs=9)) for curve in TINY.curves)
TIMES = Plan(
    name="times",
    title="Times",
    question="How long?",
    timed=(replace(BASE, method="SGD"), BASE, replace(BASE, method="VR-CCD", batch=300, p=0.5)),
)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_fig1_is_the_papers() -> None:
    plan = PAPER["fig1"](Settings())
    methods = [(s, m) for s in (None, "step") for m in ("SGD", "SCCD", "PAGE", "VRO-CCD")]
    assert [(c.config.spectral, c.config.method) for c in plan.curves] == methods
    for curve in plan.curves:
        c = curve.config
        assert (c.dataset, c.batch, c.weight_decay, c.epochs) == ("cifar10", 512, 5e-4, 100)
        assert (c.schedule, c.momentum, c.held_out, c.order) == ("cosine", 0.0, 0.0, "forward")
        assert len(curve.lrs or ()) == 5
        assert plan.tuning(curve).epochs == (30 if c.recursive else 100)
    assert plan.seeds == 3
    shorter = PAPER["fig1"](Settings(tune_epochs=30, seeds=1, dataset="mnist"))
    assert "Search runs have 30 epochs at most." in shorter.notes
    assert {shorter.tuning(c).epochs for c in shorter.curves} == {30}
    assert (shorter.seeds, shorter.datasets()) == (1, ["mnist"])
    # At the same lr for all, PAGE has half of it, and VRO-CCD is run at both.
    same = PAPER["fig-same-lr"](Settings())
    rates = {(c.config.spectral, c.config.method): 0.01 for c in same.curves}
    rates[None, "PAGE"] = 0.005
    wanted = {(*key, lr) for key, lr in rates.items()} | {(None, "VRO-CCD", 0.005)}
    assert {(c.config.spectral, c.config.method, c.config.lr) for c in same.curves} == wanted
    assert sorted(rates, key=str) == sorted(methods, key=str)
    assert not any(c.lrs for c in same.curves)


def test_fig_vr_is_the_papers() -> None:
    plan = PAPER["fig-vr"](Settings())
    assert [(c.config.dataset, c.config.batch, c.config.method) for c in plan.curves] == [
        (dataset, batch, method)
        for dataset, batch in (("mnist", 64), ("cifar10", 256))
        for method in ("VR-CCD", "VRO-CCD")
    ]
    assert {(c.config.epochs, c.config.spectral) for c in plan.curves} == {(200, None)}
    assert [plan.tuning(c).epochs for c in plan.curves] == [200, 20, 200, 20]
    assert plan.seeds == 1


def test_the_studies() -> None:
    batch = STUDIES["batch"](Settings())
    assert sorted({c.config.batch for c in batch.curves}) == [512 * 2**i for i in range(6)]
    assert len(batch.curves) == len(batch.timed) == 24
    order = STUDIES["order"](Settings())
    sccd = [c.config for c in order.curves if c.config.method == "SCCD"]
    assert {c.order for c in sccd} == {"forward", "backward", "shuffled", "random", "greedy"}
    assert {c.blocks for c in sccd if c.order == "forward"} == {1, 2, 3, 5}
    assert all(c.lrs for c in order.curves)


@pytest.mark.parametrize("make", [*PAPER.values(), *STUDIES.values()])
@pytest.mark.parametrize("quick", [False, True])
def test_every_plan(make: Any, quick: bool) -> None:
    plan = make(Settings(quick=quick, device="cpu"))
    assert plan.quick == quick
    assert not quick or plan.datasets() == ["digits"]
    assert json.loads(json.dumps(plan.content())) == plan.content()
    for one in (plan, *plan.shows):
        configs = [*(c.config for c in one.curves), *one.timed]
        assert len(set(configs)) == len(configs)
        assert {c.device for c in configs} <= {"cpu"}
    # It says what it will do before it begins.
    title, question, done, where = outline(plan, "out").splitlines()
    assert (title, question) == (plan.title + (", in small" if quick else ""), plan.question)
    assert done.startswith("What will be done: ")
    assert str(Path("out") / plan.name) in where


def test_the_runs_are_counted() -> None:
    plan = PAPER["fig1"](Settings(quick=True, seeds=3))
    count = sum(len(curve.lrs or ()) for curve in plan.curves)
    words = outline(plan, "out")
    assert f"{count} runs to find the learning rates of 8 curves; 24 runs with them" in words


@pytest.mark.parametrize("key", ["epochs", "tune_epochs", "seeds"])
def test_bad_settings_of_plans(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} must be from 1 to 1000000, got 0"):
        Settings(**{key: 0})


# ------------------------------------------------------------------------------- what they make


def test_from_plan_to_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # pictures take longer than such runs
    said: list[str] = []
    options: dict[str, Any] = {"jobs": 1, "progress": False}
    page = reproduce(TINY, tmp_path, command="cyclade tiny", log=said.append, **options)
    root = tmp_path / "tiny"
    assert page == root / "report.html"
    assert page.stat().st_size > 0
    described = json.loads((root / "plan.json").read_text())
    assert described["name"] == "tiny"
    assert described["command"] == "cyclade tiny"
    assert described["panels"]["split_by"] == "method"
    assert described["paper"] == [{"claim": "It works", "value": "1", "checks": []}]
    assert described["notes"][0] == "A note."
    assert (root / "tune" / "tuned.json").exists()

    runs = find_runs(root / "runs")
    assert len(runs) == 2
    assert all((r.status, r.config.held_out, r.config.epochs) == ("finished", 0.0, 2) for r in runs)
    chosen = json.loads((root / "tune" / "tuned.json").read_text())["tuned"][0]["lr"]
    assert {r.config.lr for r in runs if r.config.method == "SGD"} == {chosen}
    assert {r.config.lr for r in runs if r.config.method == "SCCD"} == {0.3}
    tuning = find_runs(root / "tune")
    assert {(r.config.epochs, r.config.held_out) for r in tuning} == {(1, 0.1)}
    assert said[0] == "tiny: 2 runs to tune the learning rates of 1 curves"

    before = contents(root)
    reproduce(TINY, tmp_path, command="cyclade tiny", **options)  # nothing is run again
    for name, content in contents(root).items():
        if "runs/" in name or "tune/" in name:
            assert content == before[name], name


@pytest.fixture
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page takes longer than such small runs."""
    monkeypatch.setattr(module, "report", lambda root: root / "report.html")


@pytest.mark.usefixtures("no_report")
def test_times_and_plans_that_show_others(tmp_path: Path) -> None:
    both = Plan(name="both", title="b", question="b", shows=(TINY, TIMES), x="seconds")
    reproduce(both, tmp_path, jobs=1, progress=False)
    timing = json.loads((tmp_path / "times" / "timing.json").read_text())
    sgd, sccd, vr = timing["rows"]
    assert (sgd["method"], sgd["batch"], sgd["iterations_per_epoch"]) == ("SGD", 1200, 2)
    assert (sccd["samples_per_epoch"], sccd["samples_paper_per_epoch"]) == (1437, 1437)
    for row in timing["rows"]:
        assert row["seconds_per_epoch"] > 0
        product = row["iterations_per_epoch"] * row["seconds_per_iteration"]
        assert product == pytest.approx(row["seconds_per_epoch"])
    assert sccd["multiply_adds_per_epoch"] > 1.3 * sgd["multiply_adds_per_epoch"]
    steps = round(1437 / (0.5 * 300 + 0.5 * 17))
    assert abs(5 * vr["iterations_per_epoch"] - steps) <= 5  # it moves one of five blocks a step
    assert timing["paper"]["VRO-CCD"] == [0.041, 49.5]
    board = read(tmp_path / "both")
    shown = {run.config.slug(): run.history for run in board.runs}
    assert shown == {r.config.slug(): r.history for r in find_runs(tmp_path / "tiny" / "runs")}
    assert board.timing is not None
    assert [row["method"] for row in board.timing.rows] == ["SGD", "SCCD", "VR-CCD"]
    assert time_alone(TIMES.timed, tmp_path / "times") == timing["rows"]  # read, not timed again


def test_times_that_mean_nothing(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="timing needs 2 epochs"):
        time_alone([replace(BASE, epochs=1)], tmp_path)
    with pytest.raises(ExperimentError, match="ends before a whole cycle"):
        time_alone([replace(BASE, method="VR-CCD", p=1.0)], tmp_path)
    with pytest.raises(ExperimentError, match="diverged: there is nothing to time"):
        time_alone([replace(BASE, lr=1e6, schedule="constant", epochs=4)], tmp_path)
    assert not (tmp_path / "timing.json").exists()


def test_times_of_another_device(tmp_path: Path) -> None:
    (tmp_path / "timing.json").write_text('{"rows": [], "device": "abacus"}')
    with pytest.raises(FolderError, match="has times of abacus, and this is CPU"):
        time_alone(TIMES.timed, tmp_path)
    (tmp_path / "timing.json").write_text("{")
    with pytest.raises(FolderError, match="cannot be read"):
        time_alone(TIMES.timed, tmp_path)


# ------------------------------------------------------------------- folders that are not its own


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (replace(TINY, seeds=3), "seeds = 1 there, 3 here"),
        (replace(TINY, tune_epochs=2), "tune_epochs = 1 there, 2 here"),
        (replace(TINY, curves=LONGER), "epochs = 2 there, 9 here"),
        (replace(TINY, curves=TINY.curves[:1]), "other curves"),
        (replace(TINY, timed=TIMES.timed), "other timed"),
    ],
)
def test_a_folder_of_another_plan(other: Plan, message: str, tmp_path: Path) -> None:
    root = tmp_path / "tiny"
    root.mkdir()
    (root / "plan.json").write_text(json.dumps({"name": "tiny", "content": TINY.content()}))
    before = contents(tmp_path)
    check(TINY, tmp_path)
    with pytest.raises(FolderError, match=message):
        reproduce(other, tmp_path)
    assert contents(tmp_path) == before


def test_folders_that_are_no_plans(tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "thesis.txt").write_text("mine")
    with pytest.raises(FolderError, match=r"is not empty and holds no plan\.json"):
        reproduce(TINY, tmp_path)
    (tmp_path / "tiny" / "plan.json").write_text("[]")
    with pytest.raises(FolderError, match=r"plan\.json is damaged: it cannot be read"):
        reproduce(TINY, tmp_path)
    (tmp_path / "times").write_text("a file")
    with pytest.raises(FolderError, match="is a file, not a folder"):
        reproduce(TIMES, tmp_path)
    with pytest.raises(ConfigError, match="jobs must be from 1 to 1024, got 0"):
        reproduce(replace(TINY, name="new"), tmp_path, jobs=0)
    assert sorted(contents(tmp_path)) == ["times", "tiny/plan.json", "tiny/thesis.txt"]


# --------------------------------------------------------------------------------- sudden death


@pytest.mark.usefixtures("no_report")
def test_a_plan_that_dies_ends_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ended while it tunes and again while it trains, it ends like one that was left alone."""
    parts, replace_file = tmp_path / "parts", os.replace

    for stage in ("tune/runs", "runs"):

        def dying(source: Any, target: Any, stage: Path = parts / "tiny" / stage) -> None:
            replace_file(source, target)
            if stage in Path(target).parents and Path(target).name == "history.csv":
                raise SystemExit

        monkeypatch.setattr(os, "replace", dying)
        with pytest.raises(SystemExit):
            reproduce(TINY, parts, jobs=1, progress=False)
    monkeypatch.setattr(os, "replace", replace_file)
    assert not (parts / "tiny" / "report.html").exists()
    for out in ("parts", "whole"):
        reproduce(TINY, tmp_path / out, jobs=1, progress=False)
    whole = sorted(p.parent for p in (tmp_path / "whole" / "tiny").rglob("config.toml"))
    assert len(whole) >= 4
    for folder in whole:
        assert_same_end(folder, parts / "tiny" / folder.relative_to(tmp_path / "whole" / "tiny"))
