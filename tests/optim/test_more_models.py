"""Thirty kinds of models that no other test has: cycles are those of the literal algorithm."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from cyclade.optim import SCCD
from cyclade.optim.reference import Literal


class Model(nn.Module):
    """A forward function over named modules and parameters."""

    def __init__(self, run: Callable[[Any, Tensor], Tensor], **parts: Any) -> None:
        super().__init__()
        self.run = run
        for name, part in parts.items():
            setattr(self, name, nn.Parameter(part) if isinstance(part, Tensor) else part)

    def forward(self, x: Tensor) -> Tensor:
        return self.run(self, x)


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


def linear_attention(m: Any, x: Tensor) -> Tensor:
    s = x.view(-1, 4, 2)
    q, k, v = F.elu(m.q(s)) + 1, F.elu(m.k(s)) + 1, m.v(s)
    top = q @ (k.transpose(1, 2) @ v)
    return m.out((top / (q @ k.sum(1).unsqueeze(-1))).mean(1))


def coupling(m: Any, x: Tensor) -> Tensor:
    a, b = x[:, :4], x[:, 4:]
    b = b * torch.exp(torch.tanh(m.scale(a))) + m.shift(a)
    a = a + m.back(b)
    return torch.cat([a, b], 1)[:, :3]


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


def series(x: Tensor) -> Tensor:
    return x.view(-1, 1, 8)


def bumps(x: Tensor, grid: Tensor) -> Tensor:
    return torch.exp(-((x[..., None] - grid) ** 2)).flatten(1)


def excited(m: Any, x: Tensor) -> Tensor:
    maps = m.c(image(x))
    return m.out((maps * torch.sigmoid(m.s(maps.mean((2, 3))))[..., None, None]).flatten(1))


def causal(m: Any, x: Tensor) -> Tensor:
    once = torch.tanh(m.a(F.pad(series(x), (1, 0))))
    return m.out(torch.tanh(m.b(F.pad(once, (2, 0))))[:, :, -1])


def u_net(m: Any, x: Tensor) -> Tensor:
    high = torch.relu(m.into(image(x)))
    low = F.interpolate(torch.relu(m.low(F.avg_pool2d(high, 2))), scale_factor=2)
    return m.out(torch.cat([low, high], 1)).flatten(1)[:, :3]


def graph_attention(m: Any, x: Tensor) -> Tensor:
    nodes = x.view(-1, 4, 2)
    weights = torch.softmax(m.s(nodes) + m.d(nodes).transpose(1, 2), -1)
    return m.out((weights @ m.v(nodes)).mean(1))


def attention_pooling(m: Any, x: Tensor) -> Tensor:
    bag = x.view(-1, 4, 2)
    return m.out((torch.softmax(m.a(bag), 1) * m.v(bag)).sum(1))


def squash(x: Tensor) -> Tensor:
    n = x.square().sum(-1, keepdim=True)
    return x * n.sqrt() / (1 + n)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "highway": lambda: Model(
        lambda m, x: m.out(torch.lerp(x, torch.tanh(m.h(x)), torch.sigmoid(m.t(x)))),
        t=lin(8, 8), h=lin(8, 8), out=lin(8, 3)),
    "maxout": lambda: Model(
        lambda m, x: m.out(m.a(x).view(-1, 4, 3).amax(2)), a=lin(8, 12), out=lin(4, 3)),
    "squeeze and excitation": lambda: Model(
        excited, c=nn.Conv2d(2, 3, 1), s=lin(3, 3), out=lin(12, 3)),
    "FiLM": lambda: Model(
        lambda m, x: m.out(m.gamma(x[:, :2]) * torch.tanh(m.h(x)) + m.beta(x[:, :2])),
        gamma=lin(2, 5), beta=lin(2, 5), h=lin(8, 5), out=lin(5, 3)),
    "gated linear units": lambda: Model(
        lambda m, x: m.out(F.glu(m.b(F.glu(m.a(x))))), a=lin(8, 12), b=lin(6, 8), out=lin(4, 3)),
    "SIREN": lambda: Model(
        lambda m, x: m.out(torch.sin(3 * m.b(torch.sin(3 * m.a(x))))),
        a=lin(8, 6), b=lin(6, 6), out=lin(6, 3)),
    "neural additive model": lambda: Model(
        lambda m, x: sum(net(x[:, i : i + 1]) for i, net in enumerate(m.nets)),
        nets=nn.ModuleList([nn.Sequential(lin(1, 4), nn.Tanh(), lin(4, 3)) for _ in range(8)])),
    "deep and cross": lambda: Model(
        lambda m, x: m.out(torch.cat([x * m.c2(x * m.c1(x) + x) + x, torch.relu(m.d(x))], 1)),
        c1=lin(8, 8), c2=lin(8, 8), d=lin(8, 4), out=lin(12, 3)),
    "factorisation machine": lambda: Model(
        lambda m, x: m.w(x) + 0.5 * ((x @ m.v).square() - x.square() @ m.v.square()),
        w=lin(8, 3), v=rand(8, 3)),
    "two towers": lambda: Model(
        lambda m, x: torch.einsum("nd,ndk->nk", m.a(x[:, :4]), m.b(x[:, 4:]).view(-1, 5, 3)),
        a=lin(4, 5), b=lin(4, 15)),
    "deep sets": lambda: Model(
        lambda m, x: m.rho(torch.tanh(m.phi(x.view(-1, 4, 2))).sum(1)),
        phi=lin(2, 6), rho=lin(6, 3)),
    "attention pooling": lambda: Model(
        attention_pooling,
        a=lin(2, 1), v=lin(2, 5), out=lin(5, 3)),
    "splines on edges": lambda: Model(
        lambda m, x: m.b(bumps(m.a(bumps(x, m.grid)), m.grid)),
        grid=torch.linspace(-1, 1, 3), a=lin(24, 4), b=lin(12, 3)),
    "radial basis functions": lambda: Model(
        lambda m, x: m.out(torch.exp(-(x[:, None] - m.centres).square().sum(2) * m.width.exp())),
        centres=rand(6, 8), width=rand(6) - 2, out=lin(6, 3)),
    "dilated causal convolutions": lambda: Model(
        causal, a=nn.Conv1d(1, 4, 2), b=nn.Conv1d(4, 4, 2, dilation=2), out=lin(4, 3)),
    "weight norm": lambda: nn.Sequential(
        parametrizations.weight_norm(lin(8, 6)), nn.Tanh(),
        parametrizations.weight_norm(lin(6, 3))),
    "orthogonal weights": lambda: nn.Sequential(
        parametrizations.orthogonal(lin(8, 8)), nn.Tanh(), lin(8, 3)),
    "depthwise, group norm": lambda: nn.Sequential(
        nn.Unflatten(1, (2, 2, 2)), nn.Conv2d(2, 4, 1), nn.Conv2d(4, 4, 3, padding=1, groups=4),
        nn.GroupNorm(2, 4), nn.SiLU(), nn.Flatten(), lin(16, 3)),
    "U-net": lambda: Model(
        u_net, into=nn.Conv2d(2, 3, 3, padding=1), low=nn.Conv2d(3, 4, 1), out=nn.Conv2d(7, 1, 1)),
    "pixel shuffle": lambda: Model(
        lambda m, x: F.pixel_shuffle(m.b(torch.relu(m.a(image(x)))), 2).flatten(1)[:, :3],
        a=nn.Conv2d(2, 4, 3, padding=1), b=nn.Conv2d(4, 4, 1)),
    "hypernetwork": lambda: Model(
        lambda m, x: (torch.tanh(m.body(x))[:, None] @ m.hyper(x[:, :2]).view(-1, 4, 3))[:, 0],
        body=lin(8, 4), hyper=lin(2, 12)),
    "bilinear of low rank": lambda: Model(
        lambda m, x: m.out(m.u(x) * m.v(x)), u=lin(8, 4), v=lin(8, 4), out=lin(4, 3)),
    "linear attention": lambda: Model(
        linear_attention, q=lin(2, 4), k=lin(2, 4), v=lin(2, 4), out=lin(4, 3)),
    "RMS norm, squared ReLU": lambda: Model(
        lambda m, x: m.out(x + m.down(torch.relu(m.up(F.rms_norm(x, (8,), m.scale))).square())),
        scale=torch.ones(8), up=lin(8, 12), down=lin(12, 8), out=lin(8, 3)),
    "selective scan": lambda: Model(selective_scan, gate=lin(2, 4), value=lin(2, 4), out=lin(4, 3)),
    "GRU cell, unrolled": lambda: Model(unrolled, cell=nn.GRUCell(2, 5), out=lin(5, 3)),
    "LSTM both ways": lambda: Model(
        lambda m, x: m.out(m.rnn(x.view(-1, 4, 2))[0][:, -1]),
        rnn=nn.LSTM(2, 3, batch_first=True, bidirectional=True), out=lin(6, 3)),
    "neural ODE": lambda: Model(runge_kutta, into=lin(8, 5), field=lin(5, 5), out=lin(5, 3)),
    "coupling flow": lambda: Model(coupling, scale=lin(4, 4), shift=lin(4, 4), back=lin(4, 4)),
    "soft decision tree": lambda: Model(soft_tree, gates=lin(8, 3), leaves=rand(4, 3)),
    "capsules": lambda: Model(
        lambda m, x: squash(m.b(squash(m.a(x).view(-1, 3, 4)))).sum(2)[:, :3],
        a=lin(8, 12), b=lin(4, 4)),
    "graph attention": lambda: Model(
        graph_attention, s=lin(2, 1), d=lin(2, 1), v=lin(2, 4), out=lin(4, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_two_cycles_are_the_literal_ones(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name]().double()
    twin = copy.deepcopy(model)
    x, y = torch.randn(6, 8, dtype=torch.float64), torch.randn(6, 3, dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # some run whole, or cost much
        opt = SCCD(model, F.mse_loss, lr=0.05, blocks="layers", example=x)
        literal = Literal(twin, F.mse_loss, [block.params for block in opt.net.blocks], lr=0.05)
        for _ in range(2):
            opt.step(x, y)
            literal.step(x, y)
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-10, atol=1e-12)
