"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from cyclade.experiments.errors import ExperimentError


def ready(out: Path) -> None:
    """Make the folder of `out`, and be sure that a file can be written there; else an error."""
    if out.is_dir():
        raise ExperimentError(f"out = {out} is a folder: give the path of the page to write")
    probe = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ExperimentError(f"out = {out} cannot be written: {error.strerror}") from error


def write(path: Path, content: bytes) -> None:
    """Beside its place first, then into it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise ExperimentError(f"{path} cannot be written: {error.strerror}") from error
