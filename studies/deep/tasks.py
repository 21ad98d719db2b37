"""What is trained: a ResNet-18 on CIFAR-10, and a GPT on the bytes of Python's own sources."""

from __future__ import annotations

import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cyclade.experiments.data import load
from cyclade.experiments.errors import DataError
from studies.deep.networks import GPT, ResNet18

_SOURCES = 8_000_000  # bytes; Python's library has about thrice as many without its tests


class Task(Protocol):
    """A net, its batches, and a validation set."""

    steps: int

    def model(self) -> nn.Module:
        """A fresh net; the caller seeds torch."""

    def batch(self, seed: int, k: int) -> tuple[Tensor, Tensor]:
        """Batch number k."""

    def validate(self, model: nn.Module) -> float:
        """The mean loss on the validation set."""


@dataclass
class Images:
    """ResNet-18 on CIFAR-10, with random shifts and reflections; 5,000 images are held back."""

    train: Any
    held: Any
    size: int = 256
    steps: int = 300

    @classmethod
    def load(cls, data_dir: str | Path | None, device: torch.device) -> Images:
        """From the official files."""
        data = load("cifar10", data_dir, device).held_out(0.1)
        assert data.held is not None
        return cls(data.train, data.held)

    def model(self) -> nn.Module:
        """A fresh net."""
        net: nn.Module = ResNet18()
        return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]

    def batch(self, seed: int, k: int) -> tuple[Tensor, Tensor]:
        """Images, each shifted by up to four pixels and reflected by a coin."""
        rng = np.random.default_rng([seed, k])
        which = rng.choice(len(self.train), self.size, replace=False)
        drawn = np.stack([which, *rng.integers(0, [[9], [9], [2]], (3, self.size))])
        chosen, down, right, turned = torch.from_numpy(drawn).to(self.train.labels.device)
        padded = F.pad(self.train.images[chosen], (4, 4, 4, 4))
        span = torch.arange(32, device=padded.device)
        columns = torch.where(turned[:, None] > 0, 31 - span, span) + right[:, None]
        rows = down[:, None] + span
        each = torch.arange(self.size, device=padded.device)[:, None, None]
        images = padded[each, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
        return images, self.train.labels[chosen]  # channels last, as the net

    def validate(self, model: nn.Module) -> float:
        """The mean cross-entropy on the images held back."""
        parts = zip(self.held.images.split(1000), self.held.labels.split(1000), strict=True)
        total = sum(F.cross_entropy(model(x), y, reduction="sum").float() for x, y in parts)
        return float(total) / len(self.held.labels)


@dataclass
class Sources:
    """A byte-level GPT on the library of the Python that runs; every tenth file is held back."""

    train: Tensor
    held: Tensor
    size: int = 64
    length: int = 256
    width: int = 384
    depth: int = 6
    steps: int = 300

    @classmethod
    def load(cls, device: torch.device, **smaller: int) -> Sources:
        """From the installed sources, in the order of their names."""
        folder = Path(sysconfig.get_paths()["stdlib"])
        files = sorted(
            path
            for path in folder.rglob("*.py")
            if not {"test", "tests", "site-packages", "idlelib"} & set(path.parts)
        )
        texts = [path.read_bytes() for path in files]
        train = b"".join(text for i, text in enumerate(texts) if i % 10)[:_SOURCES]
        held = b"".join(texts[::10])[: _SOURCES // 10]
        if len(held) < 200_000:
            raise DataError(f"{folder} holds too few Python sources to train on")
        tensors = [
            torch.frombuffer(bytearray(text), dtype=torch.uint8).to(device)
            for text in (train, held)
        ]
        return cls(tensors[0], tensors[1], **smaller)

    def model(self) -> nn.Module:
        """A fresh net."""
        return GPT(256, self.width, self.depth, self.length)

    def batch(self, seed: int, k: int) -> tuple[Tensor, Tensor]:
        """Stretches of text, and each shifted by one."""
        rng = np.random.default_rng([seed, k])
        return self._at(self.train, rng.integers(0, len(self.train) - self.length, self.size))

    def _at(self, text: Tensor, starts: Any) -> tuple[Tensor, Tensor]:
        places = torch.from_numpy(starts).to(text.device)[:, None]
        window = text[places + torch.arange(self.length + 1, device=text.device)].long()
        return window[:, :-1].contiguous(), window[:, 1:].reshape(-1)

    def validate(self, model: nn.Module) -> float:
        """The mean cross-entropy on stretches of the files held back, always the same."""
        starts = np.random.default_rng(0).integers(0, len(self.held) - self.length, 6 * self.size)
        parts = [self._at(self.held, some) for some in np.split(starts, 6)]
        return float(sum(F.cross_entropy(model(x), y).float() for x, y in parts)) / len(parts)


def small_sources(device: torch.device) -> Sources:
    """The same in small, for two cores and some minutes."""
    return Sources.load(device, size=8, length=64, width=48, depth=2, steps=60)
