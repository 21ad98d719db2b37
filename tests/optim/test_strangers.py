"""Models written as people write them elsewhere, with default arguments, against a literal loop.

Each mixes what real models mix: tied weights, weight norm, LSTMs, dict outputs, buffers that
forward moves, frozen layers, gradient checkpointing, dropout, drop path, BatchNorm, embeddings.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import models
import pytest
import torch
import torch.nn.functional as F
from small_nets import written
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.checkpoint import checkpoint

from cyclade.optim import SCCD, VROCCD
from cyclade.optim.reference import Literal


class TiedLM(models.GPT):
    """Tied embeddings, checkpointed blocks, its own loss in a dict: as in transformers."""

    def __init__(self) -> None:
        super().__init__(vocabulary=19, width=12, context=16, dropout=0.1)
        self.register_buffer("mask", torch.ones(16, 12), persistent=False)

    def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> dict[str, Any]:  # type: ignore[override]
        t = input_ids.shape[1]
        x = self.drop(self.wte(input_ids) + self.wpe(torch.arange(t))) * self.mask[:t]  # type: ignore[index]
        for block in self.blocks:
            if self.training:
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        logits = self.lm_head(self.ln(x))
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return {"loss": loss, "logits": logits, "past": None}


class DropPath(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        keep = torch.rand(x.shape[0], *[1] * (x.dim() - 1)) < 0.8
        return x * keep / 0.8


class WeightNormed(nn.Module):
    """Features and head as in timm: a frozen stem, weight norm, BatchNorm, drop path, a scale."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=1).requires_grad_(False)
        self.conv = weight_norm(nn.Conv2d(6, 6, 3, padding=1))
        self.bn, self.drop_path = nn.BatchNorm2d(6), DropPath()
        self.gamma = nn.Parameter(0.5 * torch.ones(6))
        self.head = weight_norm(nn.Linear(6, 4))

    def forward_features(self, x: Tensor) -> Tensor:
        x = F.silu(self.stem(x))
        return x + self.drop_path(self.gamma[:, None, None] * F.silu(self.bn(self.conv(x))))

    def forward(self, x: Tensor) -> Tensor:
        x = self.forward_features(x)
        return self.head(x.mean(dim=(2, 3)))  # type: ignore[no-any-return]


class Tagger(nn.Module):
    """An LSTM over packed sequences; labels of −100 are padding."""

    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(11, 6, padding_idx=0)
        self.lstm = nn.LSTM(6, 5, 2, batch_first=True, bidirectional=True, dropout=0.2)
        self.out = nn.Linear(10, 4)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(
            self.emb(tokens), lengths, batch_first=True, enforce_sorted=False
        )
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.out(states).transpose(1, 2)  # type: ignore[no-any-return]


@dataclass
class PairOutput:
    """What a dual encoder returns."""

    loss: Tensor
    logits: Tensor


class DualEncoder(nn.Module):
    """One encoder for both inputs, a learned temperature, a running mean that forward moves.

    Or `replaces`, where it could write to it.
    """

    def __init__(self, replaces: bool = False) -> None:
        super().__init__()
        self.replaces = replaces
        self.encoder = nn.Sequential(nn.Linear(7, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 5))
        self.logit_scale = nn.Parameter(torch.tensor(1.0))
        self.register_buffer("center", torch.zeros(5))

    def forward(self, a: Tensor, b: Tensor) -> PairOutput:
        u, v = (F.normalize(self.encoder(t) - self.center, dim=1) for t in (a, b))
        if self.training and self.replaces:
            self.center = (0.9 * self.center + 0.1 * u.mean(0)).detach()
        elif self.training:
            with torch.no_grad():
                self.center.mul_(0.9).add_(u.mean(0), alpha=0.1)  # type: ignore[operator]
        logits = self.logit_scale.exp() * u @ v.T
        return PairOutput(F.cross_entropy(logits, torch.arange(len(a))), logits)


class UNet(nn.Module):
    """Skips, interpolation to a size, GroupNorm, an auxiliary head, a frozen encoder layer."""

    def __init__(self) -> None:
        super().__init__()
        self.down1 = nn.Conv2d(2, 4, 3, padding=1).requires_grad_(False)
        self.down2 = nn.Conv2d(4, 8, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(2, 8)
        self.up = nn.Conv2d(12, 4, 3, padding=1)
        self.main, self.aux = nn.Conv2d(4, 1, 1), nn.Conv2d(8, 1, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a = F.relu(self.down1(x))
        b = F.relu(self.norm(self.down2(a)))
        up = F.interpolate(b, size=a.shape[-2:], mode="bilinear", align_corners=False)
        c = F.relu(self.up(torch.cat([a, up], 1)))
        aux = F.interpolate(self.aux(b), size=x.shape[-2:])
        return self.main(c), aux


def deep_supervision(out: tuple[Tensor, Tensor], y: Tensor) -> Tensor:
    return F.mse_loss(out[0], y) + 0.4 * F.mse_loss(out[1], y)


def tokens() -> tuple[Any, Any]:
    ids = torch.randint(0, 19, (4, 10))
    return {"input_ids": ids, "labels": ids}, None


def images() -> tuple[Any, Any]:
    return torch.randn(8, 3, 8, 8), torch.randint(0, 4, (8,))


def sentences() -> tuple[Any, Any]:
    lengths = torch.tensor([7, 3, 5, 7])
    ids, labels = torch.randint(1, 11, (4, 7)), torch.randint(0, 4, (4, 7))
    late = torch.arange(7) >= lengths[:, None]
    return (ids.masked_fill(late, 0), lengths), labels.masked_fill(late, -100)


def pairs() -> tuple[Any, Any]:
    return (torch.randn(6, 7), torch.randn(6, 7)), None


def planes() -> tuple[Any, Any]:
    return torch.randn(3, 2, 9, 9), torch.randn(3, 1, 9, 9)


Make = Callable[[], nn.Module]
STRANGERS: dict[str, tuple[Make, Any, Callable[[], tuple[Any, Any]]]] = {
    "tied": (TiedLM, None, tokens),
    "weight norm": (WeightNormed, nn.CrossEntropyLoss(), images),
    "lstm": (Tagger, nn.CrossEntropyLoss(), sentences),
    "pairs": (DualEncoder, None, pairs),
    "pairs, a buffer replaced": (lambda: DualEncoder(replaces=True), None, pairs),
    "unet": (UNet, deep_supervision, planes),
}


class Bent(Literal):
    """With the norms that are on where no lr is given."""

    def __init__(self, opt: SCCD, model: nn.Module, loss_fn: Any) -> None:
        super().__init__(model, loss_fn, [block.params for block in opt.net.blocks])
        self.opt, self.seen = opt, [0.0] * opt.net.m

    def move(self, j: int, block: list[nn.Parameter], d: list[Tensor]) -> None:
        group = self.opt.param_groups[0]
        norm = math.sqrt(sum(float(g.double().square().sum()) for g in d))
        scale = group["clip_norm"] / max(norm, group["clip_norm"])
        self.seen[j] += (scale * norm) ** 2
        self.lr = group["lr"] / math.sqrt(1 + self.seen[j] / group["adagrad_norm"] ** 2)
        super().move(j, block, [scale * g for g in d])


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("name", STRANGERS)
def test_bounded_steps_give_the_literal_cycle(name: str, training: bool) -> None:
    make, loss_fn, batch = STRANGERS[name]
    torch.manual_seed(0)
    model = make().train(training)
    twin = copy.deepcopy(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opt = SCCD(model, loss_fn, adagrad_norm=1.0)
        opt.prove(*batch())
    literal = Bent(opt, twin, loss_fn)
    assert opt.net.m > 1
    for k in range(4):
        torch.manual_seed(100 + k)
        inputs, target = batch()
        torch.manual_seed(k)
        loss = opt.step(inputs, target)
        state = torch.get_rng_state()
        torch.manual_seed(k)
        wanted = literal.step(inputs, target)
        assert torch.equal(state, torch.get_rng_state())  # as many numbers were drawn
        assert float(loss) == pytest.approx(wanted, rel=1e-4)
        for (n, p), q in zip(model.named_parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-4, atol=2e-5, msg=lambda m, n=n: f"{n}: {m}")
        for (n, a), b in zip(model.named_buffers(), twin.buffers(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=2e-5, msg=lambda m, n=n: f"{n}: {m}")


def test_the_recursive_estimator_is_the_literal_one() -> None:
    """With batch norm, whose statistics move once, and dropout, whose masks repeat."""
    torch.manual_seed(0)
    layers = [nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 3)]
    model = nn.Sequential(*layers).double()
    twin = copy.deepcopy(model)
    options: dict[str, Any] = {"lr": 0.05, "weight_decay": 0.1}
    opt = VROCCD(model, F.cross_entropy, b=16, b_small=4, blocks="layers", **options)
    blocks = [[f"{k}.weight", f"{k}.bias"] for k in (0, 1, 4)]
    literal = Literal(twin, F.cross_entropy, blocks, recursive=True, **options)
    for k, size in enumerate((16, 4, 5, 16, 4, 4)):
        x, y = torch.randn(size, 6).double(), torch.randint(0, 3, (size,))
        torch.manual_seed(k)
        loss = opt.step(x, y)
        torch.manual_seed(k)
        assert float(loss) == pytest.approx(literal.step(x, y, refresh=size == 16), abs=1e-12)
        torch.testing.assert_close(model.state_dict(), twin.state_dict(), rtol=0, atol=1e-12)


def reentrant() -> nn.Module:
    """The old kind of checkpointing, which works with ``backward()`` alone."""

    def forward(self: Any, x: Tensor) -> Any:
        return self.last(checkpoint(torch.tanh, torch.tanh(self.first(x)), use_reentrant=True))

    return written(forward, first=nn.Linear(6, 6), last=nn.Linear(6, 3))


def stateful() -> nn.Module:
    """A hidden state that is kept as an attribute from batch to batch."""

    def forward(self: Any, x: Tensor) -> Any:
        h = self.cell(x, self.state)
        self.state = h.detach()
        return self.out(h)

    return written(forward, cell=nn.GRUCell(6, 5), out=nn.Linear(5, 3), state=None)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [(reentrant, RuntimeError, "set use_reentrant=False"),
     (stateful, ValueError, "forward changes state.*keeps Python state that no replay can repeat")],
    ids=["reentrant", "stateful"],
)  # fmt: skip
def test_what_cannot_be_repeated_is_refused_and_nothing_moves(
    make: Make, error: type[Exception], words: str
) -> None:
    torch.manual_seed(0)
    model = make()
    before = copy.deepcopy(model.state_dict())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opt = SCCD(model, nn.CrossEntropyLoss())
        with pytest.raises(error, match=words):
            opt.step(torch.randn(4, 6), torch.randint(0, 3, (4,)))
    assert all(torch.equal(a, before[n]) for n, a in model.state_dict().items())
