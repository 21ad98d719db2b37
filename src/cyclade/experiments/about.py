"""What a run ran with: versions and hardware."""

from __future__ import annotations

import platform
from datetime import datetime, timezone
from typing import Any

import numpy as np
import torch

import cyclade
from cyclade.experiments.errors import DeviceError


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
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()
