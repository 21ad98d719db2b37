"""What a user can put right: the command line shows these in one line, without a traceback."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""`text` without what moves a terminal: escape sequences, control and direction characters.

    >>> print(printable("a\x1b[31mb\n\u202ec"))
    a\x1b[31mb
    \u202ec
    """
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    )


class UserError(ValueError):
    """Something asked for cannot be done as asked."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class FolderError(UserError):
    """A file or a folder is damaged, belongs to something else, or cannot be used."""
