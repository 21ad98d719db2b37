"""The official files: read back what was written, and name what is wrong with a file."""

from __future__ import annotations

import gzip
import hashlib
import re
from pathlib import Path

import numpy as np
import pytest
from synthetic import cifar_bytes, idx_bytes

from cyclade.experiments import DataError
from cyclade.experiments.datasets import cifar10, mnist
from cyclade.experiments.official import OfficialFile

ABC = OfficialFile("abc", 3, "md5:900150983cd24fb0d6963f7d28e17f72")


def test_cifar_batches_are_read() -> None:
    rng = np.random.default_rng(0)
    images, labels = rng.integers(256, size=(6, 7, 3, 32, 32)), rng.integers(10, size=(6, 7))
    batches = zip("abcdef", images, labels, strict=True)
    x, y, test_x, test_y = cifar10.read({name: cifar_bytes(*one) for name, *one in batches})
    np.testing.assert_array_equal(x, images[:5].reshape(-1, 3, 32, 32))
    np.testing.assert_array_equal(y, labels[:5].reshape(-1))
    np.testing.assert_array_equal(test_x, images[5])
    np.testing.assert_array_equal(test_y, labels[5])


@pytest.mark.parametrize("shape", [(7,), (2, 4, 5)])
def test_idx_files_are_read(shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape)).reshape(shape)
    np.testing.assert_array_equal(mnist.idx(idx_bytes(values)), values)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"ab", "abc is cut short: 2 bytes where the official abc has 3. Delete it and fetch it"),
        (b"abcd", "abc is too long"),
        (b"abd", r"abc is damaged: its md5 is .* the official is 900150983cd24fb0d6963f7d28e17f72"),
    ],
)
def test_sizes_and_hashes_are_compared_with_the_official_ones(
    content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / "abc").write_bytes(b"abc")
    assert ABC.read(tmp_path / "abc") == b"abc"
    (tmp_path / "abc").write_bytes(content)
    with pytest.raises(DataError, match=message):
        ABC.read(tmp_path / "abc")


def test_compressed_files(tmp_path: Path) -> None:
    path, whole = tmp_path / "abc.gz", gzip.compress(b"abc")
    path.write_bytes(whole)
    assert ABC.read(path) == b"abc"
    published = OfficialFile("abc.gz", len(whole), f"md5:{hashlib.md5(whole).hexdigest()}")
    assert published.read(path) == b"abc"
    for damaged in (whole[:-9], whole[:12], b"not gzip"):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=re.escape(str(path)) + " is damaged"):
            ABC.read(path)
    path.write_bytes(gzip.compress(bytes(10**8)))  # never unpacked as a whole
    with pytest.raises(DataError, match=r"is too long: 4 bytes"):
        ABC.read(path)
    with pytest.raises(DataError, match="cannot be read"):
        ABC.read(tmp_path)
