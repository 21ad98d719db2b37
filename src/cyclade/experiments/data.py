"""The data sets, whole on the device and normalised once; what each step sees; the networks.

Which images a step sees is a pure function of the seed and the epoch. The indices are drawn on the
host, so that they are the same on every device; they go to the device once an epoch, and the images
of each step are gathered there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cyclade.experiments.datasets import Bytes, Contents, find
from cyclade.experiments.official import data_folder
from cyclade.optim import spectral_normalise
from cyclade.sampling.samplers import Page, coin


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


# --------------------------------------------------------------------- which images each step sees

Indices = np.ndarray[Any, np.dtype[np.int64]]

_SHUFFLE, _COINS, _BATCHES, _FIRST = range(4)  # independent streams of random numbers


@dataclass(frozen=True)
class Draws:
    """The batches of some steps, end to end, and which of them refresh the estimate g."""

    indices: Indices
    sizes: list[int]
    refresh: list[bool]

    def gathered(self, split: Split) -> Iterator[tuple[Tensor, Tensor, bool]]:
        """Images, labels and coin of each step."""
        index = torch.from_numpy(self.indices).to(split.labels.device)
        for chosen, refresh in zip(torch.split(index, self.sizes), self.refresh, strict=True):
            yield split.images[chosen], split.labels[chosen], refresh


class EpochShuffle:
    """Every image once an epoch, in a new order: SGD and SCCD.

    The last batch of an epoch holds what is left, as in the paper: its run times give 98 steps an
    epoch for 50,000 images and b = 512.
    """

    def __init__(self, n: int, b: int, seed: int) -> None:
        Page(n, b, 1)  # b fits n
        self.n, self.b, self.seed = n, b, seed
        self.steps = -(-n // b)

    def epoch(self, number: int) -> Draws:
        """The batches of one epoch, counted from 0: a permutation of all images."""
        indices = np.random.default_rng([self.seed, _SHUFFLE, number]).permutation(self.n)
        sizes = [min(self.b, self.n - start) for start in range(0, self.n, self.b)]
        return Draws(indices, sizes, [True] * self.steps)

    def first(self) -> Draws | None:
        """The large batch that forms g_{−1}: there is no g."""
        return None


class Coins:
    """b distinct images with probability p, else b': PAGE, VRO-CCD and VR-CCD.

    An epoch is as many steps as take n images on average, counting b' for a small step.
    """

    def __init__(self, n: int, b: int, b_small: int | None, p: float | None, seed: int) -> None:
        page = Page(n, b, b_small, p)
        self.n, self.b, self.b_small, self.p, self.seed = n, page.b, page.b_small, page.p, seed
        self.steps = max(1, round(n / (self.p * self.b + (1 - self.p) * self.b_small)))

    def epoch(self, number: int) -> Draws:
        """The batches of one epoch: the coins first, then the images."""
        coins = np.random.default_rng([self.seed, _COINS, number])
        refresh = [coin(coins, self.p) for _ in range(self.steps)]
        rng = np.random.default_rng([self.seed, _BATCHES, number])
        large = iter([self._large(rng) for _ in range(sum(refresh))])
        small = iter(distinct(rng, self.n, self.steps - sum(refresh), self.b_small))
        batches = [next(large) if coin else next(small) for coin in refresh]
        return Draws(np.concatenate(batches), [len(batch) for batch in batches], refresh)

    def first(self) -> Draws | None:
        """The large batch that forms g_{−1}: b images at x_0."""
        rng = np.random.default_rng([self.seed, _FIRST])
        return Draws(self._large(rng), [self.b], [True])

    def _large(self, rng: np.random.Generator) -> Indices:
        return rng.choice(self.n, self.b, replace=False, shuffle=False)


Sampling = EpochShuffle | Coins
"""Where the batches of a run come from."""


def distinct(rng: np.random.Generator, n: int, rows: int, size: int) -> Indices:
    """Rows of `size` distinct indices below n, each row uniform among all such sets.

    Where a row rarely repeats an index, all rows are drawn at once and those with a repetition
    drawn again: far faster than row by row.
    """
    if size * size > n:
        chosen = [rng.choice(n, size, replace=False, shuffle=False) for _ in range(rows)]
        return np.stack(chosen) if chosen else np.empty((0, size), np.int64)
    found = rng.integers(n, size=(rows, size))
    again = np.arange(rows)
    while len(again):
        ordered = np.sort(found[again], axis=1)
        again = again[(ordered[:, 1:] == ordered[:, :-1]).any(axis=1)]
        found[again] = rng.integers(n, size=(len(again), size))
    return found


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
