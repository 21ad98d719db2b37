"""Kernels that give the same bits every time."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_lock = threading.Lock()
_inside: list[tuple[Any, ...]] = []  # what each run under way asked for
_before: tuple[Any, ...] = ()


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
