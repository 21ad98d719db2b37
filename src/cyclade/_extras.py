"""Imports of large packages: what to install where one is lacking."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


def to_install(extra: str) -> str:
    """The command that brings an extra."""
    return f"pip install 'cyclade[{extra}]' (in a checkout: pip install '.[{extra}]')"


@contextmanager
def needs(part: str, extra: str | None = None) -> Iterator[None]:
    """Imports of a part: where something is not installed, the error names what brings it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "cyclade":
            raise
        package = error.name.partition(".")[0]
        how = f"pip install {package}" if extra is None else to_install(extra)
        text = f"{part} needs {package}, which is not installed: {how}"
        raise ModuleNotFoundError(text, name=error.name) from error
