"""What fits take beside X, in parts of X: for every storage of X, several models and λ.

    python benchmarks/linear_memory.py [--megabytes 100] [--tables tall] [--models lasso] [--csv F]

A row is a table and a model; a column is a λ, as a part of λ_max, or a path of 20 λ. Each number is
the peak of what the process holds in memory during a second fit, less what it held before, over the
bytes of X: arrays that kernels allocate count, memory that is reserved and never written does not.
Freed memory is given back to the system first (glibc). Linux only.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import gc
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from cyclade.linear import Lasso, LassoCV, losses, path, solve
from cyclade.linear.api import lam_max
from cyclade.linear.penalties import L1, MCP, GroupL2

Row = dict[str, Any]
PARTS = (10, 100, 1000)


def dense(n: int, p: int, order: str, dtype: Any) -> Any:
    """Correlated columns, in either order."""
    rng = np.random.default_rng(0)
    X = np.empty((n, p), dtype, order=order)  # type: ignore[call-overload]
    common = rng.standard_normal(n).astype(dtype)
    for first in range(0, p, 64):
        some = slice(first, min(first + 64, p))
        X[:, some] = rng.standard_normal((n, some.stop - first)) + 0.5 * common[:, None]
    return X


def scattered(n: int, p: int, entries: int, kind: str, dtype: Any) -> Any:
    """Sparse columns whose lengths fall like 1/j."""
    rng = np.random.default_rng(0)
    share = 1.0 / np.arange(1.0, p + 1.0)
    lengths = np.minimum((entries * share / share.sum()).astype(int) + 1, n // 4)
    cols = np.repeat(np.arange(p), lengths)
    rows = rng.integers(0, n, cols.size)
    values = rng.random(cols.size).astype(dtype) + 0.5
    X = sparse.csc_matrix((values, (rows, cols)), (n, p))
    X.sum_duplicates()
    return X.asformat(kind)


def one_hot(n: int, factors: int, levels: int, kind: str) -> Any:
    """One column of each factor is 1 in a row."""
    rng = np.random.default_rng(0)
    cols = rng.integers(0, levels, (n, factors)) + levels * np.arange(factors)
    X = sparse.csr_matrix(
        (np.ones(cols.size), cols.ravel(), np.arange(0, cols.size + 1, factors)),
        (n, factors * levels),
    )
    return X.asformat(kind)


def tables(size: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Tables of about so many bytes, of float64 where not said otherwise."""
    numbers = size // 8
    shapes = {"tall": (numbers // 200, 200), "square": (int(numbers**0.5),) * 2,
              "wide": (500, numbers // 500)}  # fmt: skip
    for shape, (n, p) in shapes.items():
        for order in "FC":
            for dtype in (np.float64, np.float32):
                width = p if dtype is np.float64 or shape == "tall" else 2 * p
                rows = n if dtype is np.float64 or shape != "tall" else 2 * n
                make = partial(dense, rows, width, order, dtype)
                yield f"{shape} {order} {np.dtype(dtype).name}", make
    entries = size // 12
    yield "sparse tall csc", lambda: scattered(entries // 20, 2_000, entries, "csc", np.float64)
    yield "sparse tall csr", lambda: scattered(entries // 20, 2_000, entries, "csr", np.float64)
    yield "sparse wide csc", lambda: scattered(5_000, entries // 30, entries, "csc", np.float64)
    yield "sparse wide csr", lambda: scattered(5_000, entries // 30, entries, "csr", np.float64)
    yield "sparse wide csc float32", lambda: scattered(5_000, entries // 30, entries, "csc", "f4")
    yield "one-hot csc", lambda: one_hot(entries // 20, 20, 50, "csc")
    yield "one-hot csr", lambda: one_hot(entries // 20, 20, 50, "csr")


def bytes_of(X: Any) -> int:
    """Of all its arrays."""
    if sparse.issparse(X):
        return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)
    return int(X.nbytes)


def target(X: Any) -> np.ndarray[Any, Any]:
    """Some columns and noise."""
    rng, (n, p) = np.random.default_rng(1), X.shape
    x = np.zeros(p)
    x[rng.choice(min(p, 2_000), 20, replace=False)] = rng.standard_normal(20)
    z = np.asarray(X @ x.astype(X.dtype), np.float64)
    return z + z.std() * rng.standard_normal(n)


def fits(X: Any, y: Any) -> Iterator[tuple[str, dict[str, Callable[[], Any]]]]:
    """The models, each with its λ."""
    labels, p = np.where(y > np.median(y), 1.0, -1.0), X.shape[1]
    groups = [list(range(k, min(k + 5, p))) for k in range(0, p, 5)]
    models = {
        "lasso": (losses.get("squared"), L1(1.0), y),
        "logistic": (losses.get("logistic"), L1(1.0), labels),
        "huber": (losses.Huber(float(np.std(y))), L1(1.0), y),
        "group": (losses.get("squared"), GroupL2(1.0, groups), y),
        "mcp": (losses.get("squared"), MCP(1.0), y),
    }
    for name, (loss, penalty, goal) in models.items():
        most = lam_max(X, goal, loss, penalty, None, None, True)
        found: dict[str, Callable[[], Any]] = {
            f"/{k}": partial(solve, X, goal, loss, penalty.scaled(most / k))
            for k in (PARTS if name not in ("group", "mcp") else PARTS[:2])
        }
        if name not in ("group", "mcp"):
            found["path"] = partial(path, X, goal, loss, n_lams=20, lam_ratio=1e-2)
        yield name, found
    cv = LassoCV(n_alphas=20, alpha_ratio=1e-2, cv=3)
    yield "cv", {"/10": partial(Lasso().fit, X, y), "path": partial(cv.fit, X, y)}


def resident(key: str) -> int:
    """Bytes of this process: VmRSS now, VmHWM at most."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return 1024 * int(line.split()[1])
    raise OSError(f"/proc/self/status has no {key}")


def peak(fit: Callable[[], Any]) -> tuple[int, float]:
    """Bytes that a second fit takes at most, and its CPU seconds."""
    fit()
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins anew
    before, begun = resident("VmRSS"), time.process_time()
    fit()
    return max(resident("VmHWM") - before, 0), time.process_time() - begun


def main() -> None:
    """Read the command line, measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, default=100.0)
    parser.add_argument("--tables", default="", help="what their names must contain")
    parser.add_argument("--models", default="", help="the same; several, with commas between")
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: list[Row] = []
    for table, make in tables(int(options.megabytes * 1e6)):
        if options.tables not in table:
            continue
        X = make()
        y, size = target(X), bytes_of(X)
        for model, calls in fits(X, y):
            if options.models and model not in options.models.split(","):
                continue
            row: Row = {"table": table, "model": model}
            for lam, call in calls.items():
                taken, seconds = peak(call)
                row[lam], row[f"seconds {lam}"] = round(taken / size, 2), round(seconds, 3)
            shown = [f"{lam} {row[lam]:.2f} ({row[f'seconds {lam}']:.2f} s)" for lam in calls]
            print(f"{table:24} {model:10} {'  '.join(shown)}", flush=True)
            rows.append(row)
        del X
    if options.csv:
        names = ["table", "model", *(f"/{k}" for k in PARTS), "path"]
        names += [f"seconds {name}" for name in names[2:]]
        options.csv.parent.mkdir(parents=True, exist_ok=True)
        with options.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
