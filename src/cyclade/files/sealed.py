"""Zip archives that say which run they belong to, and show when a bit of them has changed.

Files of torch and of NumPy (.npz) are zip archives. The archive comment of a checkpoint holds the
format, the run it belongs to, the epoch, and the SHA-256 of that and of every byte before it. So
each is still an ordinary file of torch or NumPy. At the end are states of nets: tensors and plain
values, in sealed files of torch.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cyclade.files.disk import as_json, read
from cyclade.files.errors import FolderError

FORMAT = 2
"""1 had no comment."""

_END = b"PK\x05\x06"  # of a zip archive: 22 bytes, the last two are the length of the comment
_START = b'{"format": '
_TAIL = 22 + 2**16  # bytes: the end of an archive with the longest comment
_MOST = 2**40  # bytes of a checkpoint


@dataclass(frozen=True)
class Label:
    """What a checkpoint says of itself: its format, its run, its epoch."""

    format: int
    run: str
    epoch: int


def sealed(archive: bytes, label: Label) -> bytes:
    """A zip archive without a comment, with this label and the digest of both as its comment."""
    if archive[-22:-18] != _END or archive[-2:] != b"\0\0":
        raise ValueError("not a zip archive without a comment")
    comment = _comment(memoryview(archive)[:-2], label)
    return b"".join((memoryview(archive)[:-2], struct.pack("<H", len(comment)), comment))


def _comment(archive: memoryview, label: Label) -> bytes:
    """The comment for an archive that lacks its last two bytes, the length of the comment."""
    said = asdict(label)
    found = hashlib.sha256(archive)
    found.update(b"\0\0" + json.dumps(said).encode())
    return json.dumps({**said, "sha256": found.hexdigest()}).encode()


def read_sealed(path: Path) -> tuple[bytes, Label]:
    """`opened`, from a file. One that does not end in a label is not read as a whole."""
    _labelled(read(path, last=_TAIL), path)
    return opened(read(path, _MOST), path)


def opened(content: bytes, path: Path) -> tuple[bytes, Label]:
    """The archive and its label, if not a bit is wrong; else an error that says what is."""
    start, label = _labelled(content, path)
    before, comment = memoryview(content)[: start - 2], content[start:]
    length = struct.pack("<H", len(comment) % 2**16)
    if comment != _comment(before, label) or content[start - 2 : start] != length:
        raise _unfit(path)
    if label.format != FORMAT:
        raise FolderError(
            f"{path} was made by another version of cyclade (format {label.format}, this one "
            f"reads {FORMAT})"
        )
    _check_sizes(content, path)
    return content, label


def _labelled(content: bytes, path: Path) -> tuple[int, Label]:
    """Where the label begins, and what it says."""
    start = content.rfind(_START, -_TAIL)
    if start < 22:
        if content[-22:-18] == _END:
            raise FolderError(f"{path} was made by another version of cyclade (it has no digest)")
        raise FolderError(f"{path} is damaged (it is cut short, or no checkpoint at all)")
    try:
        said = as_json(content[start:])
        return start, Label(said["format"], said["run"], said["epoch"])
    except (ValueError, KeyError, TypeError):
        raise _unfit(path) from None


def _unfit(path: Path) -> FolderError:
    return FolderError(f"{path} is damaged (its content does not fit its digest)")


def _check_sizes(content: bytes, path: Path) -> None:
    """Archives are stored as they are, so that what is in one cannot be larger than its file."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            parts = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error) as error:
        raise FolderError(f"{path} is no zip archive ({error})") from None
    if sum(part.file_size for part in parts) > len(content):
        raise FolderError(f"{path} holds more than its size")


# ---------------------------------------------------------------------------------- states of nets


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
