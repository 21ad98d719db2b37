"""Small linear problems for the tests of rows: data, and the same f as a plain function."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import scipy.sparse as sp
from literal_ccd import exact

from cyclade._arrays import Array
from cyclade.core import iterate, start
from cyclade.linear.losses import get
from cyclade.methods import as_method, make_sampler
from cyclade.oracles.callables import CallableOracle, Jacobian
from cyclade.rows.oracle import Features, LinearOracle, by_blocks
from cyclade.sampling.orders import as_order
from cyclade.sampling.samplers import ALL, FiniteSum
from cyclade.steps import Fixed

STORED = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "csr": sp.csr_matrix,
    "csc": sp.csc_matrix,
    "coo array": sp.coo_array,
}


class Case:
    """n rows, p features, some zero entries, an empty column; y to suit the loss."""

    def __init__(
        self, loss: Any = "logistic", n: int = 40, p: int = 11, T: int | None = None, seed: int = 0
    ) -> None:
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.5)
        self.X[:, p // 2] = 0.0
        self.loss = get(loss)
        z = self.X @ rng.normal(size=(p, T or 1)) + 0.3 * rng.normal(size=(n, T or 1))
        self.y: Any = z if T else z[:, 0]
        if self.loss.target == "signs":
            wrong = rng.random(n) < 0.2  # else the classes could be separated, and x run away
            self.y = np.where((self.y > 0) ^ wrong, 1.0, -1.0)
        elif self.loss.target == "classes":
            self.y = z.argmax(axis=1)
        elif loss in ("poisson", "gamma"):
            self.y = np.exp(0.3 * self.y)
        self.T = T
        self.weight = rng.uniform(0.5, 2.0, size=n)
        self.offset = 0.2 * rng.normal(size=(n, T) if T else n)


def halved(X: Array, stored: str) -> Any:
    """X as a sparse matrix that stores every entry as two equal halves."""
    whole = sp.csr_matrix(X) if stored == "csr" else sp.csc_matrix(X)
    parts = np.repeat(whole.data / 2, 2), np.repeat(whole.indices, 2), 2 * whole.indptr
    return type(whole)(parts, shape=X.shape)


def function(case: Case, features: Features, weighted: bool) -> tuple[Any, Any]:
    """f and its gradient on rows idx of the flat point, written out."""
    n = len(case.y)
    s = case.weight if weighted else np.ones(n)
    d = features.p * features.width

    def predict(x: Array, idx: Array) -> Array:
        shape = (features.p,) if case.T is None else (features.p, case.T)
        z = case.X[idx] @ x[:d].reshape(shape)
        if features.fit_intercept:
            z = z + x[d:]
        return z + case.offset[idx] if weighted else z

    def fun(x: Array, idx: Array) -> float:
        values = case.loss.value(case.y[idx], predict(x, idx))
        return float((s[idx] * values).sum() * n / (s.sum() * len(idx)))

    def jac(x: Array, idx: Array) -> Array:
        slopes = case.loss.gradient(case.y[idx], predict(x, idx))
        slopes = ((s[idx] * slopes.T) * n / (s.sum() * len(idx))).T
        parts = [(case.X[idx].T @ slopes).ravel()]
        if features.fit_intercept:
            parts.append(np.atleast_1d(slopes.sum(axis=0)))
        return np.concatenate(parts)

    return fun, jac


def both(
    case: Case,
    method: str,
    penalty: Any,
    *,
    X: Any = None,
    blocks: Any = 4,
    order: str = "forward",
    fit_intercept: bool = True,
    weighted: bool = True,
    K: int = 12,
    eta: float = 0.4,
    seed: int = 3,
) -> tuple[list[Array], list[Array]]:
    """x_1, …, x_K by the linear oracle, and by the generic one over the plain function."""
    X = case.X if X is None else X
    n, p = X.shape
    chosen = as_method(method, True)
    features = Features(
        p, blocks, fit_intercept=fit_intercept, outputs=case.T, joined=chosen.one_block
    )
    sizes = {} if chosen.deterministic else {"b": 20}
    if chosen.draws == "page":
        sizes |= {"b_small": 4, "p": 0.3}
    extra = {"sample_weight": case.weight, "offset": case.offset} if weighted else {}
    linear = LinearOracle(X, case.y, case.loss, features, **extra)
    generic = CallableOracle(
        features.layout, Jacobian(*function(case, features, weighted)), n, np.zeros(1)
    )
    bound = case.loss.bound if np.isfinite(case.loss.bound) else 10.0
    Lambda = exact(linear.rows(ALL), bound, features.layout.m)
    found = []
    for oracle in (linear, generic):
        sampler = make_sampler(
            chosen, FiniteSum(n), sizes.get("b"), sizes.get("b_small"), sizes.get("p")
        )
        state = start(oracle, features.point(), sampler, np.random.default_rng(seed))
        run = iterate(
            state, oracle, by_blocks(penalty, features), Fixed(Lambda, eta), sampler,
            as_order(order, features.layout.m), chosen.resample,
        )  # fmt: skip
        found.append([now.x.whole().copy() for now in islice(run, K)])
    return found[0], found[1]


def apart(first: list[Array], second: list[Array]) -> float:
    """The largest difference of two trajectories."""
    return max(float(np.abs(a - b).max()) for a, b in zip(first, second, strict=True))
