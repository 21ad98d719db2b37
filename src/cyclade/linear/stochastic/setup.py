"""What `solve_rows` and `RowStream` share: a model, its defaults, and how a run begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cyclade._arrays import Array
from cyclade.core import start
from cyclade.counting import Counting
from cyclade.linear.api import as_data, solve
from cyclade.linear.penalties import L1, BlockPenalty
from cyclade.linear.stochastic.oracle import Features, LinearOracle
from cyclade.linear.stochastic.separable import by_blocks
from cyclade.linear.stochastic.steps import RowSteps, falling
from cyclade.linear.stochastic.sweep import Rows
from cyclade.linear.stochastic.tuning import TUNING
from cyclade.methods import Method
from cyclade.orders import Greedy, Random, as_order
from cyclade.returned_iterate import Best
from cyclade.run_parts import Carried, Setup
from cyclade.samplers import Sample, Sampler


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
        """Steps for samples of b' out of n rows; η is 1 unless given, falling for SCCD and SGD."""
        if eta is None:
            eta = falling(1.0, per_epoch) if self.method.draws == "minibatch" else 1.0
        even, features = isinstance(self.penalty, BlockPenalty), self.features
        return RowSteps(
            self.loss.bound, features.layout.m, b_small, n, features.width, even, eta, large
        )

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
    """Runs of columns; for a penalty on groups, sets of whole groups."""
    if not isinstance(penalty, BlockPenalty):
        return min(TUNING.blocks, p)
    order, starts = penalty.partition(p)
    groups = np.split(order, starts[1:-1])
    parts = np.array_split(np.arange(len(groups)), min(TUNING.blocks, len(groups)))
    return [np.concatenate([groups[k] for k in part]) for part in parts]


def as_targets(
    design: Any, y: Any, loss: Any, sample_weight: Any, offset: Any, outputs: int | None
) -> tuple[Array, Array, Array | None, int | None]:
    """Checked y, weights that sum to one, offsets in the shape of z (None: zero), and T.

    T is None where z is a vector. `outputs` is the number of classes that y might not show.
    """
    y, s, shifts = as_data(design, y, loss, sample_weight, offset)
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
    nothing = np.zeros((rows.n, 1))
    return solve(
        nothing, rows.y, loss, L1(1.0), sample_weight=rows.weight, offset=rows.offset
    ).intercept
