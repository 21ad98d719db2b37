"""The small net, the batches and the comparisons that the tests of the optimizers share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from cyclade.optim import PAGE, SCCD, SGD, VRCCD, VROCCD

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
