"""The data sets: one file each in this folder, found by being there.

A file defines ``DATASET``, a `DatasetInfo`. To add a data set, add a file: its name then works in
configs, on the command line, in the plans and in reports. No file here imports torch until a net is
built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

import numpy as np

from cyclade._checks import meant
from cyclade.experiments.errors import DataError

if TYPE_CHECKING:
    from torch import nn

    from cyclade.experiments.official import Official

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
"""Pixels and labels."""

Contents = Mapping[str, bytes]
"""The checked and decompressed content of every file, by its name."""

Parts = tuple[Bytes, Bytes, Bytes, Bytes]
"""Images and labels to train on, images and labels to test on."""


@dataclass(frozen=True)
class DatasetInfo:
    """All that is particular to a data set.

    Parameters
    ----------
    name, label:
        As configs have it; as people read it.
    images, shape:
        How many to train and to test on; channels, rows and columns of one.
    read:
        From the contents of the official files to images (n, channels, rows, columns) and labels.
    net:
        A new network for it, initialised by torch's generator as that stands.
    batch, vr_batch:
        b; and that of VR-CCD and of fig-vr (None: the same), since VR-CCD takes m draws a cycle.
    b_small:
        b' of the recursive methods, at most b/2; None: ⌊√b⌋, as in the paper.
    lr, lr_recursive, lr_vr:
        The initial learning rates at these b of SGD and SCCD, of PAGE and VRO-CCD, and of VR-CCD
        (None: as PAGE). They are the defaults of a run, and the centres of searches.
    official:
        The files as published; None for a set that needs none.
    batches:
        The sizes that the study of batches tries; default: `batch` and its multiples.
    """

    name: str
    label: str
    images: tuple[int, int]
    shape: tuple[int, int, int]
    read: Callable[[Contents], Parts]
    net: Callable[[], nn.Sequential]
    batch: int
    lr: float
    lr_recursive: float
    lr_vr: float | None = None
    official: Official | None = None
    vr_batch: int | None = None
    b_small: int | None = None
    batches: tuple[int, ...] = ()
    classes: int = 10

    def batch_of(self, method: str) -> int:
        """b for a method."""
        return self.vr_batch or self.batch if method == "VR-CCD" else self.batch

    def b_small_of(self, method: str, batch: int) -> int | None:
        """b' for a method at this b; None: ⌊√b⌋, or the method has no b'."""
        if self.b_small is None or method in ("SGD", "SCCD"):
            return None
        return max(1, min(self.b_small, batch // 2))

    def learning_rate(self, method: str) -> float:
        """The initial learning rate of a method, at its b."""
        if method in ("SGD", "SCCD"):
            return self.lr
        if method == "VR-CCD" and self.lr_vr is not None:
            return self.lr_vr
        return self.lr_recursive

    def learnt(self, accuracy: float) -> bool:
        """Whether an accuracy is that of a net that has learnt: twice what guessing gives."""
        return accuracy > 2 / self.classes

    @property
    def sizes(self) -> tuple[int, ...]:
        """The batch sizes of the study: those given, or `batch` and its multiples that fit."""
        fitting = (self.batch * 2**i for i in range(6))
        return self.batches or tuple(b for b in fitting if b <= self.images[0] // 3)


@cache
def known() -> dict[str, DatasetInfo]:
    """Every data set, by its name."""
    modules = [
        import_module(f"{__name__}.{found.name}")
        for found in sorted(iter_modules(__path__), key=lambda found: found.name)
    ]
    return {module.DATASET.name: module.DATASET for module in modules}


def names() -> tuple[str, ...]:
    """The names of all data sets."""
    return tuple(known())


def find(name: str) -> DatasetInfo:
    """A data set by its name."""
    if name not in known():
        hint = meant(name, names())
        raise DataError(
            f"unknown data set {name!r}: {', '.join(names())} are known{hint}; "
            "`cyclade data` alone lists them"
        )
    return known()[name]
