"""The search for the learning rate: by held-out images, resumed, extended, never diverged."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cyclade.experiments import (
    ConfigError,
    ExperimentError,
    FolderError,
    Row,
    RunConfig,
    RunResult,
    find_runs,
)
from cyclade.experiments import tune as module
from cyclade.experiments.tune import tune
from cyclade.files.lock import locked

BASE = RunConfig(batch=700, epochs=2, device="cpu")

Judge = Callable[[RunConfig], float | None]


class Runs:
    """Instead of training: held-out accuracies from a formula, None for divergence."""

    def __init__(self, judge: Judge) -> None:
        self.judge, self.seen = judge, list[RunConfig]()

    def __call__(self, configs: Sequence[RunConfig], root: Path, **options: Any) -> list[RunResult]:
        self.seen += configs
        return [self.result(config, Path(root)) for config in configs]

    def result(self, config: RunConfig, root: Path) -> RunResult:
        accuracy = self.judge(config)
        row = Row(1, 1, 1, 1, 1.0, 1.0, 0.0, 1.0, 1.0, 0.5, accuracy, 1.0 - (accuracy or 0.0))
        status = "diverged" if accuracy is None else "finished"
        return RunResult(config, root / config.slug(), status, [row])


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Callable[[Judge], Runs]:
    def judged(judge: Judge) -> Runs:
        fake = Runs(judge)
        monkeypatch.setattr(module, "run_many", fake)
        return fake

    return judged


def peak(at: float, limit: float = 1e9) -> Judge:
    """Best at one lr, worse by ratio to it; divergence above a limit."""
    return lambda c: None if c.lr > limit else 0.9 * min(c.lr / at, at / c.lr)


def test_the_best_on_held_out_images(runs: Callable[[Judge], Runs], tmp_path: Path) -> None:
    """The fake's test accuracy is worst where its held-out accuracy is best."""
    fake = runs(lambda c: peak(0.1 if c.method == "SGD" else 0.2)(c))
    bases = [replace(BASE, method="SGD", seed=3), BASE]
    first, second = tune(bases, tmp_path, lrs=[0.05, 0.1, 0.2, 0.4], held_out=0.25)
    assert first.config == replace(bases[0], lr=0.1)  # the base itself: nothing held out
    assert second.lr == 0.2
    assert first.held_out_accuracy == 0.9
    assert not first.at_edge
    assert first.extended == 0
    assert [one.lr for one in first.tried] == [0.05, 0.1, 0.2, 0.4]
    assert {c.held_out for c in fake.seen} == {0.25}
    assert len(fake.seen) == len(set(fake.seen)) == 8


def test_a_grid_grows_at_its_edge(runs: Callable[[Judge], Runs], tmp_path: Path) -> None:
    runs(peak(0.8))
    (found,) = tune([BASE], tmp_path / "up", lrs=[0.2, 0.1])
    assert [one.lr for one in found.tried] == [0.1, 0.2, 0.4, 0.8]
    assert (found.lr, found.extended, found.at_edge) == (0.8, 2, True)
    runs(peak(0.05))
    (found,) = tune([BASE], tmp_path / "down", lrs=[0.1, 0.3])
    assert [one.lr for one in found.tried] == [0.011111, 0.033333, 0.1, 0.3]
    assert (found.lr, found.extended, found.at_edge) == (0.033333, 2, False)
    runs(peak(0.4, limit=0.3))
    (found,) = tune([BASE], tmp_path / "limit", lrs=[0.1, 0.2])
    assert (found.lr, found.at_edge) == (0.2, False)  # 0.4 was tried, and diverged
    assert found.tried[-1] == module.Tried(0.4, "diverged", None)
    runs(peak(3.0))
    (found,) = tune([BASE], tmp_path / "one", lrs=[1.0])
    assert [one.lr for one in found.tried] == [0.5, 1.0, 2.0]
    assert (found.lr, found.extended, found.at_edge) == (2.0, 2, True)


def test_what_diverged_is_never_chosen(runs: Callable[[Judge], Runs], tmp_path: Path) -> None:
    runs(lambda c: None if c.lr > 0.1 else 0.0)  # what did not diverge learned nothing
    (found,) = tune([BASE], tmp_path / "a", lrs=[0.05, 0.1, 0.2])
    assert found.lr == 0.1  # the largest that did not diverge: all came equally far
    assert found.held_out_accuracy == 0.0
    assert not found.learnt
    fake = runs(lambda c: None)
    with pytest.raises(ExperimentError, match=r"every learning rate diverged for .*SCCD.*0\.025"):
        tune([BASE], tmp_path / "b", lrs=[0.1, 0.2])
    assert sorted(c.lr for c in fake.seen) == [0.025, 0.05, 0.1, 0.2]
    assert not (tmp_path / "b" / "tuned.json").exists()


def test_seeds_count_together(runs: Callable[[Judge], Runs], tmp_path: Path) -> None:
    def judge(config: RunConfig) -> float | None:
        if config.lr == 0.4:
            return 1.0 if config.seed == 0 else None
        return {0.05: (0.1, 0.2), 0.1: (0.5, 0.7), 0.2: (0.9, 0.1)}[config.lr][config.seed]

    runs(judge)
    (found,) = tune([BASE], tmp_path, lrs=[0.1, 0.2, 0.4], seeds=[0, 1])
    assert found.lr == 0.1
    assert [one.held_out_accuracy for one in found.tried] == pytest.approx([0.15, 0.6, 0.5, None])


def test_the_outcome_is_written(runs: Callable[[Judge], Runs], tmp_path: Path) -> None:
    fake = runs(peak(0.2, limit=0.3))
    tune([BASE, replace(BASE, spectral="step")], tmp_path, lrs=[0.1, 0.2, 0.4])
    assert len(fake.seen) == len(set(fake.seen)) == 6
    written = json.loads((tmp_path / "tuned.json").read_text())["tuned"]
    assert [one["lr"] for one in written] == [0.2, 0.2]
    assert [one["status"] for one in written[0]["tried"]] == ["finished"] * 2 + ["diverged"]
    assert [one["held_out_accuracy"] for one in written[0]["tried"]] == [0.45, 0.9, None]
    assert written[1]["config"]["spectral"] == "step"


def test_real_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bases = [replace(BASE, method=method, epochs=1) for method in ("SGD", "SCCD")]
    tuned = tune(bases, tmp_path, lrs=[0.2, 0.4, 1e6], jobs=1, progress=False)
    found = find_runs(tmp_path / "runs")
    for base, one in zip(bases, tuned, strict=True):
        assert one.config == replace(base, lr=one.lr)
        mine = {r.config.lr: r for r in found if r.config.method == base.method}
        assert mine[1e6].status == "diverged"
        alive = [r.last.held_out_accuracy for r in mine.values() if r.status == "finished"]
        assert one.held_out_accuracy == max(a for a in alive if a is not None)
    stamps = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("history.csv")}
    (tmp_path / "tuned.json").unlink()  # the runs alone are enough
    assert tune(bases, tmp_path, lrs=[0.2, 0.4, 1e6], jobs=1, progress=False) == tuned
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("history.csv")} == stamps
    with locked(tmp_path), pytest.raises(FolderError, match=r"is in use by process \d+"):
        tune(bases, tmp_path, lrs=[0.2, 0.4, 1e6])
    damaged = next(r for r in found if r.status == "finished").folder / "history.csv"
    table = damaged.read_bytes()  # finished runs are looked at
    damaged.write_bytes(table.replace(b"2.", b"1.", 1))
    assert tune(bases, tmp_path, lrs=[0.2, 0.4, 1e6], jobs=1, progress=False) == tuned
    assert damaged.read_bytes() == table
    assert "history.csv is not as it was when the run ended" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"held_out": 0.0}, "held_out must be in"),
        ({"held_out": 1.0}, "held_out must be in"),
        ({"lrs": []}, "lrs must hold at least one"),
        ({"lrs": [0.1, -1]}, "lr must be a number above 0, got -1"),
        ({"seeds": []}, "seeds must not be empty"),
    ],
)
def test_bad_input(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        tune([BASE], tmp_path / "x", **{"lrs": [0.1], **options})
    assert not (tmp_path / "x").exists()


def test_folders_that_are_no_searches(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    for folder, message in ((".", "is not empty and holds no runs"), ("mine.txt", "is a file")):
        with pytest.raises(FolderError, match=message):
            tune([BASE], tmp_path / folder, lrs=[0.1])
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


def test_ties_at_chance(runs: Callable[[Judge], Runs], tmp_path: Path) -> None:
    """What came furthest is taken, the grid grows there, and it is said that nothing was learnt."""
    fake = runs(lambda c: 0.1)
    plain = fake.result

    def result(config: RunConfig, root: Path) -> RunResult:
        made = plain(config, root)
        return replace(made, history=[replace(made.last, train_loss=2.3 - config.lr)])

    fake.result = result  # type: ignore[method-assign]
    (found,) = tune([BASE], tmp_path, lrs=[0.05, 0.1, 0.2])
    assert (found.lr, found.extended, found.at_edge) == (0.8, 2, True)
    assert not found.learnt
    runs(lambda c: 0.9)
    (found,) = tune([replace(BASE, seed=1)], tmp_path, lrs=[0.05, 0.1, 0.2])
    assert found.learnt
