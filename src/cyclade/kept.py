"""Checkpoints of one run in a file that no kill, full disk or flipped bit can spoil.

A file is written beside its place and renamed into it (`experiments.storage`), begins with the
SHA-256 of all that follows, and the one before it is kept. A damaged one is named in a warning and
skipped. Its content are arrays of numbers, so reading it runs no code.
"""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
FORMAT = 4  # of what callers store: files of another one are those of another run


def fingerprint(*parts: Any) -> str:
    """The SHA-256 of numbers, texts and arrays: which run a checkpoint belongs to.

    >>> fingerprint(1, np.zeros(2)) == fingerprint(1, np.zeros(2))
    True
    >>> fingerprint(1, np.zeros(2)) == fingerprint(1, np.ones(2))
    False
    """
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            found.update(repr((part.shape, str(part.dtype))).encode())
            found.update(np.ascontiguousarray(part).tobytes())
        else:
            found.update(repr(part).encode() + b"\0")
    return found.hexdigest()


def rounded(values: Any) -> Array:
    """Eight digits of numbers of a run: sums made in another order differ in the last ones alone.

    >>> rounded([0.1 + 0.2, 1e-20]).tolist() == rounded([0.3, 1e-20]).tolist()
    True
    """
    given = np.asarray(values, np.float64)
    texts = [f"{number:.7e}" for number in given.ravel().tolist()]
    return np.array(texts, np.float64).reshape(given.shape)


def described(thing: Any) -> Any:
    """An object by its class and what it holds, for a fingerprint."""
    held = getattr(thing, "__dict__", {})
    return type(thing).__name__, [(name, told(held[name])) for name in sorted(held)]


def told(value: Any) -> Any:
    """A value without what differs between processes: addresses, the last digits of sums.

    >>> told({"a": np.ones(2), "b": len}) == told({"a": np.ones(2), "b": len})
    True
    """
    if hasattr(value, "detach"):
        value = np.asarray(value.detach().cpu())
    if isinstance(value, np.ndarray):
        return fingerprint(rounded(value) if value.dtype.kind == "f" else value)
    if isinstance(value, dict):
        return [(repr(name), told(entry)) for name, entry in value.items()]
    if isinstance(value, list | tuple):
        return [told(entry) for entry in value]
    if hasattr(value, "__qualname__"):
        return value.__qualname__
    if getattr(type(value), "__repr__", None) is object.__repr__:
        return described(value)
    return repr(value)


class Kept:
    """The checkpoint of one run, in a file.

    >>> import tempfile
    >>> kept = Kept(tempfile.mkdtemp() + "/fit", "this run")
    >>> kept.load() is None
    True
    >>> kept.save(x=np.arange(3.0))
    >>> kept.load()["x"]
    array([0., 1., 2.])
    """

    def __init__(self, place: str | os.PathLike[str], run: str) -> None:
        self.path, self.run = Path(place), fingerprint(run, FORMAT)
        if self.path.is_dir():  # which would be moved aside
            raise ValueError(f"checkpoint: {self.path} is a folder; name a file")
        self.before = self.path.with_name(self.path.name + ".before")

    def save(self, **arrays: Any) -> None:
        """Replace the checkpoint; the old one is kept beside it."""
        from cyclade.experiments.storage import digest, write

        content = io.BytesIO()
        np.savez(content, **arrays)
        body = self.run.encode() + b"\n" + content.getvalue()
        write(self.path, digest(body).encode() + b"\n" + body, keep=self.before)

    def load(self) -> dict[str, Array] | None:
        """The newest one that is whole, or None; ValueError if it is that of another run."""
        for path in (self.path, self.before):
            if not path.exists():
                continue
            try:
                return self._read(path)
            except (OSError, EOFError, KeyError, BufferError) as bad:
                warnings.warn(f"checkpoint {path} is damaged and was skipped: {bad}", stacklevel=3)
        return None

    def foreign(self, path: Path | None = None) -> ValueError:
        """The error for a checkpoint of another run."""
        return ValueError(
            f"checkpoint: {path or self.path} belongs to other data or arguments, or to another "
            "version; name another file, or remove it"
        )

    def _read(self, path: Path) -> dict[str, Array]:
        whole = path.read_bytes()
        head, _, body = whole.partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != head:
            raise OSError("its content does not fit its digest")
        run, _, content = body.partition(b"\n")
        if run != self.run.encode():
            raise self.foreign(path)
        with np.load(io.BytesIO(content), allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
