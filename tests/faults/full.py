"""A full disk, tried for real: python tests/faults/full.py --times 60.

A file system of a few MB is mounted for this process alone (`unshare --map-root-user --mount`). A
file takes all of it but a random number of bytes, and `cyclade run`, `tune` and `reproduce` run
into its end: they must stop with one line that says so. Then there is room again, and the same
command must end as if nothing had happened. Checkpoints of training, of fits of tables and of
`minimize` that do not fit must raise an error that names the file, and leave the one before whole.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from counts import record

import faults
from cyclade import minimize
from cyclade.experiments import FolderError
from cyclade.files.arrays import Kept
from cyclade.optim import SCCD, Checkpoints

SIZE = 8 * 2**20
FAULT = "a full disk"


class Disk:
    """A small file system of our own, of which only so many bytes are free."""

    def __init__(self, place: Path) -> None:
        self.place, self.filler = place, place / "filler"

    def leave(self, free: int) -> None:
        """Fill it up to so many bytes."""
        self.clear()
        at = os.statvfs(self.place)
        with self.filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(at.f_bavail * at.f_frsize - free, 1))

    def clear(self) -> None:
        """Make room."""
        self.filler.unlink(missing_ok=True)


def size(folder: Path) -> int:
    """Bytes of all files, in whole pages."""
    return sum(-(-f.stat().st_size // 4096) * 4096 for f in folder.rglob("*") if f.is_file())


def command(disk: Disk, stage: faults.Stage, name: str, rng: random.Random) -> str | None:
    """One command that may not have enough room; what is wrong, or None if all fitted."""
    folder = disk.place / "folder"
    line = faults.command(name, 0).line(folder)
    disk.leave(int(rng.random() * 1.2 * size(stage.whole(name, 0))))
    try:
        code, errors = faults.forked(line)
        disk.clear()
        if code == 0:
            return None
        if code != 2 or len(errors.splitlines()) != 1 or "No space left" not in errors:
            return f"{name}: exit code {code}: {errors[-2000:]}"
        code, errors = faults.forked(line)
        outcome, why = faults.judged(code, errors, folder, stage.wanted[name])
        return "" if outcome == faults.RECOVERED else f"{name}: {outcome}: {why}"
    finally:
        disk.clear()
        shutil.rmtree(folder, ignore_errors=True)


def training(disk: Disk, rng: random.Random) -> str | None:
    """A checkpoint of a net that does not fit: the one before is there, and is loaded."""
    torch.manual_seed(0)
    model = torch.nn.Linear(300, 20)
    opt = SCCD(model, torch.nn.functional.mse_loss)
    kept = Checkpoints(disk.place / "folder")
    kept.save(1, model=model, opt=opt)
    disk.leave(int(rng.random() * 1.2 * size(disk.place / "folder")))
    return _judged(
        disk, lambda: kept.save(2, model=model, opt=opt),
        lambda: kept.load(model=model, opt=opt) == {"step": 1},
    )  # fmt: skip


def table(disk: Disk, rng: random.Random) -> str | None:
    """A checkpoint of a fit of a table that does not fit."""
    kept = Kept(disk.place / "folder" / "fit", "run")
    kept.save(x=np.arange(5000.0), k=1)
    disk.leave(int(rng.random() * 1.2 * size(disk.place / "folder")))

    def whole() -> bool:
        found = kept.load()
        return found is not None and int(found["k"]) == 1

    return _judged(disk, lambda: kept.save(x=np.arange(5000.0), k=2), whole)


def minimized(disk: Disk, rng: random.Random) -> str | None:
    """A run of `minimize` whose checkpoint does not fit; with room again it goes on."""
    A = np.diag(np.linspace(1.0, 30.0, 2000))

    def fun(x: Any) -> Any:
        return 0.5 * x @ (A @ x) - x.sum()

    options: Any = {
        "jac": lambda x: A @ x - 1.0, "L": 30.0, "returns": "last", "tol": None,
        "checkpoint": disk.place / "folder" / "run",
    }  # fmt: skip
    wanted = minimize(fun, np.zeros(2000), max_cycles=8, **options | {"checkpoint": None})
    minimize(fun, np.zeros(2000), max_cycles=4, **options)
    disk.leave(int(rng.random() * 1.2 * size(disk.place / "folder")))

    def go_on() -> Any:
        return minimize(fun, np.zeros(2000), max_cycles=8, **options)

    return _judged(disk, go_on, lambda: bool(np.array_equal(go_on().x, wanted.x)))


def _judged(disk: Disk, write: Callable[[], Any], whole: Callable[[], bool]) -> str | None:
    try:
        write()
        return None
    except FolderError as error:
        if "No space left" not in str(error) or str(disk.place) not in str(error):
            return f"says {error}"
        disk.clear()
        return "" if whole() else "the checkpoint before is gone"
    finally:
        disk.clear()
        shutil.rmtree(disk.place / "folder", ignore_errors=True)


OTHERS = {"checkpoints of training": training, "checkpoints of a fit": table, "minimize": minimized}


COMMANDS = tuple(f"cyclade {name}" for name in faults.NAMES)


def tried(chosen: argparse.Namespace) -> int:
    """All of it, on the disk at `place`."""
    disk, failures = Disk(chosen.place), list[str]()
    trials: dict[str, Callable[[random.Random], str | None]] = {
        of: lambda rng, trial=trial: trial(disk, rng) for of, trial in OTHERS.items()
    }
    with tempfile.TemporaryDirectory() as scratch:
        names = [name for name in faults.NAMES if f"cyclade {name}" in chosen.of]
        if names:
            faults.prepare()
            stage = faults.Stage(Path(scratch), faults.forked, names)
            trials |= {
                f"cyclade {name}": lambda rng, name=name: command(disk, stage, name, rng)
                for name in names
            }
        for of in chosen.of:
            counts, number = Counter[bool](), 0
            while counts.total() < chosen.times:
                why = trials[of](random.Random(f"{chosen.seed}-{of}-{number}"))
                number += 1
                if why is not None:
                    counts[not why] += 1
                    failures += [f"{of}: {why}"] if why else []
            record(chosen.csv, chosen.seed, [(FAULT, of, counts.total(), counts[True])])
            print(f"{chosen.times} times {FAULT}, {of}: {counts[True]} as it should be", flush=True)
    for line in failures:
        print(line)
    return 1 if failures else 0


def main() -> int:
    """Mount the disk, then start again on it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=10, help="of each command and checkpoint")
    every = [*COMMANDS, *OTHERS]
    parser.add_argument("--of", nargs="+", default=every, choices=every)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--csv", type=Path, help="add the counts to this table")
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.place is not None:
        return tried(chosen)
    with tempfile.TemporaryDirectory() as place:
        mount = f'mount -t tmpfs -o size={SIZE} tmpfs "$0" && exec "$@"'
        again = [sys.executable, __file__, *sys.argv[1:], "--place", place]
        namespace = ["unshare", "--map-root-user", "--mount"]
        return subprocess.run([*namespace, "sh", "-c", mount, place, *again]).returncode


if __name__ == "__main__":
    sys.exit(main())
