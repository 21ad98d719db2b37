"""Models for benchmarks of nets, written as people write them; and the time of a step."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

sys.path.append(str(Path(__file__).resolve().parents[1]))
from studies.deep import networks
from studies.deep.networks import Layer, ResNet18

__all__ = ["GPT", "Layer", "LeNet", "ResNet18", "seconds"]


class LeNet(nn.Module):
    """LeNet for CIFAR-10: 62,006 parameters in 5 layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 6, 5), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores."""
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class GPT(networks.GPT):
    """A 6-layer GPT that predicts the token after the sequence."""

    def __init__(self) -> None:
        super().__init__(vocabulary=5000)

    def forward(self, idx: Tensor) -> Tensor:
        """Scores of the next token."""
        x = self.layers(self.tokens(idx) + self.positions)
        return self.head(self.norm(x[:, -1]))


def seconds(step: Callable[[], Any], each: int = 1) -> float:
    """Seconds of a step by the clock, the mean of so many; a GPU has done its work by then."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else int
    wait()
    begun = time.perf_counter()
    for _ in range(each):
        step()
    wait()
    return (time.perf_counter() - begun) / each
