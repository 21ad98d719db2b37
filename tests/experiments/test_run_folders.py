"""Run folders defend themselves: damage is mended or named, and never taken for a result."""

from __future__ import annotations

import io
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from test_resuming import assert_same_end

from cyclade.experiments import FolderError, RunConfig, find_runs, run
from cyclade.experiments import running as module
from cyclade.experiments.folder import RunFolder
from cyclade.files import disk
from cyclade.files.disk import read_json, write_json
from cyclade.files.lock import LOCK, locked
from cyclade.files.sealed import Label, opened, packed, sealed

SMALL = RunConfig(batch=700, epochs=3, lr=0.02, device="cpu")
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is done, and the same with another seed."""
    root = tmp_path_factory.mktemp("made")
    run(SMALL, root / "whole")
    run(replace(SMALL, seed=1), root / "other")
    return root


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "whole", tmp_path / "run"))


def warned(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(record.getMessage() for record in caplog.records)


def flip(path: Path, position: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


# -------------------------------------------------------------------------------- checkpoints


def test_every_byte_of_a_checkpoint_counts() -> None:
    content = packed({"epoch": 3, "x": torch.arange(5)}, "me")
    assert opened(content, Path("c"))[1] == Label(2, "me", 3)
    for position in range(len(content)):
        for bit in (0, 3, 5, 7):
            damaged = bytearray(content)
            damaged[position] ^= 1 << bit
            with pytest.raises(FolderError, match=r"c is damaged|c was made by another version"):
                opened(bytes(damaged), Path("c"))
    for length in range(0, len(content), 97):
        with pytest.raises(FolderError, match=r"c is damaged|c was made by another version"):
            opened(content[:length], Path("c"))


def saved(state: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def resealed(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path, Path], None]:
    """A checkpoint whose digest fits, with another content."""

    def damage(folder: Path, other: Path) -> None:
        state = RunFolder(folder).load(CPU)
        assert state is not None
        label = Label(2, SMALL.identity, 3)
        (folder / "checkpoint.pt").write_bytes(sealed(saved(change(state)), label))

    return damage


def without(key: str) -> Callable[[dict[str, Any]], Any]:
    return lambda state: {k: v for k, v in state.items() if k != key}


def newer_column(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "history": [{**row, "energy": 1.0} for row in state["history"]]}


DAMAGES: dict[str, Callable[[Path, Path], Any]] = {
    "a flipped bit": lambda f, o: flip(f / "checkpoint.pt", 1000, 3),
    "of another seed": lambda f, o: shutil.copy(o / "checkpoint.pt", f / "checkpoint.pt"),
    "text": lambda f, o: (f / "checkpoint.pt").write_text("a checkpoint"),
    "empty": lambda f, o: (f / "checkpoint.pt").write_bytes(b""),
    "no digest": lambda f, o: (f / "checkpoint.pt").write_bytes(saved(RunFolder(f).load(CPU))),
    "another format": lambda f, o: (f / "checkpoint.pt").write_bytes(
        sealed(saved({"epoch": 3}), Label(7, SMALL.identity, 3))
    ),
    "without a model": resealed(without("model")),
    "without a history": resealed(without("history")),
    "a newer column": resealed(newer_column),
    "a list": resealed(lambda state: [1, 2]),
    "another model": resealed(lambda state: {**state, "model": {"w": torch.ones(2)}}),
    "an older history": resealed(lambda state: {**state, "history": state["history"][:-1]}),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_checkpoints_that_do_not_fit(
    damage: Callable[[Path, Path], Any],
    folder: Path,
    made: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (folder / "done").unlink()
    damage(folder, made / "other")
    bad = (folder / "checkpoint.pt").read_bytes()
    run(SMALL, folder)
    assert_same_end(made / "whole", folder)
    assert "checkpoint.pt" in warned(caplog)
    assert (folder / "checkpoint.refused.pt").read_bytes() == bad
    # With no good one left, it is an error that says what to do, and recommends no danger.
    (folder / "done").unlink()
    (folder / "checkpoint.previous.pt").unlink()
    (folder / "checkpoint.pt").write_bytes(bad)
    with pytest.raises(
        FolderError, match=r"checkpoint.pt .*: delete it to start this run"
    ) as error:
        run(SMALL, folder)
    assert "weights_only" not in str(error.value)


class Harmful:
    """Unpickled, it would make a file."""

    def __reduce__(self) -> Any:
        return (os.mkdir, ("harm",))


def test_loading_runs_no_code(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (folder / "done").unlink()
    (folder / "checkpoint.previous.pt").unlink()
    content = sealed(saved({"epoch": 3, "model": Harmful()}), Label(2, SMALL.identity, 3))
    (folder / "checkpoint.pt").write_bytes(content)
    with pytest.raises(FolderError, match="holds more than tensors and plain values") as error:
        run(SMALL, folder)
    assert "weights_only" not in str(error.value)
    assert not (tmp_path / "harm").exists()


# ----------------------------------------------------------------- done, history and checkpoint


def edited(name: str, old: str, new: str) -> Callable[[Path, Path], None]:
    def damage(folder: Path, other: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1))

    return damage


def short_of_a_line(folder: Path, other: Path) -> None:
    lines = (folder / "history.csv").read_text().splitlines(True)
    (folder / "history.csv").write_text("".join(lines[:-1]))


MENDED: dict[str, Callable[[Path, Path], Any]] = {
    "history short of a line": short_of_a_line,
    "no history": lambda f, o: (f / "history.csv").unlink(),
    "history of another run": lambda f, o: shutil.copy(o / "history.csv", f),
    "another number": edited("history.csv", "2.", "1."),
    "a newer column": edited("history.csv", "test_accuracy", "test_accuracy,energy"),
    "binary history": lambda f, o: (f / "history.csv").write_bytes(b"\xff\xfe\0"),
    "done of another run": lambda f, o: shutil.copy(o / "done", f),
    "done is text": lambda f, o: (f / "done").write_text("done"),
    "done is a list": lambda f, o: (f / "done").write_text("[1]"),
    "another end": edited("done", "finished", "diverged"),
    "another epoch": edited("done", '"epoch": 3', '"epoch": 2'),
    "a status that is none": lambda f, o: (f / "done").write_text('{"status": "well"}'),
    "an older checkpoint": lambda f, o: shutil.copy(
        f / "checkpoint.previous.pt", f / "checkpoint.pt"
    ),
    "no checkpoint": lambda f, o: (f / "checkpoint.pt").unlink(),
    "no about": lambda f, o: (f / "about.json").unlink(),
    "about of another run": lambda f, o: shutil.copy(o / "about.json", f),
    "about with another processor": edited("about.json", "Linux", "Minix"),
}


@pytest.mark.parametrize("damage", MENDED.values(), ids=MENDED)
def test_files_that_do_not_fit_each_other_are_mended(
    damage: Callable[[Path, Path], Any],
    folder: Path,
    made: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    damage(folder, made / "other")
    place = RunFolder(folder)
    assert place.problem()
    run(SMALL, folder)
    assert_same_end(made / "whole", folder)
    assert "made again from the last good checkpoint" in warned(caplog)
    assert len(find_runs(folder)) == 1


def test_a_damaged_run_is_shown_by_nobody(folder: Path, made: Path) -> None:
    short_of_a_line(folder, made)
    with pytest.raises(FolderError, match=r"history.csv is not as it was when the run ended"):
        find_runs(folder)
    (folder / "history.csv").unlink()
    with pytest.raises(FolderError, match=r"history.csv is missing, and done says"):
        find_runs(folder)


def test_runs_of_earlier_versions_are_still_read(folder: Path, made: Path) -> None:
    """Their marks have no digests; the tables must still fit."""
    (folder / "done").write_text('{"status": "finished", "epoch": 3}\n')
    about = read_json(folder / "about.json")
    (folder / "about.json").write_text(json.dumps({"starts": about["starts"]}))
    for name in ("checkpoint.pt", "checkpoint.previous.pt"):
        (folder / name).unlink()
    assert RunFolder(folder).problem() == ""
    assert run(SMALL, folder).history == RunFolder(made / "whole").history()
    short_of_a_line(folder, made)
    with pytest.raises(FolderError, match=r"ends at epoch 2, done says 3"):
        find_runs(folder)


def test_history_beyond_the_checkpoint(
    folder: Path, made: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("done", "checkpoint.pt"):
        (folder / name).unlink()
    run(SMALL, folder)
    assert_same_end(made / "whole", folder)
    assert "goes to epoch 3, the last good checkpoint to epoch 2" in warned(caplog)
    for name in ("done", "checkpoint.pt", "checkpoint.previous.pt"):
        (folder / name).unlink()
    run(SMALL, folder)
    assert_same_end(made / "whole", folder)
    assert "the last good checkpoint to epoch 0" in warned(caplog)


def test_a_config_that_was_changed(folder: Path, made: Path) -> None:
    edited("config.toml", "seed = 0", "seed = 1")(folder, made)
    with pytest.raises(FolderError, match=r"done belongs to another run than config.toml"):
        find_runs(folder)
    with pytest.raises(FolderError, match="seed = 1 there, 0 here"):
        run(SMALL, folder)


# --------------------------------------------------------------------------------------- files


def test_what_a_killed_write_leaves_is_removed(folder: Path, made: Path) -> None:
    """By the next run; `tests/files` has the cases of `sweep`."""
    (folder / "done").unlink()
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    left, lives = (
        f".history.csv.{pid}-{disk._place()}-01234567.tmp" for pid in (gone.pid, os.getppid())
    )
    for name in (left, lives, ".mine.txt"):
        (folder / name).write_bytes(b"half")
    run(SMALL, folder)
    hidden = {path.name for path in folder.iterdir() if path.name.startswith(".")}
    assert hidden == {lives, ".mine.txt"}


def test_json_is_read_as_it_was_written(tmp_path: Path) -> None:
    content = {"b": [1, 2.5, None, "η", "\udcc3"], "a": {"x": float("inf")}}
    write_json(tmp_path / "j", content)
    assert read_json(tmp_path / "j") == content


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from cyclade.files.lock import locked\n"
        "with locked(Path(sys.argv[1])): pass\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "f")]
    with locked(tmp_path / "f"):
        found = subprocess.run(command, capture_output=True, text=True)
        assert f"is in use by process {os.getpid()} on " in found.stderr.splitlines()[-1]
        with pytest.raises(FolderError, match=r"is in use by process \d+ on .* since 20\d\d-"):
            run(SMALL, tmp_path / "f")  # in the same process, too
    assert list((tmp_path / "f").iterdir()) == []
    assert subprocess.run(command).returncode == 0


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path\n"
        "from cyclade.files.lock import locked\n"
        "with locked(Path(sys.argv[1])): os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)])
    assert (tmp_path / LOCK).exists()
    with locked(tmp_path):
        assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()
    assert not (tmp_path / LOCK).exists()
    (tmp_path / LOCK).write_bytes(b"\xff not JSON")
    with locked(tmp_path):
        pass


def test_a_run_that_another_process_ended_meanwhile(
    folder: Path, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "done").rename(folder.parent / "done")

    def late(*args: Any) -> Any:
        (folder.parent / "done").rename(folder / "done")
        return prepared(*args)

    prepared = module.prepared
    monkeypatch.setattr(module, "prepared", late)
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert run(SMALL, folder).status == "finished"
    after = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert after.items() >= before.items()


def test_warnings_are_logged(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from cyclade.cli import main

    (folder / "history.csv").unlink()
    settings = [f"--set={key}={getattr(SMALL, key)}" for key in ("batch", "epochs", "lr", "device")]
    assert main(["run", *settings, "--out", str(folder)]) == 0
    error = capsys.readouterr().err
    assert error.startswith("cyclade: warning: ")
    assert error.count("\n") == 1
    assert not logging.getLogger("cyclade.experiments").handlers
