"""The stochastic methods on the rows of a linear model, for n too large for many passes.

`solve_rows` takes a table, `RowStream` (stream.py) rows as they come. Both are arguments to
`cyclade.run.Runner`, which stops, records and resumes. Labels must be what the loss takes: −1 and
1, or class codes 0, …, T − 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cyclade._arrays import Array
from cyclade.arguments import carried as as_carried
from cyclade.linear import losses
from cyclade.linear.api import as_penalty
from cyclade.linear.checks import as_start
from cyclade.linear.designs import as_design
from cyclade.linear.results import Certificate
from cyclade.linear.stochastic.draws import EarlyRefresh
from cyclade.linear.stochastic.oracle import Features, LinearOracle
from cyclade.linear.stochastic.setup import Certifier, Model, as_targets, default_blocks
from cyclade.linear.stochastic.stream import RowStream
from cyclade.methods import as_method, make_sampler
from cyclade.run import Runner
from cyclade.run_parts import Carried, EverySamples, Limits, Report
from cyclade.samplers import ALL, FiniteSum, Page

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
    loss: Any = "squared",
    penalty: Any = "l1",
    *,
    lam: float | None = None,
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
    steps: Any = None,
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
    X, y, loss, penalty, lam, sample_weight, offset, fit_intercept, coef, intercept:
        As in `cyclade.linear.solve`. Rows of sparse X are best stored as CSR. Without a start, the
        intercept begins at its best value for x = 0 (at 0 with several outputs).
    method:
        "VRO-CCD", "VR-CCD", "SCCD", "PAGE", "SGD" or "P-CCD".
    b, b_small, p:
        Large and small batch, and the probability of a large one. Defaults as in the paper: b = n,
        b' = ⌊√b⌋, p = b'/(b + b'); 128 for SCCD and SGD. Cycles 8 and 64 take a large sample for
        sure (`tuning.Tuning.early_refreshes` says why).
    blocks:
        Of the features: a number, sizes or index lists. Default: 10 runs of columns (of whole
        groups, for a penalty on groups). The intercept is a block of its own. PAGE and SGD move
        everything at once.
    eta, steps:
        The step of block j is η Λ_j^{−1}. Λ_j is a diagonal that bounds the curvature on small
        batches on average (`lipschitz.diagonal`), and η = 1, falling as 1/√epochs for SCCD and SGD;
        or give η (a number or a function of the cycles done), or a `cyclade` Steps object. Losses
        without a bound on φ'' take the largest met.
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
    loss, penalty, chosen = losses.get(loss), as_penalty(penalty, lam), as_method(method, True)
    design = as_design(X)
    y, s, offset, outputs = as_targets(design, y, loss, sample_weight, offset, outputs)
    coef, intercept = as_start(design.p, coef, intercept)
    if not epochs >= 0:
        raise ValueError(f"epochs: must be at least 0, got {epochs}")
    if not every > 0:
        raise ValueError(f"every: must be a positive number of epochs, got {every}")
    if steps is not None and eta is not None:
        raise ValueError("eta: it is part of the Steps object given as steps")
    n, blocks = design.n, default_blocks(penalty, design.p) if blocks is None else blocks
    features = Features(
        design.p, blocks, fit_intercept=fit_intercept, outputs=outputs, joined=chosen.one_block
    )
    model, source = Model(loss, penalty, chosen, features), FiniteSum(n)
    carried = None if resume is None else as_carried(resume, chosen, features.layout, source)
    sampler = make_sampler(chosen, source, b, b_small, p)
    small = float(getattr(sampler, "b_small", getattr(sampler, "b", n)))
    if isinstance(sampler, Page):
        sampler = EarlyRefresh(sampler, model.draws, 0 if carried is None else carried.state.k)
    if steps is None:
        steps = model.steps(small, float(n), eta, n / small, large=float(n))
    oracle = LinearOracle(X, y, loss, features, sample_weight=s, offset=offset)
    setup = model.setup(oracle, sampler, steps, order, ALL)
    certifier = Certifier(oracle, design, penalty, tol)
    setup.measure = certifier.measure
    if carried is None:
        carried = model.begin(setup, ALL, seed, coef, intercept, float(n))
    else:
        steps.recall(carried.steps)
    kind = certifier.kind
    told = None if callback is None else _at_evaluations(callback, carried, kind)
    ending = Runner(
        setup, carried, Limits(max_samples=epochs * n), EverySamples(every * n), told
    ).run()
    if ending.interrupted:
        raise KeyboardInterrupt
    return RowsSolution(
        *features.fitted(ending.x, design.given), *certifier(ending.x), carried.gradients / n,
        carried.state.k, chosen.name, ending.message,
        [_row(carried, i, kind) for i in range(len(carried.history["cycle"]))],
        carried if ending.resumable else None,
    )  # fmt: skip


def _at_evaluations(
    callback: Callable[[dict[str, float]], Any], carried: Carried, kind: str
) -> Callable[[Report], Any]:
    """A callback for each row of the history, as a `Runner` takes them: for each cycle."""

    def told(report: Report) -> Any:
        evaluated = carried.history["cycle"][-1] == report.cycle
        return callback(_row(carried, -1, kind)) if evaluated else False

    return told


def _row(carried: Carried, i: int, kind: str) -> dict[str, float]:
    """Row i of the history of a fit."""
    of = {name: column[i] for name, column in carried.history.items()}
    row = {"cycles": float(of["cycle"]), "epochs": of["samples"] / carried.n}
    return row | {"objective": of["fun"], kind: of["certificate"]}
