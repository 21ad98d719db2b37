"""Quadratic models on products of columns: what is kept of them, and cycles on the client.

At (x, c) the loss is replaced by its gradient and a matrix G over the working set and the column of
ones; the intercept is minimised over first, and cycles run on what is left of G.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import numerics
from cyclade.linear.kernels import block_gram, group
from cyclade.linear.kernels.block_gram import ONES
from cyclade.linear.subproblem.gram import Gram
from cyclade.tables.passes import unpacked
from cyclade.tables.table import TableMeasured, TableProblem, pseudo_inverse
from cyclade.tables.tuning import Tuning

Array = NDArray[Any]
NONE = np.empty(0, np.int64)


class Products:
    """Products of some columns: (m, K, K) as `Pass` forms them, with what is asked for more."""

    def __init__(self, joint: int = 1) -> None:
        """`joint`: entries of a column in one matrix, where outputs meet in the Hessian."""
        self.members, self.joint = NONE, joint
        self.G = np.empty((0, 0, 0))

    def lacking(self, cols: Array) -> Array:
        """Those of the columns whose products are not known."""
        return cols[~np.isin(cols, self.members)]

    def add(self, new: Array, sent: Array) -> None:
        """Take in the products of `new` columns with all."""
        q, first = self.joint, self.members.size * self.joint
        whole = first + new.size * q
        G = np.empty((len(sent), whole, whole))
        G[:, :first, :first] = self.G if first else 0.0
        G[:, first:] = unpacked(sent, new.size * q, whole)
        G[:, :first, first:] = G[:, first:, :first].transpose(0, 2, 1)
        self.G, self.members = G, np.concatenate([self.members, new])

    def of(self, cols: Array) -> Array:
        """(m, k, k) over these columns."""
        sorter = np.argsort(self.members)
        at = sorter[np.searchsorted(self.members, cols, sorter=sorter)]
        if self.joint > 1:
            at = (at[:, None] * self.joint + np.arange(self.joint)).reshape(-1)
        return np.asarray(self.G[:, at[:, None], at[None, :]])


class Move(NamedTuple):
    """Where a model is lowest: what entries of x and the intercept move by, and the cycles made."""

    entries: Array
    dx: Array
    dc: Any
    cycles: int


def columns_of(table: TableProblem, W: Array) -> tuple[Array, Array]:
    """The features of the blocks W, block after block, and where their entries lie in x."""
    penalty: Any = table.penalty
    if penalty.is_scalar:
        return W, W
    sizes = np.diff(penalty.starts)[W]
    spread = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    entries = np.repeat(penalty.starts[W], sizes) + spread
    places = entries[:: penalty.T] // penalty.T
    return (places if penalty.order is None else penalty.order[places]), entries


def minimise(
    table: TableProblem, now: TableMeasured, products: Products, W: Array, tolerance: float,
    budget: int,
) -> Move:  # fmt: skip
    """Minimise the model at `now` over the blocks W and the intercept."""
    features, entries = columns_of(table, W)
    ones = np.array([ONES]) if table.fit_intercept else NONE
    G = products.of(np.concatenate([ones, features]))
    c, slope = -now.g[entries], np.atleast_1d(now.slope)
    q = G.shape[1] * ones.size // (features.size + ones.size)  # entries of the intercept
    G, c, back = profiled(G, q, c, slope, table.T)
    x, made = cycled(table, G, c, now.x[entries], W, features, tolerance, budget)
    dx = x - now.x[entries]
    return Move(entries, dx, back(dx), made)


def profiled(G: Array, q: int, c: Array, slope: Array, T: int) -> tuple[Array, Array, Any]:
    """G and c once the intercept, the first q entries of every matrix, is minimised over.

    The last of what is returned gives what the intercept moves by for a dx.
    """
    if not q:
        return G, c, lambda dx: 0.0 if T == 1 else np.zeros(T)
    least = numerics.FLAT * np.diagonal(G[:, q:, q:], axis1=1, axis2=2)
    shared = len(G) == 1 and q == 1  # one matrix for all outputs
    inverse = [pseudo_inverse(one[:q, :q]) for one in G]
    means = [inverse[m] @ one[:q, q:] for m, one in enumerate(G)]  # (q, K)
    rest = np.stack([one[q:, q:] - one[q:, :q] @ means[m] for m, one in enumerate(G)])
    every = np.arange(rest.shape[1])
    rest[:, every, every] = np.maximum(rest[:, every, every], least)
    if q > 1:  # all outputs in one matrix
        return rest, c + means[0].T @ slope, lambda dx: -inverse[0] @ slope - means[0] @ dx
    by_output = [0 if shared else t for t in range(T)]
    rows = np.stack([means[t][0] for t in by_output], axis=1)  # (K, T)
    masses = np.array([float(inverse[t][0, 0]) for t in by_output])
    c = c + (rows * slope).reshape(-1)

    def back(dx: Array) -> Any:
        dc = -masses * slope - (rows * dx.reshape(-1, T)).sum(axis=0)
        return dc if T > 1 or slope.size > 1 else float(dc[0])

    return rest, c, back


def cycled(
    table: TableProblem, G: Array, c: Array, x: Array, W: Array, features: Array, tolerance: float,
    budget: int,
) -> tuple[Array, int]:  # fmt: skip
    """Cycles on the products: over single entries, or over blocks."""
    penalty: Any = table.penalty
    scalar = penalty if penalty.is_scalar else getattr(penalty, "scalar", None)
    if scalar is not None:
        cols = features if penalty.is_scalar else np.repeat(features, table.T)
        gram = Gram.of(np.ascontiguousarray(G[0]), c, x, cols, scalar, table.tuning)
        made = gram.minimise(tolerance, budget)
        return gram.x, made
    sizes = np.diff(penalty.starts)[W]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return block_cycles(
        G, c, x, starts, penalty.table[W], penalty.rotated, table.T, tolerance, budget,
        table.tuning,
    )  # fmt: skip


def block_cycles(
    G: Array, c: Array, x: Array, starts: Array, table: Array, rotated: bool, T: int,
    tolerance: float, budget: int, tuning: Tuning,
) -> tuple[Array, int]:  # fmt: skip
    """Exact cycles over blocks of entries: x, and the cycles made.

    G is one matrix over all entries, or over columns: one for all T outputs, or one for each.
    """
    sizes = np.diff(starts)
    q0 = np.concatenate([[0], np.cumsum(sizes**2)])
    Q, D = np.empty(int(q0[-1])), np.empty(x.size)
    flat = G.shape[1] == x.size
    if not flat and len(G) == 1:
        G = np.repeat(G, T, axis=0)
    for k, (first, last) in enumerate(itertools.pairwise(starts)):
        if flat:
            H = G[0][first:last, first:last]
        else:  # a row of outputs that do not meet, for each column of the block
            H, every = np.zeros((last - first, last - first)), np.arange(first, last)
            outputs, cols = every % T, every // T
            same = outputs[:, None] == outputs[None, :]
            H[same] = G[outputs[:, None], cols[:, None], cols[None, :]][same]
        values, vectors = np.linalg.eigh(H)
        values = np.maximum(values, 0.0)
        D[first:last] = values if rotated else values[-1]
        Q[q0[k] : q0[k + 1]] = (vectors if rotated else H).reshape(-1)
    x, c = x.copy(), c.copy()
    blocks = group.Blocks(starts, Q, q0, D, table, rotated, tuning.group_inner_steps)
    made, _ = block_gram.cycles(np.ascontiguousarray(G), c, x, blocks, budget, tolerance)
    return x, int(made)
