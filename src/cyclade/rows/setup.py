"""What `solve_rows` and `RowStream` share: a model, its defaults, draws, how a run begins."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cyclade._arrays import Array
from cyclade.blocks import Point
from cyclade.core import start
from cyclade.linear.checks import as_data
from cyclade.linear.penalties import L1, BlockPenalty
from cyclade.linear.problem import Problem, as_design, as_problems
from cyclade.linear.results import Certificate, both
from cyclade.linear.state import measure
from cyclade.linear.working_set import scale_of_distance
from cyclade.methods import Method
from cyclade.oracles.counting import Counting
from cyclade.rows.kernels import distinct
from cyclade.rows.oracle import Features, LinearOracle, by_blocks, refuse_joined
from cyclade.rows.steps import RowSearch, RowSteps
from cyclade.rows.sweep import Rows
from cyclade.rows.tuning import TUNING
from cyclade.run.runner import Carried, Evaluation, Setup
from cyclade.run.stopping import Best
from cyclade.sampling.orders import Greedy, Random, as_order
from cyclade.sampling.samplers import ALL, FiniteSum, Page, Sample, Sampler, StreamBatch, coin
from cyclade.steps.searched import falling, rate_and_large


@dataclass
class Model:
    """A loss, a penalty and a method on the features of a linear model."""

    loss: Any
    penalty: Any
    method: Method
    features: Features

    @property
    def draws(self) -> int:
        """Samples drawn in a cycle."""
        return self.features.layout.m if self.method.resample == "block" else 1

    def steps(self, b_small: float, n: float, eta: Any, per_epoch: float, large: float) -> RowSteps:
        """Bounds for samples of b' out of n rows; η is 1 unless given, falling for SCCD and SGD."""
        if eta is None or isinstance(eta, str):
            eta = falling(1.0, per_epoch) if self.method.draws == "minibatch" else 1.0
        even, features = isinstance(self.penalty, BlockPenalty), self.features
        return RowSteps(
            self.loss.bound, features.layout.m, b_small, n, features.width, even, eta, large
        )

    def search(self, sampler: Any, n: int) -> RowSearch:
        """Steps that are searched on the samples, but for those of b rows."""
        even = isinstance(self.penalty, BlockPenalty)
        return RowSearch(self.features, sampler.b_small, n, even, *rate_and_large(sampler))

    def setup(
        self, oracle: LinearOracle, sampler: Sampler, steps: Any, order: Any,
        evaluation_sample: Sample,
    ) -> Setup:  # fmt: skip
        """What a `Runner` runs."""
        turns = as_order(order, self.features.layout.m)
        return Setup(
            Counting(oracle, sampler, self.features.layout.shares()),
            by_blocks(self.penalty, self.features, fast=True), steps, sampler, turns,
            evaluation_sample, self.method.resample,
            visits_all=not isinstance(turns, Random | Greedy),
        )  # fmt: skip

    def begin(
        self, setup: Setup, first: Sample, seed: int, coef: Any = None, intercept: Any = None,
        n: float = 1.0,
    ) -> Carried:  # fmt: skip
        """A run at its start; steps are prepared on the rows of the sample `first`."""
        oracle: LinearOracle = setup.oracle.oracle
        one_output = self.features.outputs is None
        if self.features.fit_intercept and one_output and coef is None and intercept is None:
            intercept = null_intercept(self.loss, oracle.rows(first))
        x0 = self.features.point(coef, intercept)
        setup.steps.prepare(oracle.sweep(x0.copy(), first))
        state, best = start(setup.oracle, x0, setup.sampler, np.random.default_rng(seed)), Best()
        carried = Carried(self.method.name, state, {}, best, best, setup.evaluation_sample, n=n)
        carried.gradients = setup.oracle.gradients
        return carried


def default_blocks(penalty: Any, p: int) -> Any:
    """Two runs of columns; for groups, sets of whole groups."""
    refuse_joined(penalty)
    if not isinstance(penalty, BlockPenalty):
        return min(TUNING.blocks, p)
    groups = penalty.blocks(p)
    parts = np.array_split(np.arange(len(groups)), min(TUNING.blocks, len(groups)))
    return [np.concatenate([groups[k] for k in part]) for part in parts]


def as_targets(
    design: Any, y: Any, loss: Any, sample_weight: Any, offset: Any, outputs: int | None
) -> tuple[Array, Array, Array | None, int | None]:
    """Checked y, weights that sum to one, offsets in the shape of z (None: zero), and T.

    T is None where z is a vector. `outputs` is the number of classes that y might not show.
    """
    y, s, shifts = as_data(design.n, y, loss, sample_weight, offset)
    if loss.target == "classes":
        outputs = max(int(y.max()) + 1, outputs or 0)
    else:
        outputs = int(y.shape[1]) if y.ndim == 2 else None
    if not shifts.any():
        return y, s, None, outputs
    return y, s, shifts[:, None] if outputs is not None and shifts.ndim == 1 else shifts, outputs


def null_intercept(loss: Any, rows: Rows) -> Any:
    """The best intercept at x = 0, or None where there is none: a single class.

    From there a column that is constant, or nearly so, has no gradient to begin with. Started at
    zero it would share the intercept's way, and the penalty would bring it back slowly. Where φ''
    has no bound, steps far from this intercept would be tiny.
    """
    if loss.target == "signs" and np.ptp(rows.y) == 0:
        return None
    design, data = as_design(np.zeros((rows.n, 1))), (rows.weight, rows.offset, True)
    return as_problems(design, rows.y, loss, L1(1.0), data)[0].null.c


class Certifier:
    """Maps x to F(x) and its certificate, which is what `solve` measures at the same point."""

    def __init__(self, oracle: LinearOracle, design: Any, penalty: Any, tol: float) -> None:
        self.features, rows = oracle.features, oracle.rows(ALL)
        shape, offset = (design.p, self.features.width), rows.offset
        if offset is not None and offset.ndim == 2:
            offset = np.broadcast_to(offset, (rows.n, self.features.width))
        data = (rows.weight, offset, self.features.fit_intercept)
        self.problems = as_problems(design, rows.y, oracle.loss, penalty, data, np.zeros(shape))
        self.kind = "gap" if self.problems[0].has_dual else "distance"
        self._last: Any = (None, math.inf, None)
        scales = (p.null.scale if p.has_dual else scale_of_distance(p) for p in self.problems)
        self.tolerances = [tol * scale for scale in scales]

    def __call__(self, x: Point) -> tuple[float, Certificate]:
        """F(x) and its certificate; what was found last is kept."""
        if self._last[0] is not x.stamp:
            self._last = (x.stamp, *self._measured(x))
        return self._last[1], self._last[2]

    def _measured(self, x: Point) -> tuple[float, Certificate]:
        coef, c = self.features.fitted(x, np.float64)
        points = zip(coef.T, c, strict=True) if len(self.problems) > 1 else [(coef, c)]
        outputs = zip(self.problems, self.tolerances, points, strict=True)
        found = [self._output(problem, tol, *point) for problem, tol, point in outputs]
        return sum(objective for objective, _ in found), both([each for _, each in found])

    def _output(self, problem: Problem, tolerance: float, coef: Any, c: Any) -> Any:
        x = problem.penalty.by_blocks(coef)
        now = measure(problem, x, problem.loss_at(problem.predict(x, c)))
        value = max(now.objective - now.dual, 0.0) if problem.has_dual else now.certified
        return now.objective, Certificate(self.kind, value, tolerance)  # type: ignore[arg-type]

    def measure(self, x: Point) -> Evaluation:
        """F and the certificate, as a `Runner` takes them."""
        try:
            objective, found = self(x)
        except FloatingPointError:  # the gradient overflowed: a run that diverged
            return Evaluation(math.inf, math.inf, math.inf, math.inf)
        reached = f"{found.kind} ≤ {found.tolerance:.3g}" if found.reached else None
        return Evaluation(objective, objective, found.value, found.value, reached=reached)


def small_batch(b: int) -> int:
    """The default b' where steps are searched.

    >>> small_batch(10_000), small_batch(250_000)
    (100, 1000)
    """
    least, most, scale = TUNING.batch
    return math.isqrt(round(b * min(max(least, math.sqrt(b) / scale), most) ** 2))


class FewRows(FiniteSum):
    """`FiniteSum`, with draws that cost the time of the rows drawn, not of n."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self._places = np.arange(n)

    def take(self, size: int, rng: np.random.Generator) -> Sample:
        """`size` distinct rows; all of them are simply `ALL`."""
        if size == self.n:
            return ALL
        out = np.empty(size, np.int64)
        distinct(rng, self._places, out)
        return out


class EarlyRefresh(Page):
    """`Page` with a large sample for sure in the cycles `TUNING.early_refreshes`."""

    def __init__(self, page: Page, draws: int, done: int = 0) -> None:
        super().__init__(page.source, page.b, page.b_small, page.p)
        self.draws, self.drawn = draws, done * draws  # draws in a cycle, and so far
        self.early = TUNING.early_refreshes

    def draw(self, rng: np.random.Generator) -> tuple[Sample, bool]:
        """The coin, or a large sample early on."""
        refresh = coin_or_early(rng, self.p, self.drawn // self.draws + 1)
        self.drawn += 1
        return self.source.take(self.b if refresh else self.b_small, rng), refresh


def coin_or_early(rng: np.random.Generator, p: float, cycle: int) -> bool:
    """The coin of a draw in cycle `cycle` (from 1); it is tossed in any case."""
    return coin(rng, p) or cycle in TUNING.early_refreshes


class Queue:
    """A sampler over rows that have come and were not used yet, each once, in order.

    The coins of the next cycle are tossed before it begins, so that it begins only when enough rows
    wait: how the stream is cut into chunks changes nothing.
    """

    def __init__(self, recursive: bool, b: int, b_small: int, p: float, draws: int) -> None:
        self.recursive, self.draws = recursive, draws
        self.b, self.b_small, self.p = b, b_small, p if recursive else 1.0
        self.waiting: tuple[Any, ...] | None = None  # X, y, weights, offset; used from `at` on
        self.at, self.tossed, self.coins = 0, 0, list[bool]()

    @property
    def rows(self) -> int:
        """Rows that wait."""
        return 0 if self.waiting is None else len(self.waiting[1]) - self.at

    def add(self, *chunk: Any) -> None:
        """Rows (X, y, weights, offset) join the queue."""
        if self.rows and self.waiting is not None:
            pairs = zip(self.waiting, chunk, strict=True)
            chunk = tuple(_joined(old[self.at :], new) for old, new in pairs)
        self.waiting, self.at = chunk, 0

    def ready(self, rng: np.random.Generator) -> bool:
        """Whether the rows of a cycle are there."""
        while len(self.coins) < self.draws:
            self.coins.append(coin_or_early(rng, self.p, self.tossed // self.draws + 1))
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

    def first(self) -> StreamBatch:
        """The next b rows, which stay in the queue."""
        batch = self._take(self.b)
        self.at -= self.b
        return batch

    def _take(self, size: int) -> StreamBatch:
        assert self.waiting is not None
        rows = slice(self.at, self.at + size)
        self.at += size
        return StreamBatch(tuple(part[rows] for part in self.waiting), size)


def _joined(old: Any, new: Any) -> Any:
    if isinstance(old, np.ndarray):
        return np.concatenate([old, new])
    from scipy.sparse import vstack

    return vstack([old, new], format="csr")
