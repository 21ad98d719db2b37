"""What the scripts of faults share: forks that are struck, spoilt files, the table of counts."""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

INTERRUPTED = 130  # the exit code after Ctrl-C

HEAD = ("fault", "of", "tried", "as it should be", "else", "seeds")


def command_line(text: str, **numbers: int) -> argparse.ArgumentParser:
    """The options of a script: how often each fault is tried, the seed, the table of counts."""
    parser = argparse.ArgumentParser(description=text.partition("\n")[0])
    for name, times in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=times)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--csv", type=Path, help="add the counts to this table")
    return parser


def forked(
    body: Callable[[], Any], after: float | None = None, by: int = signal.SIGKILL
) -> tuple[int, Any]:
    """The exit code of a fork that runs `body`, which may be struck, and what `body` returned."""
    with tempfile.TemporaryDirectory() as scratch:
        said = Path(scratch) / "said"
        child = os.fork()
        if child == 0:
            code = 1
            try:
                found = body()
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                said.write_text(json.dumps(found))
                code = 0
            except KeyboardInterrupt:
                code = INTERRUPTED
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        if after is not None:
            time.sleep(after)
            with suppress(ProcessLookupError):
                os.kill(child, by)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return code, json.loads(said.read_text()) if code == 0 else None


def spoilt(content: bytes, draw: random.Random) -> bytes:
    """Cut short, or with a bit flipped."""
    at = draw.randrange(len(content))
    if draw.random() < 0.5:
        return content[:at]
    return content[:at] + bytes([content[at] ^ 1 << draw.randrange(8)]) + content[at + 1 :]


def record(path: Path | None, seed: int, found: list[tuple[str, str, int, int]]) -> None:
    """Add (fault, of what, tried, as it should be) to the table.

    Counts of other seeds add up; a seed that is there already begins its row anew.
    """
    if path is None:
        return
    rows: dict[tuple[str, str], dict[str, str]] = {}
    if path.exists():
        with path.open(newline="") as file:
            rows = {(row["fault"], row["of"]): row for row in csv.DictReader(file)}
    for fault, of, tried, good in found:
        old = rows.get((fault, of), {})
        seeds = old.get("seeds", "").split()
        if str(seed) in seeds or not tried:
            old, seeds = {}, []
        if not tried:
            continue
        tried, good = tried + int(old.get("tried", 0)), good + int(old.get("as it should be", 0))
        values = (fault, of, tried, good, tried - good, " ".join([*seeds, str(seed)]))
        rows[fault, of] = dict(zip(HEAD, map(str, values), strict=True))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, HEAD, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())
