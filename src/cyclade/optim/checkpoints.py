"""Checkpoints of a training run that a kill, a full disk or a flipped bit cannot spoil.

A file is written beside its place and renamed into it, carries the SHA-256 of its content, and the
last few are kept. Loading takes the newest one that is whole, warns of those that are not, and
reads tensors and plain values only. On several ranks the first one writes and reads; the state of
an optimizer is the same on all of them.
"""

from __future__ import annotations

import re
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from cyclade._checks import whole_number
from cyclade.files.checkpoint import read_by_first
from cyclade.files.disk import sweep, write
from cyclade.files.errors import FolderError
from cyclade.files.sealed import checked, packed, state_in
from cyclade.ranks import Ranks, initialised

_RUN = "cyclade.optim"
_PLAIN = (int, float, bool, str, bytes, type(None), torch.Tensor)
_NAME = re.compile(r"checkpoint-(\d+)\.pt")


class CheckpointWarning(UserWarning):
    """A checkpoint is damaged and was skipped for the one before it."""


class Checkpoints:
    """The last `keep` checkpoints of a run, in a folder of their own.

    Those of a run with another order, seed or learning rate than the optimizer was built with are
    refused; with ``check_run=False`` they are taken up.

    Example
    -------
    >>> import tempfile, torch
    >>> from cyclade.optim import SCCD
    >>> model = torch.nn.Linear(2, 1)
    >>> opt = SCCD(model, torch.nn.functional.mse_loss)
    >>> kept = Checkpoints(tempfile.mkdtemp())
    >>> kept.load(model=model, opt=opt) is None
    True
    >>> kept.save(3, model=model, opt=opt, best=0.5).name
    'checkpoint-00000003.pt'
    >>> kept.load(model=model, opt=opt)
    {'step': 3, 'best': 0.5}
    """

    def __init__(
        self, folder: str | Path, *, keep: int = 2, process_group: Any = None,
        check_run: bool = True,
    ) -> None:  # fmt: skip
        self.folder, self.keep = Path(folder), whole_number("keep", keep, 1)
        self._check_run, self._swept = check_run, False
        alone = process_group is None and not initialised()
        self._ranks = None if alone else Ranks(process_group)

    def save(self, step: int, **parts: Any) -> Path:
        """Write checkpoint `step`: what has a state_dict by that, all else as plain values."""
        path = self.folder / f"checkpoint-{whole_number('step', step, 0):08d}.pt"
        self._refuse_shards(parts)
        if self._ranks is not None and self._ranks.rank > 0:
            return path
        states = {name: parts[name].state_dict() for name in _stateful(parts)}
        values = {n: _plain(n, part) for n, part in parts.items() if n not in states}
        if not self._swept:  # of what earlier processes left
            sweep(self.folder)
            self._swept = True
        runs = {name: _run_of(part) for name, part in parts.items()}
        state = {"epoch": step, "states": states, "values": values, "runs": runs}
        write(path, packed(state, _RUN))
        done = [old for number, old in self._found() if number <= step]
        for old in done[self.keep :]:
            with suppress(OSError):  # what is no file stays
                old.unlink()
        return path

    def load(self, **parts: Any) -> dict[str, Any] | None:
        """Give the parts the newest state that is whole; its step and values, or None."""
        self._refuse_shards(parts)
        content = read_by_first(self._ranks, self._newest)
        if content is None:
            return None
        state = state_in(content, self.folder)
        wanted = _stateful(parts)
        if set(wanted) != set(state["states"]):
            raise ValueError(
                f"the checkpoint holds the state of {sorted(state['states'])}, but load was given "
                f"{sorted(wanted)}"
            )
        if self._check_run:
            _check_runs(state.get("runs", {}), parts)
        for name in wanted:  # in the order given: all ranks load the same part at a time
            parts[name].load_state_dict(state["states"][name])
        return {"step": state["epoch"], **state["values"]}

    def _refuse_shards(self, parts: dict[str, Any]) -> None:
        """Raise ValueError, on every rank, for parts of which each rank has something else."""
        if self._ranks is None or self._ranks.size == 1:
            return
        for name, part in parts.items():
            held = [p for group in getattr(part, "param_groups", ()) for p in group["params"]]
            held += part.parameters() if isinstance(part, torch.nn.Module) else []
            if any(type(tensor).__name__ == "DTensor" for tensor in held):
                raise ValueError(
                    f"{name} is sharded (fully_shard, or tensor parallelism), and the first rank "
                    "would write its own shards for all: give every rank a folder and a group of "
                    "its own, Checkpoints(folder / str(rank), process_group=that_rank_alone), and "
                    "resume on as many ranks; or use torch.distributed.checkpoint"
                )

    def _found(self) -> list[tuple[int, Path]]:
        """The checkpoints that are there, the newest first."""
        if not self.folder.is_dir():
            if self.folder.exists():
                raise FolderError(f"{self.folder} is a file: checkpoints want a folder")
            return []
        named = [(_NAME.fullmatch(entry.name), entry) for entry in self.folder.iterdir()]
        return sorted(((int(m[1]), entry) for m, entry in named if m), reverse=True)

    def _newest(self) -> bytes | None:
        """The archive of the newest checkpoint that is whole."""
        for _, path in self._found():
            try:
                archive = checked(path, _RUN)
                if not state_in(archive, path).keys() >= {"epoch", "states", "values"}:
                    raise FolderError(f"{path} holds no state of a run")
            except (FolderError, FileNotFoundError) as bad:
                warnings.warn(CheckpointWarning(f"skipped: {bad}"), stacklevel=4)
                continue
            return archive
        return None


def _stateful(parts: dict[str, Any]) -> list[str]:
    return [name for name, part in parts.items() if callable(getattr(part, "state_dict", None))]


def _run_of(part: Any) -> dict[str, str]:
    """What an optimizer of this package was built with, in words."""
    given = getattr(part, "run_options", {})
    words = {name: str(value) for name, value in given.items() if name != "param_groups"}
    for k, group in enumerate(given.get("param_groups", ())):
        words |= {f"{name} of group {k}": text for name, text in group.items()}
    return words


def _check_runs(there: dict[str, dict[str, str]], parts: dict[str, Any]) -> None:
    """ValueError where the parts were built otherwise than those that were saved."""
    changes = [
        f"{key} = {old} there, {here.get(key)} here"
        for name, saved in there.items()
        for here in (_run_of(parts.get(name)),)
        for key, old in saved.items()
        if here.get(key) != old
    ]
    if changes:
        raise ValueError(
            f"the checkpoint is of another run ({'; '.join(changes[:3])}): give another folder, or "
            "Checkpoints(…, check_run=False) to take it up with what was saved"
        )


def _plain(name: str, value: Any) -> Any:
    """`value`, if it can be read again without executing anything."""
    if isinstance(value, dict):
        for key, entry in value.items():
            _plain(f"{name}[{key!r}]", entry)
    elif isinstance(value, list | tuple):
        for k, entry in enumerate(value):
            _plain(f"{name}[{k}]", entry)
    elif type(value) not in _PLAIN:
        raise TypeError(
            f"{name} is a {type(value).__name__}: a checkpoint holds what has a state_dict, and "
            "numbers, strings, tensors, lists and dicts of these, which load without running code"
        )
    return value
