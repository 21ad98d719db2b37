"""Whether a page can be written, before any work begins."""

from __future__ import annotations

import os
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
