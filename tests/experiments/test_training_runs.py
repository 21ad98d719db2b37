"""Runs: every method trains, counts what it uses, diverges politely, and repeats."""

from __future__ import annotations

import json
import math
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from cyclade.experiments import (
    METHODS,
    ConfigError,
    DeviceError,
    FolderError,
    RunConfig,
    find_runs,
    run,
    run_many,
)
from cyclade.experiments.data import Coins
from cyclade.experiments.folder import RunFolder
from cyclade.experiments.training import rate

LR = {"SGD": 0.05, "SCCD": 0.05, "PAGE": 0.02, "VRO-CCD": 0.02, "VR-CCD": 0.05}
SMALL = RunConfig(batch=128, epochs=2, device="cpu")

COLUMNS = (
    "epoch,cycles,samples_paper,samples,multiply_adds,seconds,lr,batch_loss,train_loss,"
    "train_accuracy,held_out_accuracy,test_accuracy"
)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains(method: str, tmp_path: Path) -> None:
    small = None if method in ("SGD", "SCCD") else 4
    config = RunConfig(
        method=method, lr=LR[method], batch=16, b_small=small, epochs=1, device="cpu"
    )
    result = run(config, tmp_path / "run")
    assert result.status == "finished"
    first, last = result.history
    assert (first.epoch, last.epoch) == (0, 1)
    assert last.train_loss < first.train_loss - 0.003
    assert result.history == run(config, tmp_path / "run").history  # done: read, not run


@pytest.mark.parametrize("method", ["SGD", "SCCD"])
def test_the_defaults_learn_at_the_first_try(method: str, tmp_path: Path) -> None:
    result = run(RunConfig(method=method, epochs=5, device="cpu"), tmp_path / "run")
    assert result.last.test_accuracy > 0.8


def test_the_folder_of_a_run(tmp_path: Path) -> None:
    config = replace(SMALL, held_out=0.1)
    result = run(config, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "about.json", "checkpoint.previous.pt", "checkpoint.pt", "config.toml", "done",
        "history.csv",
    ]  # fmt: skip
    lines = (tmp_path / "history.csv").read_text().splitlines()
    assert lines[0] == COLUMNS
    assert len(lines) == 4
    assert RunFolder(tmp_path).result() == result
    assert RunConfig.read(tmp_path / "config.toml") == config
    start = json.loads((tmp_path / "about.json").read_text())["starts"][0]
    assert start["versions"]["torch"] == torch.__version__
    assert start["device"] == "cpu"
    done = RunFolder(tmp_path).done()
    assert done is not None
    assert (done["status"], done["epoch"], done["run"]) == ("finished", 2, config.identity)
    assert 0 <= (result.last.held_out_accuracy or 0) <= 1
    assert run(SMALL, tmp_path.with_name("other")).last.held_out_accuracy is None


@pytest.mark.parametrize("method", ["SGD", "SCCD"])
def test_an_epoch_is_every_image_once(method: str, tmp_path: Path) -> None:
    result = run(replace(SMALL, method=method), tmp_path)
    assert [row.samples for row in result.history] == [0, 1437, 2874]
    assert [row.samples_paper for row in result.history] == [0, 1437, 2874]
    assert [row.cycles for row in result.history] == [0, 12, 24]


@pytest.mark.parametrize("method", ["PAGE", "VRO-CCD", "VR-CCD"])
def test_small_steps_are_counted_as_the_paper_does_and_as_they_are(
    method: str, tmp_path: Path
) -> None:
    result = run(replace(SMALL, method=method, epochs=1, lr=1e-3, b_small=11), tmp_path)
    coins = Coins(1437, 128, None, None, 0)
    draws = coins.epoch(0)
    large, small = sum(draws.refresh), coins.steps - sum(draws.refresh)
    assert small > 0
    assert result.last.samples_paper == 128 + 128 * large + 11 * small
    assert result.last.samples == 128 + 128 * large + 22 * small
    turns = coins.steps if method != "VR-CCD" else coins.steps // 5
    assert result.last.cycles == turns


def test_multiply_adds_of_an_sgd_step_and_of_a_cycle(tmp_path: Path) -> None:
    stages = [16 * 16 * 6 * 25, 4 * 4 * 16 * 150, 64 * 60, 60 * 42, 42 * 10]
    sgd = run(replace(SMALL, method="SGD", epochs=1), tmp_path / "sgd").last
    assert sgd.multiply_adds == 1437 * (3 * sum(stages) - stages[0])
    cycle = sum(c * (2 * i + 1) for i, c in enumerate(stages, 1)) - stages[-1]
    sccd = run(replace(SMALL, epochs=1), tmp_path / "sccd").last
    assert sccd.multiply_adds == 1437 * cycle
    # VR-CCD: block j alone costs a forward to it, then forward and backward from it.
    alone = [sum(stages[:j]) + 2 * sum(stages[j + 1 :]) + 2 * stages[j] for j in range(len(stages))]
    vr = run(replace(SMALL, method="VR-CCD", epochs=1, lr=1e-3), tmp_path / "vr").last
    steps = vr.samples - 128
    assert vr.multiply_adds == pytest.approx(128 * cycle + steps * sum(alone) / 5)


def test_the_learning_rate_follows_a_cosine() -> None:
    config = RunConfig(lr=0.4)
    assert [rate(config, k, 4) for k in (0, 2, 4)] == pytest.approx([0.4, 0.2, 0.0], abs=1e-15)
    assert rate(config, 1, 4) == pytest.approx(0.2 * (1 + math.cos(math.pi / 4)))
    assert rate(replace(config, schedule="constant"), 3, 4) == 0.4


PLAIN = {"batch": 400, "epochs": 1, "device": "cpu", "lr": 0.02}


@cache
def plain(method: str) -> float:
    """The loss of a method at the end of such a run without options."""
    with tempfile.TemporaryDirectory() as folder:
        return run(RunConfig.from_dict({**PLAIN, "method": method}), folder).last.train_loss


@pytest.mark.parametrize(
    "changes",
    [
        {"order": "shuffled"},
        {"order": [4, 3, 2, 1, 0], "blocks": ["conv1", "conv2", "fc1", "fc2", "fc3"]},
        {"order": "greedy", "blocks": 3},
        {"precondition": "curvature", "lr": 1e-4},
        {"precondition": "adam", "lr": 1e-3},
        {"spectral": "step"},
        {"spectral": "reparam"},
        {"method": "SGD", "spectral": "step"},
        {"method": "PAGE", "spectral": "reparam"},
        {"method": "VRO-CCD", "order": "random", "momentum": 0.5, "lr": 1e-3},
    ],
)
def test_options_reach_the_optimizer(changes: dict[str, Any], tmp_path: Path) -> None:
    changed = run(RunConfig.from_dict({**PLAIN, **changes}), tmp_path)
    assert changed.status == "finished"
    assert changed.last.train_loss != plain(changes.get("method", "SCCD"))


def test_training_leaves_the_settings_of_torch_alone(tmp_path: Path) -> None:
    before = (torch.get_num_threads(), torch.backends.cudnn.deterministic, torch.get_rng_state())
    run(replace(SMALL, threads=1, epochs=1), tmp_path)
    assert torch.get_num_threads() == before[0]
    assert torch.backends.cudnn.deterministic == before[1]
    assert torch.equal(torch.get_rng_state(), before[2])


def test_divergence_is_a_result(tmp_path: Path) -> None:
    result = run(replace(SMALL, lr=1e6, schedule="constant", epochs=5), tmp_path)
    assert result.status == "diverged"
    assert len(result.history) < 6
    assert not math.isfinite(result.last.train_loss) or not math.isfinite(
        result.last.batch_loss or 0
    )
    done = RunFolder(tmp_path).done()
    assert done is not None
    assert (done["status"], done["epoch"]) == ("diverged", result.last.epoch)
    again = RunFolder(tmp_path).result()
    assert again.status == "diverged"
    assert run(result.config, tmp_path).status == "diverged"


def test_a_folder_of_another_config_is_left_alone(tmp_path: Path) -> None:
    run(SMALL, tmp_path / "run")
    before = {path: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(FolderError, match=r"another config \(lr = 0.1 there, 0.3 here\)"):
        run(replace(SMALL, lr=0.3), tmp_path / "run")
    assert {path: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all of it")
    with pytest.raises(FolderError, match=r"mine is not empty and holds no config.toml"):
        run(SMALL, tmp_path / "mine")
    with pytest.raises(FolderError, match="is a file, not a folder"):
        run(SMALL, tmp_path / "mine" / "thesis.txt")


def test_bad_configs_make_no_folder(tmp_path: Path) -> None:
    for changes, message in (
        ({"batch": 2000}, r"batch = 2000 for 1437 training images"),
        ({"blocks": 9}, r"blocks=9: the model has 5 layers"),
        ({"blocks": ("conv9",)}, r"conv9.* neither a module nor a trained parameter"),
        ({"order": (0, 7)}, r"order"),
        ({"held_out": 1e-6}, r"held_out = 1e-06: fraction must be in \(0, 1\) and leave images"),
    ):
        with pytest.raises(ConfigError, match=message):
            run(replace(SMALL, **changes), tmp_path / "run")
    if not torch.cuda.is_available():
        with pytest.raises(DeviceError, match="device = 'cuda': no CUDA GPU"):
            run(replace(SMALL, device="cuda"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_many_runs(tmp_path: Path) -> None:
    configs = [replace(SMALL, seed=seed, epochs=1) for seed in (0, 1, 0)]
    results = run_many(configs, tmp_path, jobs=2, progress=False)
    assert [r.config for r in results] == configs
    assert results[0] == results[2]
    assert results[0].last.train_loss != results[1].last.train_loss
    assert timeless(results[1]) == timeless(run(configs[1], tmp_path / "alone"))
    stamps = {r.folder: (r.folder / "checkpoint.pt").stat().st_mtime_ns for r in results}
    assert run_many(configs, tmp_path, progress=False) == results
    assert {f: (f / "checkpoint.pt").stat().st_mtime_ns for f in stamps} == stamps
    assert len(find_runs(tmp_path)) == 3
    started = json.loads((results[0].folder / "about.json").read_text())["starts"]
    assert [start["side_by_side"] for start in started] == [2]
    too_large = replace(SMALL, batch=5000)
    third = replace(SMALL, seed=2, epochs=1)
    with pytest.raises(ConfigError, match="batch = 5000"):
        run_many([too_large, third], tmp_path, jobs=1, progress=False)
    assert RunFolder(tmp_path / third.slug()).done() is not None
    with pytest.raises(ConfigError, match="jobs must be from 1 to 1024, got 0"):
        run_many(configs, tmp_path, jobs=0)


def test_evaluation_is_in_eval_mode_and_restores() -> None:
    from cyclade.experiments.data import Split
    from cyclade.experiments.training import evaluate

    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(4, 10))
    split = Split(torch.randn(7, 1, 2, 2), torch.arange(7))
    assert evaluate(model, split) == evaluate(model, split)
    assert model.training


def timeless(result: Any) -> list[Any]:
    return [replace(row, seconds=0.0) for row in result.history]
