"""The data sets, whole on the device and normalised once, and the networks for them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from cyclade.experiments.datasets import Bytes, Contents, find
from cyclade.experiments.official import data_folder
from cyclade.optim import spectral_normalise


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


# ------------------------------------------------------------------------------------- networks


def lenet(channels: int, padding: int, flat: int, hidden: tuple[int, int]) -> nn.Sequential:
    """LeNet-5 with ReLU and max-pooling: conv 6·5x5, conv 16·5x5, and three linear layers.

    ReLU comes after the pooling: max and ReLU commute, and there is a quarter left to do.
    """
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(channels, 6, 5, padding=padding),
            pool1=nn.MaxPool2d(2),
            relu1=nn.ReLU(),
            conv2=nn.Conv2d(6, 16, 5),
            pool2=nn.MaxPool2d(2),
            relu2=nn.ReLU(),
            flatten=nn.Flatten(),
            fc1=nn.Linear(flat, hidden[0]),
            relu3=nn.ReLU(),
            fc2=nn.Linear(hidden[0], hidden[1]),
            relu4=nn.ReLU(),
            fc3=nn.Linear(hidden[1], 10),
        )
    )


def network(dataset: str, *, seed: int = 0, spectral: bool = False) -> nn.Sequential:
    """The network of a data set, on the CPU, initialised from `seed` as torch does by default.

    With `spectral` the weights of the fully connected layers are reparametrised as W/σ(W). The
    global random generator is left as it was.

    Example
    -------
    >>> [sum(p.numel() for p in network(name).parameters()) for name in ("cifar10", "mnist")]
    [62006, 61706]
    """
    info = find(dataset)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = info.net()
    if spectral:
        spectral_normalise(model)
    return model
