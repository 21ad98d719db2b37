"""Every optimizer against the literal algorithm on the flattened network, cycle by cycle."""

from __future__ import annotations

import copy
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from models import GPT
from small_nets import close, written
from torch import nn
from twin import Scripted, Twin, greedy

from cyclade.optim import PAGE, SCCD, SGD, VRCCD, VROCCD

pytestmark = pytest.mark.filterwarnings("ignore::cyclade.optim.CostWarning")

ROUNDING = 1e-12
CYCLES = 20
OPTIMIZERS = {"SCCD": SCCD, "SGD": SGD, "VRO-CCD": VROCCD, "PAGE": PAGE, "VR-CCD": VRCCD}
RECURSIVE = ("VRO-CCD", "PAGE", "VR-CCD")


class TinyLeNet(nn.Module):
    """Two convolutions and two linear layers, with functional calls."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 3, 3), nn.Conv2d(3, 4, 3)
        self.fc1, self.fc2 = nn.Linear(16, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(torch.tanh(self.conv1(x)), 2)
        x = torch.flatten(torch.tanh(self.conv2(x)), 1)
        return self.fc2(F.relu(self.fc1(x)))


def residual() -> nn.Module:
    """Skip connections around two layers each, with layer norm."""

    def forward(self: Any, x: torch.Tensor) -> Any:
        for linear, norm in zip(self.inner, self.norms, strict=True):
            x = x + torch.tanh(linear(norm(x)))
        return self.head(x)

    inner = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
    norms = nn.ModuleList(nn.LayerNorm(6) for _ in range(3))
    return written(forward, inner=inner, norms=norms, head=nn.Linear(6, 3))


def attention() -> nn.Module:
    """Attention written by hand, with a class token."""

    def forward(self: Any, x: torch.Tensor) -> Any:
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1)
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v))
        return self.head(x[:, 0])

    token = nn.Parameter(torch.randn(1, 1, 6))
    qkv, out, head = nn.Linear(6, 18), nn.Linear(6, 6), nn.Linear(6, 3)
    return written(forward, token=token, qkv=qkv, out=out, head=head)


def tied() -> nn.Module:
    """An autoencoder whose decoder is the encoder's transpose, and a head that reuses a layer."""

    def forward(self: Any, x: torch.Tensor) -> Any:
        code = torch.tanh(self.mix(torch.tanh(self.mix(torch.tanh(self.encode(x))))))
        return self.head(F.linear(code, self.encode.weight.t()))

    encode, mix, head = nn.Linear(6, 5, bias=False), nn.Linear(5, 5), nn.Linear(6, 3)
    return written(forward, encode=encode, mix=mix, head=head)


MODELS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "lenet": (TinyLeNet, (1, 10, 10)),
    "residual": (residual, (6,)),
    "attention": (attention, (4, 6)),
    "tied": (tied, (6,)),
}


@pytest.fixture(autouse=True)
def _double() -> Any:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def data(shape: tuple[int, ...], n: int = 48) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(n, *shape, generator=generator)
    return x, torch.randint(0, 3, (n,), generator=generator)


def script_for(
    method: str, x: Any, y: Any, steps: int, b: int = 16, b_small: int = 4
) -> tuple[Any, list[tuple[Any, bool]]]:
    """The first large batch (for recursive methods) and the batches with their coins."""
    rng = np.random.default_rng(7)
    draws = []
    for _ in range(steps):
        large = method not in RECURSIVE or rng.random() < 0.3
        index = torch.as_tensor(rng.choice(len(x), size=b if large else b_small, replace=False))
        draws.append(((x[index], y[index]), large))
    first = (x[:b], y[:b]) if method in RECURSIVE else None
    return first, draws


def compare(
    method: str, model: nn.Module, x: Any, y: Any, *, loss_fn: Any = F.cross_entropy,
    order: Any = "forward", cycles: int = CYCLES, lr: float = 0.05, **options: Any,
) -> SimpleNamespace:  # fmt: skip
    """Run both; the largest difference over all cycles."""
    torch.manual_seed(3)
    start = copy.deepcopy(model)
    if method in RECURSIVE:
        options.update(b=16, b_small=4)
    options.setdefault("blocks", "layers")
    opt = OPTIMIZERS[method](
        model, loss_fn, lr=lr, weight_decay=0.02, order=order, seed=5, **options
    )
    blocks = [block.params for block in opt.net.blocks]
    twin = Twin(start, loss_fn, blocks)
    m = len(blocks)
    per_cycle = m if method == "VR-CCD" else 1
    first, draws = script_for(method, x, y, cycles * per_cycle)
    if first is not None:
        opt.step(*first)
    iterates, turns, losses = [twin.flat(model)], [], []
    taken: list[int] = []
    real_turns = opt.runner.turns.next

    def recorded() -> Any:
        found = real_turns()
        taken.extend([] if found is None else found)
        return found

    opt.runner.turns.next = recorded
    for i, ((xb, yb), _) in enumerate(draws):
        losses.append(float(opt.step(xb, yb)))
        if (i + 1) % per_cycle == 0:
            iterates.append(twin.flat(model))
            turns.append(list(taken))
            taken.clear()
    script = Scripted(first, draws, turns)
    chosen = SimpleNamespace(turns=greedy) if order == "greedy" else script
    expected = twin.run(
        iterates[0], script, K=cycles, lr=lr, decay=0.02, order=chosen,
        resample="block" if method == "VR-CCD" else "cycle",
    )  # fmt: skip
    worst = max(float(abs(a - b).max()) for a, b in zip(iterates, expected, strict=True))
    moved = float(abs(iterates[-1] - iterates[0]).max())
    return SimpleNamespace(worst=worst, moved=moved, opt=opt, losses=losses, turns=turns)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("method", OPTIMIZERS)
def test_every_method_on_every_kind_of_model(method: str, name: str) -> None:
    torch.manual_seed(0)
    make, shape = MODELS[name]
    found = compare(method, make(), *data(shape))
    assert found.worst < ROUNDING
    assert found.moved > 1e-3
    assert found.opt.net.chain.how == "fx"


ORDERS: list[Any] = ["backward", "shuffled", "random", [2, 0, 3, 1]]  # forward: on every model


@pytest.mark.parametrize(
    ("method", "order"),
    [*product(["SCCD", "VRO-CCD", "VR-CCD"], ORDERS), ("SCCD", "greedy")], ids=str,
)  # fmt: skip
def test_every_order(method: str, order: Any) -> None:
    torch.manual_seed(0)
    cycles = 8 if order == "greedy" else CYCLES
    found = compare(method, TinyLeNet(), *data((1, 10, 10)), order=order, cycles=cycles)
    assert found.worst < ROUNDING
    assert found.moved > 1e-3


@pytest.mark.parametrize("method", ["SCCD", "VRO-CCD"])
def test_a_reused_module_and_a_plain_sequential(method: str) -> None:
    torch.manual_seed(0)
    x, y = data((8,))
    plain = nn.Sequential(
        nn.Linear(8, 7), nn.Tanh(), nn.Sequential(nn.Linear(7, 6), nn.ReLU()), nn.Linear(6, 3)
    )
    found = compare(method, plain, x, y)
    assert found.opt.net.chain.how == "sequential"
    assert found.worst < ROUNDING


def test_merged_and_named_blocks() -> None:
    torch.manual_seed(0)
    x, y = data((1, 10, 10))
    model = TinyLeNet()
    found = compare("VRO-CCD", model, x, y, blocks=[["conv1", model.fc2], "fc1", ["conv2"]])
    assert found.worst < ROUNDING
    torch.manual_seed(0)
    merged = compare("SCCD", TinyLeNet(), x, y, blocks=2, example=x[:4])
    assert merged.opt.net.m == 2
    assert merged.worst < ROUNDING


def test_a_model_that_returns_its_own_loss() -> None:
    torch.manual_seed(0)
    model = GPT()
    tokens = torch.randint(0, 20, (48, 9))
    x, y = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    start = copy.deepcopy(model)
    opt = SCCD(model, lr=0.05, example={"idx": x[:4], "targets": y[:4]}, blocks="layers")
    twin = Twin(start, None, [block.params for block in opt.net.blocks])
    draws = [
        (({"idx": x[i : i + 8], "targets": y[i : i + 8]}, None), True) for i in range(0, 40, 8)
    ]
    for (inputs, _), _ in draws:
        opt.step(inputs)
    turns = [list(range(opt.net.m))] * len(draws)
    expected = twin.run(
        twin.flat(start), Scripted(None, draws, turns), K=len(draws), lr=0.05, decay=0.0
    )
    assert abs(twin.flat(model) - expected[-1]).max() < ROUNDING


def test_the_loss_is_that_at_the_start_of_the_cycle() -> None:
    torch.manual_seed(0)
    x, y = data((1, 10, 10))
    for order in ("forward", "backward", "random"):
        model = TinyLeNet()
        expected = float(F.cross_entropy(model(x), y).detach())
        opt = SCCD(model, F.cross_entropy, lr=0.1, order=order)
        assert float(opt.step(x, y)) == pytest.approx(expected, abs=1e-14)


def test_a_closure_gives_the_same_cycle() -> None:
    torch.manual_seed(0)
    x, y = data((1, 10, 10))
    for backward in (False, True):
        staged, closed = TinyLeNet(), TinyLeNet()
        closed.load_state_dict(staged.state_dict())
        a = VROCCD(staged, F.cross_entropy, lr=0.1, b=16, b_small=4, blocks="layers")
        b = VROCCD(closed, F.cross_entropy, lr=0.1, b=16, b_small=4, blocks="layers")

        def closure(n: int, model: nn.Module = closed, backward: bool = backward) -> Any:
            def evaluate() -> torch.Tensor:
                loss = F.cross_entropy(model(x[:n]), y[:n])
                if backward:
                    loss.backward()
                return loss

            return evaluate

        a.step(x[:16], y[:16])
        with pytest.warns(UserWarning, match="runs the closure once for each of the 4 blocks"):
            b.step(closure(16), refresh=True)
        for n in (4, 16, 4, 4):
            loss_a, loss_b = a.step(x[:n], y[:n]), b.step(closure=closure(n), refresh=n == 16)
            assert float(loss_a) == pytest.approx(float(loss_b), abs=1e-14)
        close(staged, closed, 1e-13)
        assert all(p.grad is None for p in closed.parameters())
