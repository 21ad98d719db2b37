"""Chains compute what their models compute, with the stages one would expect."""

from __future__ import annotations

import collections
import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import models
import pytest
import torch
import torch.nn.functional as F
from small_nets import written
from torch import Tensor, nn

from cyclade.optim import SCCD, SGD
from cyclade.optim.stages import Chain, CutWarning, Env, Inputs, Replay, cut
from cyclade.optim.stages.verifying import verify


def onward(
    chain: Chain, replay: Replay, env: Env, tensors: Any, start: int = 0, **options: Any
) -> list[Env]:
    """The envs before stage `start` and after it and every later one."""
    envs = [env]
    for i in range(start, len(chain.stages)):
        envs.append(replay.run(i, envs[-1], tensors, **options))
    return envs


def run(chain: Chain, inputs: Inputs, tensors: dict[str, torch.Tensor] | None = None) -> Env:
    return onward(chain, Replay(), chain.start(inputs), tensors or {})[-1]


def names(chain: Chain) -> list[str]:
    return [stage.name for stage in chain.stages]


def two_layers(forward: Callable[..., Any], width: int = 6, **held: Any) -> nn.Module:
    """Layers a and b of this width."""
    return written(forward, a=nn.Linear(width, width), b=nn.Linear(width, width), **held)


def images(size: int = 16) -> Inputs:
    return Inputs((torch.randn(3, 3, size, size),))


def words() -> Inputs:
    return Inputs((torch.randint(0, 31, (3, 9)),))


def words_and_targets() -> Inputs:
    return Inputs((torch.randint(0, 31, (3, 9)),), {"targets": torch.randint(0, 31, (3, 9))})


def rows(width: int = 6) -> Inputs:
    return Inputs((torch.randn(4, width),))


def dicts() -> Inputs:
    return Inputs(({"x": torch.randn(4, 4), "z": torch.randn(4, 3)},), {"scale": 0.5})


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[], Inputs], str]] = {
    "mlp": (models.mlp, lambda: Inputs((torch.randn(5, 3, 4),)), "sequential"),
    "lenet": (models.LeNet, lambda: images(32), "fx"),
    "resnet": (lambda: models.ResNet18(4), images, "fx"),
    "vit": (models.ViT, images, "fx"),
    "gpt": (models.GPT, words, "fx"),
    "gpt loss": (models.GPT, words_and_targets, "fx"),
    "reused": (models.Reused, rows, "fx"),
    "raw": (models.RawAttention, lambda: Inputs((torch.randn(2, 7, 8),)), "fx"),
    "dict": (models.DictModel, dicts, "fx"),
    "shape": (models.ShapeSwitch, rows, "export"),
    "dropped": (models.Dropped, rows, "fx"),
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_output_equals_the_models_bit_for_bit(case: str, training: bool) -> None:
    make, batch, how = CASES[case]
    torch.manual_seed(0)
    model, inputs = make().train(training), batch()
    chain = cut(model, example=inputs)
    assert chain.how == how
    verify(chain, inputs)
    state = torch.get_rng_state()
    with torch.no_grad():
        # The model's own parameters, as it uses them: a detached weight may take another kernel.
        output = chain.output(run(chain, inputs, dict(model.named_parameters())))
        torch.set_rng_state(state)
        expected = model(*inputs.args, **inputs.kwargs)
    torch.testing.assert_close(output, expected, rtol=0, atol=0)
    assert type(output) is type(expected)
    used = {name for stage in chain.stages for name in stage.params}
    assert used == {name for name, _ in model.named_parameters()}


STAGES: dict[str, tuple[Callable[[], nn.Module], dict[int, str]]] = {
    "lenet": (models.LeNet, {0: "conv1", 1: "conv2", 2: "fc1: fc1.weight fc1.bias", 4: "fc3"}),
    "residual": (lambda: models.ResNet18(4, depth=1), {
        1: "bn1", 2: "layers.0.conv1", 11: "layers.1.shortcut.1", -1: "linear"}),
    "direct parameters": (lambda: models.ViT(depth=1), {
        1: "cls_token: cls_token pos_embedding", 3: "blocks.0.attention", -1: "head"}),
    "tied": (lambda: models.GPT(depth=1), {0: "wte: wte.weight", -1: "lm_head: wte.weight"}),
    "reused": (models.Reused, {0: "a: a.weight a.bias", 1: "b", 2: "a@2: a.weight a.bias"}),
}  # fmt: skip


@pytest.mark.parametrize("case", STAGES)
def test_stages_are_the_uses_of_layers(case: str) -> None:
    make, expected = STAGES[case]
    chain = cut(make())
    for k, words in expected.items():
        stage = chain.stages[k]
        assert f"{stage.name}: {' '.join(stage.params)}".startswith(words)
    assert -1 in expected or len(chain.stages) == 1 + max(expected)


def test_env_holds_only_what_is_still_needed() -> None:
    chain = cut(models.LeNet())
    env = chain.start(images(32))
    replay = Replay()
    for i in range(5):
        before = dict(env)
        after = replay.run(i, env, {})
        assert env == before
        assert len(after) == 2  # one activation and the note of the cut
        env = after
    chain = cut(models.ResNet18(4, depth=1))
    envs = onward(chain, Replay(), chain.start(images()), {})[1:]
    sizes = [sum(isinstance(v, torch.Tensor) for v in env.values()) for env in envs]
    assert max(sizes) == 2
    assert sizes[-1] == 1


def test_the_call_is_found_out_at_the_first_batch() -> None:
    chain = cut(models.GPT())
    plain, loss = words(), words_and_targets()
    assert isinstance(chain.output(run(chain, plain)), torch.Tensor)
    assert len(chain.output(run(chain, loss))) == 2
    assert chain.how == "fx"
    with pytest.raises(AssertionError, match="too long"):
        # The model's own checks are skipped by the stages, not by the model.
        models.GPT()(torch.zeros(1, 13, dtype=torch.long))


def test_other_stages_in_another_mode_are_an_error() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        return self.b(self.a(x)) if self.training else self.a(x)

    model = two_layers(forward, 3)
    chain = cut(model)
    model.eval()
    with pytest.raises(ValueError, match=r"other stages .* \['a'\] instead of \['a', 'b'\]"):
        chain.start(rows(3))


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


def test_parameters_come_back_when_a_stage_fails() -> None:
    model = models.LeNet()
    chain = cut(model)
    weight = model.conv1.weight
    env = chain.start(Inputs((torch.randn(2, 4, 32, 32),)))
    with pytest.raises(RuntimeError):
        Replay().run(0, env, {"conv1.weight": weight.detach()})
    assert model.conv1.weight is weight


def test_sequential_of_blocks_is_cut_finer_by_fx() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), models.BasicBlock(4, 8, 2), nn.Flatten())
    assert len(cut(model).stages) == 7
    odd = nn.Sequential(nn.Linear(6, 6), models.ValueSwitch(), nn.Linear(3, 2))
    chain = cut(odd)
    assert chain.how == "sequential"
    assert names(chain) == ["0", "1", "2"]
    verify(chain, rows())


def test_stages_given_by_the_user() -> None:
    model = models.LeNet()

    def classified(self: Any, x: Tensor) -> Tensor:
        hidden = torch.relu(self.b(torch.relu(self.a(x.flatten(1)))))
        return self.c(hidden)

    head = written(classified, a=model.fc1, b=model.fc2, c=model.fc3)
    pool = nn.Sequential(nn.ReLU(), nn.MaxPool2d(2))
    chain = cut(model, stages=[model.conv1, pool, model.conv2, pool, head])
    assert chain.how == "stages"
    assert names(chain) == ["conv1", "conv2", "stage4"]
    verify(chain, images(32))
    with pytest.raises(ValueError, match=r"leave out parameters.*fc1\.weight"):
        cut(model, stages=[model.conv1, model.conv2])
    with pytest.raises(ValueError, match="not a parameter of the model"):
        cut(model, stages=[model, nn.Linear(2, 2)])
    with pytest.raises(ValueError, match=r"stages\[0\] is a function"):
        cut(model, stages=[run])  # type: ignore[list-item]
    wrong = cut(model, stages=[model.conv1, pool, model.conv2, head])
    with pytest.raises(RuntimeError):
        verify(wrong, images(32))


def test_whole_model_with_a_warning_that_says_why() -> None:
    with pytest.warns(CutWarning, match=r"Written.*fx: TraceError.*give example="):
        chain = cut(models.ValueSwitch())
    assert chain.how == "whole"
    inputs = rows()
    with pytest.warns(CutWarning, match=r"export: .*give stages="):
        cut(models.ValueSwitch(), example=inputs)
    assert chain.random  # nothing known yet
    verify(chain, inputs)
    assert not chain.random
    model = models.LeNet()
    model.register_forward_hook(lambda *a: None)
    with pytest.warns(CutWarning, match="the model itself has hooks"):
        cut(model)


def test_gradients_switched_off_inside_go_to_export() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        with torch.no_grad():
            y = torch.tanh(self.a(x))
        return self.b(self.a(x)) * y

    model = two_layers(forward).double()
    inputs = Inputs((torch.randn(4, 6, dtype=torch.double),))
    with pytest.warns(CutWarning, match="switches gradients off"):
        cut(model)
    chain = cut(model, example=inputs)
    assert chain.how == "export"
    weight = model.a.weight.detach().requires_grad_()
    out = chain.output(run(chain, inputs, {"a.weight": weight}))
    (found,) = torch.autograd.grad(out.sum(), weight)
    (expected,) = torch.autograd.grad(model(*inputs.args).sum(), model.a.weight)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_tracing_leaves_the_model_alone() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        self.last = self.a(x)
        self.seen.append(self.last)
        return self.last + torch.zeros(6)

    model = written(forward, a=nn.Linear(6, 6), seen=[], last=None)
    verify(cut(model), rows())
    assert model.last is None
    assert model.seen == []
    assert not any("constant" in name for name in vars(model))


def test_outputs_of_other_types() -> None:
    Pair = collections.namedtuple("Pair", "left right")

    def forward(self: Any, x: Tensor, flag: bool = False) -> object:
        return [Pair(self.a(x), (None, 3)), {"w": self.a.weight, "flag": flag}]

    model = written(forward, a=nn.Linear(6, 6))
    inputs = Inputs((torch.randn(4, 6),), {"flag": True})
    out = cut(model).output(run(cut(model), inputs))
    pair, rest = out
    assert type(pair) is Pair
    assert pair.right == (None, 3)
    assert rest["w"] is model.a.weight
    assert rest["flag"] is True


def test_moving_the_model_moves_the_stages() -> None:
    model = models.RawAttention()
    chain = cut(model)
    x = torch.randn(2, 7, 8)
    run(chain, Inputs((x,)))
    model.double()
    out = chain.output(run(chain, Inputs((x.double(),))))
    assert torch.equal(out, model(x.double()))


def test_envs_are_not_mixed_up() -> None:
    chain, loss, replay = cut(models.GPT(dropout=0.1)), words_and_targets(), Replay()
    with pytest.raises(ValueError, match=r"does not stand before stage 'blocks\.0\.ln1'"):
        Replay().run(2, chain.start(loss), {})
    replay.run(1, replay.run(0, chain.start(loss), {}), {})
    env = Replay().run(0, chain.start(Inputs(loss.args)), {})
    with pytest.raises(ValueError, match="one Replay serves one batch"):
        replay.run(1, env, {})


def test_stacks_of_transformer_layers_are_cut_by_export() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
    model = nn.ModuleDict({"n": nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)})["n"]
    inputs = Inputs((torch.randn(2, 5, 8),))
    chain = cut(model, example=inputs)
    assert chain.how == "export"
    assert len(chain.stages) == 12
    assert chain.random
    verify(chain, inputs)
    inside = nn.Sequential(model, nn.Linear(8, 2))
    assert len(cut(inside).stages) == 2
    assert len(cut(inside, example=inputs).stages) == 13


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # torch.compile's own
def test_compiled_stages() -> None:
    model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2))
    inputs = rows()
    chain = cut(model)
    chain.compile(backend="aot_eager")
    verify(chain, inputs)
    replay = Replay()
    plain = {name: p.detach() for name, p in model.named_parameters()}
    with torch.no_grad():
        envs = onward(chain, replay, chain.start(inputs), plain)
    assert model[1].num_batches_tracked == 1
    for i, name in enumerate(("0.weight", "1.bias", "3.weight")):
        wanted = plain[name].clone().requires_grad_()
        env = onward(chain, replay, envs[i], {**plain, name: wanted}, i)[-1]
        (found,) = torch.autograd.grad(chain.output(env).square().sum(), wanted)
        loss = torch.func.functional_call(model, {name: wanted}, inputs.args).square().sum()
        torch.testing.assert_close(found, torch.autograd.grad(loss, wanted)[0])
    assert model[1].num_batches_tracked == 4  # once by the stages, three times by the model


# ---------------------------------------------------------------- cut on the first batch, as found


class Cache:
    """What a language model hands back beside its scores; pytree does not know it."""

    def __init__(self, keys: Tensor) -> None:
        self.keys = keys


def test_outputs_with_objects_are_cut_on_the_first_batch() -> None:
    def forward(self: Any, x: Tensor) -> dict[str, Any]:  # a branch that only export follows
        hidden = self.a(x) if x.shape[0] > 1 else -self.a(x)
        return {"scores": self.b(torch.tanh(hidden)), "cache": Cache(hidden)}

    x, y = torch.randn(4, 6), torch.tensor([0, 1, 2, 0])
    model = written(forward, a=nn.Linear(6, 5), b=nn.Linear(5, 3))
    opt = SCCD(model, lambda out, y: F.cross_entropy(out["scores"], y), lr=0.1)
    opt.step(x, y)
    assert opt.net.chain.how == "export"
    assert names(opt.net.chain) == ["a", "b"]


def test_compiled_models_are_unwrapped() -> None:
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    wrapped = SimpleNamespace(_orig_mod=model)
    with pytest.raises(TypeError, match=r"model must be an nn\.Module, got SimpleNamespace"):
        SCCD(wrapped, F.cross_entropy)
    shell = nn.Module()
    shell._orig_mod = model  # what torch.compile returns has this name for what it wraps
    opt = SCCD(shell, F.cross_entropy, lr=0.1)
    assert opt.net.model is model
    assert [g["name"] for g in opt.param_groups] == ["0", "2"]


def test_sparse_gradients_and_complex_parameters() -> None:
    torch.manual_seed(0)
    wave = written(
        lambda self, x: self.head((x.to(torch.cfloat) @ self.w).abs()),
        w=nn.Parameter(torch.randn(6, 4, dtype=torch.cfloat)), head=nn.Linear(4, 3),
    )  # fmt: skip
    x, y = torch.randn(4, 6), torch.tensor([0, 1, 2, 0])
    opt = SCCD(wave, F.cross_entropy, lr=0.1, blocks="layers")
    first = float(opt.step(x, y))
    for _ in range(20):
        last = float(opt.step(x, y))
    assert last < first
    with pytest.raises(ValueError, match="w is complex, for which precondition='adam' is not"):
        SCCD(wave, F.cross_entropy, precondition="adam")
    with pytest.raises(ValueError, match="mixes complex and real parameters: give blocks="):
        SGD(wave, F.cross_entropy)
    ids = torch.randint(0, 10, (4, 5))
    for options in ({}, {"precondition": "adam"}):
        torch.manual_seed(0)
        sparse = nn.Sequential(nn.EmbeddingBag(10, 4, sparse=True, mode="sum"), nn.Linear(4, 3))
        dense = copy.deepcopy(sparse)
        dense[0].sparse = False
        for model in (sparse, dense):
            opt = SCCD(model, F.cross_entropy, lr=0.1, order="forward", **options)
            for _ in range(3):
                opt.step(ids, y)
        for p, q in zip(sparse.parameters(), dense.parameters(), strict=True):
            torch.testing.assert_close(p, q)


def sized(self: Any, x: Tensor) -> Tensor:
    """Asks for its number of rows: for a range, which an export hands over, and for evenness."""
    hidden = self.a(x) if x.shape[0] > 3 else -self.a(x)
    if self.even and x.shape[0] % 2 == 0:
        hidden = 2 * hidden
    return self.b(torch.tanh(hidden))


@pytest.mark.parametrize(("even", "exports"), [(False, 2), (True, 3)])
def test_other_sizes_share_an_export_where_that_is_proved(
    even: bool, exports: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    export = torch.export.export

    def counted(model: nn.Module, args: Any, *rest: Any, **options: Any) -> Any:
        made.append(len(args[0]))
        return export(model, args, *rest, **options)

    monkeypatch.setattr(torch.export, "export", counted)
    model = written(sized, a=nn.Linear(6, 5), b=nn.Linear(5, 3), even=even)
    twin = copy.deepcopy(model)
    opt = SGD(model, F.cross_entropy, lr=0.1)
    for n in (8, 12, 5, 7, 2, 8, 5, 2):
        torch.manual_seed(n)
        x, y = torch.randn(n, 6), torch.randint(0, 3, (n,))
        opt.step(x, y)
        grads = torch.autograd.grad(F.cross_entropy(twin(x), y), list(twin.parameters()))
        with torch.no_grad():
            for p, g in zip(twin.parameters(), grads, strict=True):
                p -= 0.1 * g
    assert opt.net.chain.how == "export"
    assert len(made) == exports
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, q)
