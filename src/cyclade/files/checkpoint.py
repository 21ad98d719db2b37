"""Checkpoints of a run that goes on for long: written now and then, by the first of its ranks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from cyclade.files.arrays import Kept
from cyclade.files.errors import FolderError
from cyclade.files.objects import as_numpy, fingerprint, packed, unpacked

_SHARE = 0.02  # of a run's time that may go into checkpoints


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
