"""Sparsity reports, and pruning that changes no output."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
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


def zero_slices(model: nn.Module, dead: float, generator: torch.Generator | None = None) -> None:
    """Random rows and columns of the layers' weights become zero."""
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            sides = [torch.rand(n, generator=generator) < dead for n in module.weight.shape[:2]]
            module.weight.data[sides[0]] = 0.0
            module.weight.data[:, sides[1]] = 0.0


def prepared(model: nn.Module, seed: int = 0, dead: float = 0.4) -> nn.Module:
    """Random weights, biases and statistics in float64, with random dead rows and channels."""
    generator = torch.Generator().manual_seed(seed)
    for name, value in model.double().state_dict().items():
        if value.is_floating_point():
            value.copy_(torch.randn(value.shape, generator=generator, dtype=value.dtype))
            if name.endswith("running_var"):
                value.abs_().add_(0.1)
    zero_slices(model, dead, generator)
    return model.eval()


def size(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def inputs(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(99))


def pruned(model: nn.Module, x: Tensor) -> tuple[float, PruneReport]:
    """How far pruning moves the outputs in eval mode, and its report."""
    flags = [m.training for m in model.modules()]
    model.eval()
    with torch.no_grad():
        before = model(x)
        report = prune(model)
        after = model(x)
    for module, flag in zip(model.modules(), flags, strict=True):
        module.training = flag
    return float((after - before).abs().max()), report


def difference(model: nn.Module, x: Tensor) -> float:
    return pruned(model, x)[0]


def kill(model: nn.Module, places: dict[str, Any]) -> None:
    """Set entries to zero: by parameter, what to index it with."""
    held = model.state_dict(keep_vars=True)
    with torch.no_grad():
        for name, index in places.items():
            held[name][index] = 0.0


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


# The report of sparsity


def test_sparsity_counts_zeros_rows_and_columns() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 2), nn.Flatten(), nn.Linear(5, 2))
    for parameter in model.parameters():
        nn.init.ones_(parameter)
    kill(model, {"0.weight": [0, 2], "2.weight": (0, 0)})
    kill(model, {"0.weight": (slice(None), 1)})
    report = sparsity(model)
    first, second = report.rows
    assert first == {
        "parameter": "0.weight", "shape": (4, 3, 2, 2), "size": 48, "zeros": 32 / 48,
        "rows": 4, "dead_rows": 2, "columns": 3, "dead_columns": 1,
    }  # fmt: skip
    assert (second["zeros"], second["dead_rows"], second["dead_columns"]) == (0.1, 0, 0)
    assert (report.size, report.zeros, report.dead_rows, report.dead_columns) == (58, 33 / 58, 2, 1)
    assert list(pd.DataFrame(report.rows)["dead_rows"]) == [2, 0]
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
@pytest.mark.parametrize("seed", range(4))
def test_lenet(norm: bool, seed: int) -> None:
    model = prepared(lenet(norm), seed)
    before = size(model)
    assert difference(model, inputs(*IMAGES)) <= 1e-12
    assert size(model) < 0.8 * before
    consistent(model)


def test_the_report_adds_up_and_a_second_time_nothing_changes() -> None:
    model = prepared(lenet(True))
    for changes in (True, False):
        before = size(model)
        report = prune(model)
        assert report.changed == changes == (size(model) < before)
        assert (report.parameters_before, report.parameters_after) == (before, size(model))
        sums = pd.DataFrame(report.rows)[["parameters_before", "parameters_after"]].sum()
        assert list(sums) == [before, size(model)]
        assert ("build the optimizer again" in str(report)) == changes


BETWEEN: dict[str, Callable[[Tensor], Tensor]] = {
    "relu in place": lambda x: F.relu(x, inplace=True),
    "x.relu_": lambda x: x.relu_(),
    "gelu": lambda x: F.gelu(x, approximate="tanh"),
    "dropout": lambda x: F.dropout(x.contiguous(), 0.5, training=False),
    "max pool": lambda x: F.max_pool2d(x, 2, stride=1, padding=1, ceil_mode=True),
    "average pool": lambda x: F.avg_pool2d(x, 2, 1, ceil_mode=True),
    "average pool over what is there": lambda x: F.avg_pool2d(x, 3, 1, 1, False, False),
    "two": lambda x: F.adaptive_max_pool2d(torch.tanh(x), (5, 6)),
}
MODULES = [  # called twice, which is fine: they hold no channel
    nn.ReLU(True), nn.LeakyReLU(0.1), nn.Sigmoid(), nn.SiLU(), nn.Dropout2d(), nn.Identity(),
    nn.MaxPool2d(2, 1, dilation=2), nn.AvgPool2d(3, 2, ceil_mode=True), nn.AdaptiveAvgPool2d(6),
]  # fmt: skip
FLATTEN: dict[str, Callable[[Tensor], Tensor]] = {
    "keyword": lambda x: torch.flatten(x, start_dim=1, end_dim=-1),
    "twice": lambda x: F.silu(x.flatten(1)).flatten(1),
}


FOLLOWED: dict[str, Callable[[], Functional]] = {
    **{name: partial(Functional, form) for name, form in BETWEEN.items()},
    **{str(module): partial(Functional, module) for module in MODULES},
    **{name: partial(Functional, flatten=form) for name, form in FLATTEN.items()},
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_forms_that_are_followed(name: str) -> None:
    model = prepared(copy.deepcopy(FOLLOWED[name]()))
    assert sparsity(model.conv1).dead_rows > 0
    assert difference(model, inputs(*IMAGES)) <= 1e-12
    assert sparsity(model.conv1).dead_rows == sparsity(model.conv2).dead_rows == 0
    consistent(model)


@pytest.mark.parametrize(
    ("between", "places", "shapes"),
    [
        # Nobody reads layer 4's outputs but one, so that most of layers 2 and 0 go, too.
        (nn.Identity, {"6.weight": (slice(None), slice(1, 6)), "4.weight": (0, slice(2, 6))},
         [(6, 6), (2, 6), (1, 2), (6, 1)]),
        # Row 0 of layer 1 reads only a constant, so it is one itself.
        (nn.Tanh, {"0.weight": 3, "2.weight": (0, [0, 1, 2, 4, 5])},
         [(5, 6), (5, 5), (6, 5), (6, 6)]),
    ],
    ids=["dead", "constant"],
)  # fmt: skip
def test_what_is_dead_spreads_through_several_layers(
    between: Any, places: dict[str, Any], shapes: list[tuple[int, int]]
) -> None:
    layers = [m for _ in range(4) for m in (nn.Linear(6, 6), between())]
    model = prepared(nn.Sequential(*layers[:-1]), dead=0.0)
    kill(model, places)
    assert difference(model, inputs(5, 6)) <= 1e-12
    assert [tuple(m.weight.shape) for m in model if isinstance(m, nn.Linear)] == shapes


def test_a_bias_is_made_where_a_constant_needs_one() -> None:
    for constant in (True, False):
        first = nn.Linear(3, 4, bias=constant)
        between = nn.Sigmoid() if constant else nn.ReLU()
        model = prepared(nn.Sequential(first, between, nn.Linear(4, 2, bias=False)), dead=0.0)
        kill(model, {"0.weight": 1})
        model[2].weight.requires_grad_(False)
        assert difference(model, inputs(5, 3)) <= 1e-12
        assert (model[2].bias is not None) == constant
        assert not any(p.requires_grad for p in model[2].parameters())


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
    kill(model, {"1.weight": [0, 4]})
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
    zero_slices(model, 0.3)
    moved, report = pruned(model, inputs(*shape))
    assert moved <= 1e-12
    assert report.parameters_after <= share * report.parameters_before
    consistent(model)


# What must be left


def padded(between: Any = torch.tanh, **options: Any) -> Functional:
    model = prepared(Functional(between, **options), dead=0.0)
    kill(model, {"conv1.weight": [2, 3], "conv1.bias": 3})
    return model


def test_constants_are_not_folded_over_zero_padding() -> None:
    for padding in (1, (0, 1), "same"):
        model = padded(padding=padding)
        moved, report = pruned(model, inputs(*IMAGES))
        assert moved <= 1e-12
        assert model.conv1.out_channels == 5  # channel 3 is zero; channel 2 is not
        (left,) = report.left
        assert (left["layer"], left["side"], left["dead"]) == ("conv1", "outputs", 1)
        assert "pads with zeros" in left["reason"]
        assert f"left: 1 dead outputs of conv1 ({left['reason']})" in str(report)


@pytest.mark.parametrize(("between", "options", "unread"), [
    (torch.tanh, {"padding": "valid"}, False),
    (torch.tanh, {"padding": 1, "padding_mode": "replicate"}, False),
    # Pooling that spoils constants: one channel that is not zero stays, one unread goes.
    (lambda x: F.avg_pool2d(x, 3, stride=1, divisor_override=5), {}, True),
    (nn.AvgPool2d(3, 1, 1), {}, True),
])  # fmt: skip
def test_constants_are_folded_where_padding_and_pooling_keep_them(
    between: Any, options: dict[str, Any], unread: bool
) -> None:
    model = padded(between, **options)
    if unread:
        kill(model, {"conv2.weight": (slice(None), 0)})
    assert difference(model, inputs(*IMAGES)) <= 1e-12
    assert model.conv1.out_channels == 4


def linear(forward: Callable[..., Tensor]) -> Callable[[], nn.Module]:
    """Three layers a, b, c of width 5."""
    return lambda: written(forward, a=nn.Linear(5, 5), b=nn.Linear(5, 5), c=nn.Linear(5, 5))


def row(*layers: nn.Module) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(*copy.deepcopy(layers))


def skip(self: Any, x: Tensor) -> Tensor:
    x = torch.relu(self.a(x))
    return self.c(x + torch.relu(self.b(x)))


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


UNTOUCHED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "skip": (linear(skip), "several users"),
    "called twice": (
        linear(lambda self, x: self.c(torch.relu(self.a(torch.relu(self.a(x)))))),
        "it is called 2 times"),
    "bare": (
        linear(lambda self, x: self.c(torch.relu(self.a(x))) + self.a.weight.sum()),
        "read without calling it"),
    "auxiliary": (linear(auxiliary), "in training mode its values have several users"),
    "noisy": (linear(noisy), "drops at random even in eval mode"),
    "softmax": (
        linear(lambda self, x: self.c(self.a(x).softmax(-1))),
        "softmax is not known to act on each channel alone"),
    "width": (linear(width), "several users"),
    "tied": (tied, "shared with another module"),
    "hooked": (lambda: hooked(0), "has hooks"),
    "hooked between": (lambda: hooked(1), "has hooks"),
    "same norm": (same_norm, "it is called 2 times"),
    "weight norm": (
        lambda: nn.Sequential(
            nn.utils.parametrizations.weight_norm(nn.Linear(5, 5)), nn.ReLU(), nn.Linear(5, 5)),
        "ParametrizedLinear, not a plain layer"),
    "norm of the batch": (
        row(nn.Linear(5, 5), nn.BatchNorm1d(5, track_running_stats=False), nn.Linear(5, 5)),
        "no running statistics"),
}  # fmt: skip
UNTOUCHED_ON_IMAGES: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "groups": (row(nn.Conv2d(2, 4, 3, groups=2), nn.ReLU(), nn.Conv2d(4, 4, 3)), "groups = 2"),
    "groups next": (
        row(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3, groups=4)),
        "the next layer, 2, stays: it has groups = 4"),
    "transposed": (
        row(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.ConvTranspose2d(4, 4, 3)),
        "is not known to act on each channel alone"),
    "no flatten": (
        row(nn.Conv2d(2, 12, 3), nn.ReLU(), nn.Linear(12, 4)),
        "the inputs of 2 are not its channels"),
    "pooled over features": (
        row(nn.Linear(14, 6), nn.MaxPool2d(2), nn.Linear(3, 4)), "mixes its outputs"),
    "flatten elsewhere": (
        row(nn.Conv2d(2, 4, 3), nn.Flatten(2), nn.Linear(144, 4)),
        "does not flatten to (batch, -1)"),
    "linear channels interleave": (
        row(nn.Linear(14, 4), nn.Flatten(), nn.Linear(112, 4)),
        "the inputs of 2 are not its channels"),
    "view": (lambda: Functional(flatten=lambda x: x.view(-1, 20)), "write flatten(1)"),
}  # fmt: skip


@pytest.mark.parametrize("name", [*UNTOUCHED, *UNTOUCHED_ON_IMAGES])
def test_left_alone(name: str) -> None:
    images = name in UNTOUCHED_ON_IMAGES
    make, reason = (UNTOUCHED | UNTOUCHED_ON_IMAGES)[name]
    model = make() if name == "weight norm" else prepared(make(), dead=0.0)
    layers = [m for m in model.modules() if isinstance(m, (nn.Linear, nn.Conv2d))]
    with torch.no_grad():
        layers[isinstance(model, Functional)].weight[1:3] = 0.0
        if not images:
            layers[-1].weight[:, 3] = 0.0
    model.double().eval()
    shapes = [p.shape for p in model.parameters()]
    kept = layers[isinstance(model, Functional)].weight.shape
    moved, report = pruned(model, inputs(*(IMAGES if images else (4, 5))))
    assert moved == 0.0
    assert layers[isinstance(model, Functional)].weight.shape == kept
    assert images or [p.shape for p in model.parameters()] == shapes
    assert images or not report.changed
    assert any(reason in row["reason"] for row in report.left), report.left


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


def test_other_precisions() -> None:
    for dtype, tolerance in [(torch.float32, 1e-5), (torch.bfloat16, 0.1)]:
        model = prepared(nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 4))).to(dtype)
        assert difference(model, inputs(5, 6).to(dtype)) <= tolerance
        assert model[2].bias.dtype == dtype
        assert model[0].out_features < 9


def test_optional_arguments_take_their_defaults() -> None:
    def forward(self: Any, x: Tensor, y: Tensor | None = None, *, scale: bool = False) -> Tensor:
        x = self.c(torch.relu(self.a(x))) * (2 if scale else 1)
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
        nn.Conv2d(1, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(54, 12), nn.Tanh(), nn.Linear(12, 2),
    ).double()  # fmt: skip
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


def one_live_column_too_many(weight: Tensor, dim: int, true: Any = removal.dead_slices) -> Tensor:
    dead: Tensor = true(weight, dim)
    dead[0] |= dim == 1
    return dead


@pytest.mark.parametrize(("name", "broken", "make"), [
    ("_fold", lambda *args: None, lambda: prepared(lenet())),
    ("_pads_with_zeros", lambda layer: False, lambda: padded(padding=1)),
    ("F", SimpleNamespace(batch_norm=lambda value, *held, eps: value),
     lambda: prepared(lenet(True))),
    ("dead_slices", one_live_column_too_many, lambda: prepared(lenet(), dead=0.0)),
], ids=["constants", "padding", "normalisation", "channels"])  # fmt: skip
def test_what_is_forgotten_is_seen(
    name: str, broken: Any, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, name, broken)
    assert difference(make(), inputs(*IMAGES)) > 1e-3
