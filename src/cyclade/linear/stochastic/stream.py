"""Rows as they come: the stochastic methods on a stream, with everything kept between calls."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from cyclade._arrays import Array
from cyclade.core import State, start
from cyclade.counting import Counting
from cyclade.linear import losses
from cyclade.linear.api import as_data, as_penalty
from cyclade.linear.panels.protocols import as_design
from cyclade.linear.stochastic.oracle import Features, LinearOracle
from cyclade.linear.stochastic.separable import by_blocks
from cyclade.linear.stochastic.setup import (
    count_outputs,
    default_blocks,
    default_eta,
    is_early,
    make_steps,
    null_intercept,
    read_point,
    shaped_offset,
)
from cyclade.linear.stochastic.steps import Growing
from cyclade.methods import Method, as_method
from cyclade.orders import as_order
from cyclade.returned_iterate import Best, Last
from cyclade.run import Runner
from cyclade.run_parts import Carried, EveryCycles, Limits, Setup
from cyclade.samplers import Batch, Sample, coin, page_defaults

LARGE = 512
"""The large batch of a stream, as in the paper's experiments."""


class Waiting:
    """A sampler over rows that have come and were not used yet, each once, in order.

    The coins of the next cycle are tossed before it begins, so that it begins only when enough rows
    wait: how the stream is cut into chunks changes nothing.
    """

    def __init__(self, method: Method, b: int, b_small: int, p: float) -> None:
        self.recursive = method.draws == "page"
        self.b, self.b_small, self.p = b, b_small, p if self.recursive else 1.0
        self.chunks: list[tuple[Any, ...]] = []
        self.rows = 0
        self.coins: list[bool] = []
        self.tossed = 0

    def add(self, *chunk: Any) -> None:
        """Rows (X, y, weights, offset) join the queue."""
        if chunk[0].shape[0]:
            self.chunks.append(chunk)
            self.rows += chunk[0].shape[0]

    def ready(self, draws: int, rng: np.random.Generator) -> bool:
        """Whether the rows of a cycle with so many draws are there."""
        while len(self.coins) < draws:
            early = is_early(self.tossed // draws + 1)
            self.coins.append(coin(rng, self.p) or early)
            self.tossed += 1
        return self.rows >= sum(self.b if coin else self.b_small for coin in self.coins)

    def large(self, rng: np.random.Generator) -> Sample:
        """The next b rows."""
        return self._take(self.b)

    def draw(self, rng: np.random.Generator) -> tuple[Sample, bool]:
        """The next b or b' rows, as the coin has fallen."""
        refresh = self.coins.pop(0)
        return self._take(self.b if refresh else self.b_small), refresh

    def size(self, sample: Sample) -> float:
        """How many rows."""
        return float(sample.size)

    def first(self) -> Batch:
        """The next b rows, which stay."""
        kept, rows = list(self.chunks), self.rows
        batch = self._take(self.b)
        self.chunks, self.rows = kept, rows
        return batch

    def _take(self, size: int) -> Batch:
        parts, missing = [], size
        while missing:
            chunk = self.chunks.pop(0)
            have = chunk[0].shape[0]
            if have > missing:
                self.chunks.insert(0, tuple(_cut(a, missing, have) for a in chunk))
                chunk = tuple(_cut(a, 0, missing) for a in chunk)
            parts.append(chunk)
            missing -= chunk[0].shape[0]
        self.rows -= size
        return Batch(tuple(_joined(column) for column in zip(*parts, strict=True)), size)


class RowStream:
    """A linear model fitted to rows as they come, each used once.

        F(x, c) = E φ(y, a·x + c + offset) + r(x)

    Parameters
    ----------
    loss, penalty, lam, fit_intercept:
        As in `cyclade.linear.solve`.
    method:
        "VRO-CCD", "VR-CCD", "SCCD", "PAGE" or "SGD".
    b, b_small, p:
        Large and small batch, and the probability of a large one. Defaults: b = 512, or the rows of
        the first call if they are fewer; b' = ⌊√b⌋; p = b'/(b + b').
    blocks, eta, order:
        As in `solve_rows`. Λ_j is measured on the first b rows, and raised where a later large
        batch shows more curvature.
    outputs:
        The number of classes, which the first rows may not show.
    seed:
        Same seed and same rows, same trajectory, however the rows are cut into calls (if `b` is
        given).

    Attributes
    ----------
    coef, intercept:
        Where the method stands. Zero before b rows have come.
    cycles, rows_used, rows_waiting:
        Cycles done, rows used, and rows kept for the next cycle.

    Weights are relative within a batch. Rows of weight zero are dropped. `copy.deepcopy`, `pickle`
    and ``get_state`` / ``set_state`` resume exactly. Ctrl-C ends a call between two cycles, and the
    next call goes on from there.

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear.penalties import L1
    >>> rng, stream = np.random.default_rng(0), RowStream("squared", L1(0.1), seed=0)
    >>> for _ in range(40):
    ...     X = rng.normal(size=(250, 5))
    ...     stream = stream.partial_fit(X, 2.0 * X[:, 0] + 1.0)
    >>> stream.coef.round(1), round(stream.intercept, 1)
    (array([1.9, 0. , 0. , 0. , 0. ]), 1.0)
    """

    def __init__(
        self,
        loss: Any = "squared",
        penalty: Any = "l1",
        *,
        lam: float | None = None,
        method: str = "VRO-CCD",
        fit_intercept: bool = True,
        b: int | None = None,
        b_small: int | None = None,
        p: float | None = None,
        blocks: Any = None,
        eta: float | None = None,
        order: Any = "forward",
        outputs: int | None = None,
        seed: int = 0,
    ) -> None:
        self.loss, self.penalty = losses.get(loss), as_penalty(penalty, lam)
        self.method = as_method(method, True)
        if self.method.deterministic:
            raise ValueError("method: P-CCD needs all rows at once; use solve, or VRO-CCD here")
        for name, size in (("b", b), ("b_small", b_small)):
            if size is not None and (int(size) != size or size < 1):
                raise ValueError(f"{name}: must be a whole number of rows >= 1, got {size!r}")
        if p is not None and not 0.0 < p <= 1.0:
            raise ValueError(f"p: must be in (0, 1], got {p}")
        self.fit_intercept, self.outputs, self.seed = fit_intercept, outputs, seed
        self.b, self.b_small, self.p = b, b_small, p
        self.blocks, self.eta, self.order = blocks, eta, order
        self.rows_used = 0
        self._features: Features | None = None
        self._dtype: Any = None
        self._sparse: bool | None = None
        self._sampler: Waiting | None = None
        self._state: State | None = None
        self._steps: dict[str, Any] = {}

    def partial_fit(
        self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None
    ) -> RowStream:
        """Take these rows, and make as many cycles as they (with those waiting) allow."""
        design = as_design(X)
        y, s, offset = as_data(design, y, self.loss, sample_weight, offset)
        if self._features is None:
            self._begin(design, y)
        features, sampler = self._features, self._sampler
        assert features is not None
        assert sampler is not None
        if design.p != features.p:
            raise ValueError(f"X: has {design.p} columns, but earlier rows had {features.p}")
        if count_outputs(self.loss, y, features.outputs) != features.outputs:
            raise ValueError(f"y: must have {features.outputs or 1} outputs or classes, as before")
        shifts = shaped_offset(offset, features.outputs)
        if shifts is None:
            shifts = np.zeros((design.n,) if features.outputs is None else (design.n, 1))
        rows = self._stored(X)
        kept = slice(None) if (s > 0).all() else np.flatnonzero(s)
        # s sums to one over this call; in a batch, rows of several calls weigh as they were given.
        total = design.n if sample_weight is None else float(np.sum(sample_weight))
        sampler.add(rows[kept], y[kept], s[kept] * total, shifts[kept])
        self._go(features, sampler)
        return self

    def _stored(self, X: Any) -> Any:
        """A copy of the rows, dense or CSR as the first ones were."""
        sparse = callable(getattr(X, "tocsr", None))
        if self._sparse is None:
            self._sparse = sparse
        if not self._sparse:
            return X.toarray() if sparse else np.array(X)
        from scipy.sparse import csr_matrix

        return csr_matrix(X, copy=True)

    def _begin(self, design: Any, y: Array) -> None:
        """The first call settles blocks and batches."""
        outputs = count_outputs(self.loss, y, self.outputs)
        blocks = default_blocks(self.penalty, design.p) if self.blocks is None else self.blocks
        self._features = Features(
            design.p, blocks, fit_intercept=self.fit_intercept, outputs=outputs,
            joined=self.method.one_block,
        )  # fmt: skip
        self._dtype = design.given
        b = min(LARGE, design.n) if self.b is None else self.b
        most = None if self.b_small is None else min(self.b_small, b)
        self._sampler = Waiting(self.method, b, *page_defaults(b, most, self.p))

    def _go(self, features: Features, sampler: Waiting) -> None:
        """All cycles that the waiting rows allow."""
        before = sampler.rows
        empty = np.zeros((0, features.p)), np.zeros(0)
        oracle = LinearOracle(*empty, self.loss, features, total=1.0)
        small = float(sampler.b_small if sampler.recursive else sampler.b)
        eta = default_eta(self.method, 64.0) if self.eta is None else self.eta
        large = sampler.b if sampler.recursive else 2 * sampler.b  # none, if all are b
        steps = make_steps(
            Growing, self.loss, features, self.penalty, small, math.inf, eta, large
        )  # fmt: skip
        if self._state is None:
            if sampler.rows < sampler.b:
                return
            batch = sampler.first()
            _, y, s, offset = batch.data
            best = null_intercept(self.loss, y, s, offset) if features.fit_intercept else None
            x0 = features.point(None, best)
            steps.prepare(oracle.sweep(x0.copy(), batch))
            self._state = start(oracle, x0, sampler, np.random.default_rng(self.seed))
        else:
            steps.recall(self._steps)
        state, m = self._state, features.layout.m
        draws = m if self.method.resample == "block" else 1
        setup = Setup(
            Counting(oracle, sampler, features.layout.shares()),
            by_blocks(self.penalty, features, fast=True), steps, sampler, as_order(self.order, m),
            None, self.method.resample, visits_all=False,
            ready=lambda: sampler.ready(draws, state.sample_rng),
        )  # fmt: skip
        carried = Carried(self.method.name, state, {}, Last(), Best(), None)
        ending = Runner(setup, carried, Limits(), EveryCycles(1)).run()
        self._steps = carried.steps
        self.rows_used += before - sampler.rows
        if ending.interrupted:
            raise KeyboardInterrupt
        if not ending.resumable:
            raise FloatingPointError(f"the stream {ending.message}")

    @property
    def coef(self) -> Array:
        """The coefficients, (p,) or (p, T)."""
        return self._read()[0]

    @property
    def intercept(self) -> Any:
        """The intercept: a number, or (T,)."""
        return self._read()[1]

    @property
    def cycles(self) -> int:
        """Cycles done."""
        return 0 if self._state is None else self._state.k

    @property
    def rows_waiting(self) -> int:
        """Rows kept for the next cycle."""
        return 0 if self._sampler is None else self._sampler.rows

    def _read(self) -> tuple[Array, Any]:
        if self._features is None:
            raise AttributeError("no rows have come yet: call partial_fit first")
        x = self._features.point() if self._state is None else self._state.x
        return read_point(self._features, x, self._dtype)

    def get_state(self) -> dict[str, Any]:
        """Everything, as a dict that pickles; `set_state` goes on from it exactly."""
        return copy.deepcopy(vars(self))

    def set_state(self, state: dict[str, Any]) -> RowStream:
        """Go on from what `get_state` gave."""
        if not isinstance(state, dict) or set(state) != set(vars(self)):
            raise ValueError("state: must be what get_state() of a RowStream gave")
        vars(self).update(copy.deepcopy(state))
        return self


def _cut(a: Any, start: int, stop: int) -> Any:
    return a[start:stop]


def _joined(parts: tuple[Any, ...]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    from scipy.sparse import vstack

    return vstack(parts, format="csr")
