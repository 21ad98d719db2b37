"""Checkpoints of nets: states of tensors and plain values, in sealed files of torch."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from cyclade.files.errors import FolderError
from cyclade.files.sealed import FORMAT, Label, read_sealed, sealed


def packed(state: dict[str, Any], run: str) -> bytes:
    """The bytes of a checkpoint."""
    import torch

    buffer = io.BytesIO()
    torch.save(state, buffer)
    return sealed(buffer.getvalue(), Label(FORMAT, run, int(state["epoch"])))


def checked(path: Path, run: str) -> bytes:
    """The archive of a checkpoint of this run. Nothing of it is unpacked yet."""
    archive, label = read_sealed(path)
    if label.run != run:
        raise FolderError(f"{path} belongs to another run")
    return archive


def unpacked(path: Path, run: str, device: Any) -> dict[str, Any]:
    """The state in a checkpoint of this run."""
    return state_in(checked(path, run), path, device)


def state_in(archive: bytes, path: Path, device: Any = "cpu") -> dict[str, Any]:
    """The state in the archive of a checkpoint. Only tensors and plain values are read."""
    import torch

    try:
        found = torch.load(io.BytesIO(archive), map_location=device, weights_only=True)
    except Exception:
        # torch's own message would recommend weights_only=False, which runs what is in the file.
        raise FolderError(f"{path} holds more than tensors and plain values") from None
    if not isinstance(found, dict):
        raise FolderError(f"{path} holds no state of a run")
    return found
