"""A run that was stopped, at whatever moment, ends bit for bit like one that was not."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from cyclade.experiments import FolderError, Row, RunConfig, run
from cyclade.experiments.folder import RunFolder

SMALL = RunConfig(batch=700, epochs=2, lr=0.02, device="cpu")


def outcome(folder: Path) -> tuple[list[Row], dict[str, Any]]:
    """Everything a run leaves, but for its seconds."""
    place = RunFolder(folder)
    state = place.load(torch.device("cpu"))
    assert state is not None
    rows = [replace(row, seconds=0.0) for row in place.history()]
    return rows, {"model": state["model"], "state": state["optimizer"]["state"]}


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def assert_same_end(a: Path, b: Path) -> None:
    (rows, state), (other_rows, other_state) = outcome(a), outcome(b)
    assert rows == other_rows
    assert same(state, other_state)
    ends = [RunFolder(folder).done() for folder in (a, b)]
    for end in ends:
        assert end is not None
        del end["history"], end["checkpoint"]  # digests of files with seconds in them
    assert ends[0] == ends[1]
    assert RunFolder(a).problem() == RunFolder(b).problem() == ""


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "SGD"},
        {"method": "SCCD"},
        {"method": "PAGE", "p": 0.3},
        {"method": "VRO-CCD", "p": 0.3},
        {"method": "VR-CCD", "p": 0.3},  # its epochs end within a cycle
        {"spectral": "step", "momentum": 0.5},
        {"spectral": "reparam", "held_out": 0.2},
        {"precondition": "curvature", "lr": 1e-4},
        {"precondition": "adam"},
        {"method": "VRO-CCD", "p": 0.3, "order": "shuffled"},
        {"method": "VR-CCD", "p": 0.3, "order": "random", "spectral": "step"},
        {"order": "greedy"},
    ],
)
def test_an_interrupted_run(changes: dict[str, Any], tmp_path: Path) -> None:
    config = replace(SMALL, **changes)
    run(config, tmp_path / "whole")

    for stop in (0, 1):

        def interrupt(row: Row, stop: int = stop) -> None:
            if row.epoch == stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(config, tmp_path / "parts", watch=interrupt)
    run(config, tmp_path / "parts")
    assert_same_end(tmp_path / "whole", tmp_path / "parts")


def test_death_at_every_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process dies before each file takes its place, which is after the one before it did."""
    config = replace(SMALL, epochs=2)
    run(config, tmp_path / "whole")
    replace_file, deaths = os.replace, 0
    for number in range(100):
        writes = 0

        def dying(*args: Any, number: int = number) -> None:
            nonlocal writes
            writes += 1
            if writes == number + 1:
                raise SystemExit
            replace_file(*args)

        folder = tmp_path / str(number)
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", dying)
            try:
                run(config, folder)
            except SystemExit:
                deaths += 1
        run(config, folder)
        assert_same_end(tmp_path / "whole", folder)
        if writes <= number:
            break
    assert deaths == 9  # config, about, history, two epochs of two files, one kept, done


def test_a_checkpoint_of_another_device(tmp_path: Path) -> None:
    run(SMALL, tmp_path)
    (tmp_path / "done").unlink()
    place = RunFolder(tmp_path)
    state = place.load(torch.device("cpu"))
    assert state is not None
    place.save({**state, "device": "cuda"})
    with pytest.raises(FolderError, match="was begun on cuda, and here the device is cpu"):
        run(SMALL, tmp_path)
