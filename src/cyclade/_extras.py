"""Imports of large packages: what to install where one is lacking, and time saved on them."""

from __future__ import annotations

import gc
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


@contextmanager
def uncollected() -> Iterator[None]:
    """Imports of many modules: what they leave counts as old at once, so nothing searches it.

    The collector of cyclic garbage would go through all of it three times, a seventh of the time
    that imports and a first small fit take. Where a program has frozen what it made, or turned the
    collector off, it is left as it is.
    """
    if not gc.isenabled() or gc.get_freeze_count():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # all objects go to a generation that is never searched,
        gc.unfreeze()  # and from there to the oldest
        gc.enable()
