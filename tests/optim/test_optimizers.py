"""What every optimizer must do: schedulers, groups, state, dtypes, micro-batches, errors."""

from __future__ import annotations

import copy
import io
import itertools
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small_nets import ALL, RECURSIVE, batch, close, net, values, written
from torch import nn

from cyclade import L1, GroupL2
from cyclade.optim import (
    PAGE,
    SCCD,
    SGD,
    VRCCD,
    VROCCD,
    NotFiniteError,
    PageBatchSampler,
    spectral_normalise,
)


def build(cls: Any, model: Any, **options: Any) -> Any:
    if cls in RECURSIVE:
        options = {"b": 16, "b_small": 4, **options}
    return cls(model, F.cross_entropy, **{"lr": 0.1, **options})


def sizes(cls: Any, steps: int) -> list[int]:
    return [16] + [16 if cls not in RECURSIVE or k % 3 == 0 else 4 for k in range(steps)]


def train(opt: Any, steps: int, first: int = 0, scheduler: Any = None) -> list[float]:
    losses = []
    for k, size in enumerate(sizes(type(opt), first + steps)[first:], start=first):
        losses.append(float(opt.step(*batch(size, k))))
        if scheduler is not None:
            scheduler.step()
    return losses


def same(a: Any, b: Any) -> bool:
    return all(torch.equal(p, q) for p, q in zip(values(a), values(b), strict=True))


@pytest.mark.parametrize("cls", ALL)
def test_it_is_a_torch_optimizer_and_trains(cls: Any) -> None:
    model = net()
    opt = build(cls, model)
    assert isinstance(opt, torch.optim.Optimizer)
    assert len(opt.param_groups) == (1 if cls in (SGD, PAGE) else 3)
    assert sum(p.numel() for g in opt.param_groups for p in g["params"]) == 119
    x, y = batch(16)
    first = float(opt.step(x, y))
    for _ in range(60):
        last = float(opt.step(x, y, refresh=True))
    assert last < 0.9 * first


@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum_is_torchs(nesterov: bool) -> None:
    ours, theirs = net(), net()
    opt = build(SGD, ours, momentum=0.9, nesterov=nesterov)
    peer = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=0.9, nesterov=nesterov)
    for k in range(10):
        x, y = batch(16, k)
        opt.step(x, y)
        peer.zero_grad()
        F.cross_entropy(theirs(x), y).backward()
        peer.step()
    close(ours, theirs, 1e-13)


@pytest.mark.parametrize("tensor_lr", [False, True])
@pytest.mark.parametrize("cls", ALL)
def test_schedulers_change_the_step(cls: Any, tensor_lr: bool) -> None:
    lr: Any = torch.tensor(0.1, dtype=torch.float64) if tensor_lr else 0.1
    scheduled, manual = net(), net()
    opt, other = build(cls, scheduled, lr=lr), build(cls, manual)
    train(opt, 6, scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=10))
    for k, size in enumerate(sizes(cls, 6)):
        for group in other.param_groups:
            group["lr"] = 0.05 * (1 + math.cos(math.pi * k / 10))
        other.step(*batch(size, k))
    close(scheduled, manual, 1e-6)


@pytest.mark.parametrize("order", ["forward", "shuffled"])
@pytest.mark.parametrize("precondition", [None, "spectral", "spectral-linear", "curvature", "adam"])
@pytest.mark.parametrize("cls", ALL)
def test_a_resumed_run_is_bit_identical(cls: Any, precondition: Any, order: str) -> None:
    options = {
        "precondition": precondition, "order": order, "weight_decay": 0.01, "curvature_every": 3,
        "momentum": 0.0 if precondition == "adam" else 0.5, "lr": 0.01,
        "adagrad_norm": None if precondition == "adam" else 0.3,
    }  # fmt: skip
    whole = net()
    train(build(cls, whole, **options), 13)
    for stop in (1, 4, 8):
        model = net()
        opt = build(cls, model, **options)
        train(opt, stop - 1)
        file = io.BytesIO()
        torch.save({"model": model.state_dict(), "opt": opt.state_dict()}, file)
        file.seek(0)
        saved = torch.load(file, weights_only=True)
        fresh = net()
        fresh.load_state_dict(saved["model"])
        again = build(cls, fresh, **options)
        again.load_state_dict(saved["opt"])
        assert again.draws == stop
        train(again, 13 - stop, first=stop)
        assert same(whole, fresh)


@pytest.mark.parametrize("cls", ALL)
def test_parameters_frozen_with_a_zero_lr_or_of_odd_layout(cls: Any) -> None:
    odd, plain = net(), net()
    odd[0].weight.data = odd[0].weight.data.t().contiguous().t()
    assert not odd[0].weight.is_contiguous()
    before = values(odd)
    for model in (odd, plain):
        model[2].weight.requires_grad_(False)
        opt = build(cls, model)
        opt.param_groups[-1]["lr"] = 0.0
        train(opt, 6)
    moved = [bool((a != b).any()) for a, b in zip(before, values(odd), strict=True)]
    assert moved == [cls not in (SGD, PAGE) and k not in (2, 4, 5) for k in range(6)]
    close(odd, plain, 1e-13)


def test_channels_last_convolutions() -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)).double()
    last = copy.deepcopy(plain).to(memory_format=torch.channels_last)
    x, y = torch.randn(8, 3, 6, 6, dtype=torch.float64), torch.randint(0, 3, (8,))
    a, b = build(SCCD, plain), build(SCCD, last)
    for _ in range(5):
        a.step(x, y)
        b.step(x.to(memory_format=torch.channels_last), y)
    assert last[0].weight.is_contiguous(memory_format=torch.channels_last)
    close(plain, last, 1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bfloat16", "autocast"])
@pytest.mark.parametrize("cls", ALL)
def test_bfloat16_and_autocast(cls: Any, dtype: Any) -> None:
    model = net(dtype=dtype)
    opt = build(cls, model)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.float32):
        for k, size in enumerate(sizes(cls, 6)):
            loss = opt.step(*batch(size, k, dtype))
    assert torch.isfinite(loss)
    assert model[0].weight.dtype == dtype


def test_autocast_does_not_remember_old_weights() -> None:
    """The last block must see the first one's new weights, as it does without autocast."""
    exact, mixed = net(dtype=torch.float32), net(dtype=torch.float32)
    x, y = batch(16, dtype=torch.float32)
    a, b = build(SCCD, exact, lr=5.0), build(SCCD, mixed, lr=5.0)
    a.step(x, y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        b.step(x, y)
    close(exact, mixed, 0.05, rtol=0.05)


@pytest.mark.parametrize("cls", ALL)
def test_micro_batches_are_one_large_batch(cls: Any) -> None:
    whole, parts = net(), net()
    a, b = build(cls, whole), build(cls, parts)
    for k, size in enumerate(sizes(cls, 6)):
        x, y = batch(size, k)
        loss_a = a.step(x, y)
        loss_b = b.step([(x[:1], y[:1]), (x[1:3], y[1:3]), (x[3:], y[3:])])
        assert float(loss_a) == pytest.approx(float(loss_b), abs=1e-14)
    close(whole, parts, 1e-13)


def test_curvature_is_the_norm_of_the_block_hessian() -> None:
    model = net()
    opt = build(SCCD, model, precondition="curvature", curvature_iterations=300, damping=0.0)
    x, y = batch(16)
    exact = []
    for layer in (model[0], model[2], model[4]):
        sizes = [layer.weight.numel(), layer.bias.numel()]

        def loss(v: torch.Tensor, layer: Any = layer, sizes: Any = sizes) -> Any:
            weight, bias = v.split(sizes)
            found = x
            for one in model:
                own = (weight.view_as(layer.weight), bias)
                found = F.linear(found, *own) if one is layer else one(found)
            return F.cross_entropy(found, y)

        point = torch.cat([layer.weight.detach().flatten(), layer.bias.detach()])
        H = torch.autograd.functional.hessian(loss, point)  # type: ignore[no-untyped-call]
        exact.append(torch.linalg.matrix_norm(H, 2))
    opt.step(x, y)
    for j, norm in enumerate(exact):
        torch.testing.assert_close(opt.runner.steps.metric(j), norm, rtol=1e-3, atol=0)


@pytest.mark.parametrize("cls", ALL)
def test_curvature_is_measured_when_due_and_on_large_batches_only(cls: Any) -> None:
    opt = build(cls, net(), precondition="curvature", curvature_every=2, lr=0.01,
                blocks="layers")  # fmt: skip
    seen: list[tuple[int, int]] = []
    measure, size = opt.runner.steps.measure, 0

    def watched(sweep: Any, iterations: int) -> bool:
        seen.append((opt.cycles, size))
        return measure(sweep, iterations)

    opt.runner.steps.measure = watched
    for k, size in enumerate(sizes(cls, 18)):
        opt.step(*batch(size, k))
    assert all(size == 16 for _, size in seen)
    cycles = [cycle for cycle, _ in seen]
    assert cycles[0] == 0
    assert all(b - a >= 2 for a, b in itertools.pairwise(cycles))
    assert len(cycles) >= 2


def test_regularisers_make_weights_and_rows_zero() -> None:
    model = net()
    train(build(SCCD, model, reg=L1(0.5)), 30)
    assert float((model[0].weight.detach() == 0).double().mean()) > 0.5
    assert float((model[0].bias.detach() == 0).double().mean()) == 0
    model = net()
    train(build(VROCCD, model, reg={"0": GroupL2(1.0, groups=0)}), 40)
    dead = (model[0].weight.detach() == 0).all(dim=1)
    assert int(dead.sum()) >= 1
    assert not (model[2].weight.detach() == 0).any()


def test_spectral_normalisation_as_a_reparametrisation() -> None:
    model = spectral_normalise(net())
    opt = build(SCCD, model)
    losses = train(opt, 30)
    assert losses[-1] < losses[0]
    norm = torch.linalg.matrix_norm(model[2].weight.detach(), 2)
    assert float(norm) == pytest.approx(1.0, abs=0.02)


# ------------------------------------------------------------------------------------- the sampler


def test_the_page_sampler_is_a_function_of_seed_and_position() -> None:
    sampler = PageBatchSampler(100, 20, 4, 0.3, seed=1)
    whole = [b for _ in range(3) for b in sampler]
    resumed = PageBatchSampler(100, 20, 4, 0.3, seed=0)
    resumed.load_state_dict({"seed": 1, "position": 5})
    assert whole[5 : 5 + len(resumed)] == list(resumed)
    assert {len(b) for b in whole} == {20, 4}
    assert len(whole[0]) == 20
    assert all(len(set(b)) == len(b) for b in whole)
    large = [len(sampler.draw(k)) == 20 for k in range(2000)]
    assert abs(sum(large) / 2000 - 0.3) < 0.04


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # on one core
@pytest.mark.parametrize("workers", [0, 2])
def test_the_page_sampler_in_a_data_loader(workers: int) -> None:
    x, y = batch(64)
    dataset = torch.utils.data.TensorDataset(x, y)
    sampler = PageBatchSampler(64, 16, 4, 0.3, seed=3)
    loader = torch.utils.data.DataLoader(dataset, batch_sampler=sampler, num_workers=workers)
    model = net()
    opt = build(VROCCD, model)
    for _ in range(2):
        for inputs, target in loader:
            opt.step(inputs, target)
    assert opt.draws == 2 * len(sampler)
    plain = net()
    twin = build(VROCCD, plain)
    for k in range(opt.draws):
        index = sampler.draw(k)
        twin.step(x[index], y[index])
    assert same(model, plain)


# ----------------------------------------------------------------------------------------- errors

ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"blocks": ["0", "layer9"]}, "blocks names 'layer9', which is neither a module"),
    ({"blocks": ["0", "2", "weigh"]}, "neither a module nor a trained parameter"),
    ({"blocks": ["0", ["2", "4"], "4"]}, "blocks overlap: 4.weight is in both"),
    ({"blocks": ["0", "2"]}, "blocks miss 4.weight, 4.bias: every trained parameter"),
    ({"blocks": [nn.Linear(2, 2)]}, "has a Linear that is not in the model"),
    ({"blocks": ["0", "1", "2", "4"]}, r"blocks\[1\] \(1\) has no trained parameters"),
    ({"blocks": [3.5]}, "blocks must hold modules"),
    ({"blocks": "blocks"}, "blocks must be 'layers', a number, or a list"),
    ({"blocks": 7, "example": batch(2)[0]}, "the model has 3 layers"),
    ({"max_overhead": 0.5, "example": batch(2)[0]}, "max_overhead must be at least 1"),
    ({"max_overhead": 2.0, "blocks": 2}, "not both"),
    ({"lr": -1.0}, "lr must be at least 0"),
    ({"lr": float("inf")}, "lr must be at least 0 and finite"),
    ({"lr": [0.1, 0.1]}, "one for each of the 3 blocks"),
    ({"momentum": 1.0}, r"momentum must be in \[0, 1\)"),
    ({"nesterov": True}, "nesterov=True needs a momentum"),
    ({"clip_norm": 0.0}, "clip_norm must be positive"),
    ({"clip_norm": "a"}, "clip_norm must be positive or None"),
    *(({"adagrad_norm": c}, "adagrad_norm must be positive or None") for c in (0.0, -1.0, "a")),
    ({"adagrad_norm": float("nan")}, "adagrad_norm must be positive or None"),
    ({"precondition": "adam", "adagrad_norm": 1.0}, "leave adagrad_norm at None"),
    ({"weight_decay": -1.0}, "weight_decay must be a finite number >= 0"),
    ({"precondition": "newton"}, "precondition must be one of"),
    ({"betas": (0.9, 1.0)}, r"betas must be two numbers in \[0, 1\)"),
    ({"precondition": "adam", "momentum": 0.9}, "momentum in betas"),
    ({"capture": True}, "capture=True needs a model on CUDA"),
    ({"capture": True, "order": "greedy"}, "cannot take order='greedy'"),
    ({"no_decay": ["layer9"]}, "no_decay names 'layer9'"),
    ({"no_decay": "bias"}, "no_decay='bias': 'biases'"),
    ({"damping": -5.0}, "damping must be a finite number >= 0"),
    ({"curvature_every": 0}, "curvature_every must be an integer >= 1"),
    ({"order": "up"}, "order='up' is unknown"),
    ({"reg": 0.1}, "reg must be a Regulariser"),
    ({"reg": {"layer9": L1(0.1)}}, "reg names 'layer9'"),
    ({"cls": VRCCD, "order": "greedy"}, "order='greedy' compares blocks"),
    ({"resident": "blocks"}, "resident must be 'block' or None"),
    ({"resident": "block", "visit_steps": 0}, "visit_steps must be an integer >= 1"),
    ({"resident": "block", "visit_steps": 2.5}, "visit_steps must be an integer"),
    ({"resident": "block", "precondition": "spectral"}, "takes Adam's steps"),
    ({"resident": "block", "reg": "L1"}, "does not take reg=: leave it out"),
    ({"resident": "block", "capture": True}, "does not take capture=: leave it out"),
    ({"resident": "block", "max_overhead": 1.5}, "max_overhead is for cycles"),
    ({"resident": "block", "order": "greedy"}, "order='greedy' compares blocks"),
    ({"model": net().parameters()}, r"give the model itself, not model\.parameters\(\)"),
]


@pytest.mark.parametrize(("options", "message"), ERRORS, ids=[text for _, text in ERRORS])
def test_bad_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        build(**{"cls": SCCD, "model": net(), **options})


def test_bad_steps() -> None:
    x, y = batch(16)
    for given, more, message in (
        ((), {}, r"SCCD\.step needs the batch"),
        ((x,), {}, "loss_fn needs a target"),
        ((x[:0], y[:0]), {}, "an empty batch"),
        ((x, y), {"refresh": False}, "no estimate that refresh=False corrects"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            build(SCCD, net()).step(*given, **more)
    opt = build(VROCCD, net())
    with pytest.raises(ValueError, match="the first batch must be a large one"):
        opt.step(x[:4], y[:4])
    opt.step(x, y)
    with pytest.raises(ValueError, match="a batch of 2 is smaller than b_small = 4"):
        opt.step(x[:2], y[:2])
    with pytest.raises(ValueError, match="cannot see the batch size: give refresh"):
        opt.step(lambda: F.cross_entropy(opt.net.model(x), y))
    vector = SCCD(net(), lambda out, target: F.cross_entropy(out, target, reduction="none"))
    with pytest.raises(ValueError, match=r"the loss must be a scalar tensor, got shape \(16,\)"):
        vector.step(x, y)
    with pytest.raises(ValueError, match="must return its loss"):
        SCCD(nn.Sequential(nn.LSTM(6, 2)).double()).step(x)
    with pytest.raises(ValueError, match="the blocks are fixed"):
        opt.add_param_group({"params": [nn.Parameter(torch.zeros(1))]})
    with pytest.raises(ValueError, match="not a state_dict of VROCCD"):
        opt.load_state_dict(torch.optim.SGD(net().parameters(), lr=0.1).state_dict())
    with (
        torch.autocast("cpu", dtype=torch.float16),
        pytest.raises(ValueError, match="use bfloat16"),
    ):
        build(SCCD, net(dtype=torch.float32)).step(x.float(), y)
    moved = net()
    opt = build(SCCD, moved)
    moved[0].weight.requires_grad_(False)
    with pytest.raises(RuntimeError, match=r"0\.weight was frozen or unfrozen"):
        opt.step(x, y)
    moved[0].weight.data = torch.zeros(8, 6, dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"the storage or shape of 0.weight changed"):
        opt.step(x, y)


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("size", [16, 4])
def test_a_gradient_that_is_not_finite_is_not_applied(cls: Any, size: int) -> None:
    """The loss is finite: only a look at the gradients, the lagged ones included, sees it."""
    spoilt = -1  # of the gradients taken, which one is NaN

    class Spoilt(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: Any) -> Any:
            return value.clone()

        @staticmethod
        def backward(ctx: Any, slope: Any) -> Any:
            nonlocal spoilt
            spoilt -= 1
            return slope * (torch.nan if spoilt == 0 else 1.0)

    def loss_fn(out: Any, target: Any) -> Any:
        return F.cross_entropy(Spoilt.apply(out), target)

    for at in range(1, 2 * 2 + 1):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double()
        b = {"b": 16, "b_small": 4} if cls in RECURSIVE else {}
        opt = cls(model, loss_fn, lr=0.01, blocks="layers", **b)
        for k in range(3):
            opt.step(*batch(16, k))
        spoilt = at
        refused = False
        try:
            opt.step(*batch(size))
        except NotFiniteError as error:
            refused = "is not finite, though the loss is" in str(error)
        assert refused == (spoilt <= 0), at
        spoilt = -1
        assert all(torch.isfinite(p).all() for p in model.parameters())
        opt.step(*batch(16))


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize(
    "options",
    [{"momentum": 0.9}, {"precondition": "curvature", "curvature_every": 1, "order": "shuffled"}],
    ids=["momentum", "curvature"],
)
def test_a_failed_first_gradient_changes_nothing(cls: Any, options: dict[str, Any]) -> None:
    """A loss that is NaN, in micro-batches too, or of the wrong shape; with spectral norms."""
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3)).double()
    model = spectral_normalise(layers)
    broken = False

    def loss_fn(out: Any, target: Any) -> Any:
        return F.cross_entropy(out, target, reduction="none" if broken else "mean")

    b = {"b": 16, "b_small": 4} if cls in RECURSIVE else {}
    opt = cls(model, loss_fn, lr=0.01, **options, **b)
    train(opt, 5)
    before = copy.deepcopy(model.state_dict())
    state = copy.deepcopy(opt.state_dict())
    x, y = batch(16)
    with pytest.raises(NotFiniteError, match="the loss is nan: the step was not applied"):
        opt.step(x * torch.nan, y)
    with pytest.raises(NotFiniteError):
        opt.step([(x[:8], y[:8]), (x[8:] * torch.nan, y[8:])])
    broken = True
    with pytest.raises(ValueError, match="scalar"):
        opt.step(x, y)
    broken = False
    after = opt.state_dict()
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    for own in (state["cyclade"], after["cyclade"]):
        own["draws"] -= 3 if own is after["cyclade"] else 0  # a failed step uses its batch
        if "order" in options:  # the tape holds tensors
            del own["trail"]
    assert after["cyclade"] == state["cyclade"]
    if "momentum" in options:  # the curvature was measured before the loss was seen
        for key, places in state["state"].items():
            for name, value in places.items():
                assert torch.equal(value, after["state"][key][name]), name
    opt.step(x, y)
    assert all(torch.isfinite(p).all() for p in model.parameters())


def test_a_step_that_failed_halfway_must_be_followed_by_a_refresh() -> None:
    model, calls = net(), -(10**9)

    def loss_fn(out: Any, target: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise KeyboardInterrupt
        return F.cross_entropy(out, target)

    opt = VROCCD(model, loss_fn, lr=0.3, b=16, b_small=4)
    x, y = batch(16)
    for _ in range(3):
        opt.step(x, y)
    calls = 0
    with pytest.raises(KeyboardInterrupt):
        opt.step(x, y, refresh=False)
    with pytest.raises(ValueError, match="failed between two blocks"):
        opt.step(x[:4], y[:4])
    opt.step(x, y)
    exact = torch.autograd.grad(F.cross_entropy(model(x), y), [model[0].weight])[0].flatten()
    opt.step(x, y, refresh=False)  # with full batches the estimate must be exact again
    torch.testing.assert_close(opt.state[model[0].weight]["g"][:48], exact, atol=1e-14, rtol=0)


def test_zero_weights_unseen_rows_and_low_precision_are_safe() -> None:
    model = net()
    nn.init.zeros_(model[4].weight)
    opt = build(SCCD, model, precondition="spectral", lr=0.1)
    train(opt, 5)
    assert float(model[4].weight.detach().abs().max()) < 10
    rows = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 1))
    unseen = rows[0].weight[9].detach().clone()
    adam = SCCD(rows, F.mse_loss, lr=1e-2, weight_decay=5e-4, precondition="adam")
    adam.step(torch.arange(4), torch.randn(4, 1))
    torch.testing.assert_close(rows[0].weight[9].detach(), unseen, rtol=1e-4, atol=0)
    low = net(dtype=torch.bfloat16)
    opt = build(SCCD, low, precondition="adam", lr=1e-3, reg=L1(1e-3))
    for k in range(20):
        opt.step(*batch(16, k, torch.bfloat16))
    assert all(torch.isfinite(p).all() for p in low.parameters())
    assert opt.state[low[0].weight]["updates"].dtype == torch.float32


def test_two_matrices_of_one_module_have_their_own_norms() -> None:
    model = written(
        lambda self, x: torch.tanh(x @ self.a.T) @ self.b.T,
        a=nn.Parameter(torch.eye(6)[:5].clone()), b=nn.Parameter(100 * torch.eye(5)[:3]),
    )  # fmt: skip
    opt = SCCD(model.double(), F.cross_entropy, lr=1e-6, precondition="spectral")
    opt.step(*batch(8))
    Lambda = opt.runner.steps.metric(0)
    assert float(Lambda[0]) == pytest.approx(1.0, rel=1e-3)
    assert float(Lambda[-1]) == pytest.approx(100.0, rel=1e-3)


@pytest.mark.parametrize("cls", [SCCD, SGD])
def test_spectral_steps_of_linear_layers_alone(cls: Any) -> None:
    """As in the paper: Λ is the spectral norm in fully connected layers and 1 elsewhere."""
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Flatten(), nn.Linear(12, 5)).double()
    opt = cls(model, F.cross_entropy, lr=1e-9, precondition="spectral-linear")
    torch.manual_seed(0)
    for _ in range(50):
        opt.step(torch.randn(4, 1, 4, 4, dtype=torch.float64), torch.tensor([0, 1, 2, 3]))
    sigma = float(torch.linalg.matrix_norm(model[2].weight.detach(), 2))
    first, last = opt.runner.steps.metric(0), opt.runner.steps.metric(opt.net.m - 1)
    if cls is SCCD:
        assert first == 1.0
        assert float(last) == pytest.approx(sigma, rel=1e-3)
    else:
        assert first[:30].tolist() == [1.0] * 30
        assert first[30:].tolist() == pytest.approx([sigma] * 65, rel=1e-3)


def test_zero_lr_with_a_regulariser_moves_nothing() -> None:
    model = net()
    before = values(model)
    build(SCCD, model, lr=0.0, reg=L1(0.1)).step(*batch(16))
    assert all(torch.equal(a, b) for a, b in zip(before, values(model), strict=True))


def test_mixed_dtypes_resume_bit_for_bit() -> None:
    def make() -> tuple[nn.Module, Any]:
        torch.manual_seed(0)
        model = written(
            lambda self, x: self.high(self.low(x.bfloat16()).float()),
            low=nn.Linear(6, 5).bfloat16(), high=nn.Linear(5, 3),
        )  # fmt: skip
        return model, SGD(model, F.cross_entropy, lr=0.1, momentum=0.9)

    model, opt = make()
    for k in range(4):
        opt.step(*batch(16, k, torch.float32))
    other, again = make()
    other.load_state_dict(model.state_dict())
    again.load_state_dict(copy.deepcopy(opt.state_dict()))
    for k in range(4, 8):
        opt.step(*batch(16, k, torch.float32))
        again.step(*batch(16, k, torch.float32))
    assert same(model, other)


def test_tied_modules_may_be_named_and_a_reg_must_find_something() -> None:
    model = written(
        lambda self, x: self.head(self.mid(self.emb(x))),
        emb=nn.Linear(6, 6), mid=nn.Linear(6, 6), head=nn.Linear(6, 6),
    )  # fmt: skip
    model.head.weight = model.emb.weight
    opt = build(SCCD, model.double(), blocks=["head", "mid", "emb"])
    assert [block.name for block in opt.net.blocks] == ["emb", "mid", "head"]
    assert opt.net.blocks[2].params == ("head.bias",)
    with pytest.raises(ValueError, match="has no trained weight"):
        build(SCCD, nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3)), reg={"1": L1(1.0)})


def test_a_gradient_whose_sum_overflows_is_finite() -> None:
    layer = nn.Linear(6, 2)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    opt = SCCD(layer, lambda out, y: 3e38 * out.sum(), lr=0.0)
    signs = torch.tensor([1.0, -1.0, 1.0, 1.0, 1.0, 1.0])
    opt.step(signs[None], torch.zeros(1))  # entries of 3e38
    with pytest.raises(NotFiniteError, match="is not finite, though the loss is"):
        opt.step(signs.expand(2, 6), torch.zeros(2))  # infinite ones of both signs
