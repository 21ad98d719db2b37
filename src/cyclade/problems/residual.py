"""f(x) = (1/n) Σ_i φ(y_i, (Ax)_i) for `minimize`, with Ax kept from block to block."""

from __future__ import annotations

from typing import Any

import numpy as np

from cyclade._arrays import Array, same_bits
from cyclade.blocks import Blocks, Layout, Point
from cyclade.linear import losses
from cyclade.linear.losses import Loss, Squared
from cyclade.oracles.counting import Calls
from cyclade.sampling.samplers import ALL, Sample

MOST_PRODUCTS = 4096  # columns up to which least squares may keep AᵀA


class Linear:
    """f(x) = (1/n) Σ_i φ(y_i, (Ax)_i), given to `minimize` as `fun`, without a gradient.

    A step of a block costs two products with its columns, where a function would read all of A.
    Least squares on tall tables keeps AᵀA, so that a step does not depend on n. Samples (`n=`) read
    their rows only.

    Parameters
    ----------
    A:
        The rows: an (n, d) array or SciPy sparse matrix. x is one array of length d.
    y:
        n targets.
    loss:
        φ: a name or an object of `cyclade.linear.losses`, of one output.

    Example
    -------
    Non-negative least squares:

    >>> import numpy as np
    >>> from cyclade import NonNegative, minimize
    >>> from cyclade.problems import Linear
    >>> A, y = np.array([[2.0, 1.0], [1.0, 3.0], [0.0, 1.0]]), np.array([1.0, -1.0, 0.0])
    >>> minimize(Linear(A, y), np.zeros(2), reg=NonNegative()).x.round(4)
    array([0.2, 0. ])
    """

    def __init__(self, A: Any, y: Any, loss: str | Loss = "squared") -> None:
        self.A, self.y = as_table("A", A, 2), as_table("y", y, 1)
        self.n, self.d = self.A.shape
        same_length(self.n, y=self.y)
        self.loss = loss if isinstance(loss, Loss) else losses.get(loss)
        if self.loss.target == "classes":
            raise ValueError(f"loss: {self.loss!r} has several outputs, and x is one array")
        self.loss.check(self.y)

    def oracle(self, layout: Layout) -> LinearOracle:
        """The oracle over the blocks of `layout`."""
        if layout.d != self.d or len(layout.labels) != 1 or layout.labels != [""]:
            given = f"{layout.d} numbers in {len(layout.labels)} array(s)"
            raise ValueError(
                f"x0 must be one array of {self.d} numbers, as A has columns, got {given}"
            )
        return LinearOracle(self, layout)

    def sweep(self, x: Blocks, sample: Sample) -> Any:
        """A sweep over the blocks of x."""
        assert isinstance(x, Point)
        return self.oracle(x.layout).sweep(x, sample)


class LinearOracle:
    """`Linear` over the blocks of a layout."""

    def __init__(self, of: Linear, layout: Layout) -> None:
        self.A, self.y, self.loss, self.layout = of.A, of.y, of.loss, layout
        self.calls = Calls()
        every = np.arange(of.d)
        self.columns = [_run(every[index]) for index in layout.flat_index()]
        self.by_columns = self.A.tocsc() if not isinstance(self.A, np.ndarray) else self.A
        self.products: tuple[Array, Array] | None = None  # AᵀA / n and Aᵀy / n

    def evaluate(self, x: Blocks, sample: Sample) -> tuple[float, list[Array]]:
        """f_S(x) and its gradient by blocks, from Ax itself."""
        sweep = RowsSweep(self, x, sample)
        return sweep.value(), [sweep.grad(j) for j in range(self.layout.m)]

    def sweep(self, x: Blocks, sample: Sample) -> Any:
        """A sweep from x, on products of columns where these are fewer."""
        n, d = self.A.shape
        if sample is ALL and isinstance(self.loss, Squared) and d <= min(n, MOST_PRODUCTS):
            if self.products is None:
                gram = self.A.T @ self.A
                gram = gram if isinstance(gram, np.ndarray) else gram.toarray()
                self.products = gram / n, self.A.T @ self.y / n
            return ProductsSweep(self, x, *self.products)
        return RowsSweep(self, x, sample)


class RowsSweep:
    """A point moving along a cycle, with Ax on the rows of the sample."""

    def __init__(self, of: LinearOracle, x: Any, sample: Sample) -> None:
        self.of, self.x, self.get = of, x, x.get
        whole = sample is ALL
        self.A = of.by_columns if whole else of.A[sample]
        self.y = of.y if whole else of.y[sample]
        self.z = np.asarray(self.A @ x.view())
        self._trial: tuple[int, Array, Array] | None = None
        self._slope: Array | None = None

    def grad(self, j: int) -> Array:
        """∇^j f_S here."""
        self.of.calls.njev += 1
        if self._slope is None:
            self._slope = self.of.loss.gradient(self.y, self.z) / len(self.y)
        return self._block(j, self._slope)

    def value(self) -> float:
        """f_S here."""
        self.of.calls.nfev += 1
        return float(self.of.loss.value(self.y, self.z).mean())

    def set(self, j: int, u: Array) -> None:
        """Move block j to `u`."""
        self.z, self._trial, self._slope = self._at(j, u), None, None
        self.x.set(j, u)

    def trial(self, j: int, u: Array) -> float:
        """f_S with block j at `u`."""
        self.of.calls.nfev += 1
        return float(self.of.loss.value(self.y, self._at(j, u)).mean())

    def trial_grad(self, j: int, u: Array) -> Array:
        """∇^j f_S with block j at `u`."""
        self.of.calls.njev += 1
        return self._block(j, self.of.loss.gradient(self.y, self._at(j, u)) / len(self.y))

    def hvp(self, j: int, v: Array) -> Array:
        """∇²_jj f_S v, by central differences along A_j v."""
        way = np.asarray(self.A[:, self.of.columns[j]] @ v)
        size = float(np.linalg.norm(way)) or 1.0
        h = float(np.finfo(way.dtype).eps) ** (1 / 3) * (1.0 + float(np.linalg.norm(self.z))) / size
        slope = self.of.loss.gradient
        bent = slope(self.y, self.z + h * way) - slope(self.y, self.z - h * way)
        return self._block(j, bent / (2 * h * len(self.y)))

    def _block(self, j: int, slope: Array) -> Array:
        return np.asarray(self.A[:, self.of.columns[j]].T @ slope)

    def _at(self, j: int, u: Array) -> Array:
        """Ax with block j at `u`; the last answer is kept."""
        if self._trial is not None and self._trial[0] == j and same_bits(self._trial[1], u):
            return self._trial[2]
        z = self.z + np.asarray(self.A[:, self.of.columns[j]] @ (u - self.get(j)))
        self._trial = (j, u, z)
        return z


class ProductsSweep:
    """Least squares on AᵀA: the gradient of all blocks, and f up to what rounding leaves of it."""

    def __init__(self, of: LinearOracle, x: Any, G: Array, c: Array) -> None:
        self.of, self.x, self.get, self.G, self.c = of, x, x.get, G, c
        self.q = G @ x.view() - c
        self.constant = 0.5 * float(of.y @ of.y) / len(of.y)

    def grad(self, j: int) -> Array:
        """∇^j f here."""
        self.of.calls.njev += 1
        return self.q[self.of.columns[j]].copy()

    def value(self) -> float:
        """f here."""
        self.of.calls.nfev += 1
        return self.constant + 0.5 * float(self.x.view() @ (self.q - self.c))

    def set(self, j: int, u: Array) -> None:
        """Move block j to `u`."""
        self.q = self.q + self.G[:, self.of.columns[j]] @ (u - self.get(j))
        self.x.set(j, u)

    def trial(self, j: int, u: Array) -> float:
        """f with block j at `u`."""
        move = u - self.get(j)
        return self.value() + float(move @ (self.grad(j) + 0.5 * self.hvp(j, move)))

    def trial_grad(self, j: int, u: Array) -> Array:
        """∇^j f with block j at `u`."""
        return self.grad(j) + self.hvp(j, u - self.get(j))

    def hvp(self, j: int, v: Array) -> Array:
        """∇²_jj f v."""
        own = self.of.columns[j]
        return np.asarray(self.G[own][:, own] @ v)


def _run(index: Array) -> Any:
    """An index as a slice, where it is a run of columns: its entries are then not copied."""
    run = len(index) and (np.diff(index) == 1).all()
    return slice(int(index[0]), int(index[-1]) + 1) if run else index


def as_table(name: str, data: Any, ndim: int) -> Any:
    """`data` as a finite float64 array (or a SciPy CSR matrix), or an error that names it."""
    if callable(getattr(data, "tocsr", None)):
        table = data.tocsr().astype(np.float64)
        entries = table.data
    else:
        table = entries = np.asarray(data, dtype=np.float64)
    if table.ndim != ndim or 0 in table.shape:
        raise ValueError(f"{name} must be a non-empty {ndim}-D array, got shape {table.shape}")
    if not np.isfinite(entries).all():
        raise ValueError(f"{name} contains NaN or infinity")
    return table


def same_length(n: int, **others: Any) -> None:
    """Raise ValueError naming the first of `others` that has not n entries."""
    for name, other in others.items():
        if len(other) != n:
            raise ValueError(f"{name} must have {n} entries, one per term, got {len(other)}")
