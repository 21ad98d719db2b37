"""Trainers: what they do with an optimizer, without them and (where they are installed) with them.

A twin runs the same cycles by hand: one backward pass of the model for each block.
"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small_nets import close
from torch import Tensor, nn

from cyclade.optim import SCCD, SGD, VROCCD, CutWarning

LR = 0.1
pytestmark = pytest.mark.filterwarnings("ignore:step.closure. runs the closure")


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3)).double()


def data() -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(24, 6, generator=generator, dtype=torch.float64)
    y = torch.randint(0, 3, (24,), generator=generator)
    return [(x[i : i + 8], y[i : i + 8]) for i in range(0, 24, 8)]


def by_hand(model: nn.Module, blocks: Any, batches: Any, clip: float | None = None) -> None:
    params = dict(model.named_parameters())
    for x, y in batches:
        for block in blocks:
            model.zero_grad()
            F.cross_entropy(model(x), y).backward()
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            with torch.no_grad():
                for name in block.params:
                    params[name] -= LR * params[name].grad


def test_a_closure_chooses_affordable_blocks_too() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(6, 6) for _ in range(8)]).double()
    opt = SCCD(model, lr=LR)
    x, y = data()[0]
    calls: list[int] = []

    def closure() -> Tensor:
        calls.append(1)
        return F.cross_entropy(model(x), y)

    opt.step(closure)
    assert len(calls) == opt.net.m == 2


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda whole: pickle.loads(pickle.dumps(whole))])
@pytest.mark.parametrize("cls", [SCCD, VROCCD, SGD])
def test_an_optimizer_is_copied_and_pickled_with_its_model(cls: Any, copied: Any) -> None:
    options: dict[str, Any] = {"b": 8, "b_small": 2} if cls is VROCCD else {}
    model = net()
    opt = cls(model, F.cross_entropy, lr=LR, momentum=0.9, order="shuffled", **options)
    assert copied(opt).draws == 0
    for x, y in data():
        opt.step(x, y)
    other, again = copied((model, opt))
    assert again.net.model is other
    for x, y in data():
        assert torch.equal(opt.step(x, y), again.step(x, y))
    assert model[0].weight is not other[0].weight
    close(model, other)


def test_batches_may_be_fed_to_a_step_without_arguments() -> None:
    model, twin = net(), net()
    opt, literal = (SCCD(m, F.cross_entropy, lr=LR) for m in (model, twin))
    (a, b, c) = data()
    opt.feed(*a)
    opt.step()
    literal.step(*a)
    opt.feed(*b)
    opt.feed(*c)
    opt.step(None)
    literal.step([b, c])
    close(model, twin, 1e-12)
    with pytest.raises(TypeError, match=r"opt\.feed\(x, y\)"):
        opt.step()
    opt.feed(*a)
    with pytest.raises(ValueError, match="another one was fed"):
        opt.step(*b)
    with pytest.raises(TypeError, match="a closure weighs its own"):
        literal.step(lambda: F.cross_entropy(twin(a[0]), a[1]), weights=[1.0])
    with pytest.raises(TypeError, match="a batch or a closure, not both"):
        literal.step(a[0], closure=lambda: F.cross_entropy(twin(a[0]), a[1]))


def test_gradients_accumulated_before_a_closure_are_refused() -> None:
    """The earlier micro-batches would be thrown away: a closure gives the last one alone."""
    model, twin = net(), net()
    opt = SCCD(model, lr=LR, blocks="layers")
    (a, b, _) = data()

    def closure() -> Tensor:
        loss = F.cross_entropy(model(b[0]), b[1]) / 2
        loss.backward()
        return loss

    (F.cross_entropy(model(a[0]), a[1]) / 2).backward()
    twin.load_state_dict(model.state_dict())
    with pytest.raises(ValueError, match=r"0\.weight holds a \.grad .*opt\.feed\(x, y\)"):
        opt.step(closure)
    close(model, twin, 1e-12)
    opt.zero_grad(set_to_none=False)  # the gradient of another loss, let go of
    opt.step(closure)
    assert opt.cycles == 1


def test_fed_micro_batches_have_weights_and_feed_returns_the_last_loss() -> None:
    def own(out: Tensor, y: Tensor) -> Tensor:  # how it counts cannot be seen from outside
        return F.cross_entropy(out, y)

    (a, b, _) = data()
    a[1][:3] = -100
    model, twin = net(), net()
    opt, literal = (SCCD(m, own, lr=LR) for m in (model, twin))
    assert bool(opt.feed(*a, weight=5).isnan())
    opt.feed(*b, weight=8)
    loss = opt.step()
    assert torch.equal(literal.step([a, b], weights=[5, 8]), loss)
    close(model, twin, 1e-12)
    assert torch.equal(opt.feed(*a, weight=5), loss)
    opt.feed(*b)
    with pytest.raises(ValueError, match="a weight for some micro-batches only"):
        opt.step()


def test_a_forward_replaced_by_mixed_precision_says_so() -> None:
    """As Accelerate does for bf16=True; the message was of stages that differ."""
    model = net()
    model.forward = torch.autocast("cpu", dtype=torch.bfloat16)(model.forward)  # type: ignore[method-assign]
    with pytest.warns(CutWarning, match=r"forward was replaced.*opt\.step under torch\.autocast"):
        SCCD(model.float(), F.cross_entropy, lr=LR).step(data()[0][0].float(), data()[0][1])


def test_the_state_of_another_method_is_refused_by_name() -> None:
    model = net()
    opt = SCCD(model, F.cross_entropy, lr=LR)
    opt.step(*data()[0])
    other = VROCCD(model, F.cross_entropy, lr=LR, b=8)
    with pytest.raises(ValueError, match="the state of SCCD, which VRO-CCD cannot go on from"):
        other.load_state_dict(opt.state_dict())


# --------------------------------------------------------------------------------- Lightning


def lightning_module(lightning: Any, automatic: bool, model: nn.Module) -> Any:
    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = model
            self.automatic_optimization = automatic

        def configure_optimizers(self) -> Any:
            self.opt = SCCD(self.net, F.cross_entropy, lr=LR, blocks="layers")
            return self.opt

        def training_step(self, batch: Any, index: int) -> Any:
            x, y = batch
            if automatic:
                return F.cross_entropy(self.net(x), y)
            self.opt.feed(x, y)
            return self.optimizers().step()

    return Module()


QUIET: dict[str, Any] = {
    "logger": False, "enable_checkpointing": False, "enable_progress_bar": False,
    "enable_model_summary": False,
}  # fmt: skip


def fitted(lightning: Any, module: Any, folder: Any, **options: Any) -> Any:
    trainer = lightning.Trainer(accelerator="cpu", default_root_dir=folder, **QUIET, **options)
    trainer.fit(module, torch.utils.data.DataLoader(data(), batch_size=None))
    return trainer


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("automatic", "clip"), [(True, None), (True, 0.2), (False, None)], ids=str)
def test_lightning(automatic: bool, clip: float | None, tmp_path: Any) -> None:
    lightning = pytest.importorskip("lightning")
    model, twin = net(), net()
    module = lightning_module(lightning, automatic, model)
    trainer = fitted(lightning, module, tmp_path, max_epochs=2, gradient_clip_val=clip)
    assert trainer.global_step == 6
    by_hand(twin, module.opt.net.blocks, data() * 2, clip)
    close(model, twin, 1e-12)


@pytest.mark.filterwarnings("ignore")
def test_lightning_may_not_accumulate_behind_a_closure(tmp_path: Any) -> None:
    lightning = pytest.importorskip("lightning")
    module = lightning_module(lightning, True, net())
    with pytest.raises(ValueError, match=r"holds a \.grad .*feed every micro-batch"):
        fitted(lightning, module, tmp_path, max_epochs=1, accumulate_grad_batches=3)


@pytest.mark.filterwarnings("ignore")
def test_accelerate_accumulates_what_is_fed() -> None:
    accelerate = pytest.importorskip("accelerate")
    model, twin = net(), net()
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=3)
    try:
        opt = SCCD(model, F.cross_entropy, lr=LR, blocks="layers")
        model, prepared, loader = accelerator.prepare(
            model, opt, torch.utils.data.DataLoader(data(), batch_size=None)
        )
        for x, y in loader:
            with accelerator.accumulate(model):
                opt.feed(x, y)
                prepared.step()
        assert opt.cycles == 1
        literal = SCCD(twin, F.cross_entropy, lr=LR, blocks="layers")
        literal.step(data())
        close(model, twin, 1e-12)
        with pytest.raises(ValueError, match="Accelerate accumulates 3 micro-batches a step"):
            opt.step(lambda: F.cross_entropy(model(x), y))
    finally:
        accelerate.state.GradientState._reset_state()


@pytest.mark.filterwarnings("ignore")
def test_accelerate() -> None:
    accelerate = pytest.importorskip("accelerate")
    model, twin = net(), net()
    accelerator = accelerate.Accelerator(cpu=True)
    opt = SCCD(model, F.cross_entropy, lr=LR, blocks="layers")
    model, prepared, loader = accelerator.prepare(
        model, opt, torch.utils.data.DataLoader(data(), batch_size=None)
    )
    for x, y in loader:
        opt.step(x, y)  # the optimizer itself: the wrapper takes a closure alone
    for x, y in loader:
        prepared.step(lambda x=x, y=y: F.cross_entropy(model(x), y))
    by_hand(twin, opt.net.blocks, data() * 2)
    close(model, twin, 1e-12)


class WithLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {"loss": F.cross_entropy(self.net(x), labels)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_trainer_of_transformers(tmp_path: Any, accumulate: int) -> None:
    """It calls step() after a backward pass of its own: without a batch that is refused."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    torch.manual_seed(0)
    model, twin = WithLoss(), WithLoss()
    twin.load_state_dict(model.state_dict())
    rows = [{"x": torch.randn(6), "labels": torch.tensor(k % 3)} for k in range(8)]
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), max_steps=2, per_device_train_batch_size=4, report_to=[],
        use_cpu=True, disable_tqdm=True, save_strategy="no", gradient_accumulation_steps=accumulate,
        lr_scheduler_type="constant", dataloader_drop_last=True,
    )  # fmt: skip
    opt = SCCD(model, lr=LR)
    plain = transformers.Trainer(
        model=model, args=arguments, train_dataset=rows, optimizers=(opt, None)
    )
    with pytest.raises(TypeError, match=r"override training_step"):
        plain.train()
    fed: list[Any] = []

    class Cyclic(transformers.Trainer):
        def training_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Tensor:
            fed.append(dict(inputs))
            counted = int((inputs["labels"] != -100).sum())
            return opt.feed(fed[-1], weight=counted) / accumulate

    rows[0]["labels"] = torch.tensor(-100)
    opt = SCCD(model, lr=LR, clip_total_norm=0.1)
    again = Cyclic(model=model, args=arguments, train_dataset=rows, optimizers=(opt, None))
    done = again.train()
    assert opt.cycles == 2
    literal = SCCD(twin, lr=LR, clip_total_norm=0.1)
    for k in range(2):
        parts = fed[k * accumulate : (k + 1) * accumulate]
        loss = literal.step(parts, weights=[int((p["labels"] != -100).sum()) for p in parts])
        if k == 0:  # the log is one step late
            assert done.training_loss == pytest.approx(float(loss) / 2, rel=1e-3)
    close(model, twin, 1e-12)
