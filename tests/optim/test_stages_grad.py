"""Gradients of a suffix replay are those of the whole model, and nothing more is formed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import models
import pytest
import torch
from small_nets import written
from test_stages_cut import CASES as CUT
from test_stages_cut import images, onward, rows, run, words_and_targets
from torch import Tensor, nn

from cyclade.optim._trees import pytree
from cyclade.optim.stages import Inputs, Replay, cut
from cyclade.optim.stages.verifying import verify


def recurrent() -> nn.Module:
    """An LSTM, which keeps a second list of its weights."""
    return written(
        lambda self, x: self.head(self.lstm(x)[0]), lstm=nn.LSTM(3, 4), head=nn.Linear(4, 2)
    )


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


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[], Inputs]]] = {
    **{name: CUT[name][:2] for name in CUT if name not in ("gpt", "dropped")},
    "resnet": (lambda: models.ResNet18(3, depth=1), images),
    "lstm": (recurrent, lambda: Inputs((torch.randn(5, 2, 3),))),
    "in place": (in_place, rows),
}


def double(inputs: Inputs) -> Inputs:
    def convert(value: Any) -> Any:
        floats = isinstance(value, Tensor) and value.is_floating_point()
        return value.double() if floats else value

    return Inputs(*pytree.tree_map(convert, (inputs.args, inputs.kwargs)))


def scalar(output: object) -> Tensor:
    if isinstance(output, dict):
        return output["loss"]
    if isinstance(output, tuple):
        return output[1]
    return torch.sin(output).sum()


@pytest.mark.parametrize("case", CASES)
def test_gradient_of_every_stage(case: str) -> None:
    make, batch = CASES[case]
    torch.manual_seed(1)
    model, inputs = make().double(), double(batch())
    chain = cut(model, example=inputs)
    verify(chain, inputs)
    loss = scalar(model(*inputs.args, **inputs.kwargs))
    parameters = dict(model.named_parameters())
    expected = dict(
        zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True)
    )
    replay = Replay()
    env = chain.start(inputs)
    plain = {name: p.detach() for name, p in parameters.items()}
    first_use: dict[str, int] = {}
    for i, stage in enumerate(chain.stages):
        for name in stage.params:
            first_use.setdefault(name, i)
        own = [name for name in stage.params if first_use[name] == i]
        assert not any(v.requires_grad for v in env.values() if isinstance(v, Tensor))
        wanted = {name: plain[name].clone().requires_grad_() for name in own}
        at = onward(chain, replay, env, {**plain, **wanted}, i)[-1]
        if own:
            found = torch.autograd.grad(scalar(chain.output(at)), list(wanted.values()))
            for name, gradient in zip(own, found, strict=True):
                torch.testing.assert_close(gradient, expected[name], rtol=1e-12, atol=1e-12)
        with torch.no_grad():
            env = replay.run(i, env, plain)
    assert all(p.grad is None and p.requires_grad for p in parameters.values())


def test_only_what_is_asked_for_is_in_the_graph() -> None:
    model, inputs = models.LeNet(), images(32)
    chain = cut(model)
    replay = Replay()
    with torch.no_grad():
        env = onward(chain, replay, chain.start(inputs), {})[2]
    weight = model.fc1.weight.detach().requires_grad_()
    env = onward(chain, replay, env, {"fc1.weight": weight}, 2)[-1]
    leaves, todo, seen = set(), [chain.output(env).grad_fn], set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        assert "onv" not in node.name()
        if hasattr(node, "variable"):
            leaves.add(node.variable)
        todo += [parent for parent, _ in node.next_functions]
    assert leaves == {weight}


def test_substituted_tensors_are_used_and_the_model_is_not_touched() -> None:
    model, inputs = models.GPT(depth=1), words_and_targets()
    other = models.GPT(depth=1)
    chain = cut(model, example=inputs)
    before = {name: (p, p.detach().clone()) for name, p in model.named_parameters()}
    env = run(chain, inputs, {name: p.detach() for name, p in other.named_parameters()})
    assert torch.equal(chain.output(env)[1], other(*inputs.args, **inputs.kwargs)[1])
    for name, p in model.named_parameters():
        assert p is before[name][0]
        assert torch.equal(p, before[name][1])
        assert p.requires_grad


def test_parameters_come_back_when_a_stage_fails() -> None:
    model = models.LeNet()
    chain = cut(model)
    weight = model.conv1.weight
    env = chain.start(Inputs((torch.randn(2, 4, 32, 32),)))
    with pytest.raises(RuntimeError):
        Replay().run(0, env, {"conv1.weight": weight.detach()})
    assert model.conv1.weight is weight
