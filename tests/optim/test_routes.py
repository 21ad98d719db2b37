"""The proof on the first batch: no model trains another model than its own.

Every step is held against a literal cycle: one backward pass of the model itself for each block.
"""

from __future__ import annotations

import copy
import functools
import random
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_nets import LR, Both, batch, close, literal_cycle, net, values, written
from torch import Tensor, nn

from cyclade.optim import SCCD, VROCCD, CutWarning


def listed() -> nn.Module:
    """Reaches a weight through a list, beside the registry."""
    model = written(
        lambda self, x: self.top(torch.tanh(x @ self.ws[0].T)),
        l=nn.Linear(6, 6), top=nn.Linear(6, 3),
    )  # fmt: skip
    model.ws = [model.l.weight]
    return model


def applied() -> nn.Module:
    """Reaches a weight through a partial."""
    model = written(
        lambda self, x: self.top(torch.tanh(self.f(x))), l=nn.Linear(6, 5), top=nn.Linear(5, 3)
    )
    model.f = functools.partial(F.linear, weight=model.l.weight)
    return model


def listed_layer() -> nn.Module:
    """The first inside a Sequential."""
    layer = listed()
    layer.top = nn.Identity()
    return nn.Sequential(layer, nn.Linear(6, 3))


@pytest.mark.parametrize("make", [listed, applied, listed_layer])
@pytest.mark.parametrize("cls", [SCCD, VROCCD])
def test_parameters_reached_beside_the_registry_train(cls: Any, make: Any) -> None:
    both = Both(make, cls=cls, blocks="layers")
    said = None if make is applied else r"l\.weight gets a gradient in the model but none"
    both.step(*batch(12), said)
    for k in range(4):
        both.step(*batch(12, seed=k))
    both.same()


class Features(nn.Module):
    """A container `f` inside, for hooks."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.f = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 5))
        self.head = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.f(x)))


@pytest.mark.parametrize("cls", [SCCD, VROCCD])
@pytest.mark.parametrize("parts", [1, 2])
def test_hooks_on_containers_fire_and_may_feed_the_loss(cls: Any, parts: int) -> None:
    def build() -> tuple[nn.Module, Any]:
        model, kept = Features().double(), {}
        model.f.register_forward_hook(lambda module, args, out: kept.update(f=out))

        def loss(out: Tensor, y: Tensor) -> Tensor:
            return F.cross_entropy(out, y) + (kept["f"] * out[:, :1]).square().mean()

        return model, loss

    (model, loss), (twin, its_loss) = build(), build()
    options: dict[str, Any] = {} if cls is SCCD else {"b": 8, "b_small": 2}
    opt = cls(model, loss, lr=LR, blocks="layers", **options)
    for k in range(5):
        x, y = batch(12, seed=k)
        halves = [(x, y)] if parts == 1 else [(x[:6], y[:6]), (x[6:], y[6:])]
        whole = k == 0 and (cls is VROCCD or parts == 2)
        with pytest.warns(CutWarning, match="f has forward hooks") if whole else nullcontext():
            opt.step(halves)

        def mean(m: nn.Module, halves: Any = halves) -> Any:
            return sum(its_loss(m(a), b) for a, b in halves) / len(halves)

        if cls is SCCD or k:
            literal_cycle(twin, opt.net.blocks, mean, LR)
    close(model, twin, 1e-12)


def test_hooks_of_parameters_bend_their_gradients() -> None:
    both = Both(lambda: net(6, 8, 3))
    both.change(
        lambda m: m[0].weight.register_hook(lambda g: g * torch.arange(8.0, dtype=g.dtype)[:, None])
    )
    for k in range(3):
        both.step(*batch(12, seed=k))
    both.same()
    # One that comes later is followed as well, and those that work on .grad are refused.
    both.change(lambda m: m[2].bias.register_hook(lambda g: -g))
    both.step(*batch(12))
    both.same()
    fresh = net(6, 8, 3)
    fresh[2].weight.register_post_accumulate_grad_hook(lambda p: None)
    with pytest.raises(ValueError, match=r"2\.weight has a hook by register_post_accumulate"):
        SCCD(fresh, F.cross_entropy, lr=LR).step(*batch(12))


def _assign(model: Any) -> None:
    model.load_state_dict({k: v.clone() for k, v in model.state_dict().items()}, assign=True)


@pytest.mark.parametrize("first", [False, True], ids=["before the first step", "after it"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda model: model.__setitem__(2, nn.Linear(8, 3)), r"2\.weight is another tensor"),
        (lambda model: model.append(nn.Linear(3, 3)), r"3\.weight is new"),
        (_assign, r"0\.weight is another tensor \(load_state_dict without assign=True"),
        (lambda model: model.pop(2), r"2\.weight is gone"),
    ],
)
def test_other_parameters_than_at_the_start_are_refused(
    change: Any, message: str, first: bool
) -> None:
    model = net(6, 8, 3)
    opt = SCCD(model, F.cross_entropy, lr=LR)
    x, y = batch(12)
    if first:
        opt.step(x, y)
    change(model)
    with pytest.raises(RuntimeError, match=message):
        opt.step(x, y)
    with pytest.raises(RuntimeError, match=message):
        opt.step(closure=lambda: F.cross_entropy(model(x), y))


def switchable() -> nn.Module:
    torch.manual_seed(0)
    return written(
        lambda self, x: self.b(self.act(self.a(x)) * self.scale + self.shift[0]),
        a=nn.Linear(6, 5), b=nn.Linear(5, 3), act=torch.tanh, shift=[0.0], scale=1.0,
    ).double()  # fmt: skip


def _forward(model: Any) -> None:
    model.forward = lambda x: model.b(torch.relu(model.a(x)))


CHANGES: dict[str, tuple[Any, Any]] = {
    "a hook": (
        switchable,
        lambda m: m.a.register_forward_hook(lambda module, args, out: 2 * out),
    ),
    "a function": (switchable, lambda m: setattr(m, "act", torch.sigmoid)),
    "a number": (switchable, lambda m: setattr(m, "scale", 3.0)),
    "a number in a list": (switchable, lambda m: m.shift.__setitem__(0, 1.5)),
    "forward": (switchable, _forward),
    "an activation": (lambda: net(6, 8, 3), lambda m: m.__setitem__(1, nn.ReLU())),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_that_keep_the_parameters_are_followed(name: str) -> None:
    make, change = CHANGES[name]
    both, (x, y) = Both(make), batch(12)
    for _ in range(2):
        both.step(x, y)
    both.change(change)
    if name == "forward":
        both.step(x, y, "its forward was replaced")
    for _ in range(2):
        expected = float(F.cross_entropy(both.model(x), y).detach())
        assert float(both.step(x, y)) == pytest.approx(expected, abs=1e-13)
    both.same()


def test_the_proof_is_made_once_for_each_condition() -> None:
    """Also for a model whose forward keeps its own values in attributes."""
    calls: list[int] = []

    class Keeps(Features):
        def forward(self, x: Tensor) -> Tensor:  # which proofs call, and cycles do not
            calls.append(1)
            self.last = self.f(x)
            return self.head(self.last)

    proofs: list[bool] = []
    model = Keeps().double()
    opt = SCCD(model, F.cross_entropy, lr=LR)
    x, y = batch(12)
    for training in (True, True, False, True, False, True):
        model.train(training)
        calls.clear()
        opt.step(x, y)
        proofs += [training] if calls else []
        model(x)
    assert proofs == [True, False]


class Scaled(nn.Module):
    """A loss with a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.s = nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, out: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(out * self.s, y)


def test_a_loss_with_parameters_is_refused_by_name() -> None:
    with pytest.raises(
        ValueError, match=r"loss_fn \(Scaled\) has a parameter 's' that would never"
    ):
        SCCD(net(6, 8, 3), Scaled(), lr=LR)
    frozen = Scaled().requires_grad_(False)
    SCCD(net(6, 8, 3), frozen, lr=LR).step(*batch(12))


FREE, HIDDEN = torch.ones(3, dtype=torch.float64, requires_grad=True), Scaled()


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (
            lambda out, y: HIDDEN(out, y),
            r'a trained parameter of shape \(\).*GAN.*blocks=\["G", "D"\].*lr=\[0.1, 0.0\]',
        ),
        (lambda out, y: F.cross_entropy(out * FREE.sum(), y), r"a trained tensor of shape \(3,\)"),
        (lambda out, y: F.cross_entropy(out.detach(), y), "the loss has no graph"),
        (lambda out, y: torch.tensor(F.cross_entropy(out, y).item()), "the loss has no graph"),
    ],
)
def test_losses_that_would_train_something_else_or_nothing_are_refused(
    loss: Any, message: str
) -> None:
    model = net(6, 8, 3)
    before = values(model)
    with pytest.raises(ValueError, match=message):
        SCCD(model, loss, lr=LR).step(*batch(12))
    close(model, before)


def test_a_closure_without_a_graph_is_refused() -> None:
    model, (x, y) = net(6, 8, 3), batch(12)
    with (
        pytest.raises(ValueError, match="the closure's loss has no graph"),
        pytest.warns(UserWarning, match="runs the closure"),
    ):
        SCCD(model, lr=LR).step(lambda: F.cross_entropy(model(x), y).detach())


@pytest.mark.parametrize("draw", [random.random, np.random.random])
def test_draws_of_python_and_numpy_are_repeated_not_baked_in(draw: Any) -> None:
    """LayerDrop: the kept layers change from step to step, and stay within one."""

    def forward(self: Any, x: Tensor) -> Tensor:
        for layer in self.layers:
            if draw() > 0.3:
                x = torch.tanh(layer(x))
        return self.head(x)

    torch.manual_seed(0)
    layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(4))
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    model = written(forward, layers=layers, head=nn.Linear(6, 3)).double()
    opt = SCCD(model, F.cross_entropy, lr=LR)
    x, y = batch(12)
    patterns = set()
    with pytest.warns(CutWarning):
        opt.step(x, y)
    for _ in range(6):
        twin = copy.deepcopy(model)
        state, state_np = random.getstate(), np.random.get_state()  # noqa: NPY002
        loss = opt.step(x, y)
        after = draw()
        pairs = zip(twin.parameters(), model.parameters(), strict=True)
        patterns.add(tuple(bool((a != b).any()) for a, b in pairs))
        random.setstate(state)
        np.random.set_state(state_np)  # noqa: NPY002
        assert float(loss) == pytest.approx(float(F.cross_entropy(twin(x), y).detach()), abs=1e-13)
        assert draw() == after  # as if the model had run once
    assert len(patterns) > 1


def test_blocks_of_a_late_cut_are_in_the_order_of_use() -> None:
    """Only export can follow this one, and it uses its layers in another order than it has them."""

    def forward(self: Any, x: Tensor) -> Tensor:
        x = torch.tanh(self.first(x) if x.shape[0] > 1 else -self.first(x))
        return self.last(torch.tanh(self.mid(x)))

    last, mid, first = nn.Linear(7, 3), nn.Linear(8, 7), nn.Linear(6, 8)
    model = written(forward, last=last, mid=mid, first=first).double()
    twin = copy.deepcopy(model)
    opt = SCCD(model, F.cross_entropy, lr=[0.0, LR, LR], blocks="layers")
    assert [group["name"] for group in opt.param_groups] == ["last", "mid", "first"]
    last = model.last.weight.detach().clone()
    x, y = batch(12)
    opt.step(x, y)
    assert opt.net.chain.how == "export"
    assert [block.name for block in opt.net.blocks] == ["first", "mid", "last"]
    assert torch.equal(last, model.last.weight.detach())  # the lr of a group stays with it
    for group in opt.param_groups:
        group["lr"] = LR
    twin.load_state_dict(model.state_dict())
    opt.step(x, y)
    literal_cycle(twin, opt.net.blocks, lambda m: F.cross_entropy(m(x), y), LR)
    close(model, twin, 1e-12)


def test_stages_that_are_not_the_model_are_refused() -> None:
    class Doubled(Features):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * super().forward(x)

    model = Doubled().double()
    opt = SCCD(model, F.cross_entropy, lr=LR, stages=[model.f, nn.Tanh(), model.head])
    with pytest.raises(ValueError, match="stages= are not the model"):
        opt.step(*batch(12))


# ------------------------------------------------------------- gradients within forward or loss


class Force(nn.Module):
    """Energies and their gradient in the input, or in a leaf that forward makes of it."""

    def __init__(self, leaf: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.leaf = nn.Linear(6, 5), nn.Linear(5, 1), leaf

    def energy(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(self.a(x)))

    def forward(self, x: Tensor) -> Tensor:
        x = (x.detach() if self.leaf else x).requires_grad_()
        with torch.enable_grad():
            energy = self.energy(x).sum()
            return torch.autograd.grad(energy, x, create_graph=True)[0]


@pytest.mark.filterwarnings("ignore::cyclade.optim.CutWarning")
@pytest.mark.parametrize("leaf", [False, True])
@pytest.mark.parametrize("cls", [SCCD, VROCCD])
def test_a_forward_that_differentiates_is_exact(cls: Any, leaf: bool) -> None:
    both = Both(lambda: Force(leaf), F.mse_loss, cls)
    for k in range(4):
        both.step(batch(12, seed=k)[0], torch.ones(12, 6, dtype=torch.float64))
    assert both.opt.net.m == 2
    both.same()


@pytest.mark.filterwarnings("ignore::cyclade.optim.CutWarning")
def test_curvature_is_refused_where_a_model_runs_as_a_whole() -> None:
    opt = SCCD(Force(), F.mse_loss, lr=LR, precondition="curvature")
    with pytest.raises(ValueError, match="precondition='curvature' needs a model that can be cut"):
        opt.step(torch.ones(4, 6), torch.ones(4, 6))


def test_a_loss_that_differentiates_is_exact() -> None:
    """A PINN: the loss asks for the derivative of the output in the input."""

    class Plain(Force):
        def forward(self, x: Tensor) -> Tensor:
            return self.energy(x)

    def residual(out: Tensor, x: Tensor) -> Tensor:
        slope = torch.autograd.grad(out.sum(), x, create_graph=True)[0]
        return (slope - out).square().mean()

    model, twin = Plain().double(), Plain().double()
    opt = SCCD(model, residual, lr=LR)
    for k in range(3):
        x = batch(12, seed=k)[0].requires_grad_()
        with pytest.warns(CutWarning, match="runs as a whole") if k == 0 else nullcontext():
            opt.step(x, x)
        literal_cycle(twin, opt.net.blocks, lambda m, x=x: residual(m(x), x), LR)
    close(model, twin, 1e-12)


@pytest.mark.parametrize("way", ["fx", "model"])
def test_a_model_that_writes_to_its_inputs_leaves_the_batch_alone(way: str) -> None:
    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.a, self.b = nn.Linear(6, 5), nn.Linear(5, 3)
            self.ws = [self.a.weight.T if way == "fx" else self.a.weight]

        def forward(self, x: Tensor) -> Tensor:
            x.mul_(2.0)
            hidden = self.a(x) if way == "fx" else x @ self.ws[0].T
            return self.b(torch.tanh(hidden))

    both, (x, y) = Both(Writes), batch(12)
    given = x.clone()
    both.step(x, y, r"a\.weight gets a gradient" if way == "model" else None)
    both.step(x, y)
    assert torch.equal(x, given)
    both.same()


def test_what_no_route_can_give_is_refused_before_anything_moved() -> None:
    class Counts(Features):
        calls = 0

        def forward(self, x: Tensor) -> Tensor:
            Counts.calls += 1
            return super().forward(x) * Counts.calls

    model = Counts().double()
    before = values(model)
    with pytest.raises(ValueError, match="no way of running Counts block by block"):
        SCCD(model, F.cross_entropy, lr=LR).step(*batch(12))
    close(model, before)


def test_a_wrong_call_raises_what_the_model_raises() -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        SCCD(net(6, 8, 3), F.cross_entropy, lr=LR).step(
            torch.ones(2, 5).double(), torch.tensor([0, 1])
        )
