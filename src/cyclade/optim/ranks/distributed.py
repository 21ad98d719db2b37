"""One batch over many processes: what ranks agree on, and what they sum.

An optimizer asks `OneProcess`, which has nothing to do, or `ManyProcesses`. The second makes
everything that decides a trajectory the same on all ranks: parameters and buffers, the seed, the
options and the blocks, and in every step the size of the batch, the coin, gradients and loss.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import is_lazy

import cyclade
from cyclade.optim.batches import as_batches, as_part, shares
from cyclade.optim.net import Batch, Net
from cyclade.optim.ranks.reducing import Reduced, ReducedLag
from cyclade.optim.stages import effects
from cyclade.ranks import RankLostError, Ranks, initialised

__all__ = ["ManyProcesses", "OneProcess", "RankLostError", "ranks_of"]

Groups = list[dict[str, Any]]
_REFRESH = {None: -1.0, False: 0.0, True: 1.0}
_BATCH, _CLOSURE = 0.0, 1.0
_LOOKS = 8  # parameters that a step compares between ranks
_ROUNDINGS = 1e4  # by which replicas may come apart where ranks run on other hardware


def ranks_of(process_group: Any) -> OneProcess:
    """The helper for a process group; the initialised one, if none is given."""
    if process_group is not None:
        return ManyProcesses(Ranks(process_group))
    if initialised() and torch.distributed.get_world_size() > 1:
        return ManyProcesses(Ranks())
    return OneProcess()


@dataclass(frozen=True)
class GlobalBatch:
    """This rank's micro-batches with their weights in the whole, and the samples of all ranks."""

    batches: list[Batch]
    size: int
    proved: bool = False  # no rank needs to prove anything on it


class OneProcess:
    """All samples are here."""

    size = 1
    alone = True
    synchronised = False  # whether samples of other ranks meet in a normalisation

    def broadcast_model(self, model: nn.Module) -> None:
        """Take over the first rank's parameters and buffers, as DDP does."""

    def agree(self, said: dict[str, Any]) -> dict[str, Any]:
        """What the first rank says; an error where another says something else."""
        return said

    def global_batch(
        self, read: tuple[Any, ...], refresh: bool | None, *,
        ready: Callable[[list[Batch]], bool], draws: int, groups: Groups,
    ) -> GlobalBatch:  # fmt: skip
        """The batch that ``as_batches(*read)`` is (a part of)."""
        batches = as_batches(*read)
        return GlobalBatch(batches, sum(batch.size for batch in batches))

    def prove(self, prove: Callable[[bool], bool], batch: GlobalBatch) -> bool:
        """Run the proof where it is due; whether it was."""
        return prove(False)

    def check_closure(self, refresh: bool | None, draws: int, groups: Groups) -> None:
        """See that all ranks give a closure, with the same coin."""

    def closure(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        """The closure, kept from reducing gradients itself."""
        return closure

    def drawing(self, seed: int, draws: int, net: Net) -> Any:
        """A context in which the model draws its random numbers, the same on every rank."""
        return nullcontext()

    def reduced(self, sweep: Any, net: Net, *, closure: bool = False) -> Any:
        """A sweep with the gradients of the whole batch."""
        return sweep

    def corrected(self, now: Any, lag: Any, *, greedy: bool) -> Any:
        """The lagged point of a step whose `now` must be corrected by it."""
        return lag

    def fault_report(self, sweep: Any) -> str:
        """Where a loss that is not finite came from."""
        return ""


class ManyProcesses(OneProcess):
    """The samples are spread over the ranks of a group."""

    alone = False

    def __init__(self, ranks: Ranks) -> None:
        self.ranks, self.size = ranks, ranks.size
        self._replicas: list[tuple[str, Tensor]] = []  # parameters that all ranks have alike

    # ------------------------------------------------------------------------ before the first

    def broadcast_model(self, model: nn.Module) -> None:
        for path, module in model.named_modules() if self.size > 1 else ():
            if isinstance(module, nn.SyncBatchNorm):
                self.synchronised = True
            elif isinstance(module, nn.modules.batchnorm._BatchNorm) and module.training:
                raise ValueError(  # batch norm must see the whole batch
                    f"module {path!r} ({type(module).__name__}) would see one rank's samples only, "
                    "so that the replicas' statistics drift apart: use torch.nn.SyncBatchNorm."
                    "convert_sync_batchnorm(model), or put it in eval mode"
                )
        state = [*model.named_parameters(), *model.named_buffers()]
        lazy = [name for name, tensor in state if is_lazy(tensor)]
        if lazy:
            raise ValueError(
                f"{lazy[0]} is not initialised yet: run the model once on a batch, on every rank, "
                "before the optimizer is built"
            )
        for _, tensor in state:
            self.ranks.check_device(tensor.device)
        said = [(name, tuple(t.shape), str(t.dtype), t.requires_grad) for name, t in state]
        versions = f"cyclade {cyclade.__version__}, torch {torch.__version__}"
        self.agree({"what is installed": versions, "the model": said})
        self.ranks.broadcast(tensor for _, tensor in state)
        self._replicas = [(n, p) for n, p in model.named_parameters() if p.numel()]

    def agree(self, said: dict[str, Any]) -> dict[str, Any]:
        # These two may well depend on a rank's own data.
        return self.ranks.agree(said, free=("seed", "blocks"))

    # ------------------------------------------------------------------------ before every step

    def global_batch(
        self, read: tuple[Any, ...], refresh: bool | None, *,
        ready: Callable[[list[Batch]], bool], draws: int, groups: Groups,
    ) -> GlobalBatch:  # fmt: skip
        """The batch of which ``as_part(*read)`` is this rank's part.

        One exchange of ten numbers, through which a rank that refuses its part stops all.
        """
        batches: list[Batch] = []
        size, proved, trouble = 0, False, None
        try:
            batches, size = as_part(*read)
            proved = ready(batches)
        except Exception as error:
            trouble = error
        counted = sum(batch.weight for batch in batches)
        rows = self._exchange(
            trouble, _BATCH, refresh, draws, groups, [counted, size, len(batches), proved]
        )
        counts, sizes, pieces, ready_there = zip(*rows, strict=True)
        if self.synchronised and len(set(pieces)) > 1:
            raise ValueError(
                f"the ranks have {[int(n) for n in pieces]} micro-batches with samples, but "
                "SyncBatchNorm (or fully_shard) waits for all of them: give every rank as many"
            )
        if sum(counts) == 0:
            raise ValueError("step got a batch of which no rank has a sample (or a label) to count")
        weighed = shares(batches, sum(counts))
        return GlobalBatch(weighed, int(sum(sizes)), all(ready_there))

    def check_closure(self, refresh: bool | None, draws: int, groups: Groups) -> None:
        self._exchange(None, _CLOSURE, refresh, draws, groups, [])

    def _exchange(
        self, trouble: Exception | None, kind: float, refresh: bool | None, draws: int,
        groups: Groups, more: list[float],
    ) -> list[list[float]]:  # fmt: skip
        # Some of the parameters, all of them in turn: a look takes time.
        count = len(self._replicas)
        some = range(draws * _LOOKS, draws * _LOOKS + min(_LOOKS, count))
        looked_at = [self._replicas[k % count] for k in some]
        row = [float(trouble is not None), kind, _REFRESH[refresh], draws, _rates(groups),
               float(sum(_bits(p) for _, p in looked_at) % 2**52)]  # fmt: skip
        width = 10
        mine = [*row, *map(float, more)]
        rows = self.ranks.rows(mine + [0.0] * (width - len(mine)))
        self._raise(trouble, any(one[0] for one in rows))
        for place, what in (
            (1, "a batch (a closure)"), (2, "refresh"), (3, "the number of steps made"),
            (4, "lr or weight_decay"),
        ):  # fmt: skip
            values = [one[place] for one in rows]
            if len(set(values)) > 1:
                raise ValueError(f"the ranks differ in {what}: {values}; nothing has moved")
        if len({one[5] for one in rows}) > 1:
            self._compare(looked_at)
        return [one[len(row) :] for one in rows]

    @torch.no_grad()
    def _compare(self, looked_at: list[tuple[str, Tensor]]) -> None:
        """Refuse parameters that are not the first rank's; what is rounding is taken over."""
        for name, p in looked_at:
            first = p.detach().clone()
            self.ranks.broadcast([first])
            far = float((p - first).abs().max()) if bool((p != first).any()) else 0.0
            limit = _ROUNDINGS * torch.finfo(p.dtype).eps * float(first.abs().max())
            apart = [row[0] for row in self.ranks.rows([far / limit if limit else far])]
            if max(apart) > 1.0 or any(one != one for one in apart):
                rank = apart.index(max(apart))
                raise ValueError(
                    f"the parameter {name} of rank {rank} is not that of rank 0, so the replicas "
                    "have come apart (was it changed by hand, or loaded on some ranks only?); "
                    "nothing has moved. Load the same state on all ranks, or build the optimizer "
                    "again, which takes over rank 0's"
                )
            p.copy_(first)

    def prove(self, prove: Callable[[bool], bool], batch: GlobalBatch) -> bool:
        if batch.proved:
            return False
        trouble, done = None, False
        try:
            done = prove(self.synchronised)
        except Exception as error:
            trouble = error
        self._raise(trouble, any(row[0] for row in self.ranks.rows([trouble is not None])))
        return done

    def _raise(self, trouble: Exception | None, anywhere: bool) -> None:
        """Raise on every rank what was raised on one."""
        if not anywhere:
            return
        found = self.ranks.gather("" if trouble is None else f"{type(trouble).__name__}: {trouble}")
        if trouble is not None:
            raise trouble
        rank = next(r for r, text in enumerate(found) if text)
        raise RuntimeError(f"rank {rank} stopped before the step, so nothing moved: {found[rank]}")

    def closure(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        """The closure, in which DDP does not reduce: the sweep does, block by block."""

        def quiet() -> Any:
            with ExitStack() as stack:

                def silence(module: nn.Module, args: Any) -> None:
                    if isinstance(module, DistributedDataParallel):
                        stack.enter_context(module.no_sync())

                stack.enter_context(register_module_forward_pre_hook(silence))
                return closure()

        return quiet

    @contextmanager
    def drawing(self, seed: int, draws: int, net: Net) -> Iterator[None]:
        """The same random numbers by (seed, step); the process's own generators are left alone."""
        if not (net.whole_model or net.chain.random):
            yield
            return
        own = effects.save_rng(list(net.parameters.values()))
        word = int(np.random.SeedSequence([abs(seed), draws]).generate_state(1)[0])
        torch.manual_seed(word)
        random.seed(word)
        np.random.seed(word)  # noqa: NPY002
        try:
            yield
        finally:
            effects.restore_rng(own)

    # ---------------------------------------------------------------------------- in the step

    def reduced(self, sweep: Any, net: Net, *, closure: bool = False) -> Reduced:
        return Reduced(sweep, net, self.ranks, 1.0 / self.size if closure else 1.0)

    def corrected(self, now: Any, lag: Any, *, greedy: bool) -> Any:
        if greedy:  # its scores ask for plain gradients
            return ReducedLag(lag, self.ranks, now.share)
        return now.correct_by(lag)

    def fault_report(self, sweep: Any) -> str:
        faults = sweep.faults.tolist()
        words = {1.0: "its samples' loss is not finite", 2.0: "it failed"}
        found = [f"rank {r}: {words[fault]}" for r, fault in enumerate(faults) if fault in words]
        return f" ({'; '.join(found)})" if found else ""


def _bits(p: Tensor) -> int:
    """The sum of a tensor's bit patterns, which rounding in another order cannot change."""
    real = torch.view_as_real(p.detach()) if p.is_complex() else p.detach()
    kind = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[real.element_size()]
    return int(real.contiguous().view(kind).sum())


def _rates(groups: Groups) -> float:
    """A number that changes with any lr or weight decay that the host knows."""
    found = 0.0
    for i, group in enumerate(groups):
        for name, scale in (("lr", 1.0), ("weight_decay", math.pi)):
            value = group[name]
            found += 0.0 if isinstance(value, Tensor) else scale * (i + 1) * float(value)
    return found
