"""Buffers that a forward may change."""

from __future__ import annotations

from torch import nn

from cyclade.optim.stages.slots import Names, Slot

__all__ = ["changing"]

_NORM_FILES = ("torch.nn.modules.batchnorm", "torch.nn.modules.instancenorm")


def changing(module: nn.Module, names: Names) -> tuple[list[Slot], list[Slot]]:
    """The buffers a call of ``module`` may change, and those of them its output ignores.

    Batch and instance norm change their statistics in training mode and do not use them then.
    Other torch.nn layers change nothing. Any buffer of a class of the user's may change.
    """
    state: list[Slot] = []
    idle: list[Slot] = []
    for owner in module.modules():
        if not owner._buffers:
            continue
        slots = [slot for slot in names.own(owner) if slot.buffer]
        if isinstance(owner, nn.modules.batchnorm._NormBase):
            if owner.training and owner.track_running_stats:
                state += slots
                if type(owner).__module__ in _NORM_FILES and not isinstance(
                    owner, nn.SyncBatchNorm
                ):
                    idle += slots
        elif type(owner).__module__.startswith("torch.nn.modules."):
            continue
        else:
            state += slots
    return state, idle
