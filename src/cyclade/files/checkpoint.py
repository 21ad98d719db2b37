"""Checkpoints in a file that no kill, full disk or flipped bit can spoil, written now and then.

A file is a sealed .npz. The one before it is kept. A damaged one is named in a warning and
skipped. Its content are arrays of numbers, so reading it runs no code.
"""

from __future__ import annotations

import io
import os
import re
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.files import sealed
from cyclade.files.disk import read, sweep, write
from cyclade.files.errors import FolderError
from cyclade.files.objects import as_numpy, fingerprint, packed, unpacked

FORMAT = 6  # of what callers store: files of another one are those of another run
_SHARE = 0.02  # of a run's time that may go into checkpoints
_FORMER = re.compile(rb"[0-9a-f]{64}\n")  # how files of formats up to 4 begin


class Kept:
    """The checkpoint of one run, in a file.

    >>> import tempfile
    >>> kept = Kept(tempfile.mkdtemp() + "/fit", "this run")
    >>> kept.load() is None
    True
    >>> kept.save(x=np.arange(3.0))
    >>> kept.load()["x"]
    array([0., 1., 2.])
    """

    def __init__(self, place: str | os.PathLike[str], run: str) -> None:
        self.path, self.run = Path(place), fingerprint(run, FORMAT)
        if self.path.is_dir():  # which would be moved aside
            raise ValueError(f"checkpoint: {self.path} is a folder; name a file")
        self.before = self.path.with_name(self.path.name + ".before")
        self._damaged = self._swept = False

    def save(self, **arrays: Any) -> None:
        """Replace the checkpoint; the old one is kept beside it, unless it is damaged."""
        content = io.BytesIO()
        np.savez(content, **arrays)
        label = sealed.Label(sealed.FORMAT, self.run, 0)
        if not self._swept:  # of what earlier processes left
            sweep(self.path.parent, self.path.name)
        keep = None if self._damaged else self.before
        write(self.path, sealed.sealed(content.getvalue(), label), keep=keep)
        self._damaged, self._swept = False, True

    def load(self) -> dict[str, NDArray[Any]] | None:
        """The newest one that is whole, or None; ValueError if it is that of another run."""
        for path in (self.path, self.before):
            try:
                return self._read(path)
            except FileNotFoundError:
                continue
            except FolderError as bad:
                self._damaged = self._damaged or path == self.path
                warnings.warn(f"checkpoint {path} is damaged and was skipped: {bad}", stacklevel=3)
        return None

    def foreign(self, path: Path | None = None) -> ValueError:
        """The error for a checkpoint of another run."""
        return ValueError(
            f"checkpoint: {path or self.path} belongs to other data or arguments, or to another "
            "version; name another file, or remove it"
        )

    def _read(self, path: Path) -> dict[str, NDArray[Any]]:
        if _FORMER.match(read(path, first=65)):
            raise self.foreign(path)
        archive, label = sealed.read_sealed(path)
        if label.run != self.run:
            raise self.foreign(path)
        try:
            with np.load(io.BytesIO(archive), allow_pickle=False) as found:
                return {name: found[name] for name in found.files}
        except Exception as error:  # its digest fits: it was made so
            raise ValueError(f"checkpoint: {path} holds more than arrays: {error}") from error


class Checkpoint:
    """Where a run of `minimize` is written down, and read again.

    What tells the run apart is where it starts, its seed and what `described` says. `ranks`, if
    there are several: the first one writes and reads for all.
    """

    def __init__(self, place: Any, ranks: Any, x: Any, seed: Any, described: list[Any]) -> None:
        if not isinstance(place, str | os.PathLike):
            raise TypeError(f"checkpoint must be None or a path, got {type(place).__name__}")
        own = seed if seed is None or isinstance(seed, int | np.integer) else "a generator"
        run = fingerprint(own, *map(as_numpy, x.leaves), *described)
        self._kept, self._layout, self._ranks = Kept(place, run), x.layout, ranks
        self._cost, self._last = 0.0, -np.inf

    def load(self) -> Any:
        """What the run carried when it was last written down; None if it never was."""
        found = read_by_first(self._ranks, self._kept.load)
        return None if found is None else unpacked(found, self._layout)

    def save(self, carry: Callable[[], Any]) -> None:
        """Write down what the run carries, unless that was done a moment ago."""
        begun = time.perf_counter()
        if begun - self._last < self._cost / _SHARE:
            return
        if self._ranks is None or self._ranks.rank == 0:
            self._kept.save(**packed(carry(), self._layout))
        self._last = time.perf_counter()
        self._cost = self._last - begun


def read_by_first(ranks: Any, read: Callable[[], Any]) -> Any:
    """What the first of the ranks reads, or its error on all of them; `ranks` is None for one."""
    if ranks is None:
        return read()
    found = trouble = None
    try:
        found = read() if ranks.rank == 0 else None
    except (OSError, ValueError) as error:  # damaged, or of another run
        trouble = error
    found, said = ranks.first((found, trouble and str(trouble)))
    if said is not None:
        raise trouble or FolderError(said)
    return found
