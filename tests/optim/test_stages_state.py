"""Buffers move once per replay, draws repeat, and what cannot be repeated is refused."""

from __future__ import annotations

from typing import Any

import models
import pytest
import torch
import torch.fx
import torch.nn.functional as F
from small_nets import written
from test_stages_cut import images, rows, two_layers
from torch import Tensor, nn

from cyclade.optim.stages import cut
from cyclade.optim.stages.verifying import verify


def buffers(model: nn.Module) -> dict[str, Tensor]:
    return {name: b.clone() for name, b in model.named_buffers()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


def counting(feeds: bool = False) -> nn.Module:
    """A buffer that forward writes to; its output may depend on it."""

    def forward(self: Any, x: Tensor) -> Tensor:
        y = self.b(torch.tanh(self.a(x)))
        self.count += 1
        self.count.add_(x.mean())
        return y * self.count if feeds else y

    model = two_layers(forward)
    model.register_buffer("count", torch.zeros(()))
    return model


def thinned(x: Tensor, training: bool) -> Tensor:
    return x * torch.bernoulli(torch.full_like(x, 0.5)) if training else x


torch.fx.wrap("thinned")
RANDOM: dict[str, tuple[Any, bool]] = {  # and whether it draws in eval mode, too
    "like": (lambda self, x: self.b(self.a(x) + torch.randn_like(x)), True),
    "factory": (lambda self, x: self.b(self.a(x) + torch.randn(6)), True),
    "method": (lambda self, x: self.b(self.a(x) * torch.full_like(x, 0.5).bernoulli()), True),
    "kept whole": (lambda self, x: self.b(thinned(self.a(x), self.training)), False),
    "flag": (lambda self, x: self.b(F.dropout(self.a(x), 0.5, self.training)), False),
}


@pytest.mark.parametrize("kind", RANDOM)
def test_random_functions_are_seen_and_follow_the_mode(kind: str) -> None:
    forward, always = RANDOM[kind]
    model = two_layers(forward)
    chain = cut(model)
    assert chain.how == "fx"
    assert chain.random
    verify(chain, rows())
    assert chain.random
    model.eval()
    assert chain.random == always


def remembers() -> nn.Module:
    """Python state that feeds the output."""

    def forward(self: Any, x: Tensor) -> Tensor:
        self.calls += 1
        return self.a(x) / self.calls

    return written(forward, a=nn.Linear(6, 6), calls=0)


REFUSED = {
    "spectral": (
        lambda: nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(6, 6))),
        r"module '0\.parametrizations\.weight\.0' \(_SpectralNorm\) runs a power iteration",
    ),
    "max_norm": (
        lambda: nn.Sequential(nn.Embedding(5, 3, max_norm=1.0)),
        r"'0' \(Embedding\) rewrites its weight in forward \(max_norm\)",
    ),
    "lazy": (
        lambda: nn.Sequential(nn.Linear(6, 6), nn.LazyLinear(3)),
        r"'1' \(LazyLinear\) is not initialised yet",
    ),
    "parallel": (lambda: nn.DataParallel(nn.Linear(6, 6)), r"give the inner \.module"),
    "sharded": (
        lambda: type("Made", (nn.Linear,), {"__module__": "torch.distributed.fsdp.made_up"})(3, 2),
        "is sharded by FSDP",
    ),
    "python state": (remembers, r"forward changes calls\): it keeps Python state"),
    "old spectral norm": (
        lambda: nn.Sequential(nn.utils.spectral_norm(nn.Linear(6, 6))),
        r"'0' \(Linear\) runs a power iteration.*remove_spectral",
    ),
    "old weight norm": (
        lambda: nn.Sequential(nn.utils.weight_norm(nn.Linear(6, 6))),
        r"'0' \(Linear\) keeps its computed weight",
    ),
    "a buffer that feeds": (
        lambda: counting(feeds=True), r"\('b'\) changes a buffer.*'count'.*eval mode",
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
@pytest.mark.parametrize("case", REFUSED)
def test_refusals_by_name(case: str) -> None:
    make, message = REFUSED[case]
    model = make()
    before = buffers(model)
    with pytest.raises(ValueError, match=message):
        verify(cut(model), rows())
    assert same(before, buffers(model))


def test_a_spectral_norm_in_eval_mode_and_weight_norm_are_fine() -> None:
    model = nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Linear(6, 6)),
        nn.utils.parametrizations.weight_norm(nn.Linear(6, 6)),
    )
    model[0].eval()
    chain = cut(model)
    verify(chain, rows())
    assert chain.stages[1].params[-1] == "1.parametrizations.weight.original1"
    model.train()
    with pytest.raises(ValueError, match="power iteration"):
        chain.start(rows())


def test_verify_names_the_stage_that_differs() -> None:
    model = models.LeNet()
    chain = cut(model)
    verify(chain, images(32))
    model.fc2.forward = lambda x: F.linear(x, model.fc2.weight) * torch.rand(())
    with pytest.raises(ValueError, match=r"stage 3 \('fc2'\) differs when it is run again"):
        verify(chain, images(32))


def test_verify_leaves_no_trace() -> None:
    model, inputs = models.ResNet18(3, depth=1), images()
    model.register_buffer("extra", torch.zeros(2))
    before, state, kept = buffers(model), torch.get_rng_state(), inputs.args[0].clone()
    verify(cut(model), inputs)
    assert same(before, buffers(model))
    assert torch.equal(state, torch.get_rng_state())
    assert torch.equal(kept, inputs.args[0])
    assert model.training


def test_a_module_can_say_that_it_draws_nothing() -> None:
    for said, random in (({}, True), ({"draws_random_numbers": False}, False)):
        doubled = written(lambda self, x: 2.0 * x, **said)
        assert cut(nn.Sequential(nn.Linear(3, 3), doubled)).random == random
