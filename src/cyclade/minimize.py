"""The front door: `minimize`, in the manner of `scipy.optimize.minimize`."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from cyclade._arrays import Array, all_finite, kind
from cyclade.blocks import Layout, Point
from cyclade.core import start
from cyclade.counting import Counting
from cyclade.keep import Best, as_rule
from cyclade.lambdas import as_steps
from cyclade.methods import Method, as_method, make_sampler
from cyclade.oracles.callables import Autograd, CallableOracle, Jacobian, Pair
from cyclade.orders import Greedy, Random, as_order
from cyclade.regularisers import PerBlock, Regulariser, per_block
from cyclade.regularisers.joined import Joined
from cyclade.result import HISTORY, Result
from cyclade.runner import Carried, Limits, Report, Runner
from cyclade.samplers import ALL, FiniteSum, Source, Stream
from cyclade.steps import Eta, Steps


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    *,
    blocks: Any = None,
    reg: Regulariser | Sequence[Regulariser | None] | Mapping[str, Regulariser] | None = None,
    method: str | None = None,
    jac: Callable[..., Any] | bool | None = None,
    block_jac: Callable[..., Any] | None = None,
    n: int | None = None,
    stream: Callable[[np.random.Generator, int], Any] | Iterable[Any] | None = None,
    args: tuple[Any, ...] = (),
    b: int | None = None,
    b_small: int | None = None,
    p: float | None = None,
    L: float | Sequence[Array | float] | Mapping[str, Array | float] | str | Steps | None = None,
    eta: Eta | None = None,
    order: Any = "forward",
    tol: float | None = 1e-5,
    change_tol: float | None = None,
    max_cycles: int | None = 1000,
    max_samples: float | None = None,
    max_seconds: float | None = None,
    returns: Literal["paper", "last", "best"] = "paper",
    every: int | None = None,
    seed: int | np.random.Generator | None = 0,
    callback: Callable[[Report], Any] | None = None,
    progress: bool = False,
    resume: Any = None,
) -> Result:
    """Minimise F(x) = f(x) + r(x) over blocks x = (x^1, …, x^m) by cyclic block coordinate descent.

    f is smooth and may be nonconvex; r is a sum of one convex regulariser per block.

    Parameters
    ----------
    fun:
        f. With torch x0: a torch function, differentiated by autograd. With NumPy x0: any function,
        with its gradient in `jac`. Called as ``fun(x)``; for a finite sum as ``fun(x, idx)``, the
        mean of the terms f_i over the integer array `idx`; for a stream as ``fun(x, batch)``.
        x comes in the structure of x0.
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
        The gradient of f, called like `fun`, structured like x0; or True if `fun` returns
        ``(value, gradient)``.
    block_jac:
        Block j of the gradient alone, called as ``block_jac(x, j)`` or ``block_jac(x, j, idx)``.
        Here x is a read-only view, true during the call only: copy it to keep it.
    n, stream:
        A finite sum of n terms; or samples without end, from ``stream(rng, size)`` or an iterator
        of single samples.
    args:
        Extra arguments for fun, jac and block_jac, after all others.
    b, b_small, p:
        The sizes b and b' of the large and small batch, and the probability p of a large one.
        Defaults: b = n (512 for a stream; 128 for SGD and SCCD), b' = ⌊√b⌋, p = b'/(b + b').
    L:
        Λ_j: a number for all blocks; a number or a diagonal (an array shaped like the block) for
        each; "backtracking" (default for P-CCD); "estimate", by power iteration on the block
        Hessians at x0 (default otherwise); or a `Steps` object.
    eta:
        The learning rate η, or a function of the number of cycles done. Default: 1 for P-CCD and
        0.15 otherwise. The step of block j is η Λ_j^{−1}.
    order:
        "forward", "backward", "shuffled", "random" (with replacement), "greedy"
        (Gauss–Southwell), or a list of block numbers.
    tol, change_tol, max_cycles, max_samples, max_seconds:
        Stop when dist(∂F(x), 0) ≤ tol in the norm of Λ^{−1}; when ‖x_k − x_{k−1}‖_Λ ≤ change_tol;
        after this many cycles, component gradients, or seconds spent in cycles. None: not for this.
    returns:
        "paper": the iterate with the smallest change (P-CCD; the last one in random and greedy
        orders, where blocks may wait), or one drawn uniformly (all others);
        "last"; or "best", the smallest F among the evaluated iterates. A run that stops because it
        reached a tolerance returns the iterate that reached it.
    every:
        F and the certificate are evaluated, on all of f, every so many cycles. Default: every 10
        cycles for P-CCD, and about once per n component gradients otherwise.
    seed:
        Same seed, same trajectory.
    callback:
        Called with a `Report` after each cycle; return True to stop.
    progress:
        Show a progress bar.
    resume:
        The `state` of an earlier `Result`: go on where it stopped, exactly as if it had not. All
        other arguments must be as they were, but for the limits.

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
    source = _source(n, stream)
    chosen = as_method(method, source is not None)
    user_layout = Layout.of(x0, blocks)
    regs = per_block(reg, user_layout.m, names=user_layout.names, shapes=user_layout.block_shapes)
    layout, regs = _joined(user_layout, regs, x0) if chosen.one_block else (user_layout, regs)
    x = layout.point(x0)
    if block_jac is not None and chosen.one_block:
        block_jac = _all_blocks(block_jac, user_layout)
    if isinstance(order, str) and order == "greedy" and callable(jac):
        block_jac = None  # its turns look at all blocks, which one call of jac gives
    derivatives = _derivatives(fun, jac, block_jac, x, args)
    sampler = make_sampler(chosen, source, b, b_small, p)
    inner = CallableOracle(layout, derivatives, None if source is None else source.n, x.leaves[0])
    if isinstance(order, list | tuple | range | np.ndarray) and chosen.one_block:
        order = "forward"  # there is nothing to order
    turns = as_order(order, layout.m)
    steps = as_steps(L, eta, layout, user_layout, x, chosen.deterministic)
    limits = _limits(tol, change_tol, max_cycles, max_samples, max_seconds)
    start_rng, rule_rng, evaluation_rng = np.random.default_rng(seed).spawn(3)
    visits_all = not isinstance(turns, Random | Greedy)
    if change_tol is not None and not visits_all:
        raise ValueError(
            "change_tol needs an order that visits every block in a cycle, not random or greedy: "
            "a block that waits does not move"
        )
    if returns == "paper" and chosen.deterministic and not visits_all:
        returns = "last"  # the smallest change would be that of a cycle that left blocks out
    rule = as_rule(returns, chosen.deterministic, rule_rng)
    if every is not None and (isinstance(every, bool) or int(every) != every or every < 1):
        raise ValueError(f"every must be a whole number of cycles, at least 1, got {every}")

    evaluation_sample: Any = ALL
    if resume is None and source is not None and not math.isfinite(source.n):
        evaluation_sample = sampler.large(evaluation_rng)
    if isinstance(resume, Carried):
        evaluation_sample = resume.evaluation_sample
    _check_start(inner, x, evaluation_sample)
    oracle = Counting(inner, sampler, layout.shares())
    if resume is None:
        steps.prepare(oracle.sweep(x.copy(), evaluation_sample))
        oracle.gradients = 0.0  # a look at x_0 is not part of the method
        history: dict[str, list[float]] = {name: [] for name in HISTORY}
        state = start(oracle, x, sampler, start_rng)
        best = rule if isinstance(rule, Best) else Best()
        carried = Carried(chosen.name, state, {}, rule, best, history, evaluation_sample)
        carried.gradients, carried.hvps = oracle.gradients, oracle.hvps
    else:
        carried = _carried(resume, chosen, layout)
        steps.recall(carried.steps)
    runner = Runner(
        carried, oracle, regs, steps, sampler, turns, chosen.resample, evaluation_sample, limits,
        every or _default_every(chosen, sampler), callback, progress,
    )  # fmt: skip
    ending = runner.run()
    fun_value, certified = runner.evaluate(ending.x)
    return Result(
        x=ending.x.whole(),
        fun=fun_value,
        certificate=certified,
        certificate_kind=_certificate_kind(regs, source, sampler, evaluation_sample),
        success=ending.success,
        message=ending.message,
        method=chosen.name,
        cycles=carried.state.k,
        samples=carried.gradients,
        values=carried.values,
        hvps=carried.hvps,
        prox_calls=carried.prox_calls,
        seconds=carried.seconds,
        Lambda=[steps.metric(j) for j in range(layout.m)],
        history=carried.history,
        state=carried if ending.resumable else None,
    )


def _source(n: Any, stream: Any) -> Source | None:
    if n is not None and stream is not None:
        raise ValueError("give n= (a finite sum) or stream= (samples without end), not both")
    if stream is not None:
        return Stream(stream)
    if n is None:
        return None
    if isinstance(n, bool) or not isinstance(n, int | np.integer):
        raise TypeError(f"n must be a whole number of terms, got {n!r}")
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    return FiniteSum(int(n))


def _joined(user: Layout, regs: PerBlock, x0: Any) -> tuple[Layout, PerBlock]:
    """One block that is all of x, with the regularisers of the user's blocks on its parts."""
    if user.m == 1:
        return user, regs
    parts = list(zip(user.flat_index(), user.block_shapes, regs.regs, strict=True))
    layout = Layout.of(x0, [user.d] if user.labels == [""] else [user.labels])
    return layout, PerBlock([Joined(parts)])


def _all_blocks(block_jac: Callable[..., Any], user: Layout) -> Callable[..., Any]:
    """`block_jac` of the one block that is all of x, from that of the user's blocks."""

    def whole(x: Any, _: int, *args: Any) -> Array:
        parts = [np.asarray(block_jac(x, j, *args)) for j in range(user.m)]
        gradient = np.empty(user.d, dtype=parts[0].dtype)
        for index, part in zip(user.flat_index(), parts, strict=True):
            gradient[index] = part.reshape(-1)
        return gradient if user.m > 1 else parts[0]

    return whole


def _derivatives(
    fun: Any, jac: Any, block_jac: Any, x: Point, args: tuple[Any, ...]
) -> Autograd | Jacobian | Pair:
    if not callable(fun):
        raise TypeError(f"fun must be callable, got {type(fun).__name__}")
    if not isinstance(args, tuple):
        raise TypeError(f"args must be a tuple, got {type(args).__name__}")
    if kind(x.leaves[0]) == "torch":
        if jac is not None or block_jac is not None:
            raise ValueError("jac and block_jac are for NumPy x0; torch differentiates fun itself")
        return Autograd(_with(fun, args))
    if jac is True:
        return Pair(_with(fun, args))
    for name, given in (("jac", jac), ("block_jac", block_jac)):
        if given is not None and not callable(given):
            raise TypeError(f"{name} must be callable, got {type(given).__name__}")
    if jac is None and block_jac is None:
        raise ValueError(
            "a NumPy x0 needs the gradient of fun: give jac= (or block_jac=), or write fun in "
            "torch and give x0 as torch tensors"
        )
    return Jacobian(
        _with(fun, args), jac and _with(jac, args), block_jac and _with(block_jac, args)
    )


def _with(fun: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any]:
    return (lambda *a: fun(*a, *args)) if args else fun


def _limits(
    tol: Any, change_tol: Any, max_cycles: Any, max_samples: Any, max_seconds: Any
) -> Limits:
    given = {
        "tol": tol, "change_tol": change_tol, "max_cycles": max_cycles,
        "max_samples": max_samples, "max_seconds": max_seconds,
    }  # fmt: skip
    for name, value in given.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            raise TypeError(f"{name} must be a number or None, got {value!r}")
        if not value >= 0:
            raise ValueError(f"{name} must be at least 0, got {value}")
    if all(value is None for value in given.values()):
        raise ValueError("nothing would stop the run: give a tolerance or a limit")
    return Limits(**given)


def _check_start(oracle: CallableOracle, x: Point, sample: Any) -> None:
    """Evaluate f and its gradient once, so that what is wrong with them is said at once."""
    value, gradient = oracle.evaluate(x, sample)
    if not math.isfinite(value):
        raise ValueError(f"fun(x0) is {value}: start from a point where f is finite")
    for j, gj in enumerate(gradient):
        if not all_finite(gj):
            raise ValueError(
                f"the gradient of fun at x0 has NaN or infinity in block {oracle.layout.names[j]!r}"
            )


def _carried(resume: Any, method: Method, layout: Layout) -> Carried:
    if not isinstance(resume, Carried):
        raise TypeError(f"resume must be the `state` of a Result, got {type(resume).__name__}")
    if resume.method != method.name:
        raise ValueError(f"resume is a state of {resume.method}, not of {method.name}")
    there = resume.state.x.layout
    if there.block_shapes != layout.block_shapes:
        raise ValueError(
            f"resume has blocks of shapes {there.block_shapes}, the problem {layout.block_shapes}"
        )
    return copy.deepcopy(resume)


def _default_every(method: Method, sampler: Any) -> int:
    """Every 10 cycles, or about once a pass over the n terms where cycles are cheaper than that."""
    if method.deterministic:
        return 10
    p = getattr(sampler, "p", 1.0)
    cost = p * sampler.b + (1 - p) * 2 * getattr(sampler, "b_small", 0)
    n = sampler.source.n
    return max(1, round(n / cost)) if math.isfinite(n) else 50


def _certificate_kind(regs: PerBlock, source: Source | None, sampler: Any, sample: Any) -> str:
    kinds = []
    if not regs.exact_distance:
        kinds.append("lower bound: a regulariser gives no exact distance")
    if source is not None and not math.isfinite(source.n):
        kinds.append(f"estimate on {sampler.size(sample):g} samples of the stream")
    return "; ".join(kinds) or "exact"
