"""The device of a run: which one, what it is, and kernels that give the same bits every time."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import datetime, timezone
from typing import Any

import numpy as np
import torch

import cyclade
from cyclade.experiments.errors import DeviceError

_lock = threading.Lock()
_inside: list[tuple[Any, ...]] = []  # what each run under way asked for
_before: tuple[Any, ...] = ()


def resolve(device: str) -> torch.device:
    """The device by name; "auto" is CUDA where there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    chosen = torch.device(device)
    if chosen.type == "cuda":
        if not torch.cuda.is_available():
            raise DeviceError(
                f"device = {device!r}: no CUDA GPU can be used here. Give 'cpu' or 'auto', or "
                "install a CUDA build of torch"
            )
        if chosen.index is not None and chosen.index >= torch.cuda.device_count():
            raise DeviceError(
                f"device = {device!r}: there are {torch.cuda.device_count()} GPUs, from cuda:0"
            )
    return chosen


def about(device: torch.device, epoch: int) -> dict[str, Any]:
    """Versions and hardware, and the epoch from which they count."""
    hardware: dict[str, Any] = {"machine": platform.machine(), "processor": _processor()}
    if device.type == "cuda":
        hardware["gpu"] = torch.cuda.get_device_name(device)
        hardware["cuda"] = torch.version.cuda
        hardware["cudnn"] = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
        hardware["tf32"] = {
            "convolutions": torch.backends.cudnn.allow_tf32,
            "matrices": torch.backends.cuda.matmul.allow_tf32,
        }
    return {
        "from_epoch": epoch,
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "device": str(device),
        "versions": {
            "cyclade": cyclade.__version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "system": platform.system(),
        "hardware": hardware,
    }


def _processor() -> str:
    """The name of the CPU, where the system tells it."""
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def on(device: torch.device) -> AbstractContextManager[Any]:
    """With this device as the current one."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def before_cuda_starts() -> None:
    """Settings that CUDA reads once, when it starts; what the user has set stays."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # products that repeat
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")  # streams that do not wait in line


@contextmanager
def repeatable(threads: int, tf32: bool) -> Iterator[None]:
    """So many CPU threads, TF32 or not, and kernels that give the same bits every time.

    These are settings of the whole process. Runs side by side in threads may share them, if they
    ask for the same; the last to leave puts back what was there before.
    """
    global _before
    # In convolutions TF32 does not pay: of cuDNN's kernels that repeat, the one it picks for the
    # first layer's weights is much slower than that for float32.
    wanted = (threads, True, False, False, tf32)
    with _lock:
        if _inside and _inside[0] != wanted:
            raise RuntimeError("runs in one process must agree on threads and tf32")
        if not _inside:
            _before = _settings()
            _set(wanted)
        _inside.append(wanted)
    try:
        yield
    finally:
        with _lock:
            _inside.pop()
            if not _inside:
                _set(_before)


def _settings() -> tuple[Any, ...]:
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    return (
        torch.get_num_threads(), cudnn.deterministic, cudnn.benchmark, cudnn.allow_tf32,
        matmul.allow_tf32,
    )  # fmt: skip


def _set(settings: tuple[Any, ...]) -> None:
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    threads, cudnn.deterministic, cudnn.benchmark, cudnn.allow_tf32, matmul.allow_tf32 = settings
    torch.set_num_threads(threads)
