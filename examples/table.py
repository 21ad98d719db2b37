"""Rows that do not fit into memory: a file on disk, or a Parquet data set on a Dask cluster.

    python examples/table.py                      # a file of 100 MB, mapped, with NumPy alone
    python examples/table.py --parquet FOLDER y   # the column y from all others, on all cores

Killed at any moment, the same command goes on from the checkpoint.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from cyclade.linear import RowChunks, path, solve


def mapped_file(folder: Path, n: int = 125_000, p: int = 100) -> None:
    """Write rows to a file, and fit a Lasso path to them without ever holding them."""
    rng = np.random.default_rng(0)
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float64, (n, p))
    for first in range(0, n, 25_000):
        X[first : first + 25_000] = rng.standard_normal((len(X[first : first + 25_000]), p))
    y = X[:, 0] - 2.0 * X[:, 7] + rng.standard_normal(n)

    rows = RowChunks(np.load(folder / "X.npy", mmap_mode="r"))
    found = path(rows, y, n_alphas=10, alpha_ratio=0.05, checkpoint=folder / "path")
    print("features along the path:", np.count_nonzero(found.coefs, axis=0))
    print("largest gap:", max(certificate.value for certificate in found.certificates))


def parquet(folder: str, target: str) -> None:
    """An l1 logistic regression on worker processes; y is 0 or 1."""
    import dask.dataframe as dd
    from dask.distributed import Client

    with Client(threads_per_worker=1) as client:
        print(client)
        rows = dd.read_parquet(folder)
        y = (2.0 * rows[target] - 1.0).persist()
        fit = solve(
            rows.drop(columns=target), y, "logistic", alpha=0.01, checkpoint="fit", verbose=True
        )
    print(np.count_nonzero(fit.coef), "features,", fit.certificate)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--parquet", nargs=2, metavar=("FOLDER", "TARGET"))
    chosen = parser.parse_args()
    if chosen.parquet:
        parquet(*chosen.parquet)
    else:
        with tempfile.TemporaryDirectory() as scratch:
            mapped_file(Path(scratch))
