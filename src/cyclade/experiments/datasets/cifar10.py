"""CIFAR-10: 60,000 photographs of 32x32 in colour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cyclade.experiments.datasets import Contents, DatasetInfo, Parts
from cyclade.experiments.official import Official, OfficialFile

if TYPE_CHECKING:
    from torch import nn


def read(contents: Contents) -> Parts:
    """Five binary batches to train on, one to test on.

    A record is a label and the red, green and blue planes of an image.
    """
    *train, test = (
        np.frombuffer(one, np.uint8).reshape(-1, 1 + 3 * 32 * 32) for one in contents.values()
    )
    records = np.concatenate(train)
    x, test_x = (part[:, 1:].reshape(-1, 3, 32, 32).copy() for part in (records, test))
    return x, records[:, 0], test_x, test[:, 0]


def net() -> nn.Sequential:
    """LeNet-5."""
    from cyclade.experiments.data import lenet

    return lenet(channels=3, padding=0, flat=16 * 5 * 5, hidden=(120, 84))


SHA1 = {
    "data_batch_1": "aadd24acce27caa71bf4b10992e9e7b2d74c2540",
    "data_batch_2": "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795",
    "data_batch_3": "1dd00a74ab1d17a6e7d73e185b69dbf31242f295",
    "data_batch_4": "aab85764eb3584312d3c7f65fd2fd016e36a258e",
    "data_batch_5": "26e2849e66a845b7f1e4614ae70f4889ae604628",
    "test_batch": "67eb016db431130d61cd03c7ad570b013799c88c",
}

DATASET = DatasetInfo(
    name="cifar10",
    label="CIFAR-10",
    images=(50_000, 10_000),
    shape=(3, 32, 32),
    read=read,
    net=net,
    batch=512,
    lr=0.05,
    lr_recursive=0.005,
    vr_batch=256,
    official=Official(
        folder="cifar-10-batches-bin",
        also=("", "cifar10"),
        files=tuple(
            OfficialFile(f"{name}.bin", 30_730_000, f"sha1:{sha1}") for name, sha1 in SHA1.items()
        ),
        hosts=("https://www.cs.toronto.edu/~kriz/",),
        downloads={"cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530"},
    ),
)
