"""One way to read a file that somebody else may have made: regular, of bounded size and depth."""

from __future__ import annotations

import json
import os
import stat
from importlib import import_module
from pathlib import Path
from typing import Any

from cyclade.files.errors import FolderError
from cyclade.files.writing import DIGEST, digest_of

TEXT = 2**28
"""The most bytes of a text file."""
DEPTH = 64
"""The most that lists and objects may lie within each other."""

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def read(path: Path, most: int = TEXT, *, first: int = 0, last: int = 0) -> bytes:
    """The content of a regular file of at most so many bytes; or its first or last few.

    What is no regular file, too large or unreadable is a `FolderError`. A file that is not there
    raises FileNotFoundError. Pipes and devices are not waited for.
    """
    try:
        handle = os.open(path, _FLAGS)
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
    try:
        return _shallow(json.loads(text))
    except RecursionError:
        raise _too_deep() from None


def as_toml(text: str) -> dict[str, Any]:
    """What a TOML text says; ValueError if it is none, or too deep."""
    try:
        toml: Any = import_module("tomllib")
    except ImportError:  # Python 3.10
        toml = import_module("tomli")
    try:
        found: dict[str, Any] = _shallow(toml.loads(text))
        return found
    except RecursionError:
        raise _too_deep() from None


def _shallow(found: Any) -> Any:
    """`found`, if nothing in it lies too deep for code that follows it down."""
    level = [found]
    for _ in range(DEPTH):
        level = [
            below
            for one in level
            if isinstance(one, dict | list)
            for below in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return found
    raise _too_deep()


def _too_deep() -> ValueError:
    return ValueError(f"lists and objects lie more than {DEPTH} deep")
