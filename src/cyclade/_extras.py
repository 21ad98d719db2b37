"""What to install where a part of the package lacks something that one of its extras brings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs(part: str, extra: str) -> Iterator[None]:
    """Imports of a part: an error that something is not installed names the extra that has it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "cyclade":
            raise
        raise ModuleNotFoundError(
            f"{part} needs {error.name.partition('.')[0]}, which is not installed: "
            f"pip install 'cyclade[{extra}]' (in a checkout: pip install '.[{extra}]')",
            name=error.name,
        ) from error
