"""The `cyclade` command. It imports nothing at first, so that Ctrl-C is quiet from the start."""

from __future__ import annotations


def main() -> int:
    """Run the command line.

    While Python is still importing, Ctrl-C ends the process at once, as it ends other tools: raised
    as an exception it would come back as the ImportError of a package that was being loaded.
    """
    import signal

    asked = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored
    if asked:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from cyclade.cli import main as run

    if asked:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code = run()
    if asked:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is left to be saved
    return code
