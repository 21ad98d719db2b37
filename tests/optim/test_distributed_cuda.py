"""Ranks on a GPU: NCCL (also captured, and with FSDP2) as a group of one; SyncBatchNorm with two
gloo ranks.

They need CUDA; run this file there by itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from small_nets import ALL, RECURSIVE
from test_capture import batch, net
from torch import Tensor, nn

from cyclade.optim import SCCD, VROCCD

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")

SAME = 1e-10


def train(
    cls: Any, steps: int = 12, model: nn.Module | None = None, parts: Any = None, **options: Any
) -> tuple[nn.Module, Tensor, Any]:
    torch.backends.cudnn.deterministic = True
    model = net() if model is None else model
    if cls in RECURSIVE:
        options.update(b=32, b_small=9)
    opt = cls(model, F.cross_entropy, lr=0.05, weight_decay=1e-3, **options)
    losses = []
    for k in range(steps):
        size = 32 if k == 0 or cls not in RECURSIVE or k % 4 == 0 else 9
        data = batch(size, k)
        losses.append(opt.step(*(data if parts is None else parts(*data))).clone())
    return model, torch.stack(losses), opt


def close(a: Any, b: Any) -> None:
    torch.testing.assert_close(a, b, rtol=SAME, atol=SAME)


@pytest.fixture(scope="module")
def nccl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    place = tmp_path_factory.mktemp("nccl") / "store"
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", init_method=f"file://{place}", rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


@pytest.mark.parametrize("capture", [False, True])
@pytest.mark.parametrize("cls", ALL)
def test_nccl_gives_the_trajectory_of_one_process(cls: Any, capture: bool, nccl: Any) -> None:
    steps = 40 if capture else 12  # a kind of step runs eagerly three times before it is captured
    alone, losses, _ = train(cls, steps)
    ranked, again, opt = train(cls, steps, capture=capture, process_group=nccl)
    assert opt.runs_on == 1
    assert (opt.runner.graphs is not None) == capture
    if capture:
        assert len(opt.runner.graphs)
    close(again, losses)
    close(list(ranked.state_dict().values()), list(alone.state_dict().values()))


def test_a_model_that_nccl_cannot_reach_is_refused(nccl: Any) -> None:
    with pytest.raises(ValueError, match=r"nccl.*cannot reduce tensors on cpu"):
        SCCD(nn.Linear(3, 2), F.mse_loss, process_group=nccl)


@pytest.mark.parametrize("order", ["forward", "backward", "shuffled"])
@pytest.mark.parametrize("cls", [SCCD, VROCCD])
def test_shards_on_cuda(cls: Any, order: str, nccl: Any) -> None:
    """FSDP2 with one rank, whose shards are whole parameters, against the plain model."""
    from torch.distributed.fsdp import fully_shard

    from cyclade.optim.sharded import ShardedSCCD, ShardedVROCCD

    plain, sharded = net(), net()
    for child in [c for c in sharded if list(c.parameters())] + [sharded]:
        fully_shard(child)
    options: dict[str, Any] = {"lr": 0.05, "weight_decay": 1e-3, "order": order, "seed": 3}
    if cls is VROCCD:
        options |= {"b": 32, "b_small": 9}
    kind = ShardedVROCCD if cls is VROCCD else ShardedSCCD
    mine = kind(sharded, F.cross_entropy, **options)
    twin = cls(plain, F.cross_entropy, blocks="layers", process_group=nccl, **options)
    for k in range(8):
        data = batch(32 if cls is SCCD or k % 4 == 0 else 9, k)
        close(mine.step(*data), twin.step(*data))
        for p, q in zip(sharded.parameters(), plain.parameters(), strict=True):
            assert p.is_cuda
            close(p.full_tensor().detach(), q.detach())


@pytest.mark.parametrize("name", ["SCCD", "VRO-CCD"])
def test_synchronised_batch_norm(name: str, tmp_path: Path) -> None:
    """Two gloo ranks on one GPU, with uneven parts, against BatchNorm in one process."""
    place = tmp_path / "store"
    workers = [
        subprocess.Popen([sys.executable, __file__, "worker", name, str(rank), str(place)])
        for rank in range(2)
    ]
    try:
        assert [worker.wait(timeout=200) for worker in workers] == [0, 0]
    finally:
        for worker in workers:
            worker.kill()


def synchronised(name: str, rank: int, place: str) -> None:
    cls = {"SCCD": SCCD, "VRO-CCD": VROCCD}[name]
    options = {"blocks": "layers", "order": "backward"}
    alone, losses, _ = train(cls, model=net(norm=True), **options)
    dist.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=2)

    def parts(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        cut = len(x) // 3 + 1
        return (x[:cut], y[:cut]) if rank == 0 else (x[cut:], y[cut:])

    model = nn.SyncBatchNorm.convert_sync_batchnorm(net(norm=True))
    model, again, opt = train(cls, model=model, parts=parts, **options)
    assert opt.runs_on == 2
    assert opt.route == "sequential"  # its stages were proved
    close(again, losses)
    close(list(model.state_dict().values()), list(alone.state_dict().values()))
    x, y = batch(8, 0)
    with pytest.raises(ValueError, match="waits for all of them"):
        opt.step([(x, y)] if rank else [(x[:4], y[:4]), (x[4:], y[4:])])
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        warnings.simplefilter("ignore")
        synchronised(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    raise SystemExit(pytest.main([__file__, "-q", "-p", "no:cacheprovider", "-o", "addopts="]))
