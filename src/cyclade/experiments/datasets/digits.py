"""scikit-learn's 1,797 handwritten digits: no file is needed, and an epoch takes a second."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cyclade.experiments.datasets import Bytes, Contents, DatasetInfo, Parts
from cyclade.experiments.errors import DataError

if TYPE_CHECKING:
    from torch import nn

TRAIN = 1437
"""Four fifths."""


def read(contents: Contents) -> Parts:
    """Images of 8x8, doubled to 16x16 by interpolation, and split once and for all."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise DataError(
            "digits comes with scikit-learn, which is not installed: pip install scikit-learn"
        ) from error
    raw, labels = load_digits(return_X_y=True)
    images = doubled(raw.reshape(-1, 1, 8, 8) * (255 / 16))
    order = np.random.default_rng(0).permutation(len(labels))
    train, test = order[:TRAIN], order[TRAIN:]
    y = labels.astype(np.uint8)
    return images[train], y[train], images[test], y[test]


def doubled(images: np.ndarray[Any, Any]) -> Bytes:
    """Twice the rows and columns: every new pixel is 3/4 its neighbour and 1/4 the next one."""
    from scipy.ndimage import zoom

    larger = zoom(images, (1, 1, 2, 2), order=1, mode="nearest", grid_mode=True)
    return np.asarray(larger.round(), np.uint8)


def net() -> nn.Sequential:
    """A LeNet of half the width."""
    from cyclade.experiments.data import lenet

    return lenet(channels=1, padding=2, flat=16 * 2 * 2, hidden=(60, 42))


DATASET = DatasetInfo(
    name="digits",
    label="digits",
    images=(TRAIN, 360),
    shape=(1, 16, 16),
    read=read,
    net=net,
    batch=32,
    lr=0.1,
    b_small=16,  # with b' = ⌊√b⌋ they learn for some epochs, and then lose it
    lr_recursive=0.06,
    lr_vr=0.1,
    vr_batch=16,
    batches=(64, 256),
)
