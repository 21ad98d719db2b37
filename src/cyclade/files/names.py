"""Names that come out of files: which of them may become paths."""

from __future__ import annotations

import re
from pathlib import Path

_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d|conin\$|conout\$)", re.IGNORECASE)
_MOST_BYTES = 255  # of one part of a path, on all common file systems


def is_plain(name: str) -> bool:
    r"""Whether a name can be a folder below another one, on every system.

    >>> is_plain("runs/mnist-SCCD-lr0.1"), is_plain("../x"), is_plain("/x"), is_plain("x\ny")
    (True, False, False, False)
    """
    return all(map(_is_plain_part, name.split("/")))


def _is_plain_part(part: str) -> bool:
    return (
        0 < len(part.encode(errors="replace")) <= _MOST_BYTES
        and part.isprintable()  # no line ends, no escape sequences
        and part[0] not in " ."  # ".." and hidden files: locks, temporary files
        and part[-1] not in " ."
        and not set(part) & set('\\:*?"<>|')
        and not _DEVICES.fullmatch(part.partition(".")[0].rstrip())
    )


def inside(folder: Path, name: str) -> Path:
    """The path of `name` in `folder`; ValueError if a link on the way leads out of it."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{path} leads out of {folder}")
    return path
