"""What the first batch cannot show: gradients behind zeros, hooks, state and values kept elsewhere.

Every step is held against a literal cycle: one backward pass of an untouched copy for each block.
"""

from __future__ import annotations

import copy
import threading
import warnings
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small_nets import LR, Both, close, values
from torch import Tensor, nn

from cyclade.optim import SCCD, SGD, VROCCD, CutWarning, ProofReport
from cyclade.optim.reference import Literal

pytestmark = pytest.mark.filterwarnings("ignore::cyclade.optim.CostWarning")
WHOLE = pytest.mark.filterwarnings("ignore::cyclade.optim.CutWarning")  # a model that runs whole


def batch(size: int = 16) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(size, n, generator=generator, dtype=torch.float64) for n in (4, 1))
    return x, y


def trains_as_the_model(make: Any, steps: int = 4, before_step: Any = lambda k, model: None) -> Any:
    both = Both(make, F.mse_loss, blocks="layers")
    for k in range(steps):
        before_step(k, both.model)
        both.opt.step(*batch())
        blocks = [block.params for block in both.opt.net.blocks]
        Literal(both.twin, F.mse_loss, blocks, LR).step(*batch())
    both.same()
    return both.opt


class Net(nn.Module):
    """A zero head: in the first batch no gradient comes through it."""

    zero = True

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.head = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 1)
        if self.zero:
            nn.init.zeros_(self.head.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.b(self.between(torch.tanh(self.a(x))))))  # type: ignore[no-any-return]

    def between(self, x: Tensor) -> Tensor:
        return x


class _Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return -grads[0]


class Reversed(Net):
    def between(self, x: Tensor) -> Tensor:
        return _Reverse.apply(x)  # type: ignore[no-any-return, no-untyped-call]


class Hooked(Net):
    def between(self, x: Tensor) -> Tensor:
        if x.requires_grad:
            x.register_hook(lambda g: 3 * g)  # type: ignore[no-untyped-call]
        return x


class Inferred(Net):
    def between(self, x: Tensor) -> Tensor:
        with torch.inference_mode():
            gate = torch.sigmoid(x)
        return x + gate.clone()

    def forward(self, x: Tensor) -> Tensor:
        with torch.inference_mode():
            x = torch.tanh(self.a(x))
        return self.head(torch.tanh(self.b(x.clone())))  # type: ignore[no-any-return]


class Packed(Net):
    def between(self, x: Tensor) -> Tensor:
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: 2 * t):
            return self.b(x) * x  # type: ignore[no-any-return]


class Branched(Net):
    """Another gradient where it is recorded, and nothing that shows it."""

    def between(self, x: Tensor) -> Tensor:
        return x if isinstance(x, Tensor) else 2 * x - x.detach()


@pytest.mark.parametrize(
    ("make", "word"),
    [(Reversed, "autograd.Function _Reverse"), (Hooked, "Tensor.register_hook"),
     (Inferred, "torch.inference_mode"), (Packed, "saved_tensors_hooks"),
     (Branched, "another gradient")],
)  # fmt: skip
def test_what_a_record_drops_is_seen_behind_a_zero_head(make: Any, word: str) -> None:
    with pytest.warns(CutWarning, match=word) as said:
        opt = trains_as_the_model(make)
    assert opt.route == "whole"
    assert len([w for w in said if w.category is CutWarning]) == 1


class Teacher(nn.Module):
    """A mean teacher, which begins as the student, so that its first move changes nothing."""

    def __init__(self, data: bool) -> None:
        super().__init__()
        self.student, self.head = nn.Linear(4, 4), nn.Linear(4, 1)
        self.teacher, self.data = copy.deepcopy(self.student).requires_grad_(False), data
        self.calls = nn.Parameter(torch.zeros(()), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.calls.data += 1
            pairs = zip(self.teacher.parameters(), self.student.parameters(), strict=True)
            for slow, fast in pairs:
                (slow.data if self.data else slow).mul_(0.9).add_(fast.detach(), alpha=0.1)
        return self.head(torch.tanh(self.student(x)) + self.teacher(x))  # type: ignore[no-any-return]


@WHOLE
@pytest.mark.parametrize("data", [True, False])
def test_a_frozen_teacher_that_forward_moves_moves_once_a_step(data: bool) -> None:
    with pytest.warns(CutWarning, match="forward moves the frozen parameter"):
        opt = trains_as_the_model(lambda: Teacher(data))
    assert float(opt.net.model.calls) == 4.0


class Clipped(Net):
    zero = False

    def forward(self, x: Tensor) -> Tensor:
        self.b.weight.data.clamp_(-0.01, 0.01)
        return super().forward(x)  # type: ignore[no-any-return]


@WHOLE
def test_a_forward_that_writes_to_a_trained_parameter_is_refused_by_name() -> None:
    model = Clipped().double()
    before = values(model)
    with pytest.raises(ValueError, match=r"writes to the trained parameter b\.weight"):
        SCCD(model, F.mse_loss, lr=LR).step(*batch())
    close(model, before)


class Mapped(Net):
    def forward(self, x: Tensor) -> Tensor:
        return torch.func.vmap(lambda row: self.head(torch.tanh(self.a(row))))(x)


class Tangent(Net):
    def forward(self, x: Tensor) -> Tensor:
        def inner(x: Tensor) -> Any:
            return self.head(torch.tanh(self.a(x)))

        out, slope = torch.func.jvp(inner, (x,), (torch.ones_like(x),))
        return out + slope


@WHOLE
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own
@pytest.mark.parametrize("make", [Mapped, Tangent])
def test_transforms_in_forward_leave_torch_as_it_was(make: Any) -> None:
    trains_as_the_model(make)
    torch.randn(2)
    assert torch._C._functorch.get_dynamic_layer_stack_depth() == 0
    torch.func.jvp(torch.tanh, (torch.ones(2),), (torch.ones(2),))


SCALES: dict[str, Any] = {"tau": 1.0, "deep": [{"tau": 1.0}]}
CONFIG = SimpleNamespace(tau=1.0)


def test_a_compiled_module_inside_is_not_traced_with_the_watch() -> None:
    class Compiled(Net):
        def __init__(self) -> None:
            super().__init__()
            self.b = torch.compile(self.b, backend="eager")  # type: ignore[assignment]

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        SCCD(Compiled().double(), F.mse_loss, lr=LR).step(*batch())
    assert not [w for w in said if "saved_tensors" in str(w.message)]


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # torch.compile's own
def test_a_compiled_loss_does_not_keep_a_record_from_being_proved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    opt = SCCD(Net().double(), F.mse_loss, lr=LR, blocks="layers", compile=True)
    opt.step(*batch())
    assert opt.route == "fx"


class FromGlobal(Net):
    zero = False

    def between(self, x: Tensor) -> Tensor:
        return x * SCALES["tau"]


class FromConfig(Net):
    zero = False

    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace(tau=1.0)

    def between(self, x: Tensor) -> Tensor:
        return x * self.config.tau * CONFIG.tau


@pytest.mark.parametrize("make", [FromGlobal, FromConfig])
def test_values_that_forward_reads_elsewhere_are_followed(make: Any) -> None:
    def anneal(k: int, model: Any) -> None:
        SCALES["tau"] = CONFIG.tau = 1.0 + k

    assert trains_as_the_model(make, before_step=anneal).route == "fx"


def test_a_model_that_is_cut_in_every_step_says_why() -> None:
    def anneal(k: int, model: Any) -> None:
        SCALES["tau"] = 1.0 + k / 10

    with pytest.warns(CutWarning, match="because 'tau' changed: make it a buffer"):
        trains_as_the_model(FromGlobal, 20, anneal)


class FromDeep(Net):
    zero = False

    def between(self, x: Tensor) -> Tensor:
        return x * SCALES["deep"][0]["tau"]


def test_now_and_then_a_route_is_looked_at_again() -> None:
    """What no look at the model shows: a number behind two others."""
    model = FromDeep().double()
    opt = SCCD(model, F.mse_loss, lr=LR)
    opt.step(*batch())
    SCALES["deep"][0]["tau"] = 2.0
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(25):
            opt.step(*batch())
    assert "the stages do not compute what" in str(said[0].message)
    expected = float(F.mse_loss(model(batch()[0]), batch()[1]).detach())
    assert float(opt.step(*batch())) == pytest.approx(expected, abs=1e-12)


def test_a_fresh_proof_moves_nothing_and_names_what_it_could_not_see() -> None:
    def make() -> nn.Module:
        model = Net()
        model.unused = nn.Linear(2, 2)
        return model

    both = Both(make, F.mse_loss, blocks="layers")
    before = values(both.model)
    report = both.opt.prove(*batch())
    assert report == ProofReport("fx", 4, ("unused.weight", "unused.bias"))
    assert "nothing is known of unused.weight" in str(report)
    close(both.model, before)
    for _ in range(3):
        both.step(*batch())
        both.opt.prove(*batch())
    assert both.opt.cycles == 3
    close(both.model, both.twin)


class Counted(nn.Linear):
    rows = 0

    def forward(self, input: Tensor) -> Tensor:
        Counted.rows += len(input)
        return super().forward(input)


@pytest.mark.parametrize("cls", [SCCD, SGD])
def test_a_proof_takes_a_few_samples(cls: Any) -> None:
    """By the samples that pass the first layer the first step costs no more than the others."""
    model = nn.Sequential(Counted(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    opt = cls(model.double(), F.mse_loss, lr=LR)
    counts = []
    for _ in range(2):
        Counted.rows = 0
        opt.step(*batch(1000))
        counts.append(Counted.rows)
    assert counts[0] <= counts[1] + 1200  # the costs are counted on all samples


def graphs(nodes: int) -> tuple[dict[str, Tensor], Tensor]:
    generator = torch.Generator().manual_seed(nodes)
    x = torch.randn(nodes, 4, generator=generator, dtype=torch.float64)
    y = torch.randn(4, 1, generator=generator, dtype=torch.float64)
    return {"x": x, "graph": torch.arange(nodes) % 4}, y


class Graphs(Net):
    zero = False

    def forward(self, x: Tensor, graph: Tensor) -> Tensor:
        pooled = torch.zeros(4, 4, dtype=x.dtype).index_add(0, graph, x)
        return super().forward(pooled)  # type: ignore[no-any-return]


def test_samples_that_are_not_rows_are_counted_by_a_function_or_refused() -> None:
    parts = [graphs(9), graphs(14)]
    model, twin = Graphs().double(), Graphs().double()
    twin.load_state_dict(model.state_dict())
    with pytest.raises(ValueError, match=r"begin with 9 and 4 rows.*batch_size="):
        SCCD(model, F.mse_loss, lr=LR).step(parts)
    SCCD(model, F.mse_loss, lr=LR, batch_size=lambda x: 4).step(parts)
    SCCD(twin, F.mse_loss, lr=LR).step(parts, weights=[1, 1])
    close(model, twin)
    with pytest.raises(ValueError, match="begin with 9 and 4 rows"):
        VROCCD(model, F.mse_loss, b=4, b_small=2).step(*parts[0])
    VROCCD(model, F.mse_loss, b=4, b_small=2, batch_size=lambda x: 4).step(*parts[0])
    with pytest.raises(TypeError, match="batch_size must be a function"):
        SCCD(model, F.mse_loss, batch_size=4)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"a whole number of samples, got 4\.0"):
        SCCD(model, F.mse_loss, batch_size=lambda x: 4.0).step(parts)  # type: ignore[arg-type, return-value]


class Dropped(Net):
    zero = False

    def between(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.5, self.training)


def test_several_threads_train_with_dropout() -> None:
    """Generators belong to the process: a proof that sets them back must be alone."""
    trouble: list[Any] = []
    nets = [Dropped().double() for _ in range(16)]

    def train(mine: list[Any]) -> None:
        try:
            for model in mine:
                opt = SCCD(model, F.mse_loss, lr=LR, blocks="layers")
                for _ in range(5):
                    opt.step(*batch())
        except Exception as error:
            trouble.append(error)

    threads = [threading.Thread(target=train, args=(nets[k::4],)) for k in range(4)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", CutWarning)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not trouble
