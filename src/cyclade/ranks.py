"""The ranks of a torch.distributed group: sums over them, and a word on which one is gone.

Everything goes through `torch.distributed`. A collective that fails becomes a `RankLostError` that
names the ranks which no longer answer.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from cyclade._checks import shown

_GRACE = 3.0  # seconds for ranks on other machines to say that they are still there
_CPU = torch.device("cpu")


class RankLostError(RuntimeError):
    """Another rank died, hangs or left; the step under way was not finished."""


def initialised() -> bool:
    """Whether this process is one of torch.distributed's."""
    return dist.is_available() and dist.is_initialized()


class Ranks:
    """A group of processes, each with its own part of the samples."""

    _made = 0

    def __init__(self, group: Any = None) -> None:
        if not initialised():
            raise RuntimeError(
                "process_group was given, but torch.distributed is not initialised: call "
                "torch.distributed.init_process_group first (torchrun sets what it needs)"
            )
        self.group: Any = dist.group.WORLD if group is None else group
        self.rank, self.size = _place(self.group)
        Ranks._made += 1
        self._number = Ranks._made  # the same on all ranks, as they run the same program
        self._peers: list[tuple[str, int]] = self.gather((socket.gethostname(), os.getpid()))

    def __repr__(self) -> str:
        return f"rank {self.rank} of {self.size}"

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all ranks, in place."""
        with self._named():
            dist.all_reduce(tensor, group=self.group)
        return tensor

    def rows(self, row: Sequence[float]) -> list[list[float]]:
        """The numbers of every rank, on the host."""
        mine = torch.tensor(row, dtype=torch.float64)
        found = [torch.empty_like(mine) for _ in range(self.size)]
        with self._named():
            dist.all_gather(found, mine, group=self._host)
        return [one.tolist() for one in found]

    def gather(self, value: Any) -> list[Any]:
        """A small Python object of every rank."""
        found: list[Any] = [None] * self.size
        with self._named():
            dist.all_gather_object(found, value, group=self._host)
        return found

    def first(self, value: Any) -> Any:
        """The Python object of the group's first rank."""
        found = [value]
        with self._named():
            source = dist.get_global_rank(self.group, 0)
            dist.broadcast_object_list(found, src=source, group=self._host)
        return found[0]

    def agree(self, said: dict[str, Any], free: Sequence[str] = ()) -> dict[str, Any]:
        """What the first rank says; an error where another differs in a name that is not `free`."""
        everything = self.gather(said)
        for rank, other in enumerate(everything):
            for name, value in everything[0].items():
                if name not in free and other.get(name) != value:
                    raise ValueError(
                        f"the ranks were given different things: {name} is {shown(value)} on rank "
                        f"0 and {shown(other.get(name))} on rank {rank}"
                    )
        first: dict[str, Any] = everything[0]
        return first

    @torch.no_grad()
    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Give every rank the values that the group's first rank has."""
        first = dist.get_global_rank(self.group, 0)
        for tensor in tensors:
            whole = tensor.detach().contiguous()
            with self._named():
                dist.broadcast(whole, src=first, group=self.group)
            if whole.data_ptr() != tensor.data_ptr():
                tensor.copy_(whole)

    def check_device(self, device: torch.device) -> None:
        """Refuse tensors on a device that the group's backend cannot reach."""
        if not self._reaches(device):
            raise ValueError(
                f"process_group ({dist.get_backend(self.group)}) cannot reduce tensors on "
                f"{device.type}: move the model first, or use a group with a backend for it (gloo "
                "for the CPU, nccl for CUDA)"
            )

    def _reaches(self, device: torch.device) -> bool:
        try:
            self.group._get_backend(device)
        except RuntimeError:
            return False
        return True

    @cached_property
    def _host(self) -> Any:
        """A group for numbers on the host, which must not wait for the device."""
        if self._reaches(_CPU):
            return self.group
        return dist.new_group(
            dist.get_process_group_ranks(self.group), backend="gloo",
            use_local_synchronization=True,
        )  # fmt: skip

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Say which rank is gone when a collective fails."""
        try:
            yield
        except (RuntimeError, ConnectionError) as error:
            if isinstance(error, RankLostError):
                raise
            first = str(error).splitlines()[0]
            raise RankLostError(f"{self._verdict()}: {first}") from error

    def _verdict(self) -> str:
        """Which rank is gone; the word of the first that noticed, as the others leave after it."""
        here = socket.gethostname()
        dead = [
            r for r, (host, pid) in enumerate(getattr(self, "_peers", []))
            if host == here and not _runs(pid)
        ]  # fmt: skip
        try:
            kept = dist.distributed_c10d._get_default_store()
            store = dist.distributed_c10d.PrefixStore(f"cyclade-lost-{self._number}", kept)
            store.set_timeout(timedelta(seconds=_GRACE))
            seen = f"{_ranks(dead)} of {self.size} died" if dead else self._silent(store)
            seen += f" (seen from rank {self.rank})"
            return str(store.compare_set("verdict", "", seen).decode())
        except (RuntimeError, ConnectionError):  # the store went with the rank that kept it
            return f"{_ranks(dead or [0])} of {self.size} died (seen from rank {self.rank})"

    def _silent(self, store: Any) -> str:
        """The ranks that do not say within the grace period that they noticed the failure too."""
        store.set(str(self.rank), "here")
        end = time.monotonic() + _GRACE
        silent = set(range(self.size)) - {self.rank}
        while silent and time.monotonic() < end:
            silent = {r for r in silent if not store.check([str(r)])}
            time.sleep(0.02)
        if silent:
            return f"{_ranks(sorted(silent))} of {self.size} did not answer"
        return f"a collective of {self.size} ranks failed, though all answer"


def _place(group: Any) -> tuple[int, int]:
    """This process's rank in the group, and how many there are."""
    if not isinstance(group, dist.ProcessGroup):
        raise TypeError(
            f"process_group must be a torch.distributed ProcessGroup, got {type(group).__name__}"
            + (" (this process is not a member)" if group == dist.GroupMember.NON_GROUP_MEMBER
               else "")
        )  # fmt: skip
    return dist.get_rank(group), dist.get_world_size(group)


def _ranks(which: list[int]) -> str:
    names = ", ".join(map(str, which))
    return f"rank {names}" if len(which) == 1 else f"ranks {names}"


def _runs(pid: int) -> bool:
    """Whether a process of this machine is there, and neither dead nor stopped."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return not Path("/proc/self/stat").exists()  # without /proc nothing can be said
    except (OSError, IndexError):
        return True
    return state not in "ZXT"
