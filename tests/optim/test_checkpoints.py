"""Checkpoints of a training run in one process; `ranks_worker.py` has those of several ranks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_nets import net
from torch import nn

from cyclade.experiments.errors import FolderError
from cyclade.files.sealed import packed
from cyclade.optim import SCCD, VROCCD, Checkpoints, CheckpointWarning

ONES = torch.ones(4, 3).double(), torch.ones(4, 2).double()


def built(cls: Any = SCCD, **options: Any) -> tuple[nn.Module, Any]:
    model = net(3, 4, 2)
    given = {"lr": 0.1, "order": "shuffled", "momentum": 0.9 * (cls is SCCD)}
    return model, cls(model, nn.functional.mse_loss, **given | options)


def run(kept: Checkpoints, steps: int) -> nn.Module:
    model, opt = built(VROCCD, b=8, b_small=2)
    found = kept.load(model=model, opt=opt)
    for k in range(0 if found is None else found["step"], steps):
        generator = torch.Generator().manual_seed(k)
        x = torch.randn(8 if k % 3 == 0 else 2, 3, generator=generator, dtype=torch.float64)
        opt.step(x, x[:, :2])
        kept.save(k + 1, model=model, opt=opt, best=[0.5, {"k": k}])
    return model


def bits(model: nn.Module) -> list[Any]:
    return [p.tolist() for p in model.parameters()]


def test_a_resumed_run_ends_in_the_same_bits_and_old_files_go(tmp_path: Path) -> None:
    whole = bits(run(Checkpoints(tmp_path / "whole"), 9))
    for steps in (4, 5, 9):
        model = run(Checkpoints(tmp_path / "parts", keep=3), steps)
    assert bits(model) == whole
    names = sorted(path.name for path in (tmp_path / "parts").iterdir())
    assert names == [f"checkpoint-{k:08d}.pt" for k in (7, 8, 9)]
    with pytest.raises(ValueError, match=r"holds the state of \['model', 'opt'\]"):
        Checkpoints(tmp_path / "parts").load(model=model)


def test_what_would_not_load_safely_is_refused_when_saved(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path)
    with pytest.raises(TypeError, match=r"best\[1\] is a ndarray"):
        kept.save(1, best=[1.0, np.zeros(2)])
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="keep must be"):
        Checkpoints(tmp_path, keep=0)


class Code:
    """A pickle that runs something."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        return (Path.touch, (self.place,))


def test_a_file_that_holds_code_is_skipped_and_no_one_is_told_to_run_it(tmp_path: Path) -> None:
    """Its digest fits: whoever can write the file can make one."""
    run(Checkpoints(tmp_path / "run"), 1)
    state = {"epoch": 2, "states": {"model": Code(tmp_path / "ran")}, "values": {}}
    (tmp_path / "run" / "checkpoint-00000002.pt").write_bytes(packed(state, "cyclade.optim"))
    with pytest.warns(CheckpointWarning, match=r"checkpoint-00000002\.pt holds more") as seen:
        run(Checkpoints(tmp_path / "run"), 1)
    assert "weights_only" not in str(seen[0].message)
    assert not (tmp_path / "ran").exists()


def test_a_file_in_place_of_the_folder_is_named_before_anything_is_trained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("notes")
    with pytest.raises(FolderError, match="file is a file: checkpoints want a folder"):
        run(Checkpoints(tmp_path / "file"), 1)


def test_a_folder_that_can_be_read_alone_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(Checkpoints(tmp_path), 1)
    (tmp_path / ".checkpoint-00000002.pt.999999999.tmp").write_text("left by a kill")

    def refused(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(path)

    monkeypatch.setattr(Path, "unlink", refused)
    model, opt = built(VROCCD, b=8, b_small=2)
    assert Checkpoints(tmp_path).load(model=model, opt=opt) == {"step": 1, "best": [0.5, {"k": 0}]}


def test_parts_are_loaded_in_the_order_given(tmp_path: Path) -> None:
    """The order of a set differs between the ranks, whose loading may wait for one another."""
    loaded: list[str] = []

    class Part:
        def __init__(self, name: str) -> None:
            self.name = name

        def state_dict(self) -> dict[str, Any]:
            return {}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            loaded.append(self.name)

    parts = {f"part{k}": Part(f"part{k}") for k in range(12)}
    Checkpoints(tmp_path).save(1, **parts)
    Checkpoints(tmp_path).load(**parts)
    assert loaded == list(parts)


def flipped(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])


SPOILED: dict[str, tuple[int, Any]] = {
    "cut": (5, lambda path: path.write_bytes(path.read_bytes()[:-7])),
    "flip": (5, flipped),
    "other": (5, lambda path: path.write_bytes(b"text")),
    "a folder": (9, lambda path: path.mkdir()),
    "a circle of links": (9, lambda path: path.symlink_to(path)),
    "a pipe": (9, os.mkfifo),
    "a link to nothing": (9, lambda path: path.symlink_to("nowhere")),
}


@pytest.mark.parametrize("how", SPOILED)
def test_a_newest_one_that_is_spoiled_is_named_and_skipped(how: str, tmp_path: Path) -> None:
    number, spoil = SPOILED[how]
    whole = bits(run(Checkpoints(tmp_path / "whole"), 6))
    run(Checkpoints(tmp_path / "run"), 5)
    spoil(tmp_path / "run" / f"checkpoint-{number:08d}.pt")
    with pytest.warns(CheckpointWarning, match=rf"checkpoint-0000000{number}\.pt"):
        model = run(Checkpoints(tmp_path / "run", keep=1), 6)
    assert bits(model) == whole
    assert (tmp_path / "run" / "checkpoint-00000006.pt").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": 1}, "seed = 0 there, 1 here"),
        ({"order": "forward"}, "order = shuffled there, forward here"),
        ({"lr": 0.2}, "lr of group 0 = 0.1 there, 0.2 here"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(change: Any, said: str, tmp_path: Path) -> None:
    model, opt = built()
    opt.step(*ONES)
    opt.param_groups[0]["lr"] = 0.05  # by a schedule
    Checkpoints(tmp_path).save(1, model=model, opt=opt)
    model, opt = built()
    assert Checkpoints(tmp_path).load(model=model, opt=opt) == {"step": 1}
    model, opt = built(**change)
    before = bits(model)
    with pytest.raises(ValueError, match=f"of another run .*{said}"):
        Checkpoints(tmp_path).load(model=model, opt=opt)
    assert bits(model) == before
    assert Checkpoints(tmp_path, check_run=False).load(model=model, opt=opt) == {"step": 1}


def test_a_state_that_was_emptied_is_refused() -> None:
    _, opt = built()
    opt.step(*ONES)
    state = opt.state_dict()
    with pytest.raises(ValueError, match=r"not whole: parameter 0 has lost .*momentum"):
        built()[1].load_state_dict({**state, "state": {}})
    built()[1].load_state_dict(state)


def test_loading_deletes_nothing(tmp_path: Path) -> None:
    """A process of another container may be writing it."""
    run(Checkpoints(tmp_path), 1)
    for name in ("checkpoint-00000002.pt.999999999", "notes.txt.999999999"):
        (tmp_path / f".{name}.tmp").write_text("half")
    run(Checkpoints(tmp_path), 1)
    assert len(list(tmp_path.iterdir())) == 3
