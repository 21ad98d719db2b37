"""Sparsity reports, and pruning that changes no output."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import models
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from small_nets import written
from torch import Tensor, nn

from cyclade import GroupL2
from cyclade.optim import SCCD
from cyclade.optim.pruning import PruneReport, prune, removal, sparsity


class Functional(nn.Module):
    """LeNet-like, with everything between the layers given as a function."""

    def __init__(
        self,
        between: Callable[[Tensor], Tensor] = F.relu,
        flatten: Callable[[Tensor], Tensor] = lambda x: x.flatten(1),
        padding: Any = 0,
        **options: Any,
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(2, 6, 3)
        self.conv2 = nn.Conv2d(6, 5, 3, padding=padding, **options)
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.fc1 = nn.Linear(20, 7)
        self.fc2 = nn.Linear(7, 3)
        self.between = between
        self.flatten = flatten

    def forward(self, x: Tensor) -> Tensor:
        x = self.between(self.conv1(x))
        x = self.between(self.conv2(x))
        x = self.flatten(self.pool(x))
        return self.fc2(F.relu(self.fc1(x)))


IMAGES = (3, 2, 14, 14)


def lenet(norm: bool = False) -> nn.Sequential:
    """Conv, pool, conv, pool, flatten, three linear layers."""
    return nn.Sequential(
        nn.Conv2d(2, 6, 3, bias=not norm), nn.BatchNorm2d(6) if norm else nn.Identity(),
        nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 5, 3), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(),
        nn.BatchNorm1d(20) if norm else nn.Dropout(), nn.Linear(20, 9),
        nn.BatchNorm1d(9, affine=False) if norm else nn.GELU(), nn.Sigmoid(),
        nn.Linear(9, 8, bias=False), nn.ELU(), nn.Linear(8, 3),
    )  # fmt: skip


def prepared(model: nn.Module, seed: int = 0, dead: float = 0.4) -> nn.Module:
    """Random weights, biases and statistics in float64, with random dead rows and channels."""
    generator = torch.Generator().manual_seed(seed)
    model.double()
    with torch.no_grad():
        for name, value in [*model.named_parameters(), *model.named_buffers()]:
            if not value.is_floating_point():
                continue
            value.copy_(torch.randn(value.shape, generator=generator, dtype=value.dtype))
            if name.endswith("running_var"):
                value.abs_().add_(0.1)
        for module in model.modules():
            if isinstance(module, (nn.Linear, nn.Conv2d)):
                rows, columns = (
                    torch.rand(n, generator=generator) < dead for n in module.weight.shape[:2]
                )
                module.weight[rows] = 0.0
                module.weight[:, columns] = 0.0
    return model.eval()


def size(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def inputs(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(99))


def difference(model: nn.Module, x: Tensor, changed: Callable[[nn.Module], Any] = prune) -> float:
    """How far `changed` moves the outputs, in eval mode."""
    flags = [m.training for m in model.modules()]
    model.eval()
    with torch.no_grad():
        before = model(x)
        changed(model)
        after = model(x)
    for module, flag in zip(model.modules(), flags, strict=True):
        module.training = flag
    return float((after - before).abs().max())


def pruned(model: nn.Module, x: Tensor) -> tuple[float, PruneReport]:
    reports: list[PruneReport] = []
    moved = difference(model, x, lambda m: reports.append(prune(m)))
    return moved, reports[0]


def consistent(model: nn.Module) -> None:
    """Attributes agree with the shapes."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            assert module.weight.shape == (module.out_features, module.in_features)
        elif isinstance(module, nn.Conv2d):
            inside = module.in_channels // module.groups
            assert module.weight.shape[:2] == (module.out_channels, inside)
        elif isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            assert module.running_mean is not None
            assert module.running_mean.shape == (module.num_features,)
        if isinstance(module, (nn.Linear, nn.Conv2d)) and module.bias is not None:
            assert module.bias.shape == module.weight.shape[:1]


# The report of sparsity


def test_sparsity_counts_zeros_rows_and_columns() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 2), nn.Flatten(), nn.Linear(5, 2))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1.0)
        model[0].weight[[0, 2]] = 0.0
        model[0].weight[:, 1] = 0.0
        model[2].weight[0, 0] = 0.0
    report = sparsity(model)
    first, second = report.rows
    assert first == {
        "parameter": "0.weight",
        "shape": (4, 3, 2, 2),
        "size": 48,
        "zeros": 32 / 48,
        "rows": 4,
        "dead_rows": 2,
        "columns": 3,
        "dead_columns": 1,
    }
    assert (second["zeros"], second["dead_rows"], second["dead_columns"]) == (0.1, 0, 0)
    assert (report.size, report.zeros, report.dead_rows, report.dead_columns) == (58, 33 / 58, 2, 1)
    frame = pd.DataFrame(report.rows)
    assert list(frame["dead_rows"]) == [2, 0]
    assert "0.weight   4x3x2x2  66.7 %      2 / 4         1 / 3" in str(report)


def test_sparsity_of_nothing_of_tied_and_of_lazy_weights() -> None:
    assert sparsity(nn.ReLU()).rows == []
    assert sparsity(nn.ReLU()).zeros == 0.0
    empty = nn.Module()
    empty.weight = nn.Parameter(torch.empty(3, 0))
    assert sparsity(empty).rows[0]["dead_rows"] == 0
    tied = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    tied[1].weight = tied[0].weight
    assert len(sparsity(tied).rows) == 1
    for function in (sparsity, prune):
        with pytest.raises(ValueError, match=r"0\.weight has no shape yet: run the model"):
            function(nn.Sequential(nn.LazyLinear(3)))


# Pruning keeps the outputs


@settings(max_examples=40, deadline=None)
@given(
    widths=st.lists(st.integers(1, 8), min_size=2, max_size=5),
    seed=st.integers(0, 10_000),
    dead=st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0]),
    bias=st.booleans(),
)
def test_random_mlps(widths: list[int], seed: int, dead: float, bias: bool) -> None:
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b, bias=bias), nn.LeakyReLU(0.2), nn.Dropout(0.3)]
    model = prepared(nn.Sequential(*layers), seed, dead)
    before = size(model)
    assert difference(model, inputs(4, widths[0])) <= 1e-12
    consistent(model)
    assert size(model) <= before or not bias  # a bias may be new
    for module in list(model)[:-3]:  # all but the last have no dead row if they have a choice
        if isinstance(module, nn.Linear) and module.out_features > 1:
            assert sparsity(module).dead_rows == 0


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_lenet(norm: bool, seed: int) -> None:
    model = prepared(lenet(norm), seed)
    before = size(model)
    assert difference(model, inputs(*IMAGES)) <= 1e-12
    assert size(model) < 0.8 * before
    consistent(model)


def test_a_second_time_nothing_changes() -> None:
    model = prepared(lenet(True))
    assert prune(model).changed
    again = prune(model)
    assert not again.changed
    assert again.parameters_before == again.parameters_after == size(model)
    assert "build the optimizer" not in str(again)


def pool(x: Tensor) -> Tensor:
    return F.max_pool2d(x, 2, stride=1, padding=1, ceil_mode=True)


BETWEEN: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "relu in place": lambda x: F.relu(x, inplace=True),
    "torch.relu": torch.relu,
    "x.relu_": lambda x: x.relu_(),
    "leaky": lambda x: F.leaky_relu(x, 0.3),
    "tanh": torch.tanh,
    "x.tanh": lambda x: x.tanh(),
    "sigmoid": torch.sigmoid,
    "F.sigmoid": F.sigmoid,
    "gelu": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "elu": lambda x: F.elu(x, 0.7),
    "softplus": F.softplus,
    "dropout": lambda x: F.dropout(x, 0.5, training=False),
    "contiguous": lambda x: x.contiguous(),
    "max pool": pool,
    "average pool": lambda x: F.avg_pool2d(x, 2, 1, ceil_mode=True),
    "average pool over what is there": lambda x: F.avg_pool2d(
        x, 3, stride=1, padding=1, count_include_pad=False
    ),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, 5),
    "adaptive max": lambda x: F.adaptive_max_pool2d(x, (5, 6)),
    "two": lambda x: F.max_pool2d(torch.tanh(x), 2, 1),
    "reads the batch size": lambda x: x.relu() if x.size(0) is not None else x,
}


@pytest.mark.parametrize("name", BETWEEN)
def test_functional_forms(name: str) -> None:
    model = prepared(Functional(BETWEEN[name]))
    assert sparsity(model.conv1).dead_rows > 0
    assert difference(model, inputs(*IMAGES)) <= 1e-12
    assert sparsity(model.conv1).dead_rows == 0
    assert sparsity(model.conv2).dead_rows == 0
    consistent(model)


MODULES = [
    nn.ReLU(True), nn.LeakyReLU(0.1), nn.Tanh(), nn.Sigmoid(), nn.GELU(), nn.SiLU(), nn.ELU(),
    nn.Dropout(), nn.Dropout2d(), nn.Identity(), nn.MaxPool2d(2, 1), nn.AdaptiveMaxPool2d(6),
    nn.MaxPool2d(2, 1, dilation=2), nn.AvgPool2d(2, 1), nn.AvgPool2d(3, 2, ceil_mode=True),
    nn.AdaptiveAvgPool2d(6),
]  # fmt: skip


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_modules(module: nn.Module) -> None:
    model = Functional()
    model.between = copy.deepcopy(module)  # called twice, which is fine: it holds no channel
    prepared(model)
    assert difference(model, inputs(*IMAGES)) <= 1e-12
    assert sparsity(model.conv1).dead_rows == sparsity(model.conv2).dead_rows == 0


FLATTEN: dict[str, Callable[[Tensor], Tensor]] = {
    "torch.flatten": lambda x: torch.flatten(x, 1),
    "keyword": lambda x: torch.flatten(x, start_dim=1, end_dim=-1),
    "view": lambda x: x.view(x.size(0), -1),
    "view of a tuple": lambda x: x.view((x.size(dim=0), -1)),
    "reshape": lambda x: x.reshape(x.shape[0], -1),
    "torch.reshape": lambda x: torch.reshape(x, (x.size()[0], -1)),
    "twice": lambda x: x.flatten(1).view(x.shape[0], -1),
    "relu behind": lambda x: F.silu(x.flatten(1)),
}


@pytest.mark.parametrize("name", FLATTEN)
def test_flattening_in_all_forms(name: str) -> None:
    model = prepared(Functional(flatten=FLATTEN[name]))
    assert difference(model, inputs(*IMAGES)) <= 1e-12
    assert sparsity(model.conv2).dead_rows == 0
    assert model.fc1.in_features == 4 * model.conv2.out_channels


def test_the_batch_size_may_be_read_from_the_input() -> None:
    class FromInput(Functional):
        def forward(self, x: Tensor) -> Tensor:
            batch = x.shape[0]
            x = F.relu(self.conv2(F.relu(self.conv1(x))))
            return self.fc2(self.fc1(self.pool(x).view(batch, -1)))

    model = prepared(FromInput())
    assert difference(model, inputs(*IMAGES)) <= 1e-12
    assert sparsity(model.conv2).dead_rows == 0


def test_a_chain_dies_through_several_layers() -> None:
    """Nobody reads layer 4's outputs but one, so that most of layers 2 and 0 go, too."""
    model = prepared(nn.Sequential(*(nn.Linear(6, 6) for _ in range(4))), dead=0.0)
    with torch.no_grad():
        model[3].weight[:, 1:] = 0.0
        model[2].weight[0, 2:] = 0.0
    assert difference(model, inputs(5, 6)) <= 1e-12
    assert [tuple(layer.weight.shape) for layer in model] == [(6, 6), (2, 6), (1, 2), (6, 1)]


def test_constants_pass_on_through_several_layers() -> None:
    """Row 0 of layer 1 reads only a constant, so it is one itself."""
    model = prepared(
        nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 2)),
        dead=0.0,
    )
    with torch.no_grad():
        model[0].weight[3] = 0.0
        model[2].weight[0, [0, 1, 2, 4]] = 0.0
    assert difference(model, inputs(5, 4)) <= 1e-12
    assert (model[0].out_features, model[2].out_features) == (4, 4)


def test_a_bias_is_made_where_a_constant_needs_one() -> None:
    model = prepared(nn.Sequential(nn.Linear(3, 4), nn.Sigmoid(), nn.Linear(4, 2, bias=False)))
    with torch.no_grad():
        model[0].weight[1] = 0.0
        model[2].weight.fill_(1.0)
    model[2].weight.requires_grad_(False)
    assert difference(model, inputs(5, 3)) <= 1e-12
    assert model[2].bias is not None
    assert not model[2].bias.requires_grad
    # Without constants, none is made.
    model = prepared(nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Linear(4, 2, False)))
    assert difference(model, inputs(5, 3)) <= 1e-12
    assert model[2].bias is None


def test_all_dead_keeps_one_channel() -> None:
    for make in (lenet, lambda: lenet(True)):
        model = prepared(make(), dead=1.0)
        assert difference(model, inputs(*IMAGES)) <= 1e-12
        consistent(model)
        assert [m.weight.shape[0] for m in model if isinstance(m, nn.Conv2d)] == [1, 1]
        assert model[9].in_features == 4
    reasons = {(row["layer"], row["side"]): row["reason"] for row in prune(model).left}
    assert "one channel is kept" in reasons["0", "outputs"]
    assert reasons["0", "inputs"] == "no layer alone gives its inputs"
    assert reasons["14", "outputs"] == "its values leave the model"


def test_a_zero_scale_of_batch_norm_is_a_dead_channel() -> None:
    model = prepared(lenet(True), dead=0.0)
    with torch.no_grad():
        model[1].weight[[0, 4]] = 0.0
    assert difference(model, inputs(*IMAGES)) <= 1e-12
    assert model[0].out_channels == model[1].num_features == 4


@pytest.mark.parametrize(
    ("make", "shape", "share"),
    [
        (models.LeNet, (2, 3, 32, 32), 0.7),
        (models.ResNet18, (2, 3, 32, 32), 0.7),
        (models.ViT, (2, 3, 16, 16), 0.95),
        (models.Dropped, (4, 6), 0.5),
        (models.Reused, (4, 6), 1.0),
    ],
)
def test_models_as_people_write_them(make: Any, shape: tuple[int, ...], share: float) -> None:
    torch.manual_seed(0)
    model = make().double()
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, (nn.Linear, nn.Conv2d)):
                module.weight[torch.rand(module.weight.shape[0]) < 0.3] = 0.0
                module.weight[:, torch.rand(module.weight.shape[1]) < 0.3] = 0.0
    moved, report = pruned(model, inputs(*shape))
    assert moved <= 1e-12
    assert report.parameters_after <= share * report.parameters_before
    consistent(model)


# What must be left


def padded(**options: Any) -> Functional:
    model = prepared(Functional(torch.tanh, **{"padding": 1, **options}), dead=0.0)
    with torch.no_grad():
        model.conv1.weight[2:4] = 0.0
        model.conv1.bias[3] = 0.0
    return model


@pytest.mark.parametrize("padding", [1, (0, 1), "same"])
def test_constants_are_not_folded_over_zero_padding(padding: Any) -> None:
    model = padded(padding=padding)
    moved, report = pruned(model, inputs(*IMAGES))
    assert moved <= 1e-12
    assert model.conv1.out_channels == 5  # channel 3 is zero; channel 2 is not
    (left,) = report.left
    assert (left["layer"], left["side"], left["dead"]) == ("conv1", "outputs", 1)
    assert "pads with zeros" in left["reason"]
    assert f"left: 1 dead outputs of conv1 ({left['reason']})" in str(report)


@pytest.mark.parametrize(
    "options", [{"padding": "valid"}, {"padding_mode": "replicate"}, {"padding_mode": "circular"}]
)
def test_constants_are_folded_where_padding_keeps_them(options: dict[str, Any]) -> None:
    model = padded(**options)
    assert difference(model, inputs(*IMAGES)) <= 1e-12
    assert model.conv1.out_channels == 4


@pytest.mark.parametrize(
    "average",
    [
        lambda x: F.avg_pool2d(x, 3, stride=1, padding=1),
        lambda x: F.avg_pool2d(x, 3, stride=1, divisor_override=5),
        nn.AvgPool2d(3, 1, 1),
    ],
)
def test_pooling_that_spoils_constants(average: Callable[[Tensor], Tensor]) -> None:
    model = prepared(Functional(average), dead=0.0)
    with torch.no_grad():
        model.conv1.weight[2:4] = 0.0
        model.conv1.bias[3] = 0.0
        model.conv2.weight[:, 0] = 0.0
    assert difference(model, inputs(*IMAGES)) <= 1e-12
    assert model.conv1.out_channels == 4


def linear(forward: Callable[..., Tensor]) -> Callable[[], nn.Module]:
    """Three layers a, b, c of width 5."""
    return lambda: written(forward, a=nn.Linear(5, 5), b=nn.Linear(5, 5), c=nn.Linear(5, 5))


def skip(self: Any, x: Tensor) -> Tensor:
    x = torch.relu(self.a(x))
    return self.c(x + torch.relu(self.b(x)))


def hidden(self: Any, x: Tensor) -> Tensor:
    y = self.a(x)
    return torch.cat([y, self.c(y)], dim=1)


def auxiliary(self: Any, x: Tensor) -> Tensor:
    y = self.a(x)
    return self.c(y) + y if self.training else self.c(y)


def width(self: Any, x: Tensor) -> Tensor:
    y = self.a(x)
    return self.c(y) / y.shape[1]


def noisy(self: Any, x: Tensor) -> Tensor:
    torch.manual_seed(0)
    return self.c(F.dropout(self.a(x), 0.5))


def tied() -> nn.Module:
    layers = nn.Sequential(nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 5))
    layers[4].weight = layers[0].weight
    return layers


def hooked(k: int) -> nn.Module:
    model = nn.Sequential(nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 5))
    model[k].register_forward_hook(lambda module, args, output: output.roll(1, -1))
    return model


def same_norm() -> nn.Module:
    norm = nn.BatchNorm1d(5)
    return nn.Sequential(nn.Linear(5, 5), norm, nn.Linear(5, 5), norm, nn.Linear(5, 5))


def weight_normed() -> nn.Module:
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(5, 5))
    return nn.Sequential(layer, nn.ReLU(), nn.Linear(5, 5))


UNTOUCHED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "skip": (linear(skip), "several users"),
    "called twice": (
        linear(lambda self, x: self.c(torch.relu(self.a(torch.relu(self.a(x)))))),
        "it is called 2 times",
    ),
    "bare": (
        linear(lambda self, x: self.c(torch.relu(self.a(x))) + self.a.weight.sum()),
        "read without calling it",
    ),
    "hidden": (linear(hidden), "several users"),
    "auxiliary": (linear(auxiliary), "in training mode its values have several users"),
    "noisy": (linear(noisy), "drops at random even in eval mode"),
    "softmax": (
        linear(lambda self, x: self.c(self.a(x).softmax(-1))),
        "softmax is not known to act on each channel alone",
    ),
    "width": (linear(width), "several users"),
    "tied": (tied, "shared with another module"),
    "hooked": (lambda: hooked(0), "forward hooks"),
    "hooked between": (lambda: hooked(1), "forward hooks"),
    "same norm": (same_norm, "it is called 2 times"),
    "weight norm": (weight_normed, "ParametrizedLinear, not a plain layer"),
    "norm of the batch": (
        lambda: nn.Sequential(
            nn.Linear(5, 5), nn.BatchNorm1d(5, track_running_stats=False), nn.Linear(5, 5)
        ),
        "no running statistics",
    ),
}


@pytest.mark.parametrize("name", UNTOUCHED)
def test_left_alone(name: str) -> None:
    make, reason = UNTOUCHED[name]
    model = make()
    if name != "weight norm":
        prepared(model, dead=0.0)
    first, *_, last = (m for m in model.modules() if isinstance(m, nn.Linear))
    with torch.no_grad():
        first.weight[1:3] = 0.0
        last.weight[:, 3] = 0.0
    model.double().eval()
    shapes = [p.shape for p in model.parameters()]
    moved, report = pruned(model, inputs(4, 5))
    assert moved == 0.0
    assert [p.shape for p in model.parameters()] == shapes
    assert not report.changed
    assert any(reason in row["reason"] for row in report.left), report.left


IMAGE_MODELS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "groups": (
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3, groups=2), nn.ReLU(), nn.Conv2d(4, 4, 3)),
        "groups = 2",
    ),
    "groups next": (
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3, groups=4)),
        "the next layer, 2, stays: it has groups = 4",
    ),
    "transposed": (
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.ConvTranspose2d(4, 4, 3)),
        "is not known to act on each channel alone",
    ),
    "no flatten": (
        lambda: nn.Sequential(nn.Conv2d(2, 12, 3), nn.ReLU(), nn.Linear(12, 4)),
        "the inputs of 2 are not its channels",
    ),
    "pooled over features": (
        lambda: nn.Sequential(nn.Linear(14, 6), nn.MaxPool2d(2), nn.Linear(3, 4)),
        "mixes its outputs",
    ),
    "flatten elsewhere": (
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.Flatten(2), nn.Linear(144, 4)),
        "does not flatten to (batch, -1)",
    ),
    "linear channels interleave": (
        lambda: nn.Sequential(nn.Linear(14, 4), nn.Flatten(), nn.Linear(112, 4)),
        "the inputs of 2 are not its channels",
    ),
    "fixed width": (
        lambda: Functional(flatten=lambda x: x.view(-1, 20)),
        "does not flatten to (batch, -1)",
    ),
    "not the batch": (
        lambda: Functional(flatten=lambda x: x.view(x.size(0) * 1, -1)),
        "not known to be the batch",
    ),
}


@pytest.mark.parametrize("name", IMAGE_MODELS)
def test_left_alone_on_images(name: str) -> None:
    make, reason = IMAGE_MODELS[name]
    model = prepared(make(), dead=0.0)
    layers = [m for m in model.modules() if hasattr(m, "weight")]
    layer = layers[1] if isinstance(model, Functional) else layers[0]
    with torch.no_grad():
        layer.weight[1:3] = 0.0
    shape = layer.weight.shape
    moved, report = pruned(model, inputs(*IMAGES))
    assert moved == 0.0
    assert layer.weight.shape == shape
    assert any(reason in row["reason"] for row in report.left), report.left


def test_a_module_may_be_named_like_a_method() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        x = self.a(x)
        return self.b(x) + self.size(x)

    model = prepared(written(forward, a=nn.Linear(5, 5), size=nn.Linear(5, 5), b=nn.Linear(5, 5)))
    assert difference(model, inputs(4, 5)) == 0.0
    assert model.a.out_features == 5


# The model afterwards


def test_state_dict_round_trip_flags_and_attributes() -> None:
    model = prepared(lenet(True))
    model.train()
    model[1].eval()
    flags = [m.training for m in model.modules()]
    frozen = model[4].weight.requires_grad_(False)
    keys = [sorted(vars(m)) for m in model.modules()]
    assert difference(model, inputs(*IMAGES)) <= 1e-12
    assert [m.training for m in model.modules()] == flags
    assert [sorted(vars(m)) for m in model.modules()] == keys
    assert model[4].weight is not frozen
    assert not model[4].weight.requires_grad
    assert all(isinstance(p, nn.Parameter) and p.is_leaf for p in model.parameters())
    twin = copy.deepcopy(model)
    for parameter in twin.parameters():
        nn.init.zeros_(parameter)
    twin.load_state_dict(model.state_dict())
    x = inputs(*IMAGES)
    assert torch.equal(twin.eval()(x), model.eval()(x))
    model.train()(x).sum().backward()
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)


def test_rows_of_the_report_add_up() -> None:
    model = prepared(lenet(True))
    before = size(model)
    report = prune(model)
    assert (report.parameters_before, report.parameters_after) == (before, size(model))
    frame = pd.DataFrame(report.rows)
    assert frame["parameters_before"].sum() == before
    assert frame["parameters_after"].sum() == size(model)
    assert "build the optimizer again" in str(report)


def test_other_precisions() -> None:
    for dtype, tolerance in [(torch.float32, 1e-5), (torch.bfloat16, 0.1)]:
        model = prepared(nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 4))).to(dtype)
        assert difference(model, inputs(5, 6).to(dtype)) <= tolerance
        assert model[2].bias.dtype == dtype
        assert model[0].out_features < 9


def test_optional_arguments_take_their_defaults() -> None:
    def forward(
        self: Any, x: Tensor, y: Tensor | None = None, *, mode: str = "sum", scale: bool = False
    ) -> Tensor:
        x = self.c(torch.relu(self.a(x)))
        if scale:
            x = x * 2
        return x if y is None else x + y

    model = prepared(linear(forward)())
    assert difference(model, inputs(4, 5)) <= 1e-12
    assert model.a.out_features < 5


def test_models_that_cannot_be_traced() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        self.last = x
        x = self.a(x)
        return self.c(x if x.sum() > 0 else -x)

    model = linear(forward)()
    with pytest.raises(ValueError, match=r"cannot trace Written in eval mode.*prune subm"):
        prune(model)
    assert model.training
    assert not hasattr(model, "last")  # tracing leaves nothing behind


def test_a_model_trained_with_group_lasso_gets_smaller() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 6, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(54, 12),
        nn.Tanh(),
        nn.Linear(12, 2),
    ).double()
    x = inputs(32, 1, 8, 8)
    y = (x.mean(dim=(1, 2, 3)) > 0).long()
    opt = SCCD(model, F.cross_entropy, lr=0.5, reg=GroupL2(0.05, groups=0))
    for _ in range(60):
        opt.step(x, y)
    assert float((model(x).argmax(1) == y).double().mean()) > 0.7  # it is not all zero
    assert sparsity(model).dead_rows > 0
    moved, report = pruned(model, x)
    assert moved <= 1e-12
    assert report.parameters_after < 0.8 * report.parameters_before
    again = SCCD(model, F.cross_entropy, lr=0.1)
    first = again.step(x, y)
    for _ in range(5):
        last = again.step(x, y)
    assert last < first


# Tests of these tests: break it, and see the outputs change


def test_dropping_a_live_channel_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    true = removal.dead_slices

    def wrong(weight: Tensor, dim: int) -> Tensor:
        dead = true(weight, dim)
        if dim == 1:
            dead[0] = True
        return dead

    model = prepared(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)), dead=0.0)
    assert difference(copy.deepcopy(model), inputs(8, 4)) == 0.0
    monkeypatch.setattr(removal, "dead_slices", wrong)
    assert difference(model, inputs(8, 4)) > 1e-2


@pytest.mark.parametrize(("name", "broken", "make"), [
    ("_fold", lambda *args: None, lambda: prepared(lenet())),
    ("_pads_with_zeros", lambda layer: False, padded),
    ("_normalise", lambda norm, value: value, lambda: prepared(lenet(True))),
], ids=["constants", "padding", "normalisation"])  # fmt: skip
def test_what_is_forgotten_is_seen(
    name: str, broken: Any, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, name, broken)
    assert difference(make(), inputs(*IMAGES)) > 1e-3
