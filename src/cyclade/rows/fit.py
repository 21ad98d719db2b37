"""The stochastic methods on the rows of a linear model, for n too large for many passes.

`solve_rows` takes a table, `RowStream` rows as they come, with everything kept between calls. Both
are arguments to `cyclade.run.runner.Runner`, which stops, records and resumes. Labels must be what
the loss takes: −1 and 1, or class codes 0, …, T − 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from cyclade._arrays import Array
from cyclade._checks import probability, whole_number
from cyclade.linear import losses, penalties
from cyclade.linear.checks import as_start
from cyclade.linear.losses import LossLike, LossName
from cyclade.linear.problem import as_design
from cyclade.linear.results import Certificate
from cyclade.methods import as_method, make_sampler
from cyclade.rows.compiled import compiled_cycles
from cyclade.rows.oracle import Features, LinearOracle, as_rows
from cyclade.rows.setup import (
    Certifier,
    EarlyRefresh,
    FewRows,
    Model,
    Queue,
    as_targets,
    default_blocks,
    small_batch,
)
from cyclade.rows.tuning import TUNING
from cyclade.run.arguments import as_carried
from cyclade.run.result import Report
from cyclade.run.runner import Carried, Runner
from cyclade.run.stopping import EveryCycles, EverySamples, Limits
from cyclade.sampling.samplers import ALL, Page, page_defaults

__all__ = ["RowStream", "RowsSolution", "solve_rows"]


@dataclass
class RowsSolution:
    """A fit by rows.

    Attributes
    ----------
    coef, intercept, objective:
        The iterate that reached the tolerance, or at which the callback stopped the run; else the
        evaluated one with the smallest F.
    certificate:
        Measured over all rows and columns at that iterate.
    epochs, cycles:
        Component gradients evaluated, divided by n; cycles made.
    method, message:
        The method, by its name in the paper; why the run stopped.
    history:
        One row per evaluation: cycles, epochs, objective, and the gap or distance.
    state:
        What ``solve_rows(..., resume=solution.state)`` goes on from, exactly; it pickles. None if
        the run diverged.
    """

    coef: Array
    intercept: Any
    objective: float
    certificate: Certificate
    epochs: float
    cycles: int
    method: str
    message: str
    history: list[dict[str, float]] = field(repr=False)
    state: Carried | None = field(repr=False)


def solve_rows(
    X: Any,
    y: Any,
    loss: LossName | LossLike = "squared",
    penalty: Any = "l1",
    *,
    alpha: float | None = None,
    method: str = "VRO-CCD",
    sample_weight: Any = None,
    offset: Any = None,
    fit_intercept: bool = True,
    coef: Any = None,
    intercept: Any = None,
    b: int | None = None,
    b_small: int | None = None,
    p: float | None = None,
    blocks: Any = None,
    eta: Any = None,
    order: Any = "forward",
    outputs: int | None = None,
    epochs: float = 20.0,
    tol: float = 1e-4,
    every: float = 1.0,
    seed: int = 0,
    callback: Callable[[dict[str, float]], Any] | None = None,
    resume: Carried | None = None,
) -> RowsSolution:
    """Minimise F(x, c) = Σ_i s_i φ(y_i, z_i) / Σ_i s_i + r(x) from samples of the rows.

    Parameters
    ----------
    X, y, loss, penalty, alpha, sample_weight, offset, fit_intercept, coef, intercept:
        As in `cyclade.linear.solve`; sparse X is best in CSR. Without a start the intercept begins
        at its best value for x = 0 (at 0 with several outputs).
    method:
        "VRO-CCD", "VR-CCD", "SCCD", "PAGE", "SGD" or "P-CCD".
    b, b_small, p:
        Large and small batch, and the probability of a large one. Defaults: b = n; b' = √b, up to
        2√b where there are many rows; p = b'/(b + b'); 128 for SCCD and SGD. Cycles 8 and 64 take a
        large sample for sure (`tuning.Tuning.early_refreshes` says why).
    blocks:
        Of the features: a number, sizes or index lists. Default: 2 runs of columns, or of groups.
        The intercept is a block of its own. PAGE and SGD move everything at once.
    eta:
        The step of block j is η Λ_j^{−1}. By default Λ_j is searched on the samples (`RowSearch`),
        and η follows from b, b' and p; it falls as 1/√epochs for SCCD and SGD. Where F rises, η is
        halved, and the run goes on from its best iterate. "theory": Λ_j is `diagonal`, η = 1 and
        b' = ⌊√b⌋. A number, or a function of the cycles done, is η with that Λ_j.
    order:
        Of the blocks, as in `cyclade.minimize`.
    outputs:
        T, the number of classes, where y might not show all of them.
    epochs, tol, every:
        Stop after so many times n component gradients, or when the certificate is within `tol`
        (as in `solve`), which is measured every so many epochs, over all rows.
    seed:
        Same seed, same trajectory.
    callback:
        Called with each row of the history but that of the start; return True to stop.
    resume:
        The `state` of an earlier solution: go on as if it had not stopped. Other arguments must be
        as they were, but for the limits.

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear.penalties import L1
    >>> X = np.random.default_rng(0).normal(size=(2_000, 20))
    >>> y = X[:, 0] - 2.0 * X[:, 1]
    >>> fit = solve_rows(X, y, "squared", L1(0.1), tol=1e-3)
    >>> fit.certificate.reached, np.flatnonzero(fit.coef)
    (True, array([0, 1]))
    """
    loss, penalty, chosen = losses.get(loss), penalties.get(penalty, alpha), as_method(method, True)
    design, rows = as_design(X), as_rows(X)
    y, s, offset, outputs = as_targets(design, y, loss, sample_weight, offset, outputs)
    coef, intercept = as_start(design.p, coef, intercept)
    if not epochs >= 0:
        raise ValueError(f"epochs: must be at least 0, got {epochs}")
    if not every > 0:
        raise ValueError(f"every: must be a positive number of epochs, got {every}")
    if isinstance(eta, str) and eta != "theory":
        raise ValueError(f"eta: must be a number, a function or 'theory', got {eta!r}")
    n = design.n
    blocks = default_blocks(penalty, design.p) if blocks is None else blocks
    features = Features(
        design.p, blocks, fit_intercept=fit_intercept, outputs=outputs, joined=chosen.one_block
    )
    model, source = Model(loss, penalty, chosen, features), FewRows(n)
    carried = None if resume is None else as_carried(resume, chosen, features.layout, source)
    searches = eta is None and not chosen.deterministic
    if searches and chosen.draws == "page" and b_small is None:
        b_small = small_batch(n if b is None else b)
    sampler = make_sampler(chosen, source, b, b_small, p)
    small = float(getattr(sampler, "b_small", getattr(sampler, "b", n)))
    if isinstance(sampler, Page):
        sampler = EarlyRefresh(sampler, model.draws, 0 if carried is None else carried.state.k)
    steps = (
        model.search(sampler, n) if searches
        else model.steps(small, float(n), eta, n / small, large=float(n))
    )  # fmt: skip
    oracle = LinearOracle(rows, y, loss, features, sample_weight=s, offset=offset)
    setup = model.setup(oracle, sampler, steps, order, ALL)
    certifier = Certifier(oracle, design, penalty, tol)
    setup.measure, setup.guarded = certifier.measure, searches
    if carried is None:
        carried = model.begin(setup, ALL, seed, coef, intercept, float(n))
    else:
        steps.recall(carried.steps)

    def row(i: int) -> dict[str, float]:
        """Row i of the history."""
        of = {name: float(column[i]) for name, column in carried.history.items()}
        seen = {"cycles": of["cycle"], "epochs": of["samples"] / n, "objective": of["fun"]}
        return seen | {certifier.kind: of["squared_distance"]}

    def told(report: Report) -> Any:
        """Runners call back after each cycle; here it is done where F was looked at."""
        if callback is None or carried.history["cycle"][-1] != report.cycle:
            return False
        return callback(row(-1))

    limits = Limits(max_samples=epochs * n)
    watched = None if callback is None else told
    runner = Runner(setup, carried, limits, EverySamples(every * n), watched)

    def due() -> float:
        """The component gradients at which F is looked at next."""
        first, last = (carried.history["samples"][i] for i in (0, -1))
        rounds = math.floor((last - first) / n / every * (1 + 1e-12)) + 1
        return float(min(first + rounds * n * every, epochs * n) * (1 - 1e-12))

    setup.iterate = compiled_cycles(model, oracle, setup, due)
    ending = runner.run()
    if ending.status == "interrupted":
        raise KeyboardInterrupt
    return RowsSolution(
        *features.fitted(ending.x, design.given), *certifier(ending.x), carried.gradients / n,
        carried.state.k, chosen.name, ending.message,
        [row(i) for i in range(len(carried.history["cycle"]))],
        carried if ending.resumable else None,
    )  # fmt: skip


@dataclass(eq=False, repr=False)
class RowStream:
    """A linear model fitted to rows as they come, each used once.

        F(x, c) = E φ(y, a·x + c + offset) + r(x)

    Parameters
    ----------
    loss, penalty, alpha, fit_intercept:
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

    Weights are relative within a batch. Rows of weight zero are dropped. What `copy.deepcopy` and
    `pickle` return goes on exactly. Ctrl-C ends a call between two cycles, and the next call goes
    on from there.

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

    loss: Any = "squared"
    penalty: Any = "l1"
    _: KW_ONLY
    alpha: float | None = None
    method: Any = "VRO-CCD"
    fit_intercept: bool = True
    b: int | None = None
    b_small: int | None = None
    p: float | None = None
    blocks: Any = None
    eta: float | None = None
    order: Any = "forward"
    outputs: int | None = None
    seed: int = 0
    rows_used: int = field(default=0, init=False)
    _model: Model | None = field(default=None, init=False)
    _queue: Queue | None = field(default=None, init=False)
    _carried: Carried | None = field(default=None, init=False)
    _dtype: Any = field(default=None, init=False)
    _sparse: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.loss, self.penalty = losses.get(self.loss), penalties.get(self.penalty, self.alpha)
        self.method = as_method(self.method, True)
        if self.method.deterministic:
            raise ValueError("method: P-CCD needs all rows at once; use solve, or VRO-CCD here")
        for name, size in (("b", self.b), ("b_small", self.b_small)):
            if size is not None:
                whole_number(name, size, 1)
        if self.p is not None:
            probability("p", self.p)

    def partial_fit(
        self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None
    ) -> RowStream:
        """Take these rows, and make as many cycles as they (with those waiting) allow."""
        design, sparse = as_design(X), callable(getattr(X, "tocsr", None))
        known = self.outputs if self._model is None else self._model.features.outputs
        y, s, shifts, outputs = as_targets(design, y, self.loss, sample_weight, offset, known)
        if self._model is None or self._queue is None:
            self._dtype, self._sparse = design.given, sparse
            self._model, self._queue = self._first(design, outputs)
        features = self._model.features
        if design.p != features.p:
            raise ValueError(f"X: has {design.p} columns, but earlier rows had {features.p}")
        if outputs != features.outputs:
            raise ValueError(f"y: must have {features.outputs or 1} outputs or classes, as before")
        if shifts is None:
            shifts = np.zeros((design.n,) if outputs is None else (design.n, 1))
        kept = slice(None) if (s > 0).all() else np.flatnonzero(s)
        # s sums to one over this call; in a batch, rows of several calls weigh as they were given.
        total = design.n if sample_weight is None else float(np.sum(sample_weight))
        self._queue.add(self._stored(X, sparse)[kept], y[kept], s[kept] * total, shifts[kept])
        self._run(self._model, self._queue)
        return self

    def _first(self, design: Any, outputs: int | None) -> tuple[Model, Queue]:
        """The first call settles blocks and batches."""
        blocks = default_blocks(self.penalty, design.p) if self.blocks is None else self.blocks
        features = Features(
            design.p, blocks, fit_intercept=self.fit_intercept, outputs=outputs,
            joined=self.method.one_block,
        )  # fmt: skip
        model = Model(self.loss, self.penalty, self.method, features)
        b = min(TUNING.stream_batch, design.n) if self.b is None else self.b
        b_small, p = page_defaults(b, self.b_small and min(self.b_small, b), self.p)
        return model, Queue(self.method.draws == "page", b, b_small, p, model.draws)

    def _stored(self, X: Any, sparse: bool) -> Any:
        """A copy of the rows, dense or CSR as the first ones were."""
        if sparse and not self._sparse:
            return as_rows(X.toarray())
        if self._sparse and not sparse:
            from scipy.sparse import csr_matrix

            X = csr_matrix(X)
        return as_rows(X).copy()

    def _run(self, model: Model, queue: Queue) -> None:
        """All cycles that the waiting rows allow."""
        if self._carried is None and queue.rows < queue.b:
            return
        before, nothing = queue.rows, np.zeros((0, model.features.p))
        oracle = LinearOracle(nothing, np.zeros(0), self.loss, model.features, total=1.0)
        sizes = (queue.b_small, queue.b) if queue.recursive else (queue.b, math.inf)
        steps = model.steps(sizes[0], math.inf, self.eta, TUNING.stream_epoch, large=sizes[1])
        setup = model.setup(oracle, queue, steps, self.order, None)
        if self._carried is None:
            self._carried = model.begin(setup, queue.first(), self.seed)
        else:
            steps.recall(self._carried.steps)
        rng = self._carried.state.sample_rng
        setup.ready = lambda: queue.ready(rng)
        ending = Runner(setup, self._carried, Limits(), EveryCycles(1)).run()
        self.rows_used += before - queue.rows
        if ending.status == "interrupted":
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
        return 0 if self._carried is None else self._carried.state.k

    @property
    def rows_waiting(self) -> int:
        """Rows kept for the next cycle."""
        return 0 if self._queue is None else self._queue.rows

    def _read(self) -> tuple[Array, Any]:
        if self._model is None:
            raise AttributeError("no rows have come yet: call partial_fit first")
        features = self._model.features
        x = features.point() if self._carried is None else self._carried.state.x
        return features.fitted(x, self._dtype)
