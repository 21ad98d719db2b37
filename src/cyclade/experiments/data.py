"""The data sets, whole on the device: normalised once, gathered there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cyclade.experiments.errors import DataError
from cyclade.experiments.formats import Bytes, cifar_batch, idx_pair, read
from cyclade.experiments.official import OFFICIAL, data_folder, locate

DATASETS = ("digits", "mnist", "cifar10")

Parts = tuple[Bytes, Bytes, Bytes, Bytes]
"""Images and labels to train on, images and labels to test on."""


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

    ``"digits"`` comes with scikit-learn; ``"cifar10"`` and ``"mnist"`` are read from the official
    files in `data_dir` (default: ``$CYCLADE_DATA``, else the user's cache, where `fetch` puts
    them). Sizes and checksums are compared with the official ones.

    Example
    -------
    >>> data = load("digits")
    >>> data.shape, len(data.train), len(data.test)
    ((1, 16, 16), 1437, 360)
    """
    check_name(name)
    x, y, test_x, test_y = _readers()[name](data_folder(data_dir))
    moments = [_moments(x[:, channel]) for channel in range(x.shape[1])]
    mean, spread = torch.tensor(moments, device=device).T.reshape(2, -1, 1, 1)

    def split(images: Bytes, labels: Bytes) -> Split:
        normal = torch.from_numpy(images).to(device).to(torch.float32)
        normal.sub_(mean).div_(spread)
        return Split(normal, torch.from_numpy(labels.astype(np.int64)).to(device))

    return Dataset(name, split(x, y), split(test_x, test_y))


def check_name(name: str) -> None:
    """Refuse a data set that is not known."""
    if name not in DATASETS:
        raise DataError(f"unknown data set {name!r}: {', '.join(DATASETS)} are known")


def verify(name: str, data_dir: str | Path | None = None) -> Path | None:
    """Read and check every file; returns the folder they are in, None for an embedded set."""
    check_name(name)
    if name not in OFFICIAL:
        return None
    root = data_folder(data_dir)
    return next(iter(_contents(name, root).values()))[1].parent


def _moments(values: Bytes) -> tuple[float, float]:
    """Mean and spread of bytes, from how often each value occurs: exact, and in little memory."""
    counts = np.zeros(256, np.int64)
    for some in np.array_split(values, 1 + len(values) // 1000):
        counts += np.bincount(some.reshape(-1), minlength=256)
    share, value = counts / counts.sum(), np.arange(256)
    mean = float(share @ value)
    return mean, float(np.sqrt(share @ (value - mean) ** 2))


def _readers() -> dict[str, Callable[[Path], Parts]]:
    return {"digits": _digits, "mnist": _mnist, "cifar10": _cifar10}


def _contents(name: str, root: Path) -> dict[str, tuple[bytes, Path]]:
    """The checked content of every file of the set, and where it was."""
    places = locate(name, root)
    missing = [file for file, place in places.items() if place is None]
    if missing:
        official = OFFICIAL[name]
        raise DataError(
            f"{name}: {', '.join(missing)} not found below {root}. Fetch the data with "
            f"`cyclade data {name} --data-dir {root}`, or put the official files into "
            f"{root / official.folder}"
        )
    contents = {}
    for file in OFFICIAL[name].files:
        place = places[file.name]
        assert place is not None
        content = read(place)
        file.check(place, content)
        contents[file.name] = (content, place)
    return contents


def _cifar10(root: Path) -> Parts:
    batches = [cifar_batch(*one) for one in _contents("cifar10", root).values()]
    images = np.concatenate([x for x, _ in batches[:-1]])
    labels = np.concatenate([y for _, y in batches[:-1]])
    return (images, labels, *batches[-1])


def _mnist(root: Path) -> Parts:
    x, y, test_x, test_y = _contents("mnist", root).values()
    return (*idx_pair(x, y), *idx_pair(test_x, test_y))


def _digits(root: Path) -> Parts:
    """scikit-learn's 1,797 images of 8x8, doubled to 16x16 by interpolation; four fifths train."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise DataError(
            "digits comes with scikit-learn, which is not installed: pip install scikit-learn"
        ) from error
    raw, labels = load_digits(return_X_y=True)
    small = torch.from_numpy(raw.astype(np.float32)).reshape(-1, 1, 8, 8) * (255 / 16)
    doubled = torch.nn.functional.interpolate(small, scale_factor=2, mode="bilinear")
    images = doubled.round().to(torch.uint8).numpy()
    order = np.random.default_rng(0).permutation(len(labels))
    train, test = order[:1437], order[1437:]
    y = labels.astype(np.uint8)
    return images[train], y[train], images[test], y[test]
