"""Tables on Dask workers: l1 logistic regression and Lasso beside dask-glm, in one run.

    python benchmarks/distributed.py --tables                        # 2,000,000 x 100
    python benchmarks/distributed.py --tables --sparse               # 500,000 x 50,000, CSR blocks
    python benchmarks/distributed.py --tables --workers 1 2 --csv docs/benchmarks/x.csv

Clusters of one and of several worker processes with one thread each hold the same rows in memory
(persisted). Ours goes first, to a duality gap of 1e-6 of the null loss. A peer is then run with
more and more iterations until its F is within `--within` of ours, or its time is up; what counts is
the run that got there. Seconds of the clock and of the processors (client and workers) are given:
on a machine that others use only the latter compare. dask-glm's solvers with l1 are ADMM and
proximal gradient; they have no sparse blocks. scikit-learn, where the rows fit into its memory,
runs on the client. Bytes are those that workers sent, to each other and to the client, as Dask
counts them. `--model` checks the cost model of docs/scaling.md against fits of one process.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]


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


def table(n: int, p: int, chunk: int, loss: str, per_row: int | None) -> tuple[Any, Any]:
    """X and y as Dask arrays, made where they lie and kept there."""
    import dask
    import dask.array as da

    blocks = [dask.delayed(rows_of)(k, chunk, p, per_row) for k in range(n // chunk)]
    meta = None if per_row is None else rows_of(0, 1, p, per_row)[:0]
    X = da.concatenate([
        da.from_delayed(block, (chunk, p), np.float64, meta=meta) for block in blocks
    ])  # fmt: skip
    y = da.concatenate([
        da.from_delayed(dask.delayed(target_of)(k, block, loss), (chunk,), np.float64)
        for k, block in enumerate(blocks)
    ])  # fmt: skip
    X, y = dask.persist(X, y)
    from dask.distributed import wait

    wait([X, y])
    return X, y


def processor(client: Any) -> float:
    """Seconds that the processors have worked so far, for the workers and for the client.

    On a machine that others use it is this that can be compared.
    """
    return time.process_time() + sum(client.run(time.process_time).values())


def sent(client: Any) -> int:
    """Bytes that workers have sent so far."""
    return sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())


def objective(X: Any, y: Any, loss: str, lam: float, coef: np.ndarray, c: float) -> float:
    """F from its definition, on the workers."""
    import dask
    from dask import delayed

    def part(block: Any, own: np.ndarray) -> float:
        z = np.asarray(block @ coef) + c
        if loss == "squared":
            return float(0.5 * np.sum((z - own) ** 2))
        return float(np.sum(np.logaddexp(0.0, -own * z)))

    parts = zip(X.to_delayed().ravel(), y.to_delayed().ravel(), strict=True)
    total = sum(dask.compute(*[delayed(part)(block, own) for block, own in parts]))
    return total / X.shape[0] + lam * float(np.abs(coef).sum())


def ours(X: Any, y: Any, loss: str, lam: float) -> tuple[np.ndarray, float, Row]:
    """Our fit, and what its passes say."""
    from cyclade.linear import solve

    fit = solve(X, y, loss, "l1", lam=lam, fit_intercept=False)
    assert fit.certificate.reached
    last = fit.history[-1]
    return fit.coef, 0.0, {"passes": int(last["reads"]), "W": int(last["working"])}


def dask_glm(solver: str, iterations: int) -> Callable[..., tuple[np.ndarray, float, Row]]:
    """A solver of dask-glm with so many iterations; its loss is a sum, its labels 0 and 1."""

    def run(X: Any, y: Any, loss: str, lam: float) -> tuple[np.ndarray, float, Row]:
        from dask_glm.algorithms import admm, proximal_grad
        from dask_glm.families import Logistic, Normal

        n = X.shape[0]
        family, own, scale = (Logistic, (y + 1.0) / 2.0, 1.0)
        if loss == "squared":
            family, own, scale = Normal, y, 2.0  # its loss is without the half
        options = {"regularizer": "l1", "lamduh": lam * n * scale, "family": family}
        options |= {"max_iter": iterations, "tol": 1e-12} if solver == "proximal_grad" else {
            "max_iter": iterations, "abstol": 1e-12, "reltol": 1e-10,
        }  # fmt: skip
        coef = (admm if solver == "admm" else proximal_grad)(X, own, **options)
        coef = np.asarray(coef, float)
        if solver == "admm":  # its z is sparse, what is returned may be off by its tolerance
            coef = np.where(np.abs(coef) < 1e-9, 0.0, coef)
        return coef, 0.0, {"passes": iterations}

    return run


def sklearn(X: Any, y: Any, loss: str, lam: float) -> tuple[np.ndarray, float, Row]:
    """scikit-learn on the client, with all rows there."""
    import dask
    from scipy import sparse

    blocks = dask.compute(*X.to_delayed().ravel())
    own = y.compute()
    whole = sparse.vstack(blocks).tocsc() if sparse.issparse(blocks[0]) else np.vstack(blocks)
    start, worked = time.perf_counter(), time.process_time()
    if loss == "squared":
        from sklearn.linear_model import Lasso

        coef = Lasso(alpha=lam, fit_intercept=False, tol=1e-5).fit(whole, own).coef_
    else:
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(
            penalty="l1", C=1.0 / (lam * len(own)), solver="liblinear", fit_intercept=False,
            tol=1e-4, max_iter=50,
        )  # fmt: skip
        coef = model.fit(whole, own).coef_[0]
    seconds, cpu = time.perf_counter() - start, time.process_time() - worked
    return coef, 0.0, {"passes": None, "seconds": seconds, "cpu": cpu}


def timed(client: Any, run: Callable[..., Any], X: Any, y: Any, loss: str, lam: float) -> Row:
    """Seconds, bytes and F of one fit."""
    before, worked, start = sent(client), processor(client), time.perf_counter()
    coef, c, more = run(X, y, loss, lam)
    seconds = more.pop("seconds", time.perf_counter() - start)
    more["cpu"] = more.get("cpu", processor(client) - worked)
    moved = sent(client) - before
    F = objective(X, y, loss, lam, np.ravel(coef), c)
    return {"seconds": seconds, "bytes": moved, "F": F, **more}


def reached(
    client: Any, name: str, X: Any, y: Any, loss: str, lam: float, goal: float, limit: float
) -> Row:
    """The first run of a peer that got to `goal`, or the last one within the time."""
    if name == "scikit-learn":
        return timed(client, sklearn, X, y, loss, lam)
    spent, found = 0.0, Row()
    for iterations in (5, 10, 20, 50, 100, 250):
        solver = dask_glm(name.removeprefix("dask-glm "), iterations)
        found = within(limit - spent, client, solver, X, y, loss, lam) | {"passes": iterations}
        spent += found["seconds"]
        if goal >= found["F"] or spent + 2.0 * found["seconds"] > limit:
            break
    return found


def within(limit: float, client: Any, *arguments: Any) -> Row:
    """`timed`, or what had been spent when the time was up; the cluster is not used after that."""
    found: list[Row] = []
    before, worked = sent(client), processor(client)
    run = threading.Thread(target=lambda: found.append(timed(client, *arguments)), daemon=True)
    run.start()
    run.join(limit)
    if found:
        return found[0]
    cpu = processor(client) - worked
    return {"seconds": limit, "cpu": cpu, "bytes": sent(client) - before, "F": np.inf}


def world(workers: int, chosen: argparse.Namespace) -> list[Row]:
    """All contestants on a cluster of so many workers."""
    from dask.distributed import Client, LocalCluster

    n, p, per_row = (500_000, 50_000, 20) if chosen.sparse else (2_000_000, 100, None)
    n = chosen.rows or n
    found: list[Row] = []
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=":0", memory_limit=0
        ) as cluster,
        Client(cluster) as client,
    ):
        for loss in chosen.losses:
            X, y = table(n, p, n // chosen.chunks, loss, per_row)
            lam = chosen.lam
            warm = X[: X.chunks[0][0]], y[: y.chunks[0][0]]
            ours(*warm, loss, lam)  # compiles
            runs = [timed(client, ours, X, y, loss, lam) for _ in range(chosen.repeats)]
            mine = runs[0]
            for name in ("seconds", "cpu"):
                mine[name] = statistics.median(run[name] for run in runs)
            shape = f"{'Lasso' if loss == 'squared' else 'l1 logistic'} {n:,} x {p:,}"
            found.append({"problem": shape, "workers": workers, "contestant": "cyclade", **mine})
            print(found[-1], flush=True)
            for name in chosen.peers:
                if workers > 1 and (name == "scikit-learn" or chosen.peers_once):
                    continue
                goal = mine["F"] * (1.0 + chosen.within)
                peer = reached(client, name, X, y, loss, lam, goal, chosen.seconds)
                found.append({"problem": shape, "workers": workers, "contestant": name, **peer})
                print(found[-1], flush=True)
            del X, y
    return found


def above(part: float) -> str:
    """How far F is above ours; cut off where the time was up."""
    return f"{max(part, 0.0):.0e}" if np.isfinite(part) else "cut off"


def tabulate(rows: list[Row]) -> list[dict[str, str]]:
    """The table of the docs."""
    out = []
    for row in rows:
        mine = next(
            own for own in rows
            if own["contestant"] == "cyclade" and own["problem"] == row["problem"]
            and own["workers"] == row["workers"]
        )  # fmt: skip
        one = next(
            (own for own in rows if own["contestant"] == row["contestant"]
             and own["problem"] == row["problem"] and own["workers"] == 1), row,
        )  # fmt: skip
        out.append({
            "problem": row["problem"], "workers": str(row["workers"]),
            "contestant": row["contestant"], "seconds": f"{row['seconds']:.2f}",
            "/ cyclade": f"{row['seconds'] / mine['seconds']:.1f}",
            "CPU s": f"{row['cpu']:.2f}", "CPU / cyclade": f"{row['cpu'] / mine['cpu']:.1f}",
            "x one worker": f"{one['seconds'] / row['seconds']:.2f}",
            "F above ours": above(row["F"] / mine["F"] - 1.0),
            "passes": "–" if row["passes"] is None else str(row["passes"]),
            "MB moved": f"{row['bytes'] / 1e6:.2f}",
        })  # fmt: skip
    return out


# --- the cost model -----------------------------------------------------------------------------


def constants(loss: str) -> np.ndarray:
    """Seconds of a processor: (per row, per entry, per product of two columns) of a pass."""
    from cyclade.linear import losses
    from cyclade.linear.chunked.chunks import Chunk
    from cyclade.linear.chunked.passes import Column, Pass
    from cyclade.linear.tuning import DEFAULT

    n, lines, seconds = 20_000, [], []
    for p in (100, 200, 300):
        X = rows_of(0, n, p, None)
        chunk = Chunk(0, X, target_of(0, X, loss), None, None)
        for k in (0, 30, 100):
            step = None if loss == "squared" else np.full(20, 0.01)
            task = Pass(
                Column(losses.get(loss), None, None, n), DEFAULT, np.arange(20),
                np.full(20, 0.01), 0.0, step, dual=True, new=np.arange(k) if k else None,
            )  # fmt: skip
            task(chunk)
            times = []
            for _ in range(9):
                start = time.process_time()
                task(chunk)
                times.append(time.process_time() - start)
            lines.append([n, n * p, 0.5 * n * k * k])
            seconds.append(min(times))  # others on the machine only add
    weights = 1.0 / np.array(seconds)  # relative errors count
    found, *_ = np.linalg.lstsq(np.array(lines) * weights[:, None], np.ones(len(lines)), rcond=None)
    return found


def model(path: Path | None) -> None:
    """Predicted and measured processor seconds of fits, and what a billion rows would take."""
    from cyclade.linear import RowChunks, losses
    from cyclade.linear.chunked import api
    from cyclade.linear.chunked.chunks import SlicedChunks
    from cyclade.linear.penalties import L1
    from cyclade.linear.tuning import DEFAULT

    plain, lines, costs = SlicedChunks.reduce, [], {}
    for loss in ("squared", "logistic"):
        costs[loss] = per_row, per_entry, per_product = constants(loss)
        for n, p in ((100_000, 100), (200_000, 100), (100_000, 300)):
            X = rows_of(1, n, p, None)
            y, passes = target_of(1, X, loss), []

            def counted(
                self: Any, task: Any, with_X: bool = True, to: Any = passes, p: int = p
            ) -> Any:
                new, old = (
                    0 if one is None else one.size
                    for one in (getattr(task, "new", None), getattr(task, "old", None))
                )
                entries = 0.0  # read of each row: by the gradient, by products alone, by neither
                if with_X:
                    alive = p if task.alive is None else task.alive.size
                    entries = (
                        (alive if 4 * alive < p else p) if task.gradient else 0.5 * (old + new)
                    )
                to.append((entries, 2 * old * new + new * new, with_X))
                return plain(self, task, with_X)

            arguments = (losses.get(loss), L1(0.01), (None, None, False), None, None, 1e-6, 10_000)
            table = RowChunks(X, rows=20_000), y
            SlicedChunks.reduce = counted  # type: ignore[method-assign]
            try:
                api.solve(*table, *arguments, lambda row: None, DEFAULT)
            finally:
                SlicedChunks.reduce = plain  # type: ignore[method-assign]
            times = []
            for _ in range(3):
                start = time.process_time()
                api.solve(*table, *arguments, lambda row: None, DEFAULT)
                times.append(time.process_time() - start)
            measured = min(times)
            predicted = sum(
                n * (per_row + per_entry * entries + per_product * 0.5 * squares)
                for entries, squares, _ in passes
            )
            lines.append({
                "fit": f"{'Lasso' if loss == 'squared' else 'l1 logistic'} {n:,} x {p}",
                "passes": str(sum(with_X for *_, with_X in passes)),
                "ns a row": f"{1e9 * per_row:.0f}",
                "ns an entry": f"{1e9 * per_entry:.2f}",
                "ns a product": f"{1e9 * per_product:.2f}", "CPU s predicted": f"{predicted:.2f}",
                "CPU s measured": f"{measured:.2f}", "ratio": f"{predicted / measured:.2f}",
            })  # fmt: skip
            print("  ".join(f"{value:>14}" for value in lines[-1].values()), flush=True)
    for loss, (per_row, per_entry, per_product) in costs.items():
        passes = 3 if loss == "squared" else 8
        core = 1e9 * passes * (per_row + 100 * per_entry + 0.5 * 25**2 * per_product)
        print(f"{loss}: 10^9 x 100, {passes} passes with |W| = 25: {core:.0f} s of one core")
    if path:
        write(path, lines)


def write(path: Path, lines: list[dict[str, str]]) -> None:
    """A table as CSV."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def main(arguments: list[str]) -> None:
    """Run the clusters and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sparse", action="store_true", help="500,000 x 50,000")
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--chunks", type=int, default=20)
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--losses", nargs="+", default=["squared", "logistic"])
    parser.add_argument("--lam", type=float, default=0.01)
    parser.add_argument("--within", type=float, default=1e-4, help="of F, for peers")
    parser.add_argument("--seconds", type=float, default=60.0, help="for a peer's tries")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peers", nargs="*", default=["dask-glm admm", "dask-glm proximal_grad"])
    parser.add_argument("--peers-once", action="store_true", help="on one worker alone")
    parser.add_argument("--csv", type=Path, default=None, help="write the table of the docs")
    parser.add_argument("--model", action="store_true", help="check the cost model")
    chosen = parser.parse_args(arguments)
    if chosen.model:
        model(chosen.csv)
        return
    warnings.simplefilter("ignore")
    here = Path(__file__).resolve().parent  # distributed.py here would hide Dask's package
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    rows = [row for workers in chosen.workers for row in world(workers, chosen)]
    lines = tabulate(rows)
    for line in lines:
        print("  ".join(f"{value:>12}" for value in line.values()))
    if chosen.csv:
        write(chosen.csv, lines)


if __name__ == "__main__":
    main(sys.argv[1:])
