"""One process at a time in a folder: a file that the system holds locked for its owner.

The lock is the system's (`flock`), so it ends with its process, however that ends: a lock file that
a killed process left behind is simply taken over. What the file says (process, host, time) is for
people.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

from cyclade.experiments.errors import FolderError

if sys.platform != "win32":
    import fcntl

LOCK = ".lock"

_log = logging.getLogger("cyclade.experiments")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder, which is made if need be; while another process holds it, an error."""
    path = folder / LOCK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = _held(path)
    except OSError as error:
        raise FolderError(f"{folder} cannot be used: {error.strerror or error}") from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def _held(path: Path) -> int:
    """The open lock file, locked and signed."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(handle, path)
            there = path.stat()
            if os.path.samestat(os.fstat(handle), there):
                owner = {
                    "pid": os.getpid(),
                    "host": platform.node(),
                    "since": datetime.now(timezone.utc).isoformat(timespec="seconds"),
                }
                os.ftruncate(handle, 0)
                os.write(handle, json.dumps(owner).encode())
                return handle
        except FileNotFoundError:  # its owner ended and removed it while we came
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _lock(handle: int, path: Path) -> None:
    if sys.platform == "win32":  # the file is there for people, but nothing is held
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise FolderError(
            f"{path.parent} is in use by {_owner(handle)}: wait for it to end, or give another "
            "folder"
        ) from None
    except OSError as error:  # a file system without locks
        _log.warning("%s cannot be locked: %s", path.parent, error.strerror or error)


def _owner(handle: int) -> str:
    try:
        said = json.loads(os.pread(handle, 4096, 0))
        return f"process {said['pid']} on {said['host']} since {said['since']}"
    except (OSError, ValueError, KeyError, TypeError):  # it has not signed yet
        return "another process"
