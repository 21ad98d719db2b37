"""CIFAR-10: 60,000 photographs of 32x32 in colour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cyclade.experiments.datasets import Contents, DatasetInfo, Parts
from cyclade.experiments.formats import OfficialFile, cifar_batch
from cyclade.experiments.official import Download, Official

if TYPE_CHECKING:
    from torch import nn


def read(contents: Contents) -> Parts:
    """Five binary batches to train on, one to test on."""
    batches = [cifar_batch(*one) for one in contents.values()]
    images = np.concatenate([x for x, _ in batches[:-1]])
    labels = np.concatenate([y for _, y in batches[:-1]])
    return (images, labels, *batches[-1])


def net() -> nn.Sequential:
    """LeNet-5."""
    from cyclade.experiments.networks import lenet

    return lenet(channels=3, padding=0, flat=16 * 5 * 5, hidden=(120, 84))


def _file(name: str, sha1: str) -> OfficialFile:
    return OfficialFile(f"{name}.bin", 30_730_000, "sha1", sha1)


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
        files=(
            _file("data_batch_1", "aadd24acce27caa71bf4b10992e9e7b2d74c2540"),
            _file("data_batch_2", "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795"),
            _file("data_batch_3", "1dd00a74ab1d17a6e7d73e185b69dbf31242f295"),
            _file("data_batch_4", "aab85764eb3584312d3c7f65fd2fd016e36a258e"),
            _file("data_batch_5", "26e2849e66a845b7f1e4614ae70f4889ae604628"),
            _file("test_batch", "67eb016db431130d61cd03c7ad570b013799c88c"),
        ),
        downloads=(
            Download(
                "cifar-10-binary.tar.gz",
                ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
                "md5:c32a1d4ab5d03f1284b67883e8d87530",
            ),
        ),
    ),
)
