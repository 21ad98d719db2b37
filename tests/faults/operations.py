"""A fault at every file operation: python tests/faults/operations.py --every 1   (`make faults`)

What a run does with files (open, write, fsync, rename, unlink, mkdir) is counted. Then it is run
again in a fork, once for every n and each fault: the n-th operation fails with ENOSPC or EIO, or
the process is killed there; of a write, half is done before. The run must come to its end, or
raise one error that names the file and the reason. Then the same call is made again without a
fault. Its result must be that of a run that was never struck (else: wrong), and it must go on from
the last checkpoint that was saved, or from the one that was being saved (else: lost).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: forks must not inherit its threads

import numpy as np
from trials import command_line, forked, record

import cyclade.files.checkpoint
from cyclade import L1, minimize
from cyclade.files.checkpoint import Kept
from cyclade.files.errors import UserError

FAULTS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO, "SIGKILL": 0}
COUNTED = ("open", "write", "fsync", "replace", "rename", "unlink", "mkdir")
GOOD, WRONG, LOST, RAISED = "as it should be", "wrong", "lost", "another error"

Log = Callable[[str, Any], None]
"""Told ("saving", "saved" or "loaded", which checkpoint)."""

rng = np.random.default_rng(0)
A, Y = rng.standard_normal((60, 6)), rng.standard_normal(60)


class Shim:
    """Counts the operations of this process on files below `root`; the n-th one is struck."""

    def __init__(self, root: Path, n: int, fault: str) -> None:
        self.root, self.n, self.fault, self.count = str(root), n, fault, 0
        self._open: set[int] = set()

    def install(self) -> None:
        """From here on."""
        for name in COUNTED:
            setattr(os, name, self._watched(name, getattr(os, name)))
        plain = os.close

        def close(handle: int) -> None:
            self._open.discard(handle)
            plain(handle)

        os.close = close

    def _watched(self, name: str, plain: Any) -> Any:
        def operation(*args: Any, **options: Any) -> Any:
            first = args[0]
            if isinstance(first, int):
                if first not in self._open:
                    return plain(*args, **options)
            elif not os.fspath(first).startswith(self.root):
                return plain(*args, **options)
            self.count += 1
            if self.count == self.n:
                if name == "write":
                    plain(first, args[1][: len(args[1]) // 2])
                if self.fault == "SIGKILL":
                    os.kill(os.getpid(), signal.SIGKILL)
                code = FAULTS[self.fault]
                raise OSError(code, os.strerror(code))
            found = plain(*args, **options)
            if name == "open":
                self._open.add(found)
            return found

        return operation


# ------------------------------------------------------------------------------------ the runs


def logged(log: Log) -> None:
    """Let checkpoints of arrays tell what they save and load."""
    save, load = Kept.save, Kept.load

    def which(arrays: dict[str, Any]) -> str:
        whole = hashlib.sha256()
        for name in sorted(arrays):
            whole.update(np.ascontiguousarray(arrays[name]).tobytes())
        return whole.hexdigest()

    def saving(self: Kept, **arrays: Any) -> None:
        log("saving", which(arrays))
        save(self, **arrays)
        log("saved", which(arrays))

    def loading(self: Kept) -> Any:
        found = load(self)
        log("loaded", None if found is None else which(found))
        return found

    Kept.save, Kept.load = saving, loading  # type: ignore[method-assign]


def minimized(place: Path, log: Log) -> Any:
    """Six cycles of `minimize`, with a checkpoint after each."""
    cyclade.files.checkpoint._SHARE = 1e9
    found = minimize(
        lambda x, i: 0.5 * np.mean((A[i] @ x - Y[i]) ** 2), np.zeros(6), n=60, seed=3, blocks=3,
        jac=lambda x, i: A[i].T @ (A[i] @ x - Y[i]) / len(i), reg=L1(0.01), method="VRO-CCD",
        L=2.0, order="shuffled", tol=None, max_cycles=6, returns="last", checkpoint=place / "run",
    )  # fmt: skip
    return found.x.tobytes().hex(), found.samples


def followed(place: Path, log: Log) -> Any:
    """A path over five λ."""
    from cyclade.linear import path

    found = path(A, Y, n_alphas=5, alpha_ratio=0.05, tol=1e-9, checkpoint=place / "path")
    return bool(found.reached), np.round(found.objectives, 9).tolist()


def fitted(place: Path, log: Log) -> Any:
    """A fit of a table in chunks."""
    from cyclade.linear import RowChunks, solve

    y, table = np.where(Y > 0, 1.0, -1.0), RowChunks(A, rows=25)
    found = solve(table, y, "logistic", alpha=0.02, tol=1e-9, checkpoint=place / "fit")
    return bool(found.certificate.reached), round(found.objective, 9)


def trained(place: Path, log: Log) -> Any:
    """Four steps of a net, with `Checkpoints`."""
    import torch

    from cyclade.optim import SCCD, Checkpoints

    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    opt = SCCD(model, torch.nn.functional.mse_loss, order="shuffled", momentum=0.9)
    kept = Checkpoints(place)
    found = kept.load(model=model, opt=opt)
    log("loaded", None if found is None else found["step"])
    for k in range(0 if found is None else found["step"], 4):
        x = torch.randn(5, 3, generator=torch.Generator().manual_seed(k))
        opt.step(x, x[:, :2])
        log("saving", k + 1)
        kept.save(k + 1, model=model, opt=opt)
        log("saved", k + 1)
    return [p.tolist() for p in model.parameters()]


def of_folder(place: Path) -> str:
    import faults

    return hashlib.sha256(repr(sorted(faults.result(place).items())).encode()).hexdigest()


def experiment(place: Path, log: Log) -> Any:
    """A run of two epochs."""
    from cyclade.experiments import RunConfig, run

    config, seen = RunConfig(batch=700, epochs=2, lr=0.02, device="cpu"), []

    def watch(row: Any) -> None:
        if not seen:
            log("loaded", row.epoch or None)
        seen.append(row.epoch)
        if row.epoch:
            log("saved", row.epoch)

    run(config, place, watch=watch)
    return partial(of_folder, place)


def tuned(place: Path, log: Log) -> Any:
    """A search over two learning rates, of one epoch each."""
    from cyclade.experiments import RunConfig
    from cyclade.experiments.tune import tune

    base = RunConfig(batch=700, epochs=1, method="SGD", device="cpu")
    tune([base], place, lrs=[0.2, 0.4], jobs=1, progress=False)
    return partial(of_folder, place)


def reproduced(place: Path, log: Log) -> Any:
    """`cyclade reproduce` of a tiny plan."""
    import faults

    code, said = faults.in_this_process(faults.command("reproduce", 0, place))
    if code:
        raise UserError(said) if code == 2 else RuntimeError(said)
    return partial(of_folder, place)


RUNS: dict[str, Callable[[Path, Log], Any]] = {
    "minimize": minimized, "path": followed, "a fit of a table": fitted, "Checkpoints": trained,
    "cyclade run": experiment, "cyclade tune": tuned, "cyclade reproduce": reproduced,
}  # fmt: skip


# -------------------------------------------------------------------------------- one attempt


class Attempt:
    """What came of a run in a fork: its result or its error, its log, and its operations."""

    def __init__(self, of: str, place: Path, n: int = 0, fault: str = "") -> None:
        with tempfile.TemporaryDirectory() as scratch:
            lines = Path(scratch) / "log"
            found = forked(partial(self._run, of, place, n, fault, lines))[1] or {}
            self.count = found.get("count", 0)
            self.result, self.error = found.get("result"), found.get("error")
            log = lines.read_text().splitlines() if lines.exists() else []
            self.log: list[tuple[str, Any]] = [tuple(json.loads(line)) for line in log]

    def _run(self, of: str, place: Path, n: int, fault: str, lines: Path) -> dict[str, Any]:
        file = lines.open("a", buffering=1)

        def log(what: str, which: Any) -> None:
            file.write(json.dumps([what, which]) + "\n")

        logged(log)
        shim = Shim(place, n, fault)
        shim.install()
        warnings.simplefilter("ignore")
        result, error, count = None, None, 0
        try:
            result = RUNS[of](place, log)
            shim.n = 0  # what follows looks at what is there
            count = shim.count
            result = result() if callable(result) else result
        except UserError as one:
            error = ["named", str(one)]
        except BaseException:
            error = ["raised", traceback.format_exc()]
        return {"count": count, "result": result, "error": error}

    def last(self, *words: str) -> Any:
        """Which checkpoint was the last one with these words."""
        return next((which for what, which in reversed(self.log) if what in words), None)


def judged(
    of: str, place: Path, start: Path, n: int, fault: str, whole: Attempt, before: Any
) -> str:
    """Strike the n-th operation, then run again; `before` is the checkpoint that was there."""
    first = _at(of, place, start, n, fault)
    if fault != "SIGKILL":
        reason = os.strerror(FAULTS[fault])
        if first.error is None and first.result != whole.result:
            return WRONG
        if first.error is not None and (first.error[0] != "named" or reason not in first.error[1]):
            print(f"{of}, {fault} at {n}: {first.error[1]}", flush=True)
            return RAISED
    again = Attempt(of, place)
    if again.error is not None:
        print(f"{of}, {fault} at {n}, again: {again.error[1]}", flush=True)
        return RAISED
    if again.result != whole.result:
        return WRONG
    loads = [which for what, which in again.log if what == "loaded"]
    saved = first.last("saved") or before
    if loads and loads[0] not in (saved, first.last("saving", "saved")) and saved is not None:
        numbers = isinstance(saved, int) and isinstance(loads[0], int)
        if not (numbers and loads[0] >= saved):
            print(
                f"{of}, {fault} at {n}: went on from {loads[0]}: {first.log}, {saved}", flush=True
            )
            return LOST
    return GOOD


def tried(of: str, every: int, offset: int) -> dict[str, Counter[str]]:
    """All n (or every so many), each fault, on a new folder and on one that was begun."""
    counts = {fault: Counter[str]() for fault in FAULTS}
    with tempfile.TemporaryDirectory() as scratch:
        place, new, half = (Path(scratch).resolve() / name for name in ("place", "new", "half"))
        new.mkdir()
        place.mkdir()
        RUNS[of](place, lambda what, which: None)  # so that forks find all imported
        for start in (new, half):
            whole = _at(of, place, start)
            if whole.error is not None:
                raise RuntimeError(whole.error[1])
            before = next((which for what, which in whole.log if what == "loaded"), None)
            for n in range(1 + offset % every, whole.count + 1, every):
                for fault in FAULTS:
                    counts[fault][judged(of, place, start, n, fault, whole, before)] += 1
            if start == new:
                _at(of, place, new, whole.count // 2, "SIGKILL")
                shutil.copytree(place, half)
    return counts


def _at(of: str, place: Path, start: Path, n: int = 0, fault: str = "") -> Attempt:
    """An attempt on a copy of the folder `start`."""
    shutil.rmtree(place)
    shutil.copytree(start, place)
    return Attempt(of, place, n, fault)


def main() -> int:
    """Try, print and count."""
    parser = command_line(__doc__, every=1)  # strike every so many operations, from `seed` on
    parser.add_argument("--of", nargs="+", default=list(RUNS), choices=list(RUNS))
    chosen = parser.parse_args()
    with contextlib.redirect_stderr(sys.stdout):
        if "cyclade reproduce" in chosen.of:
            import faults

            faults.prepare()
        bad = 0
        for of in chosen.of:
            for fault, counts in tried(of, chosen.every, chosen.seed).items():
                good = counts[GOOD]
                bad += counts.total() - good
                of_what = f"{of}, every {chosen.every}" if chosen.every > 1 else of
                row = (f"{fault} at each file operation", of_what, counts.total(), good)
                record(chosen.csv, chosen.seed, [row])
                print(f"{of}, {fault} at each operation: {dict(counts)}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
