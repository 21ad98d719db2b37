"""MNIST: 70,000 handwritten digits of 28x28."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cyclade.experiments.datasets import Bytes, Contents, DatasetInfo, Parts
from cyclade.experiments.official import Official, OfficialFile

if TYPE_CHECKING:
    from torch import nn

HOSTS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)


def read(contents: Contents) -> Parts:
    """Two pairs of idx files: images and labels to train on, and to test on."""
    x, y, test_x, test_y = map(idx, contents.values())
    return x[:, None], y, test_x[:, None], test_y


def idx(content: bytes) -> Bytes:
    """The array in an idx file of unsigned bytes: its fourth byte counts the dimensions."""
    shape = np.frombuffer(content, ">u4", content[3], 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(shape).copy()


def net() -> nn.Sequential:
    """LeNet-5; padded, the images are 32x32."""
    from cyclade.experiments.data import lenet

    return lenet(channels=1, padding=2, flat=16 * 5 * 5, hidden=(120, 84))


FILES = (  # name, bytes, sha256; md5 of the compressed file
    (
        "train-images-idx3-ubyte", 47_040_016,
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    ),
    (
        "train-labels-idx1-ubyte", 60_008,
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "d53e105ee54ea40749a09fcbcd1e9432",
    ),
    (
        "t10k-images-idx3-ubyte", 7_840_016,
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "9fb629c4189551a2d022fa330f9573f3",
    ),
    (
        "t10k-labels-idx1-ubyte", 10_008,
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
)  # fmt: skip


DATASET = DatasetInfo(
    name="mnist",
    label="MNIST",
    images=(60_000, 10_000),
    shape=(1, 28, 28),
    read=read,
    net=net,
    batch=512,
    lr=0.1,
    lr_recursive=0.01,
    vr_batch=64,
    official=Official(
        folder="MNIST/raw",
        also=("", "mnist", "MNIST"),
        files=tuple(OfficialFile(name, size, f"sha256:{sha}") for name, size, sha, _ in FILES),
        hosts=HOSTS,
        downloads={f"{name}.gz": f"md5:{md5}" for name, _, _, md5 in FILES},
    ),
)
