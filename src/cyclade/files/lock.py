"""One process at a time in a folder: a file that the system holds locked for its owner.

The lock is the system's, so it ends with its process, however that ends: a lock file that a killed
process left behind is simply taken over. What the file says (process, host, time) is for people.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path

from filelock import FileLock, Timeout  # torch brings it, which all that locks needs

from cyclade.files.disk import as_json, read
from cyclade.files.errors import FolderError

LOCK = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder, which is made if need be; while another process holds it, an error."""
    path = folder / LOCK
    lock = FileLock(path, timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            raise FolderError(f"{path} is a link: remove it")
        while True:
            owner = _owner(path)
            try:
                lock.acquire()
                _sign(path)
                break
            except Timeout:
                if path.exists():
                    raise FolderError(
                        f"{folder} is in use by {owner}: wait for it to end, or give another folder"
                    ) from None
            except FileNotFoundError:  # its owner ended and removed it while we came
                lock.release()
    except (OSError, NotImplementedError) as error:
        why = getattr(error, "strerror", None) or error
        raise FolderError(f"{folder} cannot be used: {why}") from error
    try:
        yield
    finally:
        with suppress(OSError):  # it may stay: the next process takes it over
            path.unlink()
        lock.release()


def _sign(path: Path) -> None:
    since = datetime.now(timezone.utc).isoformat(timespec="seconds")
    owner = {"pid": os.getpid(), "host": platform.node(), "since": since}
    with suppress(PermissionError):  # Windows lets nobody else write to a locked file
        handle = os.open(path, os.O_WRONLY | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0))
        try:
            os.write(handle, json.dumps(owner).encode())
        finally:
            os.close(handle)


def _owner(path: Path) -> str:
    try:
        said = as_json(read(path, first=4096))
        return f"process {said['pid']} on {said['host']} since {said['since']}"
    except (OSError, ValueError, KeyError, TypeError):  # it is not there, or not signed
        return "another process"
