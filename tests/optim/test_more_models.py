"""Many kinds of models: cycles are those of the literal algorithm."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import models
import pytest
import torch
import torch.nn.functional as F
from small_nets import close, written
from test_stages_cut import CASES as CUT
from test_stages_cut import images, rows, words_and_targets
from test_stages_state import counting
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from cyclade.optim import SCCD
from cyclade.optim._trees import pytree
from cyclade.optim.reference import Literal
from cyclade.optim.stages import Inputs


def Model(forward: Callable[[Any, Tensor], Tensor], **parts: Any) -> nn.Module:
    """A forward function over named modules and parameters."""
    held = {k: nn.Parameter(v) if isinstance(v, Tensor) else v for k, v in parts.items()}
    return written(forward, **held)


def lin(a: int, b: int) -> nn.Linear:
    return nn.Linear(a, b)


def rand(*shape: int) -> Tensor:
    return 0.5 * torch.randn(*shape)


def unrolled(m: Any, x: Tensor) -> Tensor:
    h = torch.zeros(len(x), 5, dtype=x.dtype)
    for t in range(4):
        h = m.cell(x[:, 2 * t : 2 * t + 2], h)
    return m.out(h)


def runge_kutta(m: Any, x: Tensor) -> Tensor:
    h = m.into(x)
    for _ in range(2):
        a = torch.tanh(m.field(h))
        b = torch.tanh(m.field(h + 0.25 * a))
        h = h + 0.5 * b
    return m.out(h)


def soft_tree(m: Any, x: Tensor) -> Tensor:
    p = torch.sigmoid(m.gates(x))
    left, right = p[:, :1], 1 - p[:, :1]
    paths = [left * p[:, 1:2], left * (1 - p[:, 1:2]), right * p[:, 2:], right * (1 - p[:, 2:])]
    return torch.cat(paths, 1) @ m.leaves


def selective_scan(m: Any, x: Tensor) -> Tensor:
    s = x.view(-1, 4, 2)
    gate = torch.cumsum(F.logsigmoid(m.gate(s)), 1)
    states = torch.cumsum(m.value(s) * torch.exp(-gate), 1) * torch.exp(gate)
    return m.out(states[:, -1])


def image(x: Tensor) -> Tensor:
    return x.view(-1, 2, 2, 2)


def bumps(x: Tensor, grid: Tensor) -> Tensor:
    return torch.exp(-((x[..., None] - grid) ** 2)).flatten(1)


def graph_attention(m: Any, x: Tensor) -> Tensor:
    nodes = x.view(-1, 4, 2)
    weights = torch.softmax(m.s(nodes) + m.d(nodes).transpose(1, 2), -1)
    return m.out((weights @ m.v(nodes)).mean(1))


def squash(x: Tensor) -> Tensor:
    n = x.square().sum(-1, keepdim=True)
    return x * n.sqrt() / (1 + n)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "maxout": lambda: Model(
        lambda m, x: m.out(m.a(x).view(-1, 4, 3).amax(2)), a=lin(8, 12), out=lin(4, 3)),
    "neural additive model": lambda: Model(
        lambda m, x: sum(net(x[:, i : i + 1]) for i, net in enumerate(m.nets)),
        nets=nn.ModuleList([nn.Sequential(lin(1, 4), nn.Tanh(), lin(4, 3)) for _ in range(8)])),
    "factorisation machine": lambda: Model(
        lambda m, x: m.w(x) + 0.5 * ((x @ m.v).square() - x.square() @ m.v.square()),
        w=lin(8, 3), v=rand(8, 3)),
    "splines on edges": lambda: Model(
        lambda m, x: m.b(bumps(m.a(bumps(x, m.grid)), m.grid)),
        grid=torch.linspace(-1, 1, 3), a=lin(24, 4), b=lin(12, 3)),
    "radial basis functions": lambda: Model(
        lambda m, x: m.out(torch.exp(-(x[:, None] - m.centres).square().sum(2) * m.width.exp())),
        centres=rand(6, 8), width=rand(6) - 2, out=lin(6, 3)),
    "weight norm": lambda: nn.Sequential(
        parametrizations.weight_norm(lin(8, 6)), nn.Tanh(),
        parametrizations.weight_norm(lin(6, 3))),
    "orthogonal weights": lambda: nn.Sequential(
        parametrizations.orthogonal(lin(8, 8)), nn.Tanh(), lin(8, 3)),
    "depthwise, group norm": lambda: nn.Sequential(
        nn.Unflatten(1, (2, 2, 2)), nn.Conv2d(2, 4, 1), nn.Conv2d(4, 4, 3, padding=1, groups=4),
        nn.GroupNorm(2, 4), nn.SiLU(), nn.Flatten(), lin(16, 3)),
    "pixel shuffle": lambda: Model(
        lambda m, x: F.pixel_shuffle(m.b(torch.relu(m.a(image(x)))), 2).flatten(1)[:, :3],
        a=nn.Conv2d(2, 4, 3, padding=1), b=nn.Conv2d(4, 4, 1)),
    "hypernetwork": lambda: Model(
        lambda m, x: (torch.tanh(m.body(x))[:, None] @ m.hyper(x[:, :2]).view(-1, 4, 3))[:, 0],
        body=lin(8, 4), hyper=lin(2, 12)),
    "RMS norm, squared ReLU": lambda: Model(
        lambda m, x: m.out(x + m.down(torch.relu(m.up(F.rms_norm(x, (8,), m.scale))).square())),
        scale=torch.ones(8), up=lin(8, 12), down=lin(12, 8), out=lin(8, 3)),
    "selective scan": lambda: Model(selective_scan, gate=lin(2, 4), value=lin(2, 4), out=lin(4, 3)),
    "GRU cell, unrolled": lambda: Model(unrolled, cell=nn.GRUCell(2, 5), out=lin(5, 3)),
    "LSTM both ways": lambda: Model(
        lambda m, x: m.out(m.rnn(x.view(-1, 4, 2))[0][:, -1]),
        rnn=nn.LSTM(2, 3, batch_first=True, bidirectional=True), out=lin(6, 3)),
    "neural ODE": lambda: Model(runge_kutta, into=lin(8, 5), field=lin(5, 5), out=lin(5, 3)),
    "soft decision tree": lambda: Model(soft_tree, gates=lin(8, 3), leaves=rand(4, 3)),
    "capsules": lambda: Model(
        lambda m, x: squash(m.b(squash(m.a(x).view(-1, 3, 4)))).sum(2)[:, :3],
        a=lin(8, 12), b=lin(4, 4)),
    "cumulative batch norm": lambda: Model(
        lambda m, x: m.b(torch.tanh(m.n(m.a(x)))),
        a=lin(8, 6), n=nn.BatchNorm1d(6, momentum=None), b=lin(6, 3)),
    "a switch on values": lambda: Model(
        lambda m, x: m.b(m.n(m.a(x if x.sum() > 100 else 2 * x))),
        a=lin(8, 6), n=nn.BatchNorm1d(6, momentum=None), b=lin(6, 3)),
    "batch norm and dropout in a row": lambda: nn.Sequential(
        lin(8, 30), nn.BatchNorm1d(30), nn.Dropout(), nn.ReLU(), lin(30, 3)),
    "graph attention": lambda: Model(
        graph_attention, s=lin(2, 1), d=lin(2, 1), v=lin(2, 4), out=lin(4, 3)),
}  # fmt: skip


def in_place() -> nn.Module:
    """Writes in place to a value that came from another stage, by name and by view."""

    def forward(self: Any, x: Tensor) -> Tensor:
        x = self.a(x)
        x.add_(self.shift)
        y = self.b(x + 1)
        x.view(-1).mul_(2)
        return y * x

    shift = nn.Parameter(torch.randn(6))
    return written(forward, a=nn.Linear(6, 6), shift=shift, b=nn.Linear(6, 6))


Make = Callable[[], nn.Module]
WRITTEN: dict[str, tuple[Make, Callable[[], Inputs]]] = {  # as people write them
    **{name: CUT[name][:2] for name in CUT if name != "gpt"},
    "gpt, dropout": (lambda: models.GPT(dropout=0.3), words_and_targets),
    "vit, dropout": (lambda: models.ViT(dropout=0.3, depth=1), images),
    "a buffer that counts": (counting, rows),
    "resnet": (lambda: models.ResNet18(3, depth=1), images),
    "in place": (in_place, rows),
}


def double(value: Any) -> Any:
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def scalar(output: Any, target: Any) -> Tensor:
    """The loss that a model returns, or one of its output."""
    if isinstance(output, dict):
        return output["loss"]
    return output[1] if isinstance(output, tuple) else torch.sin(output).sum()


@pytest.mark.parametrize("name", [*MODELS, *WRITTEN])
def test_two_cycles_are_the_literal_ones(name: str) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(6, 8, dtype=torch.float64), torch.randn(6, 3, dtype=torch.float64)
    make, loss, batch = MODELS.get(name), F.mse_loss, lambda: Inputs((x,))
    if make is None:
        (make, batch), loss = WRITTEN[name], scalar
    model, inputs = make().double(), batch()
    inputs = Inputs(*pytree.tree_map(double, (inputs.args, inputs.kwargs)))
    twin = copy.deepcopy(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # some run whole, or cost much
        opt = SCCD(model, loss, lr=0.05, blocks="layers", example=inputs)
        literal = Literal(twin, loss, [block.params for block in opt.net.blocks], lr=0.05)
        for k in range(2):
            torch.manual_seed(k)
            opt.step(inputs, y)
            drawn = torch.get_rng_state()
            torch.manual_seed(k)
            literal.step(inputs, y)
            assert torch.equal(drawn, torch.get_rng_state())  # masks repeat, and draw once
    assert name not in CUT or opt.route == CUT[name][2]
    close(model, twin, 1e-12, 1e-10)
    close([*model.buffers()], [*twin.buffers()], 1e-12, 1e-10)  # they move once a step
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
