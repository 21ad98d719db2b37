"""Models of fully_shard on two ranks against one process; `ranks_worker.py` runs them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from ranks_worker import raises
from small_nets import batch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard

from cyclade.optim import SCCD, VROCCD, Checkpoints, NotFiniteError
from cyclade.optim.sharded import ShardedSCCD, ShardedVROCCD


class Plain(nn.Module):
    """A model with units inside, and parameters that are the root's own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(6, 7), nn.Tanh())
        self.second = nn.Linear(7, 5)
        self.last = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.second(self.first(x))))  # type: ignore[no-any-return]


LAYERS = ["first.0", "second", "last"]  # the blocks of the twin


def shard(model: Any, *more: str) -> nn.Module:
    for unit in ("first", "second", *more, ""):
        fully_shard(model.get_submodule(unit))
    return model  # type: ignore[no-any-return]


def net() -> nn.Module:
    torch.manual_seed(0)
    return Plain().double()


def mine(whole: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    cut = len(whole[1]) * 2 // 3  # uneven parts
    part = slice(0, cut) if dist.get_rank() == 0 else slice(cut, None)
    return whole[0][part], whole[1][part]


def close(sharded: nn.Module, plain: nn.Module) -> None:
    for p, q in zip(sharded.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(p.full_tensor().detach(), q.detach(), rtol=0, atol=1e-10)
        assert p.grad is None


def pair(method: str, order: Any, *more: str) -> tuple[Any, ...]:
    """Sharded over both ranks, and in this process alone with the same blocks."""
    alone = dist.new_group([dist.get_rank()], use_local_synchronization=True)
    own, twin = shard(net(), *more), net()
    options: dict[str, Any] = {"lr": 0.2, "weight_decay": 0.01, "order": order, "seed": 5}
    if method == "SCCD":
        sharded: Any = ShardedSCCD(own, F.cross_entropy, **options)
    else:
        options |= {"b": 12, "b_small": 3}
        sharded = ShardedVROCCD(own, F.cross_entropy, **options)
    kind = SCCD if method == "SCCD" else VROCCD
    blocks = [[f"{layer}.weight", f"{layer}.bias"] for layer in LAYERS]
    ref = kind(twin, F.cross_entropy, blocks=blocks, process_group=alone, **options)
    return own, twin, sharded, ref


def sizes(method: str) -> list[int]:
    return [12] * 5 if method == "SCCD" else [12, 3, 5, 12, 3, 3]


def trajectory(method: str, order: Any) -> None:
    own, twin, sharded, ref = pair(method, order)
    for k, size in enumerate(sizes(method)):
        loss = sharded.step(*mine(batch(size, k)))
        wanted = ref.step(*batch(size, k))
        assert abs(float(loss) - float(wanted)) < 1e-10
        close(own, twin)


def micro_batches() -> None:
    """For a model whose root has no parameters of its own."""
    own, twin, sharded, ref = pair("SCCD", "forward", "last")
    for k in range(3):
        x, y = mine(batch(12, k))
        sharded.step([(x[:2], y[:2]), (x[2:], y[2:])])
        ref.step(*batch(12, k))
        close(own, twin)


def a_rank_without_samples_is_refused() -> None:
    own, twin, sharded, _ = pair("SCCD", "forward")
    x, y = batch(8, 0)
    x, y = (x, y) if dist.get_rank() == 0 else (x[:0], y[:0])
    raises(ValueError, "waits for all of them", lambda: sharded.step(x, y))
    close(own, twin)


def a_resumed_run_goes_on() -> None:
    own, twin, sharded, ref = pair("VRO-CCD", "shuffled")
    for k, size in enumerate(sizes("VRO-CCD")):
        if k == 3:
            state, weights = sharded.state_dict(), own.state_dict()
            own = shard(net())
            own.load_state_dict(weights)
            sharded = ShardedVROCCD(own, F.cross_entropy, b=12, b_small=3, order="shuffled")
            sharded.load_state_dict(state)
        sharded.step(*mine(batch(size, k)))
        ref.step(*batch(size, k))
        close(own, twin)


def checkpoints_hold_the_shards_of_every_rank(folder: Path) -> None:
    """In a folder for each; one folder for all would hold those of the first rank."""
    own, _, sharded, _ = pair("VRO-CCD", "forward")
    for k, size in enumerate([12, 3]):
        sharded.step(*mine(batch(size, k)))
    for parts in ({"model": own}, {"opt": sharded}):
        for call in (
            partial(Checkpoints(folder / "one").save, 1),
            Checkpoints(folder / "one").load,
        ):
            raises(ValueError, "is sharded", partial(call, **parts))
    assert not (folder / "one").exists()
    alone = [dist.new_group([rank]) for rank in range(2)][dist.get_rank()]
    kept = Checkpoints(folder / str(dist.get_rank()), process_group=alone)
    kept.save(2, model=own, opt=sharded)
    again = shard(net())
    opt = ShardedVROCCD(again, F.cross_entropy, b=12, b_small=3, order="forward")
    assert kept.load(model=again, opt=opt) == {"step": 2}
    for k, size in enumerate([3, 12]):
        sharded.step(*mine(batch(size, k)))
        opt.step(*mine(batch(size, k)))
    for p, q in zip(own.parameters(), again.parameters(), strict=True):
        assert torch.equal(p.to_local(), q.to_local())  # type: ignore[operator]


def only_shards_are_kept() -> None:
    """Between steps and in the state every tensor has the size of a shard."""
    own, _, sharded, _ = pair("VRO-CCD", "forward")
    for k, size in enumerate([12, 3, 12]):
        sharded.step(*mine(batch(size, k)))
    local = sum(p.to_local().numel() for p in own.parameters())
    state = sharded.state_dict()
    assert sum(t.numel() for t in state["g"]) == local
    assert sum(t.numel() for t in state["lag"]) == local
    assert all(type(p).__name__ == "DTensor" for p in own.parameters())


def what_is_not_exact_is_refused() -> None:
    plain, own, half = net(), shard(net()), net()
    fully_shard(half.first)  # type: ignore[arg-type]
    drop = nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.5), nn.Linear(5, 3)).double()
    fully_shard(drop)
    for words, model, options in (
        ("no unit of torch's fully_shard", plain, {}),
        ("second.weight is in no unit", half, {}),
        ("1 (Dropout) does not repeat", drop, {}),
        ("lr must be", own, {"lr": -1.0}),
        ("greedy", own, {"order": "greedy"}),
    ):
        raises(ValueError, words, partial(ShardedSCCD, model, F.mse_loss, **options))
    raises(ValueError, "weight is a DTensor (fully_shard", lambda: SCCD(own, F.mse_loss))


def nan_moves_nothing() -> None:
    own, twin, sharded, _ = pair("SCCD", "forward")
    x, y = mine(batch(12, 0))
    if dist.get_rank() == 1:
        x[0, 0] = float("nan")
    raises(NotFiniteError, "not applied", lambda: sharded.step(x, y))
    close(own, twin)


def cases(folder: Path = Path()) -> dict[str, Callable[[], None]]:
    orders: list[Any] = ["forward", "backward", "shuffled", [2, 0, 1]]
    checks: list[Callable[..., None]] = [
        micro_batches, a_rank_without_samples_is_refused, a_resumed_run_goes_on,
        only_shards_are_kept, what_is_not_exact_is_refused, nan_moves_nothing,
    ]  # fmt: skip
    found: dict[str, Callable[[], None]] = {
        f"shards, {method}, {order}": partial(trajectory, method, order)
        for method in ("SCCD", "VRO-CCD") for order in orders
    }  # fmt: skip
    found |= {f"shards, {check.__name__}": check for check in checks}
    last = checkpoints_hold_the_shards_of_every_rank
    return {**found, f"shards, {last.__name__}": partial(last, folder / "shards")}
