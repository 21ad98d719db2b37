"""The small net, the batches and the comparisons that the tests of the optimizers share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cyclade.optim import PAGE, SCCD, SGD, VRCCD, VROCCD, CutWarning

ALL = [SCCD, SGD, VROCCD, PAGE, VRCCD]
RECURSIVE = (VROCCD, PAGE, VRCCD)


def net(*widths: int, dtype: Any = torch.float64, seed: int = 0) -> nn.Sequential:
    """Linear layers with tanh between them; by default of widths 6, 8, 5, 3."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    sizes = widths or (6, 8, 5, 3)
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), nn.Tanh()]
    return nn.Sequential(*layers[:-1]).to(dtype)


def written(forward: Callable[..., Any], **held: Any) -> nn.Module:
    """A module with these layers and values, and this forward, which takes it first."""
    module: nn.Module = type("Written", (nn.Module,), {"forward": forward})()
    for name, value in held.items():
        setattr(module, name, value)
    return module


def batch(size: int = 16, seed: int = 0, dtype: Any = torch.float64) -> tuple[Tensor, Tensor]:
    """Rows of six numbers with labels of three classes."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, 6, generator=generator, dtype=torch.float64).to(dtype)
    return x, torch.randint(0, 3, (size,), generator=generator)


def values(model: nn.Module) -> list[Tensor]:
    """Copies of the parameters."""
    return [p.detach().clone() for p in model.parameters()]


def close(a: Any, b: Any, atol: float = 0.0, rtol: float = 0.0) -> None:
    """Two models, or lists of tensors, have the same parameters; by default to the bit."""
    first, second = (
        list(one.parameters()) if isinstance(one, nn.Module) else one for one in (a, b)
    )
    torch.testing.assert_close(first, second, atol=atol, rtol=rtol)


def literal_cycle(
    model: nn.Module, blocks: Iterable[Any], loss: Callable[[nn.Module], Any], lr: float
) -> None:
    """One cycle of plain steps, each by a whole backward pass of the model."""
    params = dict(model.named_parameters())
    for block in blocks:
        model.zero_grad()
        loss(model).backward()
        with torch.no_grad():
            for name in block.params:
                if params[name].grad is not None:
                    params[name] -= lr * params[name].grad


LR = 0.1


class Both:
    """An optimizer of a model, and the same cycles by hand on a twin of it."""

    def __init__(
        self, make: Any, loss: Any = F.cross_entropy, cls: Any = SCCD, **options: Any
    ) -> None:
        torch.manual_seed(0)
        self.model = make().double()
        torch.manual_seed(0)
        self.twin = make().double()
        self.loss, self.recursive = loss, cls in RECURSIVE
        if self.recursive:
            options.update(b=8, b_small=2)
        self.opt = cls(self.model, loss, lr=LR, **options)

    def step(self, x: Any, y: Any, said: str | None = None) -> Tensor:
        """One step of both on the same rows, with the warning that is `said`."""
        forms = self.recursive and not self.opt.draws  # g_{−1}: nothing moves
        with nullcontext() if said is None else pytest.warns(CutWarning, match=said):
            found: Tensor = self.opt.step(x, y)
        if not forms:
            literal_cycle(self.twin, self.opt.net.blocks, lambda m: self.loss(m(x.clone()), y), LR)
        return found

    def change(self, change: Callable[[nn.Module], Any]) -> None:
        """The same change to both."""
        change(self.model)
        change(self.twin)

    def same(self) -> None:
        """Both have the same parameters."""
        close(self.model, self.twin, 1e-12)
