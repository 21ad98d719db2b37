"""Layers in few kernels give what torch's operations give one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cyclade.optim import SCCD, VROCCD, layers
from cyclade.optim.layers import functions, fusing

CUDA = pytest.mark.skipif(
    not torch.cuda.is_available() or functions.kernels() is None,
    reason="the kernels need CUDA and Triton",
)


@pytest.fixture(autouse=True)
def _float32() -> Iterator[None]:
    """Convolutions in float32: torch allows them TF32."""
    allowed, torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.allow_tf32, False
    yield
    torch.backends.cudnn.allow_tf32 = allowed


class Written(nn.Module):
    """LeNet as people write it, pooling before or after the ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 6, 5), nn.Conv2d(6, 8, 3, padding=1)
        self.fc1, self.fc2 = nn.Linear(72, 20), nn.Linear(20, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores."""
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.relu(F.max_pool2d(self.conv2(x), (2, 2))).flatten(1)
        return self.fc2(torch.relu(self.fc1(x)))


def in_a_row() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 8, 3, padding=1),
        nn.MaxPool2d(2), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(72, 20), nn.ReLU(),
        nn.Linear(20, 10),
    )  # fmt: skip


def batch(n: int = 9, **kind: Any) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 3, 16, 16, generator=generator)
    return x.to(**kind), torch.randint(0, 10, (n,), generator=generator).to(kind.get("device"))


@pytest.mark.parametrize("make", [Written, in_a_row])
def test_a_net_of_such_layers(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every layer is found, and a rewritten net has the bits of the net, on a CPU."""
    seen: list[str] = []

    def counted(name: str) -> Callable[..., Tensor]:
        plain = getattr(functions, name)

        def call(*args: Any) -> Tensor:
            seen.append(name)
            result: Tensor = plain(*args)
            return result

        return call

    for name in ("pooled", "linear"):
        monkeypatch.setattr(fusing, name, counted(name))
    x, y = batch(dtype=torch.float64)
    found = []
    for rewritten in (False, True):
        torch.manual_seed(0)
        model = make().double()
        opt = SCCD(model, F.cross_entropy, lr=0.1, blocks="layers", example=x)
        if rewritten:
            opt.net.chain.rewrite(layers.fused)
        opt.step(x, y)
        seen.clear()
        opt.step(x, y)
        found.append([p.detach() for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    # Block j runs the layers from j on, and its own once more when it has moved.
    assert seen.count("pooled") == (2 + 1) + (1 + 1)
    assert seen.count("linear") == 2 + 2 + (2 + 1) + 1


@pytest.mark.parametrize(
    "modules",
    [
        [nn.Conv2d(3, 6, 5, stride=2), nn.ReLU(), nn.MaxPool2d(2)],
        [nn.Conv2d(3, 6, 5, padding=(1, 2)), nn.ReLU(), nn.MaxPool2d(2)],
        [nn.Conv2d(3, 6, 5, padding="same"), nn.ReLU(), nn.MaxPool2d(2)],
        [nn.Conv2d(3, 6, 3, padding=1, padding_mode="reflect"), nn.ReLU(), nn.MaxPool2d(2)],
        [nn.Conv2d(3, 6, 5, bias=False), nn.ReLU(), nn.MaxPool2d(2)],
        [nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(3)],
        [nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2, ceil_mode=True)],
        [nn.Conv2d(3, 6, 5), nn.ReLU(), nn.AvgPool2d(2)],
        [nn.Conv2d(3, 6, 5), nn.GELU(), nn.MaxPool2d(2)],
        [nn.Conv2d(3, 6, 5), nn.ReLU()],
    ],
    ids=str,
)
def test_other_layers_are_left_alone(modules: list[nn.Module]) -> None:
    traced = torch.fx.symbolic_trace(nn.Sequential(*modules))
    flat = torch.fx.GraphModule(dict(traced.named_children()), traced.graph)
    assert layers.fused(flat) is None


def test_values_that_others_read_stay() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            z = self.fc(x)
            return F.relu(z) + z

    model = torch.fx.symbolic_trace(Both())
    rewritten = layers.fused(model)
    assert rewritten is not None
    x = torch.randn(3, 4)
    assert torch.equal(rewritten(x), model(x))


def test_hooks_and_parametrizations_stay() -> None:
    hooked = nn.Linear(3, 3)
    hooked.register_forward_hook(lambda *_: None)
    normed = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))
    for layer in (hooked, normed):
        model = nn.Sequential(layer, nn.ReLU(), nn.Linear(3, 2))
        opt = SCCD(model, F.cross_entropy, lr=0.1, blocks="layers", example=torch.randn(2, 3))
        first = next(iter(opt.net.chain._present().parts))
        assert layers.fused(first.body) is None


def errors(fast: Any, plain: Any, shapes: list[tuple[int, ...]]) -> list[float]:
    """Of the value and of every gradient, against float64, over the largest entry."""
    given = [torch.randn(shape, device="cuda") for shape in shapes]
    one = [a.clone().requires_grad_() for a in given]
    exact = [a.double().requires_grad_() for a in given]
    y, z = fast(*one), plain(*exact)
    g = torch.randn_like(y)
    pairs = zip(
        [y, *torch.autograd.grad(y, one, g)], [z, *torch.autograd.grad(z, exact, g.double())],
        strict=True,
    )  # fmt: skip
    return [float((a.double() - b).abs().max().detach() / b.abs().max().detach()) for a, b in pairs]


@CUDA
@pytest.mark.parametrize("n", [1, 22, 130])
@pytest.mark.parametrize(
    ("C", "H", "W", "D", "R", "S", "pad"),
    [
        (3, 32, 32, 6, 5, 5, 0),
        (6, 14, 14, 16, 5, 5, 0),
        (1, 12, 9, 4, 3, 5, 2),
        (20, 7, 8, 33, 3, 3, 1),
    ],
)
def test_convolutions_on_a_device(
    n: int, C: int, H: int, W: int, D: int, R: int, S: int, pad: int
) -> None:
    torch.manual_seed(n)
    shapes = [(n, C, H, W), (D, C, R, S), (D,)]
    found = errors(
        lambda *a: functions.Pooled.apply(*a, pad), lambda *a: functions.plain_pooled(*a, pad),
        shapes,
    )  # fmt: skip
    assert max(found) < 3e-6


@CUDA
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize(
    ("n", "K", "D"), [(1, 5, 3), (22, 400, 120), (512, 120, 84), (300, 84, 10), (64, 784, 256)]
)
def test_linear_layers_on_a_device(n: int, K: int, D: int, relu: bool) -> None:
    torch.manual_seed(n)
    found = errors(
        lambda *a: functions.Linear.apply(*a, relu), lambda *a: functions.plain_linear(*a, relu),
        [(n, K), (D, K), (D,)],
    )  # fmt: skip
    assert max(found) < 3e-6


@CUDA
@pytest.mark.parametrize("cls", [SCCD, VROCCD])
@pytest.mark.parametrize("order", ["forward", "shuffled"])
def test_captured_trajectories(cls: Any, order: str) -> None:
    """A captured run, whose layers are fused, stays beside the eager one, whose layers are not."""
    if cls is VROCCD and order == "shuffled":
        pytest.skip("recursive methods are captured in a fixed order")
    options: dict[str, Any] = {"b": 16, "b_small": 4} if cls is VROCCD else {}
    x, y = batch(16, device="cuda")
    found = []
    for capture in (False, True):
        torch.manual_seed(0)
        model = Written().cuda()
        opt = cls(
            model,
            F.cross_entropy,
            lr=0.05,
            blocks="layers",
            order=order,
            capture=capture,
            **options,
        )
        for k in range(12):
            small = cls is VROCCD and k % 2
            opt.step(x[:4] if small else x, y[:4] if small else y)
        found.append([p.detach() for p in model.parameters()])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=2e-4, atol=2e-5)


@CUDA
def test_nan_is_passed_on() -> None:
    x = torch.randn(2, 3, 8, 8, device="cuda")
    x[0, 1, 3, 3] = torch.nan
    w, b = torch.randn(4, 3, 3, 3, device="cuda"), torch.randn(4, device="cuda")
    ours, torchs = functions.pooled(x, w, b, 0), functions.plain_pooled(x, w, b, 0)
    assert torch.equal(ours.isnan(), torchs.isnan())
    assert bool(ours.isnan().any())


@CUDA
def test_the_curvature_is_measured_on_plain_layers() -> None:
    x, y = batch(16, device="cuda")
    found = []
    for capture in (False, True):
        torch.manual_seed(0)
        opt = SCCD(
            Written().cuda(), F.cross_entropy, blocks="layers", precondition="curvature",
            order="forward", capture=capture,
        )  # fmt: skip
        opt.step(x, y)
        found.append([float(opt.runner.steps.metric(j)) for j in range(opt.net.m)])
    assert found[0] == pytest.approx(found[1], rel=1e-3)
    assert max(found[0]) > 10.0  # more than the damping


@CUDA
def test_second_derivatives_are_refused() -> None:
    x, w, b = (torch.randn(s, device="cuda", requires_grad=True) for s in ((4, 5), (3, 5), (3,)))
    y = functions.Linear.apply(x, w, b, True)
    (g,) = torch.autograd.grad(y.sum(), w, create_graph=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.autograd.grad(g.sum(), x)
