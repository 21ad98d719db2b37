"""The problems: designs, real tables, objectives and distances, in plain NumPy and SciPy.

    F(x) = (1/n) Σ_i φ(y_i, z_i) + r(x),  z_i = a_i·x, or a_i·x + c for kinds that end in "+1"

==========  ==========================================  ===========================
kind        φ                                           r
==========  ==========================================  ===========================
lasso       ½ (z − y)²                                  λ ‖x‖₁
logistic    log(1 + e^{−yz})                            λ ‖x‖₁
group       ½ (z − y)²                                  λ Σ_g √|g| ‖x_g‖, g in tens
mcp         ½ (z − y)²                                  MCP(λ, γ = 3)
cauchy      ½ log(1 + (z − y)²)                         λ ‖x‖₁
enet        ½ (z − y)²                                  λ (½ ‖x‖₁ + ¼ ‖x‖²)
huber       ½ u², or |u| − ½ where |u| = |z − y| > 1    λ ‖x‖₁
poisson     e^z − yz                                    λ ‖x‖₁
==========  ==========================================  ===========================

A folder of real tables (``--data-dir``) holds ``NAME.npz`` files with ``y`` and either a dense
``X`` or the CSR arrays ``data``, ``indices``, ``indptr`` and ``shape``; ``news20_counts.npz`` has
``tr_data``, ``tr_dindices`` (column numbers as differences within a row), ``tr_indptr``,
``n_features`` and ``y_train``; or svmlight files ``NAME`` or ``NAME.svm``, read by scikit-learn.
Labels become ±1: the larger half of the classes is 1. Dense tables are standardised.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

CONVEX = ("lasso", "logistic", "group", "enet", "huber", "poisson")
GROUP, GAMMA, L1_RATIO = 10, 3.0, 0.5
ACCURACY, STATIONARY = 1e-6, 1e-4


@dataclass
class Problem:
    """Data and a kind of problem. X is in Fortran order, or sparse by columns.

    Points have p entries, and one more for the intercept where there is one.
    """

    kind: str
    X: Any
    y: Any
    intercept: bool = False

    def __post_init__(self) -> None:
        if self.kind.endswith("+1"):
            self.kind, self.intercept = self.kind[:-2], True

    @property
    def n(self) -> int:
        """Rows."""
        return int(self.X.shape[0])

    @property
    def p(self) -> int:
        """Columns."""
        return int(self.X.shape[1])

    @property
    def sparse(self) -> bool:
        """Whether X is."""
        return not isinstance(self.X, np.ndarray)

    @property
    def convex(self) -> bool:
        """Whether F is."""
        return self.kind in CONVEX

    @property
    def l1_ratio(self) -> float:
        """The share of the l1 norm in the elastic net."""
        return L1_RATIO if self.kind == "enet" else 1.0

    @property
    def groups(self) -> list[list[int]]:
        """Consecutive tens; the last may be shorter."""
        return [list(range(s, min(s + GROUP, self.p))) for s in range(0, self.p, GROUP)]

    @cached_property
    def lam_max(self) -> float:
        """The smallest λ at which x = 0 (with the best intercept) is stationary."""
        null = np.zeros(self.p + self.intercept)
        if self.intercept:
            null[-1] = self.best_intercept()
        return self.dual_norm(self.gradient(null))

    def best_intercept(self) -> float:
        """c of the null model."""
        from scipy.optimize import brentq

        def mean_slope(c: float) -> float:
            return float(self.slopes(np.full(self.n, c)).mean())

        low, high = -1.0, 1.0
        while mean_slope(low) > 0:
            low *= 2.0
        while mean_slope(high) < 0:
            high *= 2.0
        return float(brentq(mean_slope, low, high, xtol=1e-14))

    def predict(self, x: Any) -> Any:
        """z."""
        return np.asarray(self.X @ x[: self.p]) + (x[self.p] if self.intercept else 0.0)

    def lams(self, count: int = 100, ratio: float = 0.01) -> Any:
        """λ_max … λ_max · ratio, geometric."""
        return self.lam_max * np.geomspace(1.0, ratio, count)

    def slopes(self, z: Any) -> Any:
        """φ'(z)."""
        if self.kind == "logistic":
            return -0.5 * self.y * (1.0 - np.tanh(0.5 * self.y * z))
        if self.kind == "poisson":
            return np.exp(z) - self.y
        u = z - self.y
        if self.kind == "huber":
            return np.clip(u, -1.0, 1.0)
        return u / (1.0 + u * u) if self.kind == "cauchy" else u

    def gradient(self, x: Any) -> Any:
        """∇f(x) in the p coefficients."""
        return np.asarray(self.X.T @ self.slopes(self.predict(x))) / self.n

    def dual_norm(self, g: Any) -> float:
        """max |g_j|, or over groups max ‖g_g‖ / √|g|."""
        if self.kind == "enet":
            return float(np.abs(g).max()) / L1_RATIO
        if self.kind != "group":
            return float(np.abs(g).max())
        starts = np.arange(0, self.p, GROUP)
        sizes = np.diff(np.append(starts, self.p))
        return float(np.sqrt(np.add.reduceat(g**2, starts) / sizes).max())

    def smooth(self, x: Any) -> float:
        """f(x)."""
        z = self.predict(x)
        if self.kind == "logistic":
            return float(np.logaddexp(0.0, -self.y * z).mean())
        if self.kind == "poisson":
            return float((np.exp(z) - self.y * z).mean())
        u = z - self.y
        if self.kind == "huber":
            return float(np.where(np.abs(u) <= 1.0, 0.5 * u * u, np.abs(u) - 0.5).mean())
        return float((0.5 * (np.log1p(u * u) if self.kind == "cauchy" else u * u)).mean())

    def penalty(self, x: Any, lam: float) -> float:
        """r(x)."""
        x = x[: self.p]
        size = np.abs(x)
        if self.kind == "enet":
            return lam * float((L1_RATIO * size + 0.5 * (1.0 - L1_RATIO) * x * x).sum())
        if self.kind == "group":
            starts = np.arange(0, self.p, GROUP)
            sizes = np.diff(np.append(starts, self.p))
            return lam * float((np.sqrt(sizes * np.add.reduceat(x**2, starts))).sum())
        if self.kind == "mcp":
            flat = size >= GAMMA * lam
            bent = lam * size - size**2 / (2 * GAMMA)
            return float(np.where(flat, 0.5 * GAMMA * lam**2, bent).sum())
        return lam * float(size.sum())

    def objective(self, x: Any, lam: float) -> float:
        """F(x)."""
        return self.smooth(x) + self.penalty(x, lam)

    def distance(self, x: Any, lam: float) -> float:
        """max_j dist(∂F(x), 0)_j, for penalties on coordinates."""
        g, size = self.gradient(x), np.abs(x)
        slope = lam if self.kind != "mcp" else np.maximum(lam - size / GAMMA, 0.0)
        at = np.abs(g + np.sign(x) * slope)
        return float(np.where(x != 0, at, np.maximum(np.abs(g) - lam, 0.0)).max())


# --- designs -----------------------------------------------------------------------------------


def correlated(n: int, p: int, rho: float, rng: np.random.Generator) -> Any:
    """Rows of a stationary AR(1) process along the columns."""
    X = np.empty((n, p), order="F")
    X[:, 0] = rng.standard_normal(n)
    for j in range(1, p):
        X[:, j] = rho * X[:, j - 1] + np.sqrt(1 - rho * rho) * rng.standard_normal(n)
    return X


def signal(X: Any, support: int, snr: float, rng: np.random.Generator) -> Any:
    """X x plus noise, x with `support` entries ±1."""
    x = np.zeros(X.shape[1])
    x[rng.choice(len(x), support, replace=False)] = rng.choice([-1.0, 1.0], support)
    z = np.asarray(X @ x)
    return z + rng.standard_normal(len(z)) * z.std() / snr


def synthetic(name: str) -> tuple[Any, Any]:
    """One of the designs: (X, y)."""
    rng = np.random.default_rng(0)
    if name == "dense":
        X = correlated(1_000, 10_000, 0.8, rng)
        return X, signal(X, 100, 3.0, rng)
    if name == "sparse":
        X = sp.random(
            20_000, 100_000, 1e-3, format="csc", random_state=rng,
            data_rvs=lambda size: rng.standard_normal(size),
        )  # fmt: skip
        return X, signal(X, 500, 3.0, rng)
    if name == "logit":
        X = correlated(2_000, 10_000, 0.6, rng)
        return X, np.where(signal(X, 100, 2.0, rng) > 0, 1.0, -1.0)
    if name == "groups":
        X = correlated(1_000, 5_000, 0.8, rng)
        x = np.zeros(5_000)
        for g in rng.choice(500, 10, replace=False):
            x[10 * g : 10 * g + 10] = rng.standard_normal(10)
        z = X @ x
        return X, z + rng.standard_normal(1_000) * z.std() / 3.0
    if name == "outliers":
        X = correlated(1_000, 10_000, 0.8, rng)
        y = signal(X, 100, 10.0, rng)
        y /= 5.0  # residuals around the scale of the loss
        wrong = rng.choice(1_000, 100, replace=False)
        y[wrong] += 20.0 * rng.standard_t(1, size=100)
        return X, y
    if name == "unseen":  # no constant of ours was chosen on it
        rng = np.random.default_rng(1)
        X = correlated(600, 6_000, 0.5, rng)
        return X, signal(X, 60, 2.0, rng)
    raise ValueError(f"there is no design {name!r}")


SYNTHETIC = ("dense", "sparse", "logit", "groups", "outliers", "unseen")


def table(name: str, folder: Path, pair: Any = None) -> tuple[Any, Any]:
    """(X, y) of a real table, y = ±1; of `pair` two of its classes, by number, alone."""
    path = folder / f"{name}.npz"
    if path.exists():
        X, labels = npz(path)
    else:
        X, labels = _svmlight(name, folder)
    classes = np.unique(labels)
    if pair is not None:
        classes = classes[np.sort(pair)]
        kept = np.flatnonzero(np.isin(labels, classes))
        X, labels = X[kept], labels[kept]
    y = np.where(np.isin(labels, classes[len(classes) // 2 :]), 1.0, -1.0)
    if isinstance(X, np.ndarray):
        X = X[:, X.std(axis=0) > 0]
        X = np.asfortranarray((X - X.mean(axis=0)) / X.std(axis=0))
        return X, y
    X = X.tocsc()
    return X[:, np.diff(X.indptr) > 0], y


def npz(path: Path) -> tuple[Any, Any]:
    """X and the labels of a stored table."""
    with np.load(path) as z:
        if "tr_indptr" in z:
            ends = z["tr_indptr"].astype(np.int64)
            running = np.cumsum(z["tr_dindices"].astype(np.int64))
            before = np.where(ends[:-1] > 0, running[np.maximum(ends[:-1] - 1, 0)], 0)
            columns = running - np.repeat(before, np.diff(ends))
            shape = (len(ends) - 1, int(z["n_features"]))
            data = z["tr_data"].astype(float), columns.astype(np.int32), ends.astype(np.int32)
            return sp.csr_matrix(data, shape=shape), np.asarray(z["y_train"])
        if "X" in z:
            return z["X"].astype(float), np.asarray(z["y"])
        data = z["data"].astype(float), z["indices"].astype(np.int32), z["indptr"]
        return sp.csr_matrix(data, shape=tuple(z["shape"])), np.asarray(z["y"])


def _svmlight(name: str, folder: Path) -> tuple[Any, Any]:
    for path in (folder / name, folder / f"{name}.svm"):
        if path.exists():
            from sklearn.datasets import load_svmlight_file

            return load_svmlight_file(str(path))  # type: ignore[no-any-return]
    raise SystemExit(f"{folder} holds neither {name}.npz nor an svmlight file {name}[.svm]")


# --- stored for the workers ---------------------------------------------------------------------


def save(path: Path, X: Any, y: Any) -> None:
    """The data, for quick loading."""
    parts = {"X": X} if isinstance(X, np.ndarray) else {
        "data": X.data, "indices": X.indices.astype(np.int32), "indptr": X.indptr.astype(np.int32),
        "shape": np.array(X.shape),
    }  # fmt: skip
    np.savez(path, y=y, **parts)


def load(path: Path) -> tuple[Any, Any]:
    """What `save` wrote."""
    with np.load(path) as z:
        if "X" in z:
            return np.asfortranarray(z["X"]), z["y"]
        parts = z["data"], z["indices"], z["indptr"]
        X = sp.csc_matrix(parts, shape=tuple(z["shape"]))
        X.sort_indices()
        return X, z["y"]
