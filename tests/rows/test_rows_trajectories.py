"""`solve_rows` and `RowStream` against the paper's algorithms, written out, over every cycle.

The twins share with the fits only the prox (literal, not compiled), Λ_j and the order of the random
draws: gradients are written out from the data, and `cyclade.reference` stores every partial point.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rows_cases import Case, function

from cyclade import reference
from cyclade.linear.penalties import L1
from cyclade.methods import as_method, make_sampler
from cyclade.rows.fit import RowStream, solve_rows
from cyclade.rows.oracle import Features, by_blocks
from cyclade.rows.setup import EarlyRefresh, FewRows, null_intercept
from cyclade.rows.steps import diagonal
from cyclade.rows.sweep import Rows
from cyclade.sampling.orders import as_order
from cyclade.sampling.samplers import ALL, FiniteSum, StreamBatch
from cyclade.steps.searched import falling

METHODS = ["P-CCD", "SCCD", "VR-CCD", "VRO-CCD", "PAGE", "SGD"]
ROUNDING = 1e-11
PENALTY = L1(0.02)


class Sizes:
    """Λ_j of the literal loop divided by η_k, as it steps by 1 / Λ_j alone."""

    def __init__(self, Lambda: list[Any], eta: Any) -> None:
        self.Lambda, self.eta, self.turns = Lambda, eta, 0

    def __getitem__(self, j: int) -> Any:
        k, self.turns = self.turns // len(self.Lambda), self.turns + 1
        return self.Lambda[j] / (self.eta(k) if callable(self.eta) else self.eta)


@pytest.mark.parametrize("order", ["forward", "shuffled"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_every_cycle_of_a_fit_is_the_papers(loss: str, method: str, order: str) -> None:
    case, n, chosen = Case(loss, n=60, seed=3), 60, as_method(method, True)
    b = 40 if chosen.draws == "page" else None if chosen.deterministic else 8
    fit = solve_rows(
        case.X, case.y, loss, PENALTY, method=method, sample_weight=case.weight,
        offset=case.offset, b=b, blocks=3, order=order, seed=5, tol=0.0, epochs=14.0,
        every=1e-9, eta="theory",
    )  # fmt: skip
    features = Features(11, 3, fit_intercept=True, joined=chosen.one_block)
    m, index = features.layout.m, features.layout.flat_index()
    fun, jac = function(case, features, weighted=True)
    sampler = make_sampler(chosen, FewRows(n), b, None, None)
    if sampler.recursive:
        sampler = EarlyRefresh(sampler, m if chosen.resample == "block" else 1)
    small = float(getattr(make_sampler(chosen, FiniteSum(n), b, None, None), "b_small", b or n))
    everything = Rows(
        case.X, case.y, case.weight / case.weight.sum(), case.offset, features.members
    )
    Lambda = [diagonal(everything, j, case.loss.bound, small, n=float(n)) for j in range(m)]
    r = by_blocks(PENALTY, features)

    def grad(x: np.ndarray, sample: Any, j: int) -> np.ndarray:
        return jac(x, np.arange(n) if sample is ALL else sample)[index[j]]

    eta = falling(1.0, n / small) if chosen.draws == "minibatch" else 1.0
    x0 = np.append(np.zeros(11), null_intercept(case.loss, everything))
    twin = reference.run(
        grad, x0, index, r.prox, Sizes(Lambda, eta), sampler, as_order(order, m),
        K=fit.cycles, resample=chosen.resample, rng=np.random.default_rng(5),
    )  # fmt: skip

    def F(x: np.ndarray) -> float:
        return fun(x, np.arange(n)) + sum(r.value(j, x[index[j]]) for j in range(m))

    assert fit.cycles >= 12
    assert [row["cycles"] for row in fit.history] == list(range(fit.cycles + 1))
    objectives = [row["objective"] for row in fit.history]
    np.testing.assert_allclose(objectives, [F(x) for x in twin.x], rtol=ROUNDING)
    np.testing.assert_allclose(fit.state.state.x.view(), twin.x[-1], atol=ROUNDING)
    best = twin.x[int(np.argmin([F(x) for x in twin.x]))]
    np.testing.assert_allclose(np.append(fit.coef, fit.intercept), best, atol=ROUNDING)


class InOrder:
    """The draws of a stream, written out: rows in order, each once; coins as in `samplers.Page`."""

    def __init__(self, data: tuple[Any, ...], recursive: bool, b: int, b_small: int, draws: int):
        self.data, self.recursive, self.draws = data, recursive, draws
        self.b, self.b_small, self.at, self.drawn = b, b_small, 0, 0

    def take(self, size: int) -> StreamBatch:
        assert self.at + size <= len(self.data[1])
        part = slice(self.at, self.at + size)
        self.at += size
        return StreamBatch(tuple(a[part] for a in self.data), size)

    def large(self, rng: np.random.Generator) -> StreamBatch:
        return self.take(self.b)

    def draw(self, rng: np.random.Generator) -> tuple[StreamBatch, bool]:
        fallen = not self.recursive or rng.random() < self.b_small / (self.b + self.b_small)
        refresh = bool(fallen or self.drawn // self.draws + 1 in (8, 64))
        self.drawn += 1
        return self.take(self.b if refresh else self.b_small), refresh


@pytest.mark.parametrize("order", ["forward", "shuffled"])
@pytest.mark.parametrize("method", METHODS[1:])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_every_cycle_of_a_stream_is_the_papers(loss: str, method: str, order: str) -> None:
    case, chosen, b, K = Case(loss, n=1500, seed=4), as_method(method, True), 36, 14
    data = (case.X, case.y, case.weight, case.offset)
    features = Features(11, 2, fit_intercept=True, joined=chosen.one_block)
    m, index = features.layout.m, features.layout.flat_index()
    recursive = chosen.draws == "page"
    small, large = (6, b) if recursive else (b, 2 * b)

    def as_rows(batch: StreamBatch) -> Rows:
        X, y, s, offset = batch.data
        return Rows(X, y, s / s.sum(), offset, features.members)

    def measured(batch: StreamBatch, j: int) -> np.ndarray:
        return diagonal(as_rows(batch), j, case.loss.bound, float(small), n=np.inf)

    draws = m if chosen.resample == "block" else 1
    first = InOrder(data, recursive, b, small, draws).take(b)
    Lambda = [measured(first, j) for j in range(m)]
    begun = False

    def grad(x: np.ndarray, batch: StreamBatch, j: int) -> np.ndarray:
        nonlocal begun
        X, y, s, offset = batch.data
        z = X @ x[:11] + x[11] + offset
        slopes = s / s.sum() * case.loss.gradient(y, z)
        if batch.size >= large and (begun or not recursive):  # g_{−1} is formed before any step
            Lambda[j] = np.maximum(Lambda[j], measured(batch, j))
        begun = begun or j == m - 1
        return np.append(X.T @ slopes, slopes.sum())[index[j]]

    x0 = np.append(np.zeros(11), null_intercept(case.loss, as_rows(first)))
    twin = reference.run(
        grad, x0, index, by_blocks(PENALTY, features).prox,
        Sizes(Lambda, falling(1.0, 64.0) if not recursive else 1.0),
        InOrder(data, recursive, b, small, draws), as_order(order, m), K=K,
        resample=chosen.resample, rng=np.random.default_rng(6),
    )  # fmt: skip
    stream = RowStream(loss, PENALTY, method=method, b=b, blocks=2, order=order, seed=6)
    seen, i = 0, 0
    while stream.cycles < K:
        stream.partial_fit(
            case.X[i : i + 3], case.y[i : i + 3], case.weight[i : i + 3], case.offset[i : i + 3]
        )
        i += 3
        if i > b:
            seen += 1
            found = np.append(stream.coef, stream.intercept)
            np.testing.assert_allclose(found, twin.x[stream.cycles], atol=ROUNDING)
    assert seen > K
