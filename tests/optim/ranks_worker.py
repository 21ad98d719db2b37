"""What two ranks check together; `test_distributed.py` starts one pair of processes for all of it.

Trajectories of one process are computed first, before torch.distributed is initialised, and then
held against those of the group on the same batches.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import small_nets
import torch
import torch.distributed as dist
import torch.nn.functional as F
from small_nets import batch, close, values, written
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import cyclade
from cyclade import minimize
from cyclade.optim import (
    PAGE,
    SCCD,
    SGD,
    VRCCD,
    VROCCD,
    Checkpoints,
    CheckpointWarning,
    CostWarning,
    NotFiniteError,
    PageBatchSampler,
)
from cyclade.ranks import RankLostError
from cyclade.regularisers import L1

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
EXAMPLE: Any = importlib.import_module("ranks")
FOLDER, ALONE = Path(), nn.Module()

SAME = 1e-10
STEPS = 10
OPTIMIZERS = {"SCCD": SCCD, "SGD": SGD, "VRO-CCD": VROCCD, "PAGE": PAGE, "VR-CCD": VRCCD}
RECURSIVE = ("VRO-CCD", "PAGE", "VR-CCD")
ORDERS: list[Any] = ["forward", "backward", "shuffled", "random", "greedy", [2, 0, 1]]
OPTIONS: dict[str, dict[str, Any]] = {
    "momentum and clipping": {"momentum": 0.9, "nesterov": True, "clip_norm": 0.5},
    "total norm": {"clip_total_norm": 0.3},
    "adam": {"precondition": "adam", "eps": 1e-3, "weight_decay": 1e-2},
    "spectral": {"precondition": "spectral"},
    "curvature": {"precondition": "curvature", "curvature_every": 4, "curvature_iterations": 3},
    "reg": {"reg": L1(1e-3)},
    "maximize": {"maximize": True},
    "blocks by cost": {"blocks": 2},
}


def net(seed: int = 0) -> nn.Sequential:
    return small_nets.net(6, 5, 4, 3, seed=seed)


def size_of(name: str, k: int) -> int:
    """Odd sizes, so that the ranks' parts differ; small ones for the recursive methods."""
    if name not in RECURSIVE:
        return 11 if k % 3 else 8
    return 16 if k % 4 == 0 else 5


def my_part(data: tuple[Tensor, Tensor]) -> Any:
    x, y = data
    rank, size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    cut = [0, *(len(x) * (r + 1) // size for r in range(size))]
    if size == 2:  # rather uneven
        cut[1] = len(x) // 3 + 1
    return x[cut[rank] : cut[rank + 1]], y[cut[rank] : cut[rank + 1]]


def stepped(opt: Any, size: int, k: int) -> Tensor:
    """The loss of a step on this process's part of batch k."""
    loss: Tensor = opt.step(*my_part(batch(size, k)))
    return loss


def run(name: str, make: Callable[[], Any] = net, micro: bool = False, **options: Any) -> Any:
    """Losses and parameters of a few steps, on this process's part of each batch."""
    model = make()
    if name in RECURSIVE:
        options.update(b=16, b_small=5)
    options.setdefault("weight_decay", 1e-3)
    options.setdefault("blocks", "layers" if name not in ("SGD", "PAGE") else None)
    loss_fn = options.pop("loss_fn", F.cross_entropy)
    opt = OPTIMIZERS[name](model, loss_fn, lr=0.05, **options)
    losses = []
    for k in range(STEPS):
        x, y = my_part(batch(size_of(name, k), k))
        losses.append(opt.step([(x[:1], y[:1]), (x[1:], y[1:])]) if micro else opt.step(x, y))
    return torch.stack(losses).detach(), values(model), opt


def cases() -> dict[str, tuple[str, dict[str, Any]]]:
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for name in OPTIMIZERS:
        for order in ORDERS:
            one_block = name in ("SGD", "PAGE")
            if (one_block and order != "forward") or (name == "VR-CCD" and order == "greedy"):
                continue
            found[f"{name}, {order}"] = (name, {"order": order})
        found[f"{name}, micro-batches"] = (name, {"micro": True})
    for text, options in OPTIONS.items():
        for name in ("SCCD", "VRO-CCD"):
            found[f"{name}, {text}"] = (name, options)
    found["SCCD, a loss that adds up"] = ("SCCD", {"loss_fn": nn.CrossEntropyLoss(reduction="sum")})
    for name in ("SCCD", "VRO-CCD"):
        found[f"{name}, norms over all ranks"] = (name, {"make": normed, "order": "backward"})
    found["SCCD, one stage"] = ("SCCD", {"make": untraceable})
    found["SCCD, bfloat16"] = ("SCCD", {"make": narrow})
    return found


def narrow() -> nn.Module:
    """Weights in bfloat16, whose loss must not be rounded so."""
    return written(lambda self, x: self.layers(x.bfloat16()).float(), layers=net().bfloat16())


class CpuSyncNorm(nn.SyncBatchNorm):
    """torch's own needs a GPU; the same normalisation of the whole batch, by autograd."""

    def forward(self, x: Tensor) -> Tensor:
        sums = torch.cat([x.sum(0), (x * x).sum(0), x.new_full((1,), float(len(x)))])
        if dist.is_initialized():
            sums = torch.distributed.nn.functional.all_reduce(sums)
        d = x.shape[1]
        mean, count = sums[:d] / sums[-1], sums[-1]
        var = sums[d : 2 * d] / count - mean * mean
        return (x - mean) / torch.sqrt(var + self.eps) * self.weight + self.bias


def normed() -> nn.Sequential:
    torch.manual_seed(0)
    norm = CpuSyncNorm(5, track_running_stats=False)
    return nn.Sequential(nn.Linear(6, 5), norm, nn.Tanh(), nn.Linear(5, 3)).double()


def untraceable() -> nn.Module:
    """Cannot be cut, so the whole model runs for every block."""

    def forward(self: Any, x: Tensor) -> Any:
        return self.layers(x) * (2 if float(x.sum()) == 12345.0 else 1)

    return written(forward, layers=net())


def alike_everywhere(tensors: Any) -> None:
    """Replicas (models, or lists of tensors) are the same to the bit."""
    held = tensors.parameters() if isinstance(tensors, nn.Module) else tensors
    mine = torch.cat([t.detach().reshape(-1).double() for t in held])
    found = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(found, mine)
    assert all(torch.equal(found[0], other) for other in found)


def raises(kind: type[BaseException], words: str, call: Callable[[], Any]) -> None:
    said = None
    try:
        call()
    except kind as error:
        said = str(error)
    assert said is not None, f"no {kind.__name__}"
    assert words in said, f"{words!r} is not in {said}"


# ---------------------------------------------------------------------------------- minimize

ROWS = torch.Generator().manual_seed(5)
TABLE = torch.randn(40, 6, generator=ROWS, dtype=torch.float64)
LABELS = torch.sign(torch.randn(40, generator=ROWS, dtype=torch.float64))
CUT = 13  # rows on rank 0
SUMS: dict[str, dict[str, Any]] = {
    "P-CCD": {"method": "P-CCD"},
    "P-CCD, scaled steps, accelerated": {"method": "P-CCD", "L": "scaled", "accelerate": True},
    "P-CCD, greedy": {"method": "P-CCD", "order": "greedy"},
    "SCCD": {"method": "SCCD", "b": 8, "L": 1.0, "eta": 0.2, "order": "shuffled"},
    "SGD": {"method": "SGD", "b": 3, "L": 1.0, "eta": 0.2},
    "VR-CCD": {"method": "VR-CCD", "b": 20, "order": "random", "L": 1.0},
    "VRO-CCD": {"method": "VRO-CCD", "b": 20, "b_small": 1, "L": 1.0},  # one rank is often idle
    "VRO-CCD, steps estimated": {"method": "VRO-CCD"},
    "PAGE": {"method": "PAGE", "b": 20, "reg": L1(0.01), "L": 1.0},
}


def fit(library: str, **options: Any) -> Any:
    mine = slice(None)
    if dist.is_initialized():
        mine = slice(0, CUT) if dist.get_rank() == 0 else slice(CUT, 40)
        options["process_group"] = dist.group.WORLD
    rows, signs = TABLE[mine], LABELS[mine]
    A, y = rows.numpy(), signs.numpy()

    def loss(x: Tensor, idx: Tensor) -> Tensor:
        return F.softplus(-signs[idx] * (rows[idx] @ x)).mean() + 0.01 * (x**2).sum()

    def fun(x: Any, idx: Any) -> Any:
        return np.logaddexp(0, -y[idx] * (A[idx] @ x)).mean() + 0.01 * (x**2).sum()

    def jac(x: Any, idx: Any) -> Any:
        weight = -y[idx] / (1 + np.exp(y[idx] * (A[idx] @ x)))
        return A[idx].T @ weight / len(idx) + 0.02 * x

    common = {"n": len(A), "blocks": [2, 2, 2], "max_cycles": 12, "every": 4, "tol": None}
    if library == "torch":
        return minimize(loss, torch.zeros(6, dtype=torch.float64), **common, **options)
    return minimize(fun, np.zeros(6), jac=jac, **common, **options)


def sums() -> dict[str, tuple[str, dict[str, Any]]]:
    found = {f"minimize, {text}": ("numpy", options) for text, options in SUMS.items()}
    return {**found, "minimize, VRO-CCD in torch": ("torch", SUMS["VRO-CCD"])}


def minimize_stops_everywhere_at_once() -> None:
    """The callback of one rank, its clock and its Ctrl-C end the run of all."""
    rank = dist.get_rank()

    def interrupt(report: Any) -> None:
        if rank == 0 and report.cycle == 4:
            signal.raise_signal(signal.SIGINT)

    for cycles, words, options in (
        (3, "stopped by the callback", {"callback": lambda r: rank == 1 and r.cycle == 3}),
        (2, "max_seconds", {  # L, as its estimate would count
            "max_seconds": 1.0, "L": 4.0,
            "callback": lambda r: time.sleep(1.1 * (rank == 1 and r.cycle == 2)),
        }),
        (4, "interrupted after cycle 4", {"callback": interrupt}),
    ):  # fmt: skip
        res = fit("numpy", method="SCCD", b=8, **options)
        assert (res.cycles, words in res.message) == (cycles, True)


def minimize_goes_on_from_its_checkpoint() -> None:
    class Died(Exception):
        pass

    def dies(report: Any) -> None:
        if report.cycle == 7:
            raise Died

    options: dict[str, Any] = {"method": "VRO-CCD", "b": 16, "order": "shuffled", "seed": 2}
    for library in ("numpy", "torch"):
        again = partial(fit, library, **options, checkpoint=FOLDER / f"minimize-{library}")
        wanted = fit(library, **options)
        raises(Died, "", partial(again, callback=dies))
        found = again()
        assert np.array_equal(np.asarray(found.x), np.asarray(wanted.x))
        assert found.history["fun"] == wanted.history["fun"]
        raises(ValueError, "belongs to other", partial(again, seed=3))
        if library == "numpy":
            raises(ValueError, "belongs to other data", partial(again, b=8))


def minimize_refuses_what_ranks_cannot_share() -> None:
    rank, group = dist.get_rank(), dist.group.WORLD
    plain = partial(minimize, np.sum, process_group=group)
    for words, call in (
        ("needs n=", partial(plain, np.zeros(2))),
        ("x0 is", partial(plain, np.full(2, rank), n=3)),
        ("b is '8' on rank 0", partial(fit, "numpy", b=8 + rank)),
        ("reg is", partial(fit, "numpy", reg=L1(0.1 + rank))),
        ("L is", partial(fit, "numpy", L=1.0 + rank)),
    ):
        raises(ValueError, words, call)


# ------------------------------------------------------------------------------------- checks


def one_all_reduce_a_block() -> None:
    """Bytes of a cycle: the parameters, a flag for each and for each rank, and the loss."""
    sent: list[int] = []
    plain = dist.all_reduce

    def counting(tensor: Tensor, *args: Any, **options: Any) -> Any:
        sent.append(tensor.numel() * tensor.element_size())
        return plain(tensor, *args, **options)

    model = net()
    opt = VROCCD(model, F.cross_entropy, lr=0.05, b=16, b_small=5, blocks="layers")
    stepped(opt, 16, 0)
    dist.all_reduce = counting
    try:
        stepped(opt, 5, 1)
    finally:
        dist.all_reduce = plain
    sizes = [p.numel() for p in model.parameters()]
    assert len(sent) == opt.net.m == 3
    assert sum(sent) == 8 * (sum(sizes) + len(sizes) + 1 + dist.get_world_size())


def starting_values_are_those_of_rank_0() -> None:
    model = net(seed=dist.get_rank())
    model.register_buffer("count", torch.full((2,), float(dist.get_rank())))
    opt = SCCD(model, F.cross_entropy, lr=0.05, order="shuffled", seed=dist.get_rank())
    close(model, net(0))
    assert torch.equal(model.count, torch.zeros(2))
    for k in range(5):
        stepped(opt, 8, k)
    alike_everywhere(model)


def blocks_are_those_of_rank_0() -> None:
    """A rank's batch may cost something else; the blocks are one choice for all."""
    model = net()
    opt = SCCD(model, F.cross_entropy, lr=0.05)
    opt.partitioning.costs = [1.0, 0.0, 0.0, 0.0, 1000.0] if dist.get_rank() else [1.0] * 5
    stepped(opt, 8, 0)
    names: list[Any] = [None, None]
    dist.all_gather_object(names, [block.params for block in opt.net.blocks])
    assert names[0] == names[1]
    alike_everywhere(model)


def other_options_are_refused() -> None:
    rank = dist.get_rank()
    some, loss = net(), F.cross_entropy if rank else F.multi_margin_loss
    named = ["0", ["2", "4"]] if rank else [["0", "2"], "4"]
    some[4].bias.requires_grad_(rank == 0)  # said where it is, not after 200 letters of the rest
    built = partial(SCCD, net(), F.cross_entropy)
    for words, make in (
        ("param_groups is", partial(built, lr=0.1 if rank else 0.2)),
        ("blocks= is", partial(built, blocks=2 if rank else "layers")),
        ("blocks= is", partial(built, blocks=3 if rank else 2)),
        ("param_groups is", partial(built, blocks=named)),
        ("(example=) is", partial(built, example=None if rank else batch(8, 0)[0])),
        ("the model is", lambda: SCCD(net() if rank else nn.Linear(6, 3).double())),
        ("('4.bias', (3,), 'torch.float64', False)", lambda: SCCD(some, F.mse_loss)),
        ("the loss is 'multi_margin_loss' on rank 0", lambda: SCCD(net(), loss)),
        ("weight is not initialised yet", lambda: SCCD(nn.LazyLinear(3), loss)),
    ):
        raises(ValueError, words, make)
    opt = SCCD(net(), F.cross_entropy, lr=0.1)
    opt.param_groups[0]["lr"] = 0.1 + rank
    raises(ValueError, "differ in lr", lambda: stepped(opt, 8, 0))
    opt.param_groups[0]["lr"] = 0.1
    coin = {"refresh": True if rank else None}
    raises(ValueError, "differ in refresh", lambda: opt.step(*my_part(batch(8, 0)), **coin))
    stepped(opt, 8, 0)
    own, cyclade.__version__ = cyclade.__version__, f"{rank}.0"
    try:
        raises(ValueError, "what is installed is 'cyclade 0.0", lambda: SCCD(net(), F.mse_loss))
    finally:
        cyclade.__version__ = own


def replicas_that_come_apart_are_noticed() -> None:
    rank = dist.get_rank()
    model = net()
    opt = SCCD(model, F.cross_entropy, lr=0.1)
    stepped(opt, 8, 0)
    with torch.no_grad():
        model[2].weight[1, 1] += 1e-3 * rank
    before = values(model)
    words = "the parameter 2.weight of rank 1 is not that of rank 0"
    raises(ValueError, words, lambda: [stepped(opt, 8, k) for k in range(2)])
    close([before[2]], [model[2].weight])
    with torch.no_grad():
        model[2].weight.copy_(net()[2].weight * (1 + 1e-15 * rank))  # rounding: other hardware
    for k in range(4):
        stepped(opt, 8, k)
    alike_everywhere(model)


def trouble_on_one_rank_stops_all() -> None:
    rank = dist.get_rank()
    model = net()
    opt = SCCD(model, F.cross_entropy, lr=0.1)
    stepped(opt, 8, 0)
    before = values(model)
    x, y = my_part(batch(8, 1))
    if rank == 1:  # refused when the batch is read
        raises(ValueError, "needs a target", lambda: opt.step(x))
    else:
        raises(RuntimeError, "rank 1 stopped before the step", lambda: opt.step(x, y))
    wrong = torch.randn(3, 7, dtype=torch.float64)  # fails in the first gradient
    if rank == 1:
        raises(RuntimeError, "shapes cannot be multiplied", lambda: opt.step(wrong, y[:3]))
    else:
        raises(NotFiniteError, "rank 1: it failed", lambda: opt.step(x[:3], y[:3]))
    close(model, before)
    opt.step(x, y)
    alike_everywhere(model)


def nan_on_one_rank_is_seen_by_all() -> None:
    """Nothing has moved, the lagged point neither: the run goes on as if without that batch."""
    for cls, more in ((SCCD, {}), (VROCCD, {"b": 8, "b_small": 4, "blocks": "layers"})):
        model, twin = net(), net()
        opt, ref = (cls(m, F.cross_entropy, lr=0.1, **more) for m in (model, twin))
        for k, size in enumerate((8, 8, 4, None, 4, 4, 8, 4)):
            if size is not None:
                stepped(opt, size, k)
                stepped(ref, size, k)
                continue
            before = values(model)
            x, y = my_part(batch(4, 1))
            if dist.get_rank() == 1:
                x[0, 0] = np.nan
            words = "rank 1: its samples' loss is not finite)"
            raises(NotFiniteError, words, partial(opt.step, x, y))
            close(model, before)
        close(model, twin)
        alike_everywhere(model)


def an_idle_rank_takes_part() -> None:
    """All samples on rank 0, then ignored labels alone on rank 1: the same as one process."""
    rank = dist.get_rank()
    alone = dist.new_group([0]), dist.new_group([1])
    ours, mine = net(), net()
    options: dict[str, Any] = {"lr": 0.1, "order": "backward", "momentum": 0.9}
    opt = SCCD(ours, F.cross_entropy, **options)
    ref = SCCD(mine, F.cross_entropy, **options, process_group=alone[rank])
    assert ref.runs_on == 1
    x, y = batch(9, 0)
    opt.step(*my_part((x, y)))
    ref.step(x, y)
    loss = opt.step(x[: 9 * (1 - rank)], y[: 9 * (1 - rank)])
    assert loss.dtype == torch.float64
    close([loss], [ref.step(x, y)], SAME, SAME)
    some = y.clone()
    some[4:] = -100
    half = slice(0, 4) if rank == 0 else slice(4, 9)
    opt.step(x[half], some[half])
    ref.step(x, some)
    close(ours, mine, SAME, SAME)
    raises(ValueError, "no rank has a sample", lambda: opt.step(x[:0], y[:0]))
    fresh = SCCD(net(), F.cross_entropy, lr=0.1)
    words = "the first batch must have samples on every rank"
    kind = RuntimeError if rank == 0 else ValueError
    raises(kind, words, lambda: fresh.step(x[: 9 * (1 - rank)], y[: 9 * (1 - rank)]))


def a_parameter_used_on_one_rank_only() -> None:
    """It moves on all ranks, and decays on all; without any gradient it does neither."""

    def forward(self: Any, x: Tensor) -> Any:
        return self.b(x) if float(x.detach().sum()) > 0 else self.a(x)

    torch.manual_seed(0)
    model = written(forward, a=nn.Linear(6, 3), b=nn.Linear(6, 3)).double()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opt = SCCD(model, F.cross_entropy, lr=0.1, momentum=0.9, weight_decay=0.1, blocks=1)
        x, y = torch.ones(4, 6, dtype=torch.float64), torch.zeros(4, dtype=torch.int64)
        for signs in ((1, -1), (-1, -1), (1, 1)):
            a, b = model.a.weight.detach().clone(), model.b.weight.detach().clone()
            opt.step(x * signs[dist.get_rank()], y)
            assert torch.equal(a, model.a.weight) == (-1 not in signs)
            assert torch.equal(b, model.b.weight) == (1 not in signs)
            alike_everywhere(model)


def random_numbers_are_the_same_on_all_ranks() -> None:
    """Same masks by position, and the process's own generators are left alone."""
    seen: list[Tensor] = []

    class Watched(nn.Dropout):
        def forward(self, x: Tensor) -> Tensor:
            out = super().forward(x)
            seen.append((out != 0).double())
            return out

    torch.manual_seed(10 + dist.get_rank())
    model = nn.Sequential(nn.Linear(6, 5), Watched(0.5), nn.Linear(5, 3)).double()
    opt = SCCD(model, F.cross_entropy, lr=0.1)
    torch.manual_seed(100 + dist.get_rank())
    before = torch.get_rng_state()
    x, y = batch(4, dist.get_rank())
    opt.step(x, y)
    seen.clear()
    opt.step(x, y)
    alike_everywhere(seen)
    assert len({tuple(mask.reshape(-1).tolist()) for mask in seen}) == 1
    assert torch.equal(before, torch.get_rng_state())
    last = seen[0]
    seen.clear()
    opt.step(x, y)
    assert not torch.equal(seen[0], last)


def a_ddp_model_is_unwrapped() -> None:
    """And a closure that runs it is kept from reducing a second time."""
    inner = net()
    model = DistributedDataParallel(inner)
    opt = SCCD(model, F.cross_entropy, lr=0.05, blocks="layers")
    assert opt.net.model is inner
    twin = net()
    ref = SCCD(twin, F.cross_entropy, lr=0.05, blocks="layers")
    for k in range(3):
        stepped(opt, 8, k)
        stepped(ref, 8, k)
    close(inner, twin)
    reduced: list[int] = []

    def hook(state, bucket):  # type: ignore[no-untyped-def]  # DDP reads annotations
        reduced.append(1)
        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(
            lambda done: done.value()[0] / 2
        )  # fmt: skip

    model.register_comm_hook(None, hook)
    x, y = batch(8, 9)
    half = slice(4 * dist.get_rank(), 4 * dist.get_rank() + 4)

    def closure() -> Tensor:
        opt.zero_grad()
        loss = F.cross_entropy(model(x[half]), y[half])
        loss.backward()
        return loss

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opt.step(closure)
    assert not reduced
    ref.step(x[half], y[half])
    close(inner, twin, SAME, SAME)
    closure()  # outside of step DDP is as it was
    assert reduced


def batch_norm_must_be_synchronised() -> None:
    model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)).double()
    raises(ValueError, "convert_sync_batchnorm", lambda: SCCD(model, F.cross_entropy))
    model[1].eval()
    SCCD(model, F.cross_entropy, lr=0.1).step(*my_part(batch(8, 0)))


def activations_may_wait_on_the_host() -> None:
    """What FSDP's users can do: the same bits with the activations offloaded."""
    model, twin = net(), net()
    opt, ref = (SCCD(m, F.cross_entropy, lr=0.1, blocks="layers") for m in (model, twin))
    for k in range(3):
        with torch.autograd.graph.save_on_cpu():
            stepped(opt, 8, k)
        stepped(ref, 8, k)
    close(model, twin)


def a_page_sampler_gives_each_rank_its_part() -> None:
    sampler = PageBatchSampler(50, b=9, b_small=3, seed=4)
    whole = PageBatchSampler(50, b=9, b_small=3, seed=4, process_group=False)
    for mine, all_of_it in zip(list(sampler)[:9], list(whole)[:9], strict=True):
        parts: list[Any] = [None, None]
        dist.all_gather_object(parts, mine)
        assert sorted(parts[0] + parts[1]) == sorted(all_of_it)
        assert abs(len(parts[0]) - len(parts[1])) <= 1
    raises(ValueError, "a part for each of 2 ranks", lambda: PageBatchSampler(50, b=9, b_small=1))


def a_resumed_run_ends_in_the_same_bits() -> None:
    """The example: stopped after two epochs and resumed, and compared with one process."""
    whole, _ = EXAMPLE.train(FOLDER / "whole", epochs=3, batches=5)
    EXAMPLE.train(FOLDER / "halves", epochs=2, batches=5)
    resumed, _ = EXAMPLE.train(FOLDER / "halves", epochs=3, batches=5)
    close(whole, resumed)
    alike_everywhere(resumed)
    if dist.get_rank() == 0:
        close(whole, ALONE, 1e-5, 1e-5)  # in float32
        assert len(list((FOLDER / "whole").iterdir())) == 2  # the last two


def a_damaged_checkpoint_is_skipped_by_all() -> None:
    EXAMPLE.train(FOLDER / "damaged", epochs=2, batches=5)
    newest = FOLDER / "damaged" / "checkpoint-00000002.pt"
    if dist.get_rank() == 0:
        content = bytearray(newest.read_bytes())
        content[len(content) // 2] ^= 1
        newest.write_bytes(bytes(content))
    model = nn.Linear(2, 2)
    opt = SCCD(model, F.mse_loss)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        words = "holds the state of ['model', 'opt'], but load was given ['opt']"
        raises(ValueError, words, lambda: Checkpoints(FOLDER / "damaged").load(opt=opt))
    said = [str(w.message) for w in seen if w.category is CheckpointWarning]
    assert len(said) == (1 if dist.get_rank() == 0 else 0)
    assert all("checkpoint-00000002.pt is damaged" in text for text in said)


CHECKS: list[Callable[[], None]] = [
    a_resumed_run_ends_in_the_same_bits, a_damaged_checkpoint_is_skipped_by_all,
    one_all_reduce_a_block, starting_values_are_those_of_rank_0,
    blocks_are_those_of_rank_0, other_options_are_refused, replicas_that_come_apart_are_noticed,
    trouble_on_one_rank_stops_all, nan_on_one_rank_is_seen_by_all, an_idle_rank_takes_part,
    a_parameter_used_on_one_rank_only, random_numbers_are_the_same_on_all_ranks,
    a_ddp_model_is_unwrapped, batch_norm_must_be_synchronised,
    a_page_sampler_gives_each_rank_its_part, activations_may_wait_on_the_host,
    minimize_stops_everywhere_at_once, minimize_goes_on_from_its_checkpoint,
    minimize_refuses_what_ranks_cannot_share,
]  # fmt: skip


def alone() -> dict[str, Any]:
    """What one process gives, to which rank 0 is held; rank 1 is held to rank 0, to the bit."""
    one: dict[str, Any] = {}
    for text, (name, options) in cases().items():
        losses, parameters, opt = run(name, **options)
        one[text] = losses, parameters, opt.route
    one |= {text: fit(name, **options) for text, (name, options) in sums().items()}
    return one


def same_run(name: str, options: dict[str, Any], one: Any) -> None:
    losses, parameters, opt = run(name, **options)
    assert opt.runs_on == 2
    alike_everywhere(parameters)
    if one is not None:
        tolerance = 0.02 if parameters[0].dtype is torch.bfloat16 else SAME
        close((losses, parameters), one[:2], tolerance, tolerance)
        assert opt.route == one[2]


def same_fit(library: str, options: dict[str, Any], one: Any) -> None:
    res = fit(library, **options)
    alike_everywhere([torch.as_tensor(res.x)])
    if one is not None:
        close([torch.as_tensor(res.x)], [torch.as_tensor(one.x)], SAME, SAME)
        assert (res.cycles, res.message) == (one.cycles, one.message)
        for column in ("cycle", "samples", "fun", "squared_distance", "dist"):
            close(np.array(res.history[column]), np.array(one.history[column]), SAME, SAME)


def every_check(one: dict[str, Any]) -> dict[str, Callable[[], None]]:
    """All that the two ranks do together, by name."""
    import sharded_checks

    found: dict[str, Callable[[], None]] = {}
    for same, known in ((same_run, cases()), (same_fit, sums())):
        for text, (name, options) in known.items():
            found[text] = partial(same, name, options, one.get(text))
    found |= {check.__name__: check for check in CHECKS}
    return {**found, **sharded_checks.cases(FOLDER)}


def main(folder: Path) -> None:
    global ALONE, FOLDER
    FOLDER = folder
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", CostWarning)
    warnings.filterwarnings("ignore", message=".*could not be cut.*")
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    warnings.filterwarnings("ignore", category=FutureWarning)
    one = {}
    if os.environ["RANK"] == "0":
        one = alone()
        ALONE, _ = EXAMPLE.train(folder / "alone", epochs=3, batches=5)
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    outcome: dict[str, str] = {}
    lost = ""
    for name, check in every_check(one).items():
        outcome[name] = f"not run: the ranks lost each other in {lost}" if lost else ""
        try:
            if not lost:
                check()
        except Exception as error:
            outcome[name] = traceback.format_exc()
            lost = name if isinstance(error, RankLostError) else ""
    (folder / f"rank{dist.get_rank()}.json").write_text(json.dumps(outcome))
    dist.barrier()
    os._exit(0)  # gloo's threads sometimes abort at the end of Python, on a busy machine


if __name__ == "__main__":
    sys.modules["ranks_worker"] = sys.modules["__main__"]  # for `sharded_checks`
    main(Path(sys.argv[1]))
