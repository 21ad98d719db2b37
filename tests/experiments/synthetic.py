"""Small files in the official layouts, and data sets that expect them."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cyclade.experiments.datasets import known
from cyclade.experiments.official import OfficialFile


def idx_bytes(array: Any) -> bytes:
    head = struct.pack(f">{1 + array.ndim}I", 0x0800 + array.ndim, *array.shape)
    return head + array.astype(np.uint8).tobytes()


def cifar_bytes(images: Any, labels: Any) -> bytes:
    rows = np.concatenate([labels[:, None], images.reshape(len(images), -1)], axis=1)
    return rows.astype(np.uint8).tobytes()


def expect(monkeypatch: pytest.MonkeyPatch, name: str, contents: dict[str, bytes]) -> None:
    """Let these contents be the official ones."""
    files = tuple(
        OfficialFile(file, len(content), f"sha256:{hashlib.sha256(content).hexdigest()}")
        for file, content in contents.items()
    )
    official = known()[name].official
    assert official is not None
    changed = replace(known()[name], official=replace(official, files=files))
    monkeypatch.setitem(known(), name, changed)


def mnist(n: int = 40, tests: int = 10) -> tuple[dict[str, bytes], dict[str, Any]]:
    rng = np.random.default_rng(0)
    arrays = {
        "train-images-idx3-ubyte": rng.integers(256, size=(n, 28, 28)),
        "train-labels-idx1-ubyte": np.arange(n) % 10,
        "t10k-images-idx3-ubyte": rng.integers(256, size=(tests, 28, 28)),
        "t10k-labels-idx1-ubyte": np.arange(tests) % 10,
    }
    return {name: idx_bytes(array) for name, array in arrays.items()}, arrays


def cifar(n: int = 20) -> tuple[dict[str, bytes], Any, Any]:
    rng = np.random.default_rng(1)
    images = rng.integers(256, size=(6, n, 3, 32, 32))
    labels = rng.integers(10, size=(6, n))
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
    contents = {name: cifar_bytes(x, y) for name, x, y in zip(names, images, labels, strict=True)}
    return contents, images, labels


def write(folder: Path, contents: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
