"""The official formats: read back what was written, and name what is wrong with a file."""

from __future__ import annotations

import gzip
import re
import struct
from pathlib import Path

import numpy as np
import pytest
from synthetic import cifar_bytes, idx_bytes

from cyclade.experiments import DataError
from cyclade.experiments.formats import OfficialFile, cifar_batch, idx, idx_pair, read, unpacked

HERE = Path("a/file")


def test_cifar_batches_are_read() -> None:
    rng = np.random.default_rng(0)
    images, labels = rng.integers(256, size=(7, 3, 32, 32)), rng.integers(10, size=7)
    x, y = cifar_batch(cifar_bytes(images, labels), HERE)
    np.testing.assert_array_equal(x, images)
    np.testing.assert_array_equal(y, labels)


def test_idx_pairs_are_read() -> None:
    images, labels = np.arange(2 * 4 * 5).reshape(2, 4, 5), np.array([3, 9])
    x, y = idx_pair((idx_bytes(images), HERE), (idx_bytes(labels), HERE))
    np.testing.assert_array_equal(x[:, 0], images)
    np.testing.assert_array_equal(y, labels)


@pytest.mark.parametrize("size", [0, 3072, 3074])
def test_a_cifar_batch_that_ends_within_a_record(size: int) -> None:
    with pytest.raises(DataError, match=f"a/file is not a CIFAR-10 binary batch: {size:,} bytes"):
        cifar_batch(bytes(size), HERE)


def test_labels_out_of_range() -> None:
    images = np.zeros((3, 3, 32, 32))
    with pytest.raises(DataError, match="label 10 of image 2 is not among 0 … 9"):
        cifar_batch(cifar_bytes(images, np.array([0, 9, 10])), HERE)
    with pytest.raises(DataError, match="label 255 of image 0"):
        idx_pair((idx_bytes(np.zeros((1, 2, 2))), HERE), (idx_bytes(np.array([255])), HERE))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\0\0", "a/file is cut short: 2 bytes, less than the header"),
        (struct.pack(">II", 2051, 1) + b"\0", "its magic number is 2051, not 2049"),
        (struct.pack(">II", 2049, 5) + b"\0" * 4, "is cut short: 12 bytes .* header says 13"),
        (struct.pack(">II", 2049, 5) + b"\0" * 6, "is too long: 14 bytes"),
    ],
)
def test_damaged_idx_files(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        idx(content, HERE, dimensions=1)


def test_images_and_labels_of_different_number() -> None:
    with pytest.raises(DataError, match="has 2 images, but a/file has 1 labels"):
        idx_pair((idx_bytes(np.zeros((2, 2, 2))), HERE), (idx_bytes(np.array([1])), HERE))


def test_sizes_and_checksums_are_compared_with_the_official_ones() -> None:
    file = OfficialFile("abc", 3, "md5", "900150983cd24fb0d6963f7d28e17f72")
    file.check(HERE, b"abc")
    with pytest.raises(DataError, match="a/file is cut short: 2 bytes where the official abc has"):
        file.check(HERE, b"ab")
    with pytest.raises(DataError, match="a/file is too long"):
        file.check(HERE, b"abcd")
    with pytest.raises(DataError, match=r"a/file is damaged: its md5 is .* fetch it again"):
        file.check(HERE, b"abd")


def test_compressed_files(tmp_path: Path) -> None:
    whole = gzip.compress(b"content" * 100)
    (tmp_path / "f.gz").write_bytes(whole)
    assert unpacked(read(tmp_path / "f.gz"), tmp_path / "f.gz") == b"content" * 100
    assert unpacked(whole, tmp_path / "f") == whole
    for damaged in (whole[:-9], whole[:20], b"not gzip"):
        (tmp_path / "f.gz").write_bytes(damaged)
        with pytest.raises(DataError, match=re.escape(str(tmp_path / "f.gz")) + " is damaged"):
            unpacked(read(tmp_path / "f.gz"), tmp_path / "f.gz")
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path)
