"""Checkpoints of paths and of fits of tables: killed at any moment, they go on from the last one.

A file is written beside its place and renamed into it (`experiments.storage`), begins with the
SHA-256 of all that follows, and the one before it is kept. A damaged one is named in a warning and
skipped. Its content are arrays of numbers, so reading it runs no code.
"""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.results import Certificate, PathResult, Solution

Array = NDArray[Any]
Follow = Callable[[Any, Any, Array, Callable[[Solution], None]], None]


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


def described(penalty: Any) -> Any:
    """A penalty by its class and what it holds, for a fingerprint."""
    return type(penalty).__name__, [
        (name, fingerprint(np.asarray(value)) if isinstance(value, np.ndarray) else repr(value))
        for name, value in sorted(vars(penalty).items())
    ]


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
        self.path, self.run = Path(place), fingerprint(run)
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

    def _read(self, path: Path) -> dict[str, Array]:
        whole = path.read_bytes()
        head, _, body = whole.partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != head:
            raise OSError("its content does not fit its digest")
        run, _, content = body.partition(b"\n")
        if run != self.run.encode():
            raise ValueError(
                f"checkpoint: {path} belongs to other data or arguments; name another file, or "
                "remove it"
            )
        with np.load(io.BytesIO(content), allow_pickle=False) as found:
            return {name: found[name] for name in found.files}


def resumed(kept: Kept | None, lams: Array, x: Any, c: Any, follow: Follow) -> list[Solution]:
    """Solutions at all λ: those of the checkpoint, and `follow(coef, intercept, rest, done)`.

    `x` and `c` are where the first λ starts from; `done` takes each solution when it is there.
    """
    fits: list[Solution] = []
    if kept is not None and (found := kept.load()) is not None:
        fits = unpack(found)
        x, c = fits[-1].coef, fits[-1].intercept

    def done(fit: Solution) -> None:
        fits.append(replace(fit, coef=fit.coef.copy()))  # the fit goes on in the same array
        if kept is not None:
            kept.save(**pack(fits))

    if len(fits) < lams.size:
        follow(x, c, lams[len(fits) :], done)
    return fits


def pack(fits: list[Solution]) -> dict[str, Array]:
    """Solutions as arrays."""
    return {
        "coefs": np.stack([fit.coef for fit in fits]),
        "intercepts": np.stack([np.asarray(fit.intercept) for fit in fits]),
        "objectives": np.array([fit.objective for fit in fits]),
        "certificates": np.array(
            [(c.value, c.tolerance, c.kind == "gap") for c in (fit.certificate for fit in fits)]
        ),
        "passes": np.array([fit.passes for fit in fits]),
    }


def unpack(found: dict[str, Array]) -> list[Solution]:
    """The reverse."""
    return [
        Solution(
            coef, float(c) if np.ndim(c) == 0 else c, float(F),
            Certificate("gap" if gap else "distance", float(value), float(tolerance)), int(passes),
        )
        for coef, c, F, (value, tolerance, gap), passes in zip(
            found["coefs"], found["intercepts"], found["objectives"], found["certificates"],
            found["passes"], strict=True,
        )
    ]  # fmt: skip


def as_path(lams: Array, fits: list[Solution]) -> PathResult:
    """Solutions at decreasing λ as a path."""
    return PathResult(
        lams, np.stack([fit.coef for fit in fits], axis=-1),
        np.stack([np.asarray(fit.intercept) for fit in fits], axis=-1),
        np.array([fit.objective for fit in fits]), [fit.certificate for fit in fits],
        np.array([fit.passes for fit in fits]),
    )  # fmt: skip
