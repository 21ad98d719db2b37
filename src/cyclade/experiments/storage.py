"""One way to write a file: beside its place, then renamed into it. JSON carries its own digest.

A kill at any moment leaves the old file or the new one, never a half. What a kill does leave, the
temporary file, is removed by the next process that works in the folder (`sweep`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cyclade.experiments.errors import FolderError

DIGEST = "sha256"
_TEMPORARY = re.compile(r"\.(?P<name>.+)\.(?P<pid>\d+)\.tmp")
_FORMER = re.compile(  # as earlier versions named them
    r"\.(?P<name>config\.toml|about\.json|history\.csv|checkpoint\.pt|done|plan\.json|timing\.json"
    r"|tuned\.json)\.(?P<pid>\d+)"
)


def write(path: Path, content: bytes, *, keep: Path | None = None) -> None:
    """Replace a file as a whole; with `keep` the old one is moved there. Errors name the file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            if keep is not None and path.exists():
                os.replace(path, keep)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise FolderError(f"{path} cannot be written: {error.strerror or error}") from error


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Replace a JSON file; the key ``sha256`` is the digest of all the others."""
    text = json.dumps({**content, DIGEST: _digest(content)}, indent=1, ensure_ascii=False) + "\n"
    # A path that is no UTF-8 reaches us with surrogates: JSON writes them as \udcXX.
    write(path, text.encode("utf-8", "backslashreplace"))


def read_json(path: Path) -> dict[str, Any]:
    """The content of a JSON file, without the digest, which must fit if there is one.

    Files of earlier versions have none. A file that is not there raises FileNotFoundError.
    """
    try:
        found = json.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise FolderError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise FolderError(f"{path} is damaged: it cannot be read as JSON ({error})") from error
    if not isinstance(found, dict):
        raise FolderError(f"{path} is damaged: it cannot be read as a JSON object")
    wanted = found.pop(DIGEST, None)
    if wanted is not None and wanted != _digest(found):
        raise FolderError(f"{path} is damaged: its content does not fit its digest")
    return found


def _digest(content: Mapping[str, Any]) -> str:
    return digest(json.dumps(content, sort_keys=True).encode())


def digest(content: bytes) -> str:
    """The SHA-256 of some bytes."""
    return hashlib.sha256(content).hexdigest()


def sweep(folder: Path) -> None:
    """Remove the temporary files of processes that are gone."""
    for entry in list(folder.iterdir()):
        pid = _writer(entry.name)
        if pid is not None and (pid == os.getpid() or not _alive(pid)):
            entry.unlink(missing_ok=True)


def is_temporary(name: str) -> bool:
    """Whether a file is what a write that was cut off left behind."""
    return _writer(name) is not None


def _writer(name: str) -> int | None:
    """The process that wrote a temporary file; None for other files."""
    found = _TEMPORARY.fullmatch(name) or _FORMER.fullmatch(name)
    return int(found["pid"]) if found else None


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's
        return True
    return True
