"""The `cyclade` command. It imports nothing at first, so that Ctrl-C is quiet from the start."""

from __future__ import annotations


def main() -> int:
    """Run the command line; 130 where it is interrupted while Python is still importing."""
    try:
        from cyclade.cli import main as run
    except KeyboardInterrupt:
        return 130
    return run()
