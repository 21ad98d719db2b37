"""One way to write a file: beside its place, then renamed into it. JSON carries its own digest.

A kill at any moment leaves the old file or the new one, never a half. What a kill does leave, the
temporary file, is removed by the next process that writes there (`sweep`).
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import re
import secrets
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from cyclade.files.errors import FolderError

DIGEST = "sha256"
STALE = 24 * 3600.0
"""Seconds after which a temporary file is nobody's, whoever wrote it."""

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL  # never an existing file, never through a link
_FLAGS |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_TEMPORARY = re.compile(r"\.(?P<name>.+)\.(?P<pid>\d+)(-(?P<place>[0-9a-f]{8})-[0-9a-f]{8})?\.tmp")
_FORMER = re.compile(  # as earlier versions named them
    r"\.(?P<name>config\.toml|about\.json|history\.csv|checkpoint\.pt|done|plan\.json|timing\.json"
    r"|tuned\.json)\.(?P<pid>\d+)(?P<place>)"
)


def write(path: Path, content: bytes, *, keep: Path | None = None) -> None:
    """Replace a file as a whole; with `keep` the old one is moved there. Errors name the file."""
    try:
        temporary, handle = _created(path)
        try:
            try:
                rest = memoryview(content)
                while rest:
                    rest = rest[os.write(handle, rest) :]
                os.fsync(handle)
            finally:
                os.close(handle)
            if keep is not None and path.exists():
                os.replace(path, keep)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        _sync(path.parent)
    except OSError as error:
        raise FolderError(f"{path} cannot be written: {error.strerror or error}") from error


def check_writable(path: Path) -> None:
    """FolderError unless `path` can be written as a file; its folder is made if need be."""
    try:
        if path.is_dir():
            raise FolderError(f"{path} is a folder: name a file")
        temporary, handle = _created(path)
        os.close(handle)
        os.unlink(temporary)
    except OSError as error:
        raise FolderError(f"{path} cannot be written: {error.strerror or error}") from error


def _created(path: Path) -> tuple[Path, int]:
    """A new file beside `path`, open, whose name nobody can know before; folders are made."""
    missing = [folder for folder in path.parents if not folder.is_dir()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        _sync(folder.parent)
    owner = f"{os.getpid()}-{_place()}-{secrets.token_hex(4)}"
    temporary = path.with_name(f".{path.name}.{owner}.tmp")
    return temporary, os.open(temporary, _FLAGS, 0o666)


def _sync(folder: Path) -> None:
    """Let a rename in the folder outlast a power cut, where the system can do that."""
    if sys.platform == "win32":
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EINVAL, errno.ENOTSUP):
            raise


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Replace a JSON file; the key ``sha256`` is the digest of all the others."""
    whole = {**content, DIGEST: digest_of(content)}
    text = json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
    # A path that is no UTF-8 reaches us with surrogates: JSON writes them as \udcXX.
    write(path, text.encode("utf-8", "backslashreplace"))


def digest_of(content: Mapping[str, Any]) -> str:
    """The SHA-256 of what a JSON file holds, however it is laid out."""
    return digest(json.dumps(content, sort_keys=True).encode())


def digest(content: bytes) -> str:
    """The SHA-256 of some bytes."""
    return hashlib.sha256(content).hexdigest()


# ------------------------------------------------------------------------------ temporary files


def sweep(folder: Path, name: str | None = None) -> None:
    """Remove temporary files of processes that are gone; with `name`, those of that file alone.

    Whether a process is gone can be asked on this host and in this container alone. Those written
    elsewhere go when they are a day old. What cannot be removed stays.
    """
    with suppress(OSError):
        for entry in list(folder.iterdir()):
            found = _parsed(entry.name)
            if found is None or name not in (None, found["name"]):
                continue
            with suppress(OSError):
                here = found["place"] == _place()
                if time.time() - entry.lstat().st_mtime > STALE or (
                    here and not _alive(int(found["pid"]))
                ):
                    entry.unlink()


def is_temporary(name: str) -> bool:
    """Whether a file is what a write that was cut off left behind."""
    return _parsed(name) is not None


def _parsed(name: str) -> re.Match[str] | None:
    return _TEMPORARY.fullmatch(name) or _FORMER.fullmatch(name)


@lru_cache(maxsize=1)
def _place() -> str:
    """Where process numbers mean the same: this host, since it started, in this container."""
    parts = [platform.node()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return digest("\n".join(parts).encode())[:8]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's
        return True
    return True
