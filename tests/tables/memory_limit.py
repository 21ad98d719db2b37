"""A fit of rows that are larger than the memory allowed.

Rows are written to a file, then a child process is given a limit on its own memory (RLIMIT_DATA:
what it allocates; pages of the mapped file belong to the system) and fits a Lasso and an l1
logistic regression to the file by `RowChunks`. Its peak is printed. The limit is shown to be real:
reading the whole file into an array must fail in the child.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

COLUMNS = 128


def write(place: Path, gib: float, rows: int = 50_000) -> int:
    """X.npy and y.npy with so much of X, written in parts; the number of rows."""
    n = int(gib * 2**30 / (8 * COLUMNS))
    rng = np.random.default_rng(0)
    X = np.lib.format.open_memmap(place / "X.npy", "w+", np.float64, (n, COLUMNS))
    y = np.lib.format.open_memmap(place / "y.npy", "w+", np.float64, (n,))
    part = rng.standard_normal((min(rows, n), COLUMNS))
    for first in range(0, n, rows):
        last = min(first + rows, n)
        own = part[: last - first] * (1.0 + 1e-3 * (first // rows))  # rows differ between parts
        X[first:last] = own
        y[first:last] = own[:, 0] - 2.0 * own[:, 5] + rng.standard_normal(last - first)
    X.flush()
    y.flush()
    return n


class Peak(threading.Thread):
    """The most memory of its own that this process has (anonymous pages), looked at all the time.

    Pages of files that are mapped are the system's: it drops them when it needs room.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.bytes = 0
        self.start()

    def run(self) -> None:
        """Every few milliseconds."""
        while True:
            for line in Path("/proc/self/status").read_text().splitlines():
                if line.startswith("RssAnon"):
                    self.bytes = max(self.bytes, int(line.split()[1]) * 1024)
            time.sleep(0.005)


def child(place: Path, limit: float) -> None:
    """Fit under the limit; a line of JSON."""
    resource.setrlimit(resource.RLIMIT_DATA, (int(limit * 2**30), int(limit * 2**30)))
    from cyclade.linear import RowChunks, solve

    peak = Peak()
    X = np.load(place / "X.npy", mmap_mode="r")
    y = np.load(place / "y.npy", mmap_mode="r")
    try:
        X[:].copy()
        real = False
    except MemoryError:
        real = True
    table = RowChunks(X, rows=max(2**24 // (8 * COLUMNS), 1))  # 16 MiB at a time
    lasso = solve(table, y, "squared", "l1", alpha=0.1)
    logistic = solve(table, np.where(np.asarray(y) > 0, 1.0, -1.0), "logistic", "l1", alpha=0.05)
    print(json.dumps({
        "limit is real": real, "peak": peak.bytes, "bytes of X": X.nbytes,
        "reached": [lasso.certificate.reached, logistic.certificate.reached],
        "support": np.flatnonzero(lasso.coef).tolist(), "passes": lasso.history[-1]["reads"],
    }))  # fmt: skip


def run(place: Path, limit: float) -> dict[str, object]:
    """What the child says."""
    command = [sys.executable, __file__, str(place), str(limit)]
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # every thread has its buffers
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, **threads}
    )
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    child(Path(sys.argv[1]), float(sys.argv[2]))
