"""Modules that cannot be replayed, refused by name."""

from __future__ import annotations

from torch import nn
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrizations
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

__all__ = ["check"]

_WRAPPERS = (nn.DataParallel, nn.parallel.DistributedDataParallel)
_POWER_ITERATION = "runs a power iteration on every training forward, so no replay equals the first"


def _problem(module: nn.Module) -> str | None:
    """Why a module cannot be replayed and what to do about it, or None."""
    held = (*module._parameters.values(), *module._buffers.values())
    if any(tensor is not None and is_lazy(tensor) for tensor in held):
        return "is not initialised yet: run the model once on a batch before cutting it"
    if isinstance(module, parametrizations._SpectralNorm) and module.training:
        return f"{_POWER_ITERATION}: remove it (precondition='spectral' scales the step instead)"
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, SpectralNorm):
            return f"{_POWER_ITERATION}: call torch.nn.utils.remove_spectral_norm on it"
        if isinstance(hook, WeightNorm):
            return (
                "keeps its computed weight (and the graph behind it) as an attribute: use "
                "torch.nn.utils.parametrizations.weight_norm instead of torch.nn.utils.weight_norm"
            )
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and module.max_norm is not None:
        return "rewrites its weight in forward (max_norm): set max_norm=None"
    if isinstance(module, _WRAPPERS):
        return "wraps the model and reduces gradients by itself: give the inner .module"
    if any(cls.__module__.startswith("torch.distributed.fsdp") for cls in type(module).__mro__):
        return "is sharded by FSDP, so that its parameters are not its own: give the plain module"
    if "torch.jit" in type(module).__module__:
        return "is a TorchScript module, whose parameters cannot be exchanged: give the nn.Module"
    return None


def check(model: nn.Module) -> None:
    """Raise a ValueError that names the first module which cannot be replayed."""
    for path, module in model.named_modules():
        problem = _problem(module)
        if problem is not None:
            where = f"module {path!r}" if path else "the model"
            raise ValueError(f"{where} ({type(module).__name__}) {problem}")
