"""The front door: `minimize`, in the manner of `scipy.optimize.minimize`."""

from __future__ import annotations

import copy
import itertools
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from cyclade._checks import generator
from cyclade.blocks import Point
from cyclade.core import start
from cyclade.files.checkpoint import Checkpoint
from cyclade.methods import Method, MethodName, as_method, make_sampler, searches, settled
from cyclade.oracles.counting import Counting
from cyclade.regularisers import Regulariser
from cyclade.run import arguments
from cyclade.run.arguments import as_steps
from cyclade.run.exact_blocks import BlockMinimiser, WithoutGradient
from cyclade.run.extrapolation import DEPTH, Anderson
from cyclade.run.result import Iterate, Report, Result
from cyclade.run.runner import Carried, Runner, Setup
from cyclade.run.stopping import Bar, Best, Ended, Rule, Seen, Stop, as_rule
from cyclade.sampling.orders import Order, OrderName, as_order
from cyclade.sampling.samplers import ALL, Sample, Sampler
from cyclade.steps import Eta, Fixed, Rated, Steps
from cyclade.steps.expected import Estimated, estimated_steps
from cyclade.steps.matrix import in_matrix_norms
from cyclade.steps.searched import Searched, rate_and_large


def minimize(
    fun: Any,
    x0: Any,
    *,
    blocks: Any = None,
    reg: Regulariser | Sequence[Regulariser | None] | Mapping[str, Regulariser] | None = None,
    method: MethodName | Method | None = None,
    jac: Callable[..., Any] | bool | Literal["2-point"] | None = None,
    block_jac: Callable[..., Any] | None = None,
    block_min: Callable[[int, Any], Any] | None = None,
    n: int | None = None,
    stream: Callable[[np.random.Generator, int], Any] | Iterable[Any] | None = None,
    args: tuple[Any, ...] = (),
    b: int | None = None,
    b_small: int | None = None,
    p: float | None = None,
    L: float | Sequence[Any] | Mapping[str, Any] | str | Steps | None = None,
    eta: Eta | Literal["theory"] | None = None,
    order: OrderName | Sequence[int] | list[str] | tuple[str, ...] | Order | None = None,
    accelerate: bool | None = None,
    tol: float | None = 1e-5,
    rtol: float | None = None,
    change_tol: float | None = None,
    max_cycles: int | Literal["auto"] | None = "auto",
    max_samples: float | None = None,
    max_seconds: float | None = None,
    stop: Stop | None = None,
    returns: Literal["best", "last", "paper"] = "best",
    every: int | None = None,
    check_grad: bool = False,
    seed: int | np.random.Generator | None = 0,
    callback: Callable[[Report], Any] | None = None,
    progress: bool = False,
    resume: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    process_group: Any = None,
) -> Result:
    """Minimise F(x) = f(x) + r(x) over blocks x = (x^1, …, x^m) by cyclic block coordinate descent.

    f is smooth and may be nonconvex; r is a sum of one regulariser per block.

    Parameters
    ----------
    fun:
        f. With torch x0: a torch function, differentiated by autograd. With NumPy x0: any function,
        with its gradient in `jac`. Called as ``fun(x)``; for a finite sum as ``fun(x, idx)``, the
        mean of the terms f_i over the integer array `idx` (as ``fun(x)`` for all of them, where
        `idx` has a default); for a stream as ``fun(x, batch)``. x comes in the structure of x0. Or
        an oracle of your own, which keeps what it likes between blocks (see docs/minimize.md).
    x0:
        The starting point: an array, or a list, tuple or dict of arrays. Left untouched.
    blocks:
        How x is cut into blocks: None (each array is a block), ``"coordinates"``, a number of
        blocks, a list of sizes, a list of index lists, or lists of names (see `cyclade.Layout`).
    reg:
        r: None, one regulariser for all blocks, one per block, or a dict from block names.
    method:
        "P-CCD" (default for ``fun(x)``), "SCCD", "VR-CCD", "VRO-CCD" (default for a sum or a
        stream), "PAGE" or "SGD"; the last two move all blocks at once. Or an object of
        `cyclade.methods`, such as ``VROCCD(b=512, order="shuffled")``, which holds b, b_small, p,
        L (there `steps`), eta, order and accelerate.
    jac:
        The gradient of f, called like `fun`, structured like x0; True if `fun` returns
        ``(value, gradient)``; or "2-point", differences of values, which cost d values a cycle.
    block_jac:
        Block j of the gradient alone, called as ``block_jac(x, j)`` or ``block_jac(x, j, idx)``.
        Here x is a read-only view, true during the call only: copy it to keep it.
    block_min:
        For P-CCD: ``block_min(j, x)`` returns the x^j that minimises F with the other blocks as
        they are, in place of a prox-gradient step; x is a read-only view. `jac` still certifies.
    n, stream:
        A finite sum of n terms; or samples without end, from ``stream(rng, size)`` or an iterator
        of single samples.
    args:
        Extra arguments for fun, jac and block_jac, after all others.
    b, b_small, p:
        The sizes b and b' of the large and small batch, and the probability p of a large one.
        Defaults: b = n (512 for a stream; 128 for SGD and SCCD), b' = 3√b (⌊√b⌋ for a stream and
        with the steps of the theory), p = b'/(b + b').
    L:
        Λ_j: a number for all blocks; a number, a diagonal (an array shaped like the block) or a
        `cyclade.Matrix` for each; or a `Steps` object. For P-CCD "backtracking", a line search (the
        default), "scaled", one with a diagonal that evens out a block's scales, or "estimate",
        power iteration on the block Hessians at x0. For the other methods "search" (the default):
        raised until the samples curve no more along the step, and falling slowly; or "estimate":
        component-wise smoothness, as Assumption 5 wants.
    eta:
        The learning rate η, or a function of the number of cycles done: the step of block j is
        η Λ_j^{−1}. Default: 1 for P-CCD; with L searched, what Theorem 2 leaves of it for b, b' and
        p; with L given, 0.15. "theory" takes L="estimate", and the largest η that Theorem 2 allows.
        Where F rises, a default η is halved, and the run goes back to its best iterate.
    order:
        "forward" (where none is given), "backward", "shuffled", "rotated", "reflected", "random"
        (with replacement), "greedy" (Gauss–Southwell), or a list of block numbers or names.
    accelerate:
        For P-CCD: Anderson extrapolation after every 5 cycles, kept only where F is smaller. None:
        where L is searched, the order is forward or backward, without block_min or returns="paper".
    tol, rtol, change_tol:
        Stop when dist(∂F(x), 0) ≤ tol in the norm of Λ^{−1} (in the Euclidean norm where Λ is far
        larger than the curvature of f); when the Euclidean distance is at most rtol times that at
        x0; when ‖x_k − x_{k−1}‖_Λ ≤ change_tol. None: not for this.
    max_cycles, max_samples, max_seconds:
        Stop after this many cycles, component gradients, or seconds in all (from the call on: steps
        that are estimated before the first cycle count). None: not for this.
    stop:
        A `cyclade.Stop` that holds the tolerances and limits, in place of these arguments.
    returns:
        Which iterate is returned when a limit is reached: "best", the smallest F among those
        evaluated; "last"; or "paper": the one with the smallest change (P-CCD; the last one in
        random and greedy orders), or one drawn uniformly (all others). A run that reaches a
        tolerance returns the iterate that reached it, one stopped by its callback what that saw.
    every:
        F and its distances are evaluated, on all of f, every so many cycles. Default: every 10
        cycles for P-CCD; before each refresh of a recursive method on all terms, whose gradient
        then serves twice; about once per n component gradients otherwise.
    check_grad:
        Compare `jac` with differences of `fun` along random directions first, block by block.
    seed:
        Same seed, same trajectory.
    callback:
        Called with a `Report` after each cycle; return True (or raise StopIteration) to stop.
    progress:
        Show a progress bar.
    resume:
        The `state` of an earlier `Result`: go on where it stopped, exactly as if it had not. All
        other arguments must be as they were, but for the limits.
    checkpoint:
        A file that the run is written to as it goes (in about 2 % of its time), and from which the
        same call goes on after a kill, as if nothing had happened. The limits may differ, the
        functions are not compared. A damaged file is skipped, with a warning, for the one before
        it; reading it runs no code. Not for an iterator as `stream`, which cannot be wound forward.
    process_group:
        Ranks of torch.distributed that each hold `n` (their own number) of the terms, into which
        their `fun` and `jac` take indices. They give the result of one process. x0 and the options
        must be the same on all; the seed is the first rank's.

    Returns
    -------
    Result
        With the point in the structure of x0, F, the certificate, counts and a history. Ctrl-C ends
        the run after the current cycle and returns the best point so far.

    Examples
    --------
    Non-negative least squares, one coordinate at a time:

    >>> import numpy as np
    >>> from cyclade import NonNegative, minimize
    >>> A, y = np.array([[2.0, 1.0], [1.0, 3.0], [0.0, 1.0]]), np.array([1.0, -1.0, 0.0])
    >>> res = minimize(
    ...     lambda x: 0.5 * np.sum((A @ x - y) ** 2), np.zeros(2), jac=lambda x: A.T @ (A @ x - y),
    ...     blocks="coordinates", reg=NonNegative(),
    ... )
    >>> res.success, res.x.round(4)
    (True, array([0.2, 0. ]))
    """
    begun = time.perf_counter()
    arguments.check_flags(
        accelerate=accelerate is not None and accelerate, check_grad=check_grad, progress=progress
    )
    source = arguments.as_source(n, stream)
    chosen = as_method(
        method, source is not None, b=b, b_small=b_small, p=p, L=L, eta=eta, order=order,
        accelerate=accelerate,
    )  # fmt: skip
    chosen = settled(chosen, block_min, returns)
    limits = arguments.as_limits(
        stop, None if source is None or chosen.deterministic or math.isinf(source.n) else source.n,
        tol=tol, rtol=rtol, change_tol=change_tol, max_cycles=max_cycles,
        max_samples=max_samples, max_seconds=max_seconds,
    )  # fmt: skip
    given = (jac, block_jac, args)
    problem = arguments.as_problem(fun, x0, blocks, reg, chosen, given, source, process_group)
    sampler = make_sampler(chosen, problem.source, **chosen.batches, searched=searches(chosen))
    turns = _turns(chosen, problem)
    arguments.check_options(chosen, turns, limits, block_min, callback)
    described = arguments.description(problem, chosen, reg, seed, returns=returns, every=every)
    said = described | vars(limits) | {"resume": resume is not None}
    drawn = problem.agree_over_ranks(said, seed)
    rngs = generator("seed", drawn).spawn(3)  # for the start, the rule, and evaluations
    if chosen.deterministic and not turns.visits_all and returns == "paper":
        returns = "last"  # the smallest change would be that of a cycle that left blocks out
    rule = as_rule(returns, chosen.deterministic, rngs[1])
    save = None
    if checkpoint is not None:
        arguments.check_checkpoint(resume, stream)
        kept = Checkpoint(checkpoint, problem.ranks, problem.x, seed, list(described.values()))
        resume, save = kept.load(), kept.save
    sample: Sample = ALL
    if resume is not None:
        carried = arguments.as_carried(resume, chosen, problem.x.layout, problem.source, described)
        sample = carried.evaluation_sample
    elif not math.isfinite(problem.n):
        sample = sampler.large(rngs[2])
    arguments.check_start(problem, sample, check_grad)
    setup = _setup(problem, chosen, sampler, turns, sample, block_min)
    progress = progress and (problem.ranks is None or problem.ranks.rank == 0)
    if resume is None:
        if isinstance(setup.steps, Estimated) or type(setup.steps) is Searched:
            bar = Bar(f"{chosen.name}: estimating steps", None, progress, "product")
            _estimate(setup, problem.x, rngs[2], limits.max_seconds, begun, bar)
        else:
            setup.steps.prepare(setup.oracle.sweep(problem.x.copy(), sample))
        carried = _begun(setup, problem, chosen, rule, rngs[0])
        carried.described = described
    else:
        setup.steps.recall(carried.steps)
    if isinstance(setup.reg, BlockMinimiser):
        setup.reg.x = carried.state.x
    carried.wall += time.perf_counter() - begun
    pace = arguments.looks(every, chosen, sampler, carried.state.sample_rng)
    return _result(Runner(setup, carried, limits, pace, callback, progress, save), problem)


def _turns(chosen: Method, problem: arguments.Objective) -> Order:
    """The order of the blocks; where all of x is one, a list of turns orders nothing."""
    listed = isinstance(chosen.order, list | tuple | range | np.ndarray)
    order = "forward" if listed and chosen.one_block else chosen.order
    return as_order(order, problem.x.layout.m, problem.x.layout.names)


def _setup(
    problem: arguments.Objective, chosen: Method, sampler: Sampler, turns: Order, sample: Sample,
    block_min: Any,
) -> Setup:  # fmt: skip
    """What is run; estimated steps are ones until they are estimated, or recalled."""
    layout, regs = problem.x.layout, problem.regs
    ones, L = [1.0] * layout.m, chosen.steps
    by_theory = isinstance(chosen.eta, str) and chosen.eta == "theory"
    named = L is None or isinstance(L, str)
    own_eta = chosen.eta is None or by_theory
    guarded = not chosen.deterministic and own_eta and not hasattr(L, "at")
    reg: Any = regs
    steps: Rated
    if block_min is not None:
        steps, reg = Fixed(ones), BlockMinimiser(block_min, regs)
    elif searches(chosen):
        scaled = arguments.scaled_blocks(layout, regs)
        steps = Searched(layout.m, *rate_and_large(sampler, chosen.eta), scaled)
    elif guarded and named and L in (None, "estimate"):
        steps = Estimated(ones, ones, 1.0)
    else:
        # An extrapolation wants cycles that are alike: a line search shrinks L_j between them.
        alike = DEPTH + 1 if chosen.accelerated else 1
        steps = as_steps(
            L, chosen.eta, layout, problem.user_layout, problem.x, chosen.deterministic, alike
        )
        if isinstance(steps, Fixed):
            reg = in_matrix_norms(regs, steps.Lambda)
    smooth = problem.oracle if block_min is None else WithoutGradient(problem.oracle)
    return Setup(
        Counting(smooth, sampler, layout.shares()), reg, steps, sampler, turns, sample,
        chosen.resample, turns.visits_all, guarded, problem=problem,
    )  # fmt: skip


def _estimate(
    setup: Setup, x: Point, rng: np.random.Generator, max_seconds: float | None, begun: float,
    bar: Bar,
) -> None:  # fmt: skip
    """Estimate the steps of the set-up at x, or end the run where that takes too long."""
    sampler: Any = setup.sampler
    steps, where = setup.steps, "while steps were estimated; x0 is returned"
    products = itertools.count(1)

    def watch(samples: float) -> None:
        """Before a product with a Hessian, which costs so many samples beyond those counted."""
        setup.oracle.hvps += samples
        bar.show(next(products), math.nan, math.nan)
        if max_seconds is not None:
            (spent,) = setup.problem.alike([time.perf_counter() - begun])
            if spent >= max_seconds:
                words = f"max_seconds = {max_seconds:g} reached {where}. Give L to begin at once"
                raise Ended("max_seconds", x, False, words, resumable=False)

    try:
        with bar:
            if isinstance(steps, Searched):
                n, sample = sampler.source.n, setup.evaluation_sample
                if math.isfinite(n):
                    sample = steps.first_sample(int(n), rng)
                steps.prepare(setup.oracle.sweep(x.copy(), sample), watch)
            else:
                setup.steps = estimated_steps(setup.oracle, x, sampler, rng, watch)
    except Ended as cut:
        setup.cut = cut
    except KeyboardInterrupt:
        setup.cut = Ended("interrupted", x, False, f"interrupted {where}", resumable=False)


def _begun(
    setup: Setup, problem: arguments.Objective, chosen: Method, rule: Rule,
    rng: np.random.Generator,
) -> Carried:  # fmt: skip
    """A run at x_0, whose steps have looked at it."""
    oracle = setup.oracle
    oracle.gradients = 0.0  # a look at x_0 is not part of the method
    state = start(oracle, problem.x, setup.sampler, rng)
    best = rule if isinstance(rule, Best) else Best()
    carried = Carried(
        chosen.name, state, {}, rule, best, setup.evaluation_sample, n=problem.n,
        anderson=Anderson() if chosen.accelerated else None,
    )  # fmt: skip
    carried.gradients, carried.hvps = oracle.gradients, oracle.hvps
    return carried


def _result(runner: Runner, problem: arguments.Objective) -> Result:
    """Run to the end, and say what came of it."""
    setup, carried, ending = runner.setup, runner.carried, runner.run()
    at_end = runner.evaluate(ending.x)
    runner.carry()  # with the calls of that
    best, rule = copy.copy(carried.best), carried.rule
    if ending.x is not best.x:  # a run may end where F was not evaluated
        cycle = rule.k if ending.x is rule.x else carried.state.k
        best.see(Seen(cycle, ending.x, math.nan, at_end.fun))
    assert best.x is not None
    counted = ("method", "values", "hvps", "nfev", "njev", "prox_calls", "seconds")
    told: dict[str, Any] = {name: getattr(carried, name) for name in counted}
    told |= {name: getattr(ending, name) for name in ("success", "status", "message")}
    return Result(
        x=ending.x.whole(),
        fun=at_end.fun,
        dist=at_end.dist,
        relative=at_end.dist / (carried.first_dist or 1.0),
        squared_distance=at_end.squared_distance,
        distance_kind=arguments.distance_kind(
            setup.reg, problem.source, setup.sampler, setup.evaluation_sample
        ),
        cycles=carried.state.k,
        samples=round(carried.gradients, 6),  # shares of blocks add up to rounding
        best=Iterate(best.x.whole(), best.fun, best.k),
        Lambda=[setup.steps.metric(j) for j in range(problem.x.layout.m)],
        history=dict(carried.history),
        state=carried if ending.resumable else None,
        **told,
    )
