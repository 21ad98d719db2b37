"""One way to write a file and one way to read it. JSON carries its own digest.

Written beside its place, a file is renamed into it. A kill at any moment leaves the old file or the
new one, never a half. What a kill does leave, the temporary file, is removed by the next process
that writes there (`sweep`). Read is what somebody else may have made: regular files of bounded size
and depth.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import re
import secrets
import stat
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from cyclade.files.errors import FolderError

DIGEST = "sha256"
STALE = 24 * 3600.0
"""Seconds after which a temporary file is nobody's, whoever wrote it."""

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL  # never an existing file, never through a link
_CREATE |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_TEMPORARY = re.compile(r"\.(?P<name>.+)\.(?P<pid>\d+)-(?P<place>[0-9a-f]{8})-[0-9a-f]{8}\.tmp")

TEXT = 2**28
"""The most bytes of a text file."""
DEPTH = 64
"""The most that lists and objects may lie within each other."""

_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d|conin\$|conout\$)", re.IGNORECASE)
_MOST_BYTES = 255  # of one part of a path, on all common file systems

_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


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
    return temporary, os.open(temporary, _CREATE, 0o666)


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
            found = _TEMPORARY.fullmatch(entry.name)
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
    return _TEMPORARY.fullmatch(name) is not None


@lru_cache(maxsize=1)
def _place() -> str:
    """Where process numbers mean the same: this host, since it started, in this container."""
    parts = [platform.node()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return digest("\n".join(parts).encode())[:8]


def _alive(pid: int) -> bool:
    with suppress(PermissionError):  # it is somebody else's
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
    return True


# -------------------------------------------------------------------------------------- reading


def read(path: Path, most: int = TEXT, *, first: int = 0, last: int = 0) -> bytes:
    """The content of a regular file of at most so many bytes; or its first or last few.

    What is no regular file, too large or unreadable is a `FolderError`. A file that is not there
    raises FileNotFoundError. Pipes and devices are not waited for.
    """
    try:
        handle = os.open(path, _READ)
        with open(handle, "rb") as stream:
            seen = os.fstat(handle)
            if not stat.S_ISREG(seen.st_mode):
                what = "Is a directory" if stat.S_ISDIR(seen.st_mode) else "not a regular file"
                raise FolderError(f"{path} cannot be read: {what}")
            if first or last:
                stream.seek(max(seen.st_size - last, 0) if last else 0)
                return stream.read(first or last)
            if seen.st_size > most:
                raise FolderError(f"{path} cannot be read: it has more than {most:,} bytes")
            return stream.read(seen.st_size)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise FolderError(f"{path} cannot be read: {error.strerror or error}") from error


def read_text(path: Path, most: int = TEXT) -> str:
    """The content of a text file in UTF-8."""
    try:
        return read(path, most).decode("utf-8")
    except UnicodeDecodeError as error:
        raise FolderError(f"{path} is damaged: it is no text ({error})") from error


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file, without the digest, which must fit if there is one.

    Files of earlier versions have none. A file that is not there raises FileNotFoundError.
    """
    text = read_text(path)
    try:
        found = as_json(text)
    except ValueError as error:
        raise FolderError(f"{path} is damaged: it cannot be read as JSON ({error})") from error
    if not isinstance(found, dict):
        raise FolderError(f"{path} is damaged: it cannot be read as a JSON object")
    wanted = found.pop(DIGEST, None)
    if wanted is not None and wanted != digest_of(found):
        raise FolderError(f"{path} is damaged: its content does not fit its digest")
    return found


def read_toml(path: Path) -> dict[str, Any]:
    """The table in a TOML file."""
    content = read(path)
    try:
        return as_toml(content.decode("utf-8"))
    except ValueError as error:
        raise FolderError(f"{path} is not TOML: {error}") from error


def as_json(text: str | bytes) -> Any:
    """What a JSON text says; ValueError if it is none, or too deep."""
    return _parsed(json.loads, text)


def as_toml(text: str) -> dict[str, Any]:
    """What a TOML text says; ValueError if it is none, or too deep."""
    try:
        toml: Any = import_module("tomllib")
    except ImportError:  # Python 3.10
        toml = import_module("tomli")
    found: dict[str, Any] = _parsed(toml.loads, text)
    return found


def _parsed(loads: Callable[[Any], Any], text: str | bytes) -> Any:
    """What `loads` reads, if nothing in it lies too deep for code that follows it down."""
    with suppress(RecursionError):
        found = loads(text)
        if _is_shallow(found, DEPTH):
            return found
    raise ValueError(f"lists and objects lie more than {DEPTH} deep")


def _is_shallow(value: Any, most: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return most > 0 and all(_is_shallow(below, most - 1) for below in inner)


# ---------------------------------------------------------------------------------------- names


def is_plain(name: str) -> bool:
    r"""Whether a name can be a folder below another one, on every system.

    >>> is_plain("runs/mnist-SCCD-lr0.1"), is_plain("../x"), is_plain("/x"), is_plain("x\ny")
    (True, False, False, False)
    """
    return all(map(_is_plain_part, name.split("/")))


def _is_plain_part(part: str) -> bool:
    return (
        0 < len(part.encode(errors="replace")) <= _MOST_BYTES
        and part.isprintable()  # no line ends, no escape sequences
        and part[0] not in " ."  # ".." and hidden files: locks, temporary files
        and part[-1] not in " ."
        and not set(part) & set('\\:*?"<>|')
        and not _DEVICES.fullmatch(part.partition(".")[0].rstrip())
    )


def inside(folder: Path, name: str) -> Path:
    """The path of `name` in `folder`; ValueError if a link on the way leads out of it."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{path} leads out of {folder}")
    return path
