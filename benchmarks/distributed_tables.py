"""Tables on Dask workers: l1 logistic regression and Lasso beside dask-glm and dask-ml, in one run.

    python benchmarks/distributed_tables.py --csv docs/benchmarks/tables.csv    # all of it
    python benchmarks/distributed_tables.py --problems sparse --workers 1

Problems are 2,000,000 x 100, three times as many rows (without peers: what a second worker gains
where Dask's own time counts less) and a sparse 500,000 x 50,000 (CSR blocks), the latter at two λ.
Clusters of one and of two worker processes with one thread each hold the same rows in memory
(persisted, every worker as many chunks: left alone Dask may put most of them on one). Ours goes
first, to a duality gap of 1e-6 of the null loss. On one worker each peer then runs until its time
is up, and is timed up to the first of its iterates with F within `--within` of ours (F is evaluated
afterwards, off the clock). Seconds of the clock and of the processors (client and workers) are
given. dask-glm's solvers with l1 are ADMM and proximal gradient; they have no sparse blocks;
dask-ml's estimators call them. scikit-learn runs in a process
of its own with all rows in its memory; making them there is not timed. Bytes are those that workers
sent, to each other and to the client, as Dask counts them. "numbers" are the most that a chunk sent
in an outer iteration, over p + |W|².
"""

from __future__ import annotations

import multiprocessing
import queue
import statistics
import subprocess
import sys
import time
import warnings
from bisect import bisect_left
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

if __name__ == "__main__":  # not in the processes of workers, which do not look in this folder
    from measuring import arguments
    from tables import write_csv

Row = dict[str, Any]
TITLES = {"squared": "Lasso", "logistic": "l1 logistic"}
PEERS = ["dask-glm proximal_grad", "dask-ml proximal_grad", "dask-glm admm", "scikit-learn"]


def rows_of(seed: int, n: int, p: int, per_row: int | None) -> Any:
    """A block of X: dense normal, or CSR with so many entries a row, popular columns more often."""
    rng = np.random.default_rng(seed)
    if per_row is None:
        return rng.standard_normal((n, p))
    from scipy import sparse

    cols = np.minimum(p * rng.random(n * per_row) ** 3, p - 1).astype(np.int32)
    X = sparse.csr_matrix(
        (rng.standard_normal(n * per_row), cols, np.arange(0, n * per_row + 1, per_row)), (n, p)
    )
    X.sum_duplicates()
    return X


def target_of(seed: int, X: Any, loss: str) -> np.ndarray:
    """y of a block, from twenty columns."""
    rng, p = np.random.default_rng(10_000 + seed), X.shape[1]
    truth = np.zeros(p)
    truth[np.linspace(0, min(p - 1, 2000), 20).astype(int)] = np.linspace(-1.0, 1.0, 20)
    z = np.asarray(X @ truth)
    if loss == "squared":
        return z + rng.standard_normal(len(z))
    return np.where(rng.random(len(z)) < 1.0 / (1.0 + np.exp(-z)), 1.0, -1.0)


def table(client: Any, n: int, p: int, chunk: int, loss: str, per_row: int | None) -> list[Any]:
    """X and y as Dask arrays, made where they lie and kept there, by turns on every worker."""
    import dask.array as da
    from dask import delayed
    from dask.distributed import wait

    workers, X, y = sorted(client.nthreads()), [], []
    meta = None if per_row is None else rows_of(0, 1, p, per_row)[:0]
    for k in range(n // chunk):
        block = delayed(rows_of)(k, chunk, p, per_row)
        parts = [
            da.from_delayed(block, (chunk, p), np.float64, meta=meta),
            da.from_delayed(delayed(target_of)(k, block, loss), (chunk,), np.float64),
        ]
        for own, part in zip((X, y), parts, strict=True):
            own.append(client.persist(part, workers=workers[k % len(workers)]))
    whole = client.persist([da.concatenate(X), da.concatenate(y)])
    wait(whole)
    return list(whole)


def processor(client: Any) -> float:
    """Seconds that the processors have worked so far, for the workers and for the client.

    On a machine that others use it is this that can be compared.
    """
    return time.process_time() + sum(client.run(time.process_time).values())


def sent(client: Any) -> int:
    """Bytes that workers have sent so far."""
    return sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())


def loss_of(X: Any, y: np.ndarray, loss: str, coef: np.ndarray) -> float:
    """The sum of the losses of some rows."""
    z = np.asarray(X @ coef)
    if loss == "squared":
        return float(0.5 * np.sum((z - y) ** 2))
    return float(np.sum(np.logaddexp(0.0, -y * z)))


def objective(X: Any, y: Any, loss: str, lam: float, coef: np.ndarray) -> float:
    """F from its definition, on the workers."""
    import dask
    from dask import delayed

    parts = zip(X.to_delayed().ravel(), y.to_delayed().ravel(), strict=True)
    total = sum(dask.compute(*[delayed(loss_of)(block, own, loss, coef) for block, own in parts]))
    return total / X.shape[0] + lam * float(np.abs(coef).sum())


def ours(client: Any, X: Any, y: Any, loss: str, lam: float) -> Row:
    """Our fit: seconds, bytes, F, and what its passes sent."""
    from cyclade.linear import solve
    from cyclade.tables.dask_chunks import DaskChunks
    from cyclade.tables.passes import Pass

    plain, passes = DaskChunks.reduce, list[int]()

    def counted(chunks: Any, task: Any, with_X: bool = True) -> Any:
        sums = plain(chunks, task, with_X)
        if isinstance(task, Pass):  # a chunk sends as many numbers as their sum has
            passes.append(sum(np.size(value) for value in sums.values()))
        return sums

    before, worked, start = sent(client), processor(client), time.perf_counter()
    with patch.object(DaskChunks, "reduce", counted):
        fit = solve(X, y, loss, "l1", alpha=lam, fit_intercept=False)
    seconds, cpu = time.perf_counter() - start, processor(client) - worked
    moved = sent(client) - before
    assert fit.certificate.reached
    reads = [int(row["reads"]) for row in fit.history]
    most = max(
        sum(passes[first:last]) / (X.shape[1] + row["working"] ** 2)
        for first, last, row in zip(reads, reads[1:], fit.history[1:], strict=False)
    )
    F = objective(X, y, loss, lam, np.ravel(fit.coef))
    return {
        "seconds": seconds, "cpu": cpu, "bytes": moved, "F": F, "passes": reads[-1],
        "numbers": f"{most:.2f}",
    }  # fmt: skip


class TimeUp(Exception):
    """A peer had its time."""


class Iterates:
    """What a peer's proximal operator returned, and when the next one was asked for."""

    def __init__(self, client: Any, limit: float) -> None:
        self._client, self._limit = client, limit
        self._begun, self._worked = time.perf_counter(), processor(client)
        self._sent = sent(client)
        self.found: list[Any] = []
        self.marks: list[tuple[float, float, int]] = []  # clock, processors, bytes, by iterate

    def mark(self) -> float:
        """The last iterate is done; seconds so far."""
        now = time.perf_counter() - self._begun
        if len(self.marks) < len(self.found):
            worked, moved = processor(self._client), sent(self._client)
            self.marks.append((now, worked - self._worked, moved - self._sent))
        return now

    def regularizer(self) -> Any:
        """dask-glm's l1, watched."""
        from dask_glm.regularizers import L1

        outer = self

        class Watched(L1):  # type: ignore[misc]
            def proximal_operator(self, beta: Any, t: float) -> Any:
                if outer.mark() > outer._limit and outer.found:
                    raise TimeUp
                outer.found.append(super().proximal_operator(beta, t))
                return outer.found[-1]

        return Watched()


def peer(
    client: Any, name: str, X: Any, y: Any, loss: str, lam: float, goal: float, limit: float
) -> Row:
    """A solver of dask-glm, by itself or under dask-ml: its first iterate that got to `goal`.

    Its loss is a sum, for least squares without the half; its labels are 0 and 1.
    """
    import dask
    from dask_glm.algorithms import admm, proximal_grad
    from dask_glm.families import Logistic, Normal

    own = y if loss == "squared" else (y + 1.0) / 2.0
    weight = lam * X.shape[0] * (2.0 if loss == "squared" else 1.0)
    library, solver = name.split()
    exact = {"tol": 1e-14} if solver == "proximal_grad" else {"abstol": 1e-14, "reltol": 1e-12}
    seen = Iterates(client, limit)
    penalty, ended = seen.regularizer(), True
    try:
        if library == "dask-glm":
            run = admm if solver == "admm" else proximal_grad
            run(X, own, regularizer=penalty, lamduh=weight, max_iter=10_000, normalize=False,
                family=Normal if loss == "squared" else Logistic, **exact)  # fmt: skip
        else:
            from dask_ml.linear_model import LinearRegression, LogisticRegression

            kind = LinearRegression if loss == "squared" else LogisticRegression
            kind(
                penalty=penalty, C=1.0 / weight, solver=solver, fit_intercept=False,
                max_iter=10_000, solver_kwargs={"normalize": False, **exact},
            ).fit(X, own)  # fmt: skip
    except TimeUp:
        ended = False
    seen.mark()

    def F(k: int) -> float:
        (coef,) = dask.compute(seen.found[k])
        return objective(X, y, loss, lam, np.ravel(np.asarray(coef, float)))

    good = bisect_left(range(len(seen.marks) - 1), True, key=lambda k: F(k) <= goal)
    best, (clock, worked, moved) = F(good), seen.marks[good]
    return {
        "seconds": clock, "cpu": worked, "bytes": moved, "F": best, "passes": good + 1,
        "reached": "yes" if best <= goal else "no, it ended" if ended else "no, time was up",
    }  # fmt: skip


def sklearn(shape: Shape, loss: str, lam: float, limit: float) -> Row:
    """scikit-learn in a process of its own, ended when its time is up."""
    spawn = multiprocessing.get_context("spawn")
    said = spawn.Queue()
    child = spawn.Process(target=as_sklearn, args=(said, shape, loss, lam))
    child.start()
    said.get()  # it has its rows
    try:
        return dict(said.get(timeout=limit))
    except queue.Empty:
        return {"seconds": limit, "cpu": limit, "F": None, "reached": "no, time was up"}
    finally:
        child.kill()
        child.join()


def as_sklearn(said: Any, shape: Shape, loss: str, lam: float) -> None:
    """That process: seconds, processor seconds and F."""
    n, p, chunk, per_row = shape
    from scipy import sparse

    blocks = [rows_of(k, chunk, p, per_row) for k in range(n // chunk)]
    y = np.concatenate([target_of(k, block, loss) for k, block in enumerate(blocks)])
    X = sparse.vstack(blocks).tocsc() if per_row else np.asfortranarray(np.vstack(blocks))
    del blocks
    from sklearn.linear_model import Lasso, LogisticRegression

    said.put("ready")
    start, worked = time.perf_counter(), time.process_time()
    if loss == "squared":
        coef = Lasso(alpha=lam, fit_intercept=False, tol=1e-5, copy_X=False).fit(X, y).coef_
    else:
        model = LogisticRegression(
            penalty="l1", C=1.0 / (lam * n), solver="liblinear", fit_intercept=False, tol=1e-4,
            max_iter=50,
        )  # fmt: skip
        coef = model.fit(X, y).coef_[0]
    seconds, cpu = time.perf_counter() - start, time.process_time() - worked
    F = loss_of(X, y, loss, coef) / n + lam * float(np.abs(coef).sum())
    said.put({"seconds": seconds, "cpu": cpu, "F": F})


Shape = tuple[int, int, int, int | None]  # rows, columns, rows of a chunk, entries of a sparse row


def world(
    workers: int, shape: Shape, loss: str, lams: list[float], peers: list[str], chosen: Any
) -> None:
    """All contestants on a cluster of so many workers; every line is written when it is there."""
    from dask.distributed import Client, LocalCluster

    n, p, chunk, per_row = shape
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=":0", memory_limit=0
        ) as cluster,
        Client(cluster) as client,
    ):
        X, y = table(client, n, p, chunk, loss, per_row)
        ours(client, X, y, loss, lams[0])  # compiles
        for lam in lams:
            runs = [ours(client, X, y, loss, lam) for _ in range(chosen.repeats)]
            mine = runs[0]
            for name in ("seconds", "cpu"):
                mine[name] = statistics.median(run[name] for run in runs)
            title = f"{TITLES[loss]} {n:,} x {p:,}"
            at = {"problem": title, "λ": f"{lam:g}", "workers": str(workers)}
            add(chosen.csv, at | {"contestant": "cyclade"}, mine)
            goal = mine["F"] * (1.0 + chosen.within)
            for name in peers:
                if workers > 1 or (per_row and name != "scikit-learn"):
                    continue
                if name == "scikit-learn":
                    found = sklearn(shape, loss, lam, chosen.seconds)
                else:
                    found = peer(client, name, X, y, loss, lam, goal, chosen.seconds)
                add(chosen.csv, at | {"contestant": name}, found)
        del X, y


KEY = ("problem", "λ", "workers", "contestant")
LINES: dict[tuple[str, ...], dict[str, str]] = {}  # of this run


def add(path: Path | None, at: dict[str, str], found: Row) -> None:
    """One more line of the table, and all ratios anew; the file is written, if there is one."""
    LINES[tuple(at[k] for k in KEY)] = at | {
        "seconds": f"{found['seconds']:.2f}", "CPU s": f"{found['cpu']:.2f}",
        "F": "–" if found["F"] is None else f"{found['F']:.9g}",
        "passes": str(found.get("passes") or "–"), "numbers": found.get("numbers", "–"),
        "MB moved": f"{found['bytes'] / 1e6:.2f}" if "bytes" in found else "–",
        "commit": commit(), "reached": found.get("reached", "yes"),
    }  # fmt: skip
    lines = [shown(LINES[key]) for key in sorted(LINES)]
    print("  ".join(f"{k} {v};" for k, v in shown(LINES[tuple(at[k] for k in KEY)]).items()),
          flush=True)  # fmt: skip
    write_csv(path, lines)


def shown(line: dict[str, str]) -> dict[str, str]:
    """A line of the docs: its numbers beside ours, and beside one worker."""

    def over(name: str, **other: str) -> str:
        base = LINES.get(tuple((line | other)[k] for k in KEY))
        return "–" if base is None else f"{float(line[name]) / float(base[name]):.2f}"

    beside = over("seconds", workers="1")
    return {k: line[k] for k in (*KEY, "seconds")} | {
        "/ cyclade": over("seconds", contestant="cyclade"), "CPU s": line["CPU s"],
        "CPU / cyclade": over("CPU s", contestant="cyclade"),
        "x one worker": beside if beside == "–" else f"{1.0 / float(beside):.2f}",
        **{k: line[k] for k in ("reached", "F", "passes", "numbers", "MB moved", "commit")},
    }  # fmt: skip


def commit() -> str:
    """What was measured."""
    here = Path(__file__).parent
    line = ["git", "-C", str(here), "rev-parse", "--short", "HEAD"]
    return subprocess.run(line, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Run the clusters and print the table."""
    chosen = arguments(
        __doc__, csv=Path, problems=("dense", "large", "sparse"), rows=int, chunks=10,
        workers=[1, 2], losses=("squared", "logistic"), within=1e-4, seconds=60.0,
        repeats=3, peers=PEERS,
    )  # fmt: skip
    warnings.simplefilter("ignore")
    here = Path(__file__).resolve().parent  # distributed.py here would hide Dask's package
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    for kind in chosen.problems:
        n, p, per_row = (500_000, 50_000, 20) if kind == "sparse" else (2_000_000, 100, None)
        n = chosen.rows or n
        chunk, peers = n // chosen.chunks, chosen.peers
        if kind == "large":
            n, peers = 3 * n, []
        lams = [0.01, 0.001] if kind == "sparse" else [0.01]
        for loss in chosen.losses:
            for workers in chosen.workers:
                world(workers, (n, p, chunk, per_row), loss, lams, peers, chosen)


if __name__ == "__main__":
    main()
