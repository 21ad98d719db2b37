"""What a user can put right: the command line shows these in one line, without a traceback."""

from __future__ import annotations

from cyclade.files.names import printable


class UserError(ValueError):
    """Something asked for cannot be done as asked."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class FolderError(UserError):
    """A file or a folder is damaged, belongs to something else, or cannot be used."""
