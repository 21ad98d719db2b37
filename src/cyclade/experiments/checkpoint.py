"""Checkpoints that say whose they are, and show when a bit of them has changed.

A checkpoint is an ordinary torch file, which is a zip archive. Its archive comment holds the
format, the run it belongs to, the epoch, and the SHA-256 of that and of every byte before it.
"""

from __future__ import annotations

import io
import json
import pickle
import struct
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cyclade.experiments.errors import FolderError
from cyclade.experiments.storage import digest

FORMAT = 2
"""1 had no comment."""

_END = b"PK\x05\x06"  # of a zip archive: 22 bytes, the last two are the length of the comment


@dataclass(frozen=True)
class Label:
    """What a checkpoint says of itself: its format, its run (`RunConfig.identity`), its epoch."""

    format: int
    run: str
    epoch: int


def packed(state: dict[str, Any], run: str) -> bytes:
    """The bytes of a checkpoint."""
    import torch

    buffer = io.BytesIO()
    torch.save(state, buffer)
    return sealed(buffer.getvalue(), Label(FORMAT, run, int(state["epoch"])))


def sealed(archive: bytes, label: Label) -> bytes:
    """A zip archive without a comment, with this label and the digest of both as its comment."""
    if archive[-22:-18] != _END or archive[-2:] != b"\0\0":
        raise ValueError("not a zip archive without a comment")
    said = asdict(label)
    check = digest(archive + json.dumps(said).encode())
    comment = json.dumps({**said, "sha256": check}).encode()
    return archive[:-2] + struct.pack("<H", len(comment)) + comment


def opened(content: bytes, path: Path) -> tuple[bytes, Label]:
    """The archive and the label, if not a bit is wrong; else an error that says what is."""
    start = content.rfind(b'{"format": ')
    if start < 22:
        if content.startswith(b"PK\x03\x04") and content[-22:-18] == _END:
            raise FolderError(f"{path} was made by another version of cyclade (it has no digest)")
        raise FolderError(f"{path} is damaged (it is cut short, or no checkpoint at all)")
    try:
        said = json.loads(content[start:])
        label = Label(said["format"], said["run"], said["epoch"])
        archive = content[: start - 2] + b"\0\0"
        intact = sealed(archive, label) == content
    except (ValueError, KeyError, TypeError, RecursionError):
        intact = False
    if not intact:
        raise FolderError(f"{path} is damaged (its content does not fit its digest)")
    if label.format != FORMAT:
        raise FolderError(
            f"{path} was made by another version of cyclade (format {label.format}, this one "
            f"reads {FORMAT})"
        )
    return archive, label


def checked(path: Path, run: str) -> bytes:
    """The archive of a checkpoint of this run. Nothing of it is unpacked yet."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise FolderError(f"{path} cannot be read: {error.strerror or error}") from error
    archive, label = opened(content, path)
    if label.run != run:
        raise FolderError(f"{path} belongs to another run")
    return archive


def unpacked(path: Path, run: str, device: Any) -> dict[str, Any]:
    """The state in a checkpoint of this run. Only tensors and plain values are read."""
    import torch

    archive = checked(path, run)
    try:
        found: dict[str, Any] = torch.load(
            io.BytesIO(archive), map_location=device, weights_only=True
        )
    except (RuntimeError, EOFError, OSError, ValueError, pickle.UnpicklingError):
        # torch's own message would recommend weights_only=False, which runs what is in the file.
        raise FolderError(f"{path} holds more than tensors and plain values") from None
    if not isinstance(found, dict):
        raise FolderError(f"{path} holds no state of a run")
    return found
