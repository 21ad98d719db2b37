"""The literal algorithm on a flattened network: what the staged optimizers must reproduce."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from cyclade.optim.batches import as_inputs
from cyclade.optim.net import own_loss
from cyclade.reference import run


class Scripted:
    """A sampler and an order in one, that play back what the optimizer was given."""

    def __init__(self, first: Any, draws: list[tuple[Any, bool]], turns: list[list[int]]) -> None:
        self.first, self.script = first, list(draws)
        self.recursive = first is not None
        self.cycles = list(turns)

    def large(self, rng: Any) -> Any:
        return self.first

    def draw(self, rng: Any) -> tuple[Any, bool]:
        return self.script.pop(0)

    def turns(self, m: int, rng: Any, score: Any) -> Any:
        return iter(self.cycles.pop(0))


def greedy(m: int, rng: Any, score: Any) -> Any:
    for _ in range(m):
        yield int(np.argmax(score()))


class Twin:
    """A model as a function of one flat NumPy vector, by blocks of parameter names."""

    def __init__(self, model: nn.Module, loss_fn: Any, blocks: list[tuple[str, ...]]) -> None:
        self.model = copy.deepcopy(model)
        self.loss_fn, self.blocks = loss_fn, blocks
        self.params = dict(self.model.named_parameters())
        self.index, start = [], 0
        for names in blocks:
            size = sum(self.params[name].numel() for name in names)
            self.index.append(slice(start, start + size))
            start += size

    def flat(self, model: nn.Module) -> Any:
        params = dict(model.named_parameters())
        found = parameters_to_vector([params[n] for names in self.blocks for n in names])
        return found.detach().cpu().numpy()

    def grad(self, x: Any, sample: Any, j: int) -> Any:
        params = [self.params[n] for names in self.blocks for n in names]
        with torch.no_grad():
            vector_to_parameters(torch.tensor(x), params)
        inputs, target = sample
        call = as_inputs(inputs)
        output = self.model(*call.args, **call.kwargs)
        loss = own_loss(output) if self.loss_fn is None else self.loss_fn(output, target)
        wanted = [self.params[name] for name in self.blocks[j]]
        found = torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True)
        return parameters_to_vector(found).numpy()

    def run(
        self, x0: Any, script: Any, *, K: int, lr: float, decay: float, resample: str = "cycle",
        order: Any = None,
    ) -> list[Any]:  # fmt: skip
        def prox(j: int, u: Any, t: Any) -> Any:
            return u / (1 + t * decay)

        done = run(
            self.grad, x0, self.index, prox, [1.0] * len(self.blocks), script, order or script,
            K=K, eta=lr, resample=resample, rng=np.random.default_rng(0),
        )  # fmt: skip
        return done.x
