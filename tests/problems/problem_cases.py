"""One small instance of every problem, for tests that hold for all of them."""

import numpy as np
import scipy.sparse

from cyclade import L1
from cyclade.problems import (
    NMF,
    GemanMcClure,
    LinearProblem,
    LogisticRegression,
    MatrixCompletion,
    NuclearCompletion,
    PhaseRetrieval,
    PLQuadratic,
    Squared,
    Tukey,
    Welsch,
)

RNG = np.random.default_rng(7)
A = RNG.normal(size=(30, 7))
LABELS = np.sign(A[:, 0] + 0.5 * RNG.normal(size=30))
TARGETS = A @ np.array([2.0, 0, 0, -1.0, 0, 0, 0.5]) + 0.1 * RNG.normal(size=30)
TARGETS[:4] = 40.0
SIGNAL = RNG.normal(size=7)
V = RNG.random((9, 3)) @ RNG.random((3, 6))
ROWS, COLUMNS = np.nonzero(RNG.random((8, 5)) < 0.7)
LOW_RANK = RNG.normal(size=(8, 2)) @ RNG.normal(size=(2, 5))
SEEN = LOW_RANK[ROWS, COLUMNS]

CASES = {
    "logistic": lambda: LogisticRegression(A, LABELS, alpha=0.05, blocks=3, reg=L1(0.01)),
    "logistic, sparse": lambda: LogisticRegression(
        scipy.sparse.csr_matrix(np.where(np.abs(A) > 0.5, A, 0.0)), LABELS, blocks=3, reg=L1(0.02)
    ),
    "logistic, index blocks": lambda: LogisticRegression(
        A, LABELS, blocks=[[0, 6], [1, 3, 5], [2, 4]], reg=L1(0.02)
    ),
    "Welsch": lambda: LinearProblem(A, TARGETS, Welsch(), blocks=3, reg=L1(0.01)),
    "Geman-McClure": lambda: LinearProblem(A, TARGETS, GemanMcClure(), blocks=3, reg=L1(0.01)),
    "Tukey": lambda: LinearProblem(A, TARGETS, Tukey(), blocks="coordinates", reg=L1(0.01)),
    "squared": lambda: LinearProblem(A, TARGETS, Squared(), alpha=0.1, blocks=[2, 5]),
    "phase retrieval": lambda: PhaseRetrieval(A, (A @ SIGNAL) ** 2, blocks=3),
    "PL quadratic": lambda: PLQuadratic.random(),
    "NMF, factors": lambda: NMF(V, 3),
    "NMF, components": lambda: NMF(V, 3, blocks="components"),
    "completion, factors": lambda: MatrixCompletion(ROWS, COLUMNS, SEEN, (8, 5), 2, lam=0.01),
    "completion, nuclear": lambda: NuclearCompletion(ROWS, COLUMNS, SEEN, (8, 5), lam=0.01),
}


def somewhere(problem, seed, scale=1.0):
    """A random point, structured like x0 (and non-negative for NMF, where it must be)."""
    rng = np.random.default_rng(seed)
    leaves = [scale * rng.normal(size=shape) for shape in problem.layout.shapes]
    if isinstance(problem, NMF):
        leaves = [np.abs(leaf) for leaf in leaves]
    return problem.layout.structured(leaves)


def flat(problem, x):
    """x as one vector."""
    leaves = list(x.values()) if isinstance(x, dict) else [x]
    return np.concatenate([np.ravel(leaf) for leaf in leaves])


def structured(problem, v):
    """The inverse of `flat`."""
    leaves, start = [], 0
    for shape in problem.layout.shapes:
        size = int(np.prod(shape))
        leaves.append(v[start : start + size].reshape(shape))
        start += size
    return problem.layout.structured(leaves)
