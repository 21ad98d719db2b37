"""Faults of fits of tables and of minimize: python tests/faults/fits.py --kills 20 --workers 2.

- A Dask fit with a checkpoint is killed (SIGKILL) or interrupted (Ctrl-C) at a random moment, again
  and again, until one try comes to its end: its certificate and its objective are those of a fit
  never killed. A run of `minimize` likewise: its x has the same bits.
- A worker of a cluster of processes is killed while a fit runs: the fit goes on to the same end.
- A checkpoint is cut short or has a bit flipped: it is skipped, with a warning, for the one before.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from trials import INTERRUPTED, command_line, forked, record, spoilt

from cyclade import L1, minimize
from cyclade.files.checkpoint import Kept
from cyclade.linear import Solution, solve

FIT = "a Dask fit"
Body = Callable[[Path | None], dict[str, Any]]


def table(rows: int = 6000, chunk: int = 1000) -> tuple[Any, Any]:
    """X and y as Dask arrays, the same in every process."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, 30))
    y = np.where(X[:, 0] - X[:, 3] + rng.standard_normal(rows) > 0, 1.0, -1.0)
    return da.from_array(X, chunks=(chunk, -1)), da.from_array(y, chunks=chunk)


def fit(checkpoint: Path | None = None, persisted: bool = False) -> Solution:
    """The fit that is killed; with its rows in the memory of workers, if asked."""
    X, y = dask.persist(*table()) if persisted else table()
    return solve(X, y, "logistic", alpha=0.01, tol=1e-10, checkpoint=checkpoint)


def summary(found: Solution) -> dict[str, Any]:
    """What is compared."""
    return {
        "objective": found.objective, "reached": bool(found.certificate.reached),
        "tolerance": found.certificate.tolerance,
    }  # fmt: skip


def fitted(place: Path | None) -> dict[str, Any]:
    """A Dask fit; threads of the parent are not there in a fork."""
    with dask.config.set(scheduler="synchronous"):
        return summary(fit(None if place is None else place / "fit"))


def minimized(place: Path | None) -> dict[str, Any]:
    """A run of `minimize` on a sum of terms, with estimated steps and a changing order."""
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((2000, 20)), rng.standard_normal(2000)
    found = minimize(
        lambda x, idx: np.mean(np.log1p((A[idx] @ x - y[idx]) ** 2)), np.zeros(20), n=2000,
        jac=lambda x, idx: A[idx].T @ _slope(A[idx] @ x - y[idx]) / len(idx), blocks=5,
        order="shuffled", max_cycles=400, tol=None, reg=L1(0.01), returns="last",
        checkpoint=None if place is None else place / "run",
    )  # fmt: skip
    return {"x": found.x.tobytes().hex(), "samples": found.samples}


def _slope(r: Any) -> Any:
    return 2.0 * r / (1.0 + r * r)


def alike(found: dict[str, Any], whole: dict[str, Any]) -> bool:
    """Whether a run ended as one that was never struck."""
    if "x" in whole:
        return found == whole
    close = abs(found["objective"] - whole["objective"]) <= 1e-8 * abs(whole["objective"])
    tolerant = abs(found["tolerance"] / whole["tolerance"] - 1.0) < 1e-9
    return bool(found["reached"]) and close and tolerant


def strikes(times: int, seed: int, by: int, body: Body, counts: Counter[str]) -> None:
    """Strike at random moments until so many have hit; every run that ends is compared."""
    body(None)
    start = time.perf_counter()
    whole = body(None)
    length, draw = time.perf_counter() - start, random.Random(seed)
    while counts["tried"] < times:
        with tempfile.TemporaryDirectory() as place:
            code, hits = -by, -1
            while code in (-by, INTERRUPTED):
                code, found = forked(partial(body, Path(place)), 2.0 * length * draw.random(), by)
                hits += 1
        counts["tried"] += hits
        counts["good"] += hits * (code == 0 and alike(found, whole))


def lost_workers(times: int, seed: int, counts: Counter[str]) -> None:
    """Kill one of two worker processes while a fit runs; every other has its rows on them."""
    from dask.distributed import Client, LocalCluster

    draw = random.Random(seed)
    with dask.config.set(scheduler="synchronous"):
        whole = summary(fit())
    # On a busy machine a new worker may take longer than the 15 s after which it is given up.
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "10 minutes"}),
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit=0
        ) as cluster,
        Client(cluster) as client,
    ):
        fit()
        while counts["tried"] < times:
            pids, persisted = running(cluster, client), counts["tried"] % 2 == 1
            start = time.perf_counter()
            fit(persisted=persisted)
            delay = draw.random() * (time.perf_counter() - start)
            victim = draw.choice(pids)
            killer = threading.Timer(delay, os.kill, (victim, signal.SIGKILL))
            killer.start()
            found = fit(persisted=persisted)
            late = killer.is_alive()
            killer.join()
            running(cluster, client, without=victim)
            if not late:  # else the fit was faster
                counts["tried"] += 1
                counts["good"] += alike(summary(found), whole)


def running(cluster: Any, client: Any, without: int = -1) -> list[int]:
    """The processes of both workers, once they are up and none of them is the one killed."""
    while True:
        pids = [nanny.pid for nanny in cluster.workers.values()]
        if None not in pids and without not in pids:
            with contextlib.suppress(OSError):  # a connection of the one that died
                if sorted(client.run(os.getpid).values()) == sorted(pids):
                    return pids
        time.sleep(0.05)


def damages(times: int, seed: int, counts: Counter[str]) -> None:
    """Cut or flip a checkpoint: the one before is read."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "fit"
        kept = Kept(file, "run")
        kept.save(x=np.arange(50.0), k=1)
        kept.save(x=np.arange(50.0), k=2)
        content = file.read_bytes()
        for _ in range(times):
            file.write_bytes(spoilt(content, draw))
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                found = kept.load()
            counts["tried"] += 1
            counts["good"] += found is not None and int(found["k"]) == 1 and len(told) == 1


def main() -> None:
    """Try all, print the counts, fail if anything did."""
    parser = command_line(__doc__, kills=20, interrupts=5, runs=10, workers=1, damages=50)
    chosen = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    failed = False
    kills, interrupts = "SIGKILL at a random moment", "Ctrl-C at a random moment"
    for fault, of, times, trial in (
        ("a damaged file", "checkpoints of a fit", chosen.damages, damages),
        (kills, FIT, chosen.kills, partial(strikes, by=signal.SIGKILL, body=fitted)),
        (interrupts, FIT, chosen.interrupts, partial(strikes, by=signal.SIGINT, body=fitted)),
        (kills, "minimize", chosen.runs, partial(strikes, by=signal.SIGKILL, body=minimized)),
        ("a Dask worker killed", FIT, chosen.workers, lost_workers),
    ):
        counts: Counter[str] = Counter()
        if times:
            trial(times, chosen.seed, counts=counts)
        tried, good = counts["tried"], counts["good"]
        failed |= tried != good
        print(f"{tried:5d} {fault}, {of}: {good} as it should be", flush=True)
        record(chosen.csv, chosen.seed, [(fault, of, tried, good)] if tried else [])
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
