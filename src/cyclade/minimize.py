"""The front door: `minimize`, in the manner of `scipy.optimize.minimize`."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from cyclade import arguments
from cyclade._checks import function, generator, shown
from cyclade.accelerate import DEPTH, Anderson
from cyclade.blocks import Layout
from cyclade.core import start
from cyclade.counting import Counting
from cyclade.exact_blocks import BlockMinimiser, WithoutGradient
from cyclade.files.checkpoint import Checkpoint
from cyclade.files.fingerprints import told
from cyclade.methods import as_method, make_sampler
from cyclade.orders import as_order
from cyclade.regularisers import Regulariser, per_block
from cyclade.result import Iterate, Result
from cyclade.returned_iterate import Best, Seen, as_rule
from cyclade.run import Runner
from cyclade.run_parts import Carried, EveryCycles, Report, Setup
from cyclade.samplers import ALL
from cyclade.steps import Eta, Fixed, Steps
from cyclade.steps.choosing import as_steps, blocks_with_matrices
from cyclade.steps.expected import Estimated, estimated_steps
from cyclade.steps.matrix_prox import in_matrix_norms


def minimize(
    fun: Any,
    x0: Any,
    *,
    blocks: Any = None,
    reg: Regulariser | Sequence[Regulariser | None] | Mapping[str, Regulariser] | None = None,
    method: str | None = None,
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
    eta: Eta | None = None,
    order: Any = "forward",
    accelerate: bool = False,
    tol: float | None = 1e-5,
    rtol: float | None = None,
    change_tol: float | None = None,
    max_cycles: int | None = 1000,
    max_samples: float | None = None,
    max_seconds: float | None = None,
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
        mean of the terms f_i over the integer array `idx` (where `idx` has a default value, all
        terms are asked for as ``fun(x)``, so that nothing is copied); for a stream as
        ``fun(x, batch)``. x comes in the structure of x0. Or an oracle of your own, which keeps
        what it likes between blocks (see `cyclade.core.Oracle` and docs/minimize.md).
    x0:
        The starting point: an array, or a list, tuple or dict of arrays. Left untouched.
    blocks:
        How x is cut into blocks: None (each array is a block), ``"coordinates"``, a number of
        blocks, a list of sizes, a list of index lists, or lists of names (see `cyclade.Layout`).
    reg:
        r: None, one regulariser for all blocks, one per block, or a dict from block names.
    method:
        "P-CCD", "SCCD", "VR-CCD", "VRO-CCD", "PAGE" or "SGD". Default: P-CCD for ``fun(x)``,
        VRO-CCD for a sum or a stream. PAGE and SGD move all blocks at once.
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
        Defaults: b = n (512 for a stream; 128 for SGD and SCCD), b' = ⌊√b⌋, p = b'/(b + b').
    L:
        Λ_j: a number for all blocks; a number, a diagonal (an array shaped like the block) or a
        `cyclade.Matrix` for each; "backtracking", by a line search (default for P-CCD); "scaled",
        a line search with a diagonal that evens out the scales of a block's coordinates;
        "estimate": for P-CCD power iteration on the block Hessians at x0, for the other methods
        component-wise smoothness, as Assumption 5 wants (their default); or a `Steps` object.
    eta:
        The learning rate η, or a function of the number of cycles done. The step of block j is
        η Λ_j^{−1}. Default: 1 for P-CCD; for the other methods, with L left to be estimated, the
        largest that Theorem 2 allows with the estimates; with L given, 0.15. A default η of these
        methods is halved, and the run goes back to its best iterate, whenever F rises.
    order:
        "forward", "backward", "shuffled", "rotated", "reflected", "random" (with replacement),
        "greedy" (Gauss–Southwell), or a list of block numbers.
    accelerate:
        For P-CCD: Anderson extrapolation after every 5 cycles, kept only where F is smaller.
    tol, rtol, change_tol:
        Stop when dist(∂F(x), 0) ≤ tol in the norm of Λ^{−1} (in the Euclidean norm where Λ is far
        larger than the curvature of f); when the Euclidean distance is at most rtol times that at
        x0; when ‖x_k − x_{k−1}‖_Λ ≤ change_tol. None: not for this.
    max_cycles, max_samples, max_seconds:
        Stop after this many cycles, component gradients, or seconds in all. None: not for this.
    returns:
        Which iterate is returned when a limit is reached: "best", the smallest F among those
        evaluated; "last"; or "paper": the iterate with the smallest change (P-CCD; the last one in
        random and greedy orders, where blocks may wait), or one drawn uniformly (all others). A run
        that reaches a tolerance returns the iterate that reached it, and one stopped by its
        callback the iterate the callback saw. `Result.best` is there in any case.
    every:
        F and the certificate are evaluated, on all of f, every so many cycles. Default: every 10
        cycles for P-CCD, and about once per n component gradients otherwise.
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
        A file that the run is written to as it goes (taking about 2 % of its time at most), and
        from which the same call goes on after a kill, exactly as if nothing had happened. The
        limits may differ, the functions are not compared. A damaged file is skipped, with a
        warning, for the one before it; reading it runs no code. On several ranks the first one
        writes and reads. Not for an iterator as `stream`, which cannot be wound forward.
    process_group:
        Ranks of torch.distributed that each hold `n` (their own number) of the terms, and whose
        `fun` and `jac` take indices 0 … n−1 into these. All ranks draw the same samples of all
        terms and give the result of one process. x0 and the options must be the same on all; the
        seed is the first rank's.

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
    source = arguments.source(n, stream)
    ranks, shard = None, source
    if process_group is not None:
        ranks, source = arguments.sharded(process_group, n, x0)
    arguments.check_flags(accelerate=accelerate, check_grad=check_grad, progress=progress)
    if callback is not None:
        function("callback", callback, "None or callable")
    chosen = as_method(method, source is not None)
    user_layout = Layout.of(x0, blocks)
    regs = per_block(reg, user_layout.m, names=user_layout.names, shapes=user_layout.block_shapes)
    layout, regs = arguments.joined(user_layout, regs, x0) if chosen.one_block else (
        user_layout, regs
    )  # fmt: skip
    x = layout.point(x0)
    sampler = make_sampler(chosen, source, b, b_small, p)
    smooth = arguments.smooth_part(
        fun, jac, block_jac, args, x, user_layout, shard, chosen.one_block, order
    )
    agreed: Callable[[list[float]], list[float]] = list
    given_seed, given_reg = seed, told(reg)
    # Objects that make steps hold what a run has seen: their class has to do.
    plain = (int, float, str, list, tuple, dict, np.ndarray)
    lengths = [told(one) if isinstance(one, plain) else type(one).__name__ for one in (L, eta)]
    if ranks is not None:
        said = {
            "method": chosen.name, "blocks": repr(layout.block_shapes), "order": str(order),
            "reg": given_reg, "L, eta, accelerate": (*lengths, accelerate),
            "b, b_small, p": (b, b_small, p), "tol, rtol, change_tol": (tol, rtol, change_tol),
            "limits": (max_cycles, max_samples, max_seconds), "every": every, "returns": returns,
            "resume": resume is not None,
        }  # fmt: skip
        smooth.oracle, agreed, seed = arguments.spread(smooth.oracle, ranks, n, said, seed)
        progress = progress and ranks.rank == 0
    if isinstance(order, list | tuple | range | np.ndarray) and chosen.one_block:
        order = "forward"  # there is nothing to order
    turns = as_order(order, layout.m)
    visits_all = turns.visits_all
    arguments.check_options(chosen, block_min, L, eta, accelerate)
    limits = arguments.limits(tol, rtol, change_tol, max_cycles, max_samples, max_seconds)
    if change_tol is not None and not visits_all:
        raise ValueError(
            "change_tol needs an order that visits every block in a cycle, not random, greedy or "
            "one of your own: a block that waits does not move"
        )
    start_rng, rule_rng, evaluation_rng = generator("seed", seed).spawn(3)
    if not isinstance(returns, str):
        raise TypeError(f"returns must be 'best', 'last' or 'paper', got {shown(returns)}")
    if returns == "paper" and chosen.deterministic and not visits_all:
        returns = "last"  # the smallest change would be that of a cycle that left blocks out
    rule = as_rule(returns, chosen.deterministic, rule_rng)
    every = arguments.cycles_between_looks(every, chosen, sampler)

    evaluation_sample: Any = ALL
    keep = None
    if checkpoint is not None:
        arguments.check_checkpoint(resume, stream)
        keep = Checkpoint(checkpoint, ranks, x, given_seed, [
            chosen.name, 1.0 if source is None else source.n, layout.block_shapes, str(order),
            b, b_small, p, returns, every, accelerate, given_reg, lengths,
        ])  # fmt: skip
        resume = keep.load()
    if resume is not None:
        carried = arguments.carried(resume, chosen, layout, source)
        evaluation_sample = carried.evaluation_sample
    elif source is not None and not math.isfinite(source.n):
        evaluation_sample = sampler.large(evaluation_rng)
    arguments.check_start(smooth.oracle, x, evaluation_sample)
    if check_grad:
        arguments.check_gradient_at_x0(smooth.oracle, x, evaluation_sample)
    by_default = eta is None and not callable(getattr(L, "at", None))
    guarded = not chosen.deterministic and by_default
    estimated = guarded and (L is None or (isinstance(L, str) and L == "estimate"))
    oracle = Counting(
        smooth.oracle if block_min is None else WithoutGradient(smooth.oracle), sampler,
        layout.shares(),
    )  # fmt: skip
    interrupted = False
    if block_min is not None:
        steps: Any = Fixed([1.0] * layout.m)
        regs = BlockMinimiser(block_min, regs)  # type: ignore[assignment]
    elif estimated and resume is None:
        assert source is not None
        try:
            steps = estimated_steps(oracle, x, source, sampler, evaluation_rng)
        except KeyboardInterrupt:
            steps, interrupted = Fixed([1.0] * layout.m), True
    elif estimated:
        ones = [1.0] * layout.m
        steps = Estimated(ones, ones, 1.0)  # what was estimated is recalled below
    else:
        alike = DEPTH + 1 if accelerate else 1  # cycles between which a line search may shrink L_j
        steps = as_steps(L, eta, layout, user_layout, x, chosen.deterministic, alike)
        if blocks_with_matrices(steps):
            regs = in_matrix_norms(regs, steps.Lambda)

    if resume is None:
        if not estimated:
            steps.prepare(oracle.sweep(x.copy(), evaluation_sample))
        oracle.gradients = 0.0  # a look at x_0 is not part of the method
        state = start(oracle, x, sampler, start_rng)
        best = rule if isinstance(rule, Best) else Best()
        carried = Carried(chosen.name, state, {}, rule, best, evaluation_sample)
        carried.n = 1.0 if source is None else source.n
        carried.anderson = Anderson() if accelerate else None
        carried.gradients, carried.hvps = oracle.gradients, oracle.hvps
    else:
        steps.recall(carried.steps)
    if isinstance(regs, BlockMinimiser):
        regs.x = carried.state.x
    setup = Setup(
        oracle, regs, steps, sampler, turns, evaluation_sample, chosen.resample, visits_all,
        guarded, interrupted, smooth.gradient_check(evaluation_sample), alike=agreed,
    )  # fmt: skip
    save = None if keep is None else keep.save
    runner = Runner(setup, carried, limits, EveryCycles(every), callback, progress, save)
    ending = runner.run()
    at_end = runner.evaluate(ending.x)
    best, rule = copy.copy(carried.best), carried.rule
    if ending.x is not best.x:  # a run may end where F was not evaluated
        cycle = rule.k if ending.x is rule.x else carried.state.k
        best.see(Seen(cycle, ending.x, math.nan, at_end.fun))
    assert best.x is not None
    return Result(
        x=ending.x.whole(),
        fun=at_end.fun,
        dist=at_end.dist,
        relative=at_end.dist / (carried.first_dist or 1.0),
        certificate=at_end.certificate,
        certificate_kind=arguments.certificate_kind(regs, source, sampler, evaluation_sample),
        success=ending.success,
        message=ending.message,
        method=chosen.name,
        cycles=carried.state.k,
        samples=carried.gradients,
        values=carried.values,
        hvps=carried.hvps,
        prox_calls=carried.prox_calls,
        seconds=carried.seconds,
        best=Iterate(best.x.whole(), best.fun, best.k),
        Lambda=[steps.metric(j) for j in range(layout.m)],
        history=carried.history,
        state=carried if ending.resumable else None,
    )
