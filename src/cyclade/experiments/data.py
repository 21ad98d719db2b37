"""The data sets, whole on the device: normalised once, gathered there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cyclade.experiments.datasets import Bytes, Contents, find
from cyclade.experiments.official import data_folder


@dataclass(frozen=True)
class Split:
    """Images (n, channels, rows, columns) and their labels, on the device."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, chosen: Tensor) -> Split:
        """These images alone."""
        return Split(self.images[chosen], self.labels[chosen])


@dataclass(frozen=True)
class Dataset:
    """A data set with its official split; `held` are images kept back from training."""

    name: str
    train: Split
    test: Split
    held: Split | None = None
    classes: int = 10

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, rows and columns of an image."""
        return tuple(self.train.images.shape[1:])

    def held_out(self, fraction: float, seed: int = 0) -> Dataset:
        """The same data with a part of the *training* set held back, to choose parameters on.

        The test set stays untouched. Which images are held back depends on `seed` and on nothing
        else, so runs that differ in method, lr or their own seed are judged on the same images.

        Example
        -------
        >>> data = load("digits").held_out(0.1)
        >>> len(data.train), len(data.held), len(data.test)
        (1293, 144, 360)
        """
        n = len(self.train)
        kept_back = round(n * fraction)
        if not 0 < fraction < 1 or not 0 < kept_back < n:
            raise ValueError(
                f"fraction must be in (0, 1) and leave images on both sides, got {fraction}"
            )
        shuffled = torch.from_numpy(np.random.default_rng([seed, n]).permutation(n))
        shuffled = shuffled.to(self.train.labels.device)
        return replace(
            self,
            train=self.train.take(shuffled[kept_back:]),
            held=self.train.take(shuffled[:kept_back]),
        )


def load(
    name: str, data_dir: str | Path | None = None, device: str | torch.device = "cpu"
) -> Dataset:
    """A data set on the device, with each channel normalised by its mean and spread in training.

    ``"digits"`` comes with scikit-learn; the others are read from the official files in `data_dir`
    (default: ``$CYCLADE_DATA``, else the user's cache, where `fetch` puts them). Sizes and
    checksums are compared with the official ones.

    Example
    -------
    >>> data = load("digits")
    >>> data.shape, len(data.train), len(data.test)
    ((1, 16, 16), 1437, 360)
    """
    info = find(name)
    files: Contents = {}
    if info.official is not None:
        files = info.official.contents(name, data_folder(data_dir))
    x, y, test_x, test_y = info.read(files)
    moments = [_moments(x[:, channel]) for channel in range(x.shape[1])]
    mean, spread = torch.tensor(moments, device=device).T.reshape(2, -1, 1, 1)

    def split(images: Bytes, labels: Bytes) -> Split:
        normal = torch.from_numpy(images).to(device).to(torch.float32)
        normal.sub_(mean).div_(spread)
        return Split(normal, torch.from_numpy(labels.astype(np.int64)).to(device))

    return Dataset(name, split(x, y), split(test_x, test_y), classes=info.classes)


def _moments(values: Bytes) -> tuple[float, float]:
    """Mean and spread of bytes, from how often each value occurs: exact, and in little memory."""
    counts = np.zeros(256, np.int64)
    for some in np.array_split(values, 1 + len(values) // 1000):
        counts += np.bincount(some.reshape(-1), minlength=256)
    share, value = counts / counts.sum(), np.arange(256)
    mean = float(share @ value)
    return mean, float(np.sqrt(share @ (value - mean) ** 2))
