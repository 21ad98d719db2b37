"""The LeNets: two convolutions, three fully connected layers, five stages and five blocks."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import nn

from cyclade.experiments.datasets import find
from cyclade.optim import spectral_normalise


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
