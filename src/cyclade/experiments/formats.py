"""The official file formats: CIFAR-10 binary batches and MNIST idx files. Never a pickle."""

from __future__ import annotations

import gzip
import hashlib
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cyclade.experiments.errors import DataError

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

CIFAR_RECORD = 1 + 3 * 32 * 32  # a label, then the red, green and blue planes
CLASSES = 10


@dataclass(frozen=True)
class OfficialFile:
    """A file as its authors published it: the name, the size in bytes, and a checksum.

    If the name ends in ``.gz``, they are those of the compressed file. The size may be unknown.
    """

    name: str
    size: int | None
    algorithm: str
    digest: str

    def check(self, path: Path, content: bytes) -> None:
        """Refuse content that is cut short, too long, or differs from what was published."""
        if self.size is not None and len(content) != self.size:
            what = "is cut short" if len(content) < self.size else "is too long"
            raise DataError(
                f"{path} {what}: {len(content):,} bytes where the official {self.name} has "
                f"{self.size:,}. Delete it and fetch it again (`cyclade data`)"
            )
        found = hashlib.new(self.algorithm, content, usedforsecurity=False).hexdigest()
        if found != self.digest:
            raise DataError(
                f"{path} is damaged: its {self.algorithm} is {found}, the official {self.name} has "
                f"{self.digest}. Delete it and fetch it again (`cyclade data`)"
            )


def read(path: Path) -> bytes:
    """The bytes of a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def unpacked(content: bytes, path: Path) -> bytes:
    """The bytes of a file; of a ``.gz`` one, what is compressed in it."""
    if path.suffix != ".gz":
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path} is damaged ({error}). Delete it and fetch it again (`cyclade data`)"
        ) from error


def cifar_batch(content: bytes, path: Path) -> tuple[Bytes, Bytes]:
    """Images (n, 3, 32, 32) and labels of one binary batch."""
    if len(content) == 0 or len(content) % CIFAR_RECORD:
        raise DataError(
            f"{path} is not a CIFAR-10 binary batch: {len(content):,} bytes is not a whole number "
            f"of records of {CIFAR_RECORD:,} bytes. Give the binary version, not the Python one"
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, CIFAR_RECORD)
    labels = records[:, 0].copy()
    _check_labels(labels, path)
    return records[:, 1:].reshape(-1, 3, 32, 32).copy(), labels


def idx(content: bytes, path: Path, dimensions: int) -> Bytes:
    """The array of unsigned bytes in an idx file with this many dimensions."""
    header = 4 * (1 + dimensions)
    if len(content) < header:
        raise DataError(
            f"{path} is cut short: {len(content)} bytes, less than the header of an idx file with "
            f"{dimensions} dimensions ({header} bytes)"
        )
    magic, *shape = struct.unpack(f">{1 + dimensions}I", content[:header])
    wanted = 0x0800 + dimensions
    if magic != wanted:
        raise DataError(
            f"{path} is not an idx file of unsigned bytes with {dimensions} dimensions: its magic "
            f"number is {magic}, not {wanted}"
        )
    size = header + int(np.prod(shape, dtype=np.int64))
    if len(content) != size:
        what = "is cut short" if len(content) < size else "is too long"
        raise DataError(f"{path} {what}: {len(content):,} bytes where its header says {size:,}")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape).copy()


def idx_pair(images: tuple[bytes, Path], labels: tuple[bytes, Path]) -> tuple[Bytes, Bytes]:
    """Images (n, 1, rows, columns) and labels of two idx files that belong together."""
    x, y = idx(*images, dimensions=3), idx(*labels, dimensions=1)
    if len(x) != len(y):
        raise DataError(f"{images[1]} has {len(x)} images, but {labels[1]} has {len(y)} labels")
    _check_labels(y, labels[1])
    return x[:, None], y


def _check_labels(labels: Bytes, path: Path) -> None:
    wrong = np.flatnonzero(labels >= CLASSES)
    if len(wrong):
        raise DataError(
            f"{path} is damaged: label {labels[wrong[0]]} of image {wrong[0]} is not among "
            f"0 … {CLASSES - 1}"
        )
