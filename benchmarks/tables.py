"""Data for the benchmarks: scikit-learn's digits, or tables from a folder of npz files.

A table ``NAME.npz`` holds ``y`` and either a dense ``X``, or the CSR arrays ``data``, ``indices``,
``indptr`` and ``shape``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def load(name: str, data_dir: Path | None) -> tuple[Any, Any]:
    """(A, y) with labels ±1."""
    if name == "digits":
        return digits()
    if data_dir is None:
        raise SystemExit(f"{name} needs --data-dir, a folder that holds {name}.npz")
    path = data_dir / f"{name}.npz"
    if not path.exists():
        raise SystemExit(f"{path} does not exist")
    return table(path)


def digits() -> tuple[Any, Any]:
    """Even (1) against odd (−1) digits; standardised, constant pixels dropped."""
    from sklearn.datasets import load_digits

    X, digit = load_digits(return_X_y=True)
    X = X[:, X.std(axis=0) > 0]
    return (X - X.mean(axis=0)) / X.std(axis=0), np.where(digit % 2 == 0, 1.0, -1.0)


def table(path: Path) -> tuple[Any, Any]:
    """One npz file; the larger label becomes 1, the smaller −1."""
    with np.load(path) as z:
        labels = np.asarray(z["y"])
        if "X" in z:
            X: Any = z["X"].astype(float)
        else:
            from scipy.sparse import csr_matrix

            parts = z["data"].astype(float), z["indices"].astype(np.int32), z["indptr"]
            X = csr_matrix(parts, shape=tuple(z["shape"]))
    return X, np.where(labels == labels.max(), 1.0, -1.0)
