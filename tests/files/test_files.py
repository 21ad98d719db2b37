"""Files that strangers, other hosts and kills have touched: named, skipped, or left alone."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cyclade.files import disk
from cyclade.files.checkpoint import Kept
from cyclade.files.disk import (
    as_json,
    as_toml,
    check_writable,
    is_temporary,
    read,
    read_json,
    sweep,
    write,
)
from cyclade.files.errors import FolderError
from cyclade.files.lock import LOCK, locked
from cyclade.files.sealed import FORMAT, Label, opened, read_sealed, sealed


def gone() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


def left(path: Path, pid: int, place: str | None = None, age: float = 0.0) -> Path:
    """What a write of `path` by a process that was killed leaves behind."""
    place = disk._place() if place is None else place
    found = path.with_name(f".{path.name}.{pid}-{place}-01234567.tmp")
    found.write_bytes(b"half")
    os.utime(found, (time.time() - age,) * 2)
    return found


# ----------------------------------------------------------------------------------- links


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """A file to which others lead, and which stays what it is."""
    path = tmp_path / "victim"
    path.write_text("precious")
    yield path
    assert path.read_text() == "precious"


def test_nothing_is_written_through_a_link(
    tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even where the name of the temporary file is known."""
    monkeypatch.setattr(disk.secrets, "token_hex", lambda size: "0" * 2 * size)
    (tmp_path / f".file.{os.getpid()}-{disk._place()}-00000000.tmp").symlink_to(victim)
    (tmp_path / f".file.{os.getpid()}.tmp").symlink_to(victim)
    for writer in (lambda path: write(path, b"new"), check_writable):
        with pytest.raises(FolderError, match="file cannot be written: File exists"):
            writer(tmp_path / "file")


def test_a_lock_that_is_a_link_is_refused(tmp_path: Path, victim: Path) -> None:
    (tmp_path / LOCK).symlink_to(victim)
    with pytest.raises(FolderError, match=r"\.lock is a link"), locked(tmp_path):
        pass


def test_a_link_in_place_of_a_file_is_replaced_and_not_followed(
    tmp_path: Path, victim: Path
) -> None:
    (tmp_path / "file").symlink_to(victim)
    write(tmp_path / "file", b"new")
    assert not (tmp_path / "file").is_symlink()


# -------------------------------------------------------------------------------- sweeping


def test_sweeping_asks_host_container_and_age(tmp_path: Path) -> None:
    file, day = tmp_path / "fit", disk.STALE
    dead, far = gone(), "0" * 8
    goes = [
        left(file, dead),
        left(tmp_path / "other", dead),
        left(tmp_path / "old", dead, far, 2 * day),
    ]
    stays = [left(file, os.getppid()), left(tmp_path / "young", dead, far), tmp_path / ".a.7.tmp"]
    stays[-1].write_bytes(b"of an earlier version, perhaps in another container")
    sweep(tmp_path, "fit")
    assert [path.exists() for path in goes] == [False, True, True]
    sweep(tmp_path)
    assert [path.exists() for path in goes] == [False, False, False]
    assert all(path.exists() for path in stays)


def test_reading_deletes_nothing_and_saving_sweeps(tmp_path: Path) -> None:
    """Of its own name alone: the folder is the user's. What is saved is a file of NumPy."""
    Kept(tmp_path / "fit", "run").save(x=np.arange(3.0))
    with np.load(tmp_path / "fit") as found:
        assert found["x"].tolist() == [0.0, 1.0, 2.0]
    mine, other = left(tmp_path / "fit", gone()), left(tmp_path / "else", gone())
    kept = Kept(tmp_path / "fit", "run")
    assert kept.load() is not None
    assert mine.exists()
    kept.save(x=np.arange(3.0))
    assert not mine.exists()
    assert other.exists()


def test_a_folder_is_synced_after_a_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    plain = os.fsync

    def watched(handle: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{handle}")))
        plain(handle)

    monkeypatch.setattr(os, "fsync", watched)
    write(tmp_path / "new" / "file", b"content")
    assert synced[0] == tmp_path  # which has got a folder
    assert is_temporary(synced[1].name)
    assert synced[2] == tmp_path / "new"


# --------------------------------------------------------------------------------- reading

STRANGE: dict[str, Callable[[Path], Any]] = {
    "a folder": lambda path: path.mkdir(),
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a circle of links": lambda path: path.symlink_to(path),
    "40 GB": lambda path: (path.touch(), os.truncate(path, 40 * 2**30)),
}


@pytest.mark.parametrize("make", STRANGE.values(), ids=STRANGE)
def test_what_is_no_file_to_read_is_named(make: Callable[[Path], Any], tmp_path: Path) -> None:
    path = tmp_path / "file"
    make(path)
    for reader in (read, read_json, read_sealed):
        with pytest.raises(FolderError, match="file "):
            reader(path)


DEEP = {
    "lists": "[" * 100_000,
    "closed lists": "[" * 500 + "]" * 500,
    "objects": '{"a":' * 100_000,
    "closed objects": '{"a":' * 500 + "1" + "}" * 500,
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_what_is_deep_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"deep|Expecting"):
        as_json(text)
    with pytest.raises(ValueError, match=r"deep|valid|Unclosed|Invalid|Expected"):
        as_toml(f"a = {text.replace(':', '=')}")
    (tmp_path / "j").write_text(text)
    with pytest.raises(FolderError, match="damaged"):
        read_json(tmp_path / "j")
    with pytest.raises(ValueError, match=f"more than {disk.DEPTH} deep"):
        as_toml("a." * 500 + "b = 1")


def bomb() -> bytes:
    """An archive of a kilobyte that holds 64 MB."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", b"\0" * 2**26)
    return made.getvalue()


def test_an_archive_that_holds_more_than_its_size_is_not_unpacked(tmp_path: Path) -> None:
    """Whoever can write a file can make its digest fit."""
    content = sealed(bomb(), Label(FORMAT, Kept(tmp_path / "fit", "run").run, 0))
    with pytest.raises(FolderError, match="holds more than its size"):
        opened(content, tmp_path / "fit")
    (tmp_path / "fit").write_bytes(content)
    with pytest.warns(UserWarning, match="fit is damaged and was skipped"):
        assert Kept(tmp_path / "fit", "run").load() is None


def test_a_damaged_checkpoint_does_not_replace_the_good_one_before(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "fit", "run")
    kept.save(k=1)
    kept.save(k=2)
    (tmp_path / "fit").write_bytes(b"damaged")
    again = Kept(tmp_path / "fit", "run")
    with pytest.warns(UserWarning, match="was skipped"):
        assert again.load()["k"] == 1  # type: ignore[index]
    again.save(k=3)
    (tmp_path / "fit").unlink()  # as a kill between two renames would
    assert Kept(tmp_path / "fit", "run").load()["k"] == 1  # type: ignore[index]


def test_a_checkpoint_of_an_earlier_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "fit").write_bytes(b"0123456789abcdef" * 4 + b"\nand so on")
    with pytest.raises(ValueError, match="or to another version; name another file"):
        Kept(tmp_path / "fit", "run").load()


# ---------------------------------------------------------------------------------- names


def test_names_from_files_do_not_move_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from cyclade.cli import main

    bad = tmp_path / "\x1b]0;owned\x07\x9b31m"
    bad.mkdir()
    (bad / "config.toml").write_text("seed = 'x'")
    (bad / "about.json").write_text("{}")
    assert main(["show", str(tmp_path)]) == 2
    said = capsys.readouterr()
    for c in "\x1b\x07\x9b":
        assert c not in said.out + said.err
    assert r"\x1b]0;owned" in said.err
    with pytest.raises(FolderError) as error:
        read(bad)
    assert "\x1b" not in str(error.value)


def test_a_lock_that_cannot_be_removed_is_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any, **options: Any) -> None:
        raise OSError(5, os.strerror(5))

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", broken)
        with locked(tmp_path):
            pass
    assert (tmp_path / LOCK).exists()
    with locked(tmp_path):
        pass
    assert not (tmp_path / LOCK).exists()
