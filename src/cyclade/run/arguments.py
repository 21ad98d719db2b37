"""Reading and checking the arguments of `minimize`, before any work starts."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cyclade._arrays import Array, all_finite, array_namespace, from_numpy, kind, largest_entry
from cyclade._checks import (
    as_float,
    function,
    generator,
    is_number,
    listed,
    shown,
    takes,
    unmasked,
    whole_number,
)
from cyclade.blocks import Layout, Point
from cyclade.certificates import Contradiction, contradiction_by_blocks, prox_error
from cyclade.files.objects import as_numpy, fingerprint, stable_repr
from cyclade.methods import Method
from cyclade.oracles.autograd import Autograd
from cyclade.oracles.callables import CallableOracle, FiniteDifferences, Jacobian, Pair
from cyclade.oracles.user import UserOracle
from cyclade.regularisers import (
    L0,
    L1,
    MCP,
    SCAD,
    Box,
    ElasticNet,
    Grid,
    LHalf,
    PerBlock,
    SquaredL2,
    Zero,
    per_block,
)
from cyclade.regularisers.joined import Joined
from cyclade.run.runner import Carried
from cyclade.run.stopping import BeforeRefreshes, EveryCycles, EverySamples, Limits, Stop
from cyclade.sampling.orders import Order
from cyclade.sampling.samplers import ALL, FiniteSum, Sample, Source, Stream
from cyclade.steps.backtracking import Backtracking
from cyclade.steps.base import Rated
from cyclade.steps.curvature import Curvature
from cyclade.steps.fixed import Fixed, checked
from cyclade.steps.matrix import InMatrixNorm, Matrix

CYCLES = 1000
EPOCHS = 300  # as many component gradients as 300 times all terms


def as_source(n: Any, stream: Any) -> Source | None:
    """Where samples come from: a finite sum, a stream, or None for f as a whole."""
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


def terms_of_all_ranks(process_group: Any, n: Any, x0: Any) -> tuple[Any, FiniteSum]:
    """The ranks that hold the terms of a sum, and the sum of all of them."""
    if n is None:
        raise ValueError("process_group needs n=, the number of terms that this rank holds")
    from cyclade.ranks import Ranks

    ranks = Ranks(process_group)
    ranks.agree({"x0": fingerprint(*map(as_numpy, Layout.of(x0, None).point(x0).leaves))})
    return ranks, FiniteSum(sum(int(row[0]) for row in ranks.rows([float(n)])))


@dataclass
class Objective:
    """F by blocks, where x starts, and where samples come from."""

    x: Point
    user_layout: Layout  # which methods of one block merge
    regs: PerBlock
    oracle: Any
    by_hand: bool  # whether the gradient was written by hand, so that it may be wrong
    source: Source | None
    ranks: Any = None
    own: float = 1.0  # terms that this process holds
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    @property
    def n(self) -> float:
        """The number of terms."""
        return 1.0 if self.source is None else self.source.n

    def agree_over_ranks(self, said: dict[str, Any], seed: Any) -> Any:
        """Sum f over all ranks, if there are several; the seed of the first."""
        if self.ranks is None:
            return seed
        from cyclade.oracles.sharded import Sharded

        self.ranks.agree(said, free=["seed"])
        self.oracle = Sharded(self.oracle, int(self.own), self.ranks)
        return self.ranks.first(generator("seed", seed))

    def alike(self, numbers: list[float]) -> list[float]:
        """Numbers that all ranks of a run must agree on: the largest of each."""
        if self.ranks is None:
            return numbers
        return [max(column) for column in zip(*self.ranks.rows(numbers), strict=True)]

    def contradiction(
        self, x: Point, gradient: list[Any], sample: Sample, most: int = 8
    ) -> Contradiction | None:
        """How a gradient contradicts the values of f around a point."""

        def value(there: Point) -> float:
            return float(self.oracle.sweep(there, sample).value())

        return contradiction_by_blocks(value, x, gradient, self.rng, most)

    def wrong_regulariser(
        self, x: Point, gradient: list[Any], metric: Callable[[int], Any], tol: float
    ) -> str:
        """What is wrong with a regulariser that the user wrote, by what it says at x; else ""."""
        joined = self.regs.regs[0] if isinstance(self.regs.regs[0], Joined) else None
        own: dict[int, list[int]] = {}  # the blocks of each
        for i, reg in enumerate(joined.regularisers if joined else self.regs.regs):
            if not type(reg).__module__.startswith("cyclade."):
                own.setdefault(id(reg), []).append(i)
        for i in (i for blocks in own.values() for i in blocks[:: 1 + len(blocks) // 32]):
            if joined is None:
                j, reg, u, v = i, self.regs.regs[i], x.get(i), gradient[i]
            else:
                j, (index, shape, reg) = 0, joined.parts[i]
                u, v = (a[index].reshape(shape) for a in (x.get(0), gradient[0]))
            t = 1.0 / largest_entry(metric(j))
            wrong = prox_error(reg, u, v, t, tol) if 0.0 < t < math.inf else ""
            if wrong:
                name = self.user_layout.names[i]
                return f"{reg!r}, the regulariser of block {name!r}, contradicts itself: {wrong}"
        return ""


def as_problem(
    fun: Any, x0: Any, blocks: Any, reg: Any, method: Method, derivatives: tuple[Any, Any, Any],
    source: Source | None, process_group: Any,
) -> Objective:  # fmt: skip
    """From what the user gives; `derivatives` are jac, block_jac and args."""
    ranks, own = None, source
    if process_group is not None:
        ranks, source = terms_of_all_ranks(process_group, None if own is None else own.n, x0)
    user = Layout.of(x0, blocks)
    regs = per_block(reg, user.m, names=user.names, shapes=user.block_shapes)
    layout, regs = as_one_block(user, regs, x0) if method.one_block else (user, regs)
    x = layout.point(x0)
    oracle, by_hand = smooth_part(fun, *derivatives, x, user, own, method)
    held = 1.0 if own is None else own.n
    return Objective(x, user, regs, oracle, by_hand, source, ranks, held)


def description(
    found: Objective, method: Method, reg: Any, seed: Any, **others: Any
) -> dict[str, Any]:
    """A run by name: what must be the same on all ranks, and when it is resumed."""
    # Objects that make steps hold what a run has seen: their class has to do.
    plain = (int, float, str, list, tuple, dict, np.ndarray)
    L, eta = (
        stable_repr(one) if isinstance(one, plain) else type(one).__name__
        for one in (method.steps, method.eta)
    )
    own = seed if seed is None or isinstance(seed, int | np.integer) else "a generator"
    start = fingerprint(*map(as_numpy, found.x.leaves))
    return {
        "method": method.name, "n": found.n, "blocks": repr(found.x.layout.block_shapes),
        "x0": start, "reg": stable_repr(reg), "order": stable_repr(method.order), "L": L,
        "eta": eta, "accelerate": method.accelerated, "seed": repr(own),
        **{name: repr(value) for name, value in (method.batches | others).items()},
    }  # fmt: skip


def check_flags(**flags: Any) -> None:
    """True or False, nothing else."""
    for name, value in flags.items():
        if not isinstance(value, bool | np.bool_):
            raise TypeError(f"{name} must be True or False, got {value!r}")


def check_options(
    method: Method, turns: Order, limits: Limits, block_min: Any, callback: Any
) -> None:
    """What fits some methods and orders only."""
    if callback is not None:
        function("callback", callback, "None or callable")
    if block_min is not None:
        function("block_min", block_min, "None or a function (j, x) -> block j")
        if method.steps is not None or method.eta is not None:
            raise ValueError("block_min takes no steps: leave L and eta out")
        if not method.deterministic:
            raise ValueError(
                "block_min needs a method that sees all of f: use method='P-CCD', not "
                f"{method.name}"
            )
    if limits.change_tol is not None and not turns.visits_all:
        raise ValueError(
            "change_tol needs an order that visits every block in a cycle, not random, greedy or "
            "one of your own: a block that waits does not move"
        )


def as_one_block(user: Layout, regs: PerBlock, x0: Any) -> tuple[Layout, PerBlock]:
    """One block that is all of x, with the regularisers of the user's blocks on its parts."""
    if user.m == 1:
        return user, regs
    parts = list(zip(user.flat_index(), user.block_shapes, regs.regs, strict=True))
    layout = Layout.of(x0, [user.d] if user.labels == [""] else [user.labels])
    return layout, PerBlock([Joined(parts)])


def smooth_part(
    fun: Any, jac: Any, block_jac: Any, args: Any, x: Point, user: Layout, source: Source | None,
    method: Method,
) -> tuple[Any, bool]:  # fmt: skip
    """The oracle of f from what the user gives, and whether its gradient was written by hand."""
    one_block, order = method.one_block, method.order
    if callable(getattr(fun, "sweep", None)):
        if jac is not None or block_jac is not None or args != ():
            raise ValueError("fun is an oracle, which has its own gradient: leave jac, block_jac "
                             "and args out")  # fmt: skip
        if one_block and user.m > 1 and not callable(getattr(fun, "oracle", None)):
            raise ValueError(
                "fun is an oracle with sweeps over blocks: PAGE and SGD move all of x at once; "
                "give it with blocks that are all of x"
            )
        if callable(getattr(fun, "oracle", None)):  # it makes its own, for any blocks
            return fun.oracle(x.layout), False
        return UserOracle(fun, x.layout), True
    if not callable(fun):
        raise TypeError(f"fun must be callable, got {type(fun).__name__}")
    if not isinstance(args, tuple):
        raise TypeError(f"args must be a tuple, got {type(args).__name__}")
    rows = () if source is None else ("idx" if math.isfinite(source.n) else "batch",)
    others = [f"args[{i}]" for i in range(len(args))]
    for name, call, given in (
        ("fun", fun, ("x",)), ("jac", jac, ("x",)), ("block_jac", block_jac, ("x", "j")),
    ):  # fmt: skip
        if callable(call):
            takes(name, call, *given, *rows, *others)
    if block_jac is not None and one_block:
        function("block_jac", block_jac, "callable")
        block_jac = _all_blocks(block_jac, user)
    if isinstance(order, str) and order == "greedy" and callable(jac):
        block_jac = None  # its turns look at all blocks, which one call of jac gives
    derivatives = _derivatives(fun, jac, block_jac, x, args)
    n = None if source is None else source.n
    oracle = CallableOracle(x.layout, derivatives, n, x.leaves[0])
    return oracle, isinstance(derivatives, Jacobian | Pair)


def _all_blocks(block_jac: Callable[..., Any], user: Layout) -> Callable[..., Any]:
    """`block_jac` of the one block that is all of x, from that of the user's blocks."""

    def whole(x: Any, _: int, *args: Any) -> Array:
        parts = [np.array(block_jac(x, j, *args)) for j in range(user.m)]  # it may reuse a buffer
        gradient = np.empty(user.d, dtype=parts[0].dtype)
        for index, part in zip(user.flat_index(), parts, strict=True):
            gradient[index] = part.reshape(-1)
        return gradient if user.m > 1 else parts[0]

    return whole


def _derivatives(fun: Any, jac: Any, block_jac: Any, x: Point, args: tuple[Any, ...]) -> Any:
    def told(call: Any) -> Any:
        return (lambda *a: call(*a, *args)) if args else call

    if isinstance(jac, str) and jac != "2-point":
        raise ValueError(f"jac={jac!r} is unknown: use '2-point', True or a function")
    if (jac is True or isinstance(jac, str)) and block_jac is not None:
        raise ValueError(f"jac={jac!r} and block_jac: give one of them")
    if isinstance(jac, str):
        return FiniteDifferences(told(fun))
    if kind(x.leaves[0]) == "torch":
        if jac is not None or block_jac is not None:
            raise ValueError("jac and block_jac are for NumPy x0; torch differentiates fun itself")
        return Autograd(told(fun))
    if jac is True:
        return Pair(told(fun))
    if jac is None and block_jac is None:
        raise ValueError(
            "a NumPy x0 needs the gradient of fun: give jac= (or block_jac=, or jac='2-point'), or "
            "write fun in torch and give x0 as torch tensors"
        )
    calls = [
        None if given is None else told(function(name, given))
        for name, given in (("jac", jac), ("block_jac", block_jac))
    ]
    return Jacobian(told(fun), *calls)


def as_limits(stop: Any, n: float | None, **given: Any) -> Limits:
    """When to stop, by keywords or by an object; `n` is the number of terms that are sampled."""
    if stop is not None:
        if not isinstance(stop, Stop):
            raise TypeError(f"stop must be a cyclade.Stop, got {type(stop).__name__}")
        for name, value in vars(Stop()).items():
            if given[name] != value:
                raise ValueError(f"{name} is an option of stop: set it there")
        given = dict(vars(stop))
    if isinstance(given["max_cycles"], str) and given["max_cycles"] == "auto":
        given["max_cycles"] = CYCLES if n is None else None
        if n is not None and given["max_samples"] is None:
            given["max_samples"] = EPOCHS * n
    for name, value in given.items():
        if value is None:
            continue
        if not is_number(value):
            raise TypeError(f"{name} must be a number or None, got {value!r}")
        number = as_float(value)
        if not number >= 0:
            raise ValueError(f"{name} must be at least 0, got {value}")
        given[name] = number if name != "max_cycles" or math.isinf(number) else math.ceil(number)
    if all(value is None for value in given.values()):
        raise ValueError("nothing would stop the run: give a tolerance or a limit, such as tol")
    return Limits(**given)


def looks(every: Any, method: Method, sampler: Any, rng: np.random.Generator) -> Any:
    """When F is evaluated: see `every` of `minimize`."""
    if every is not None:
        try:
            return EveryCycles(whole_number("every", every, 1))
        except ValueError:
            raise ValueError(
                f"every must be a whole number of cycles, at least 1, got {every!r}"
            ) from None
    if method.deterministic:
        return EveryCycles(10)
    n = sampler.source.n
    if not math.isfinite(n):
        return EveryCycles(50)
    if sampler.recursive and sampler.b == n:
        return BeforeRefreshes(sampler, rng, EverySamples(4.0 * n))
    cost = sampler.p * sampler.b + (1 - sampler.p) * 2 * sampler.b_small
    return EveryCycles(max(1, round(n / cost)))


def check_start(problem: Objective, sample: Sample, check_grad: bool) -> None:
    """Evaluate f and its gradient once, so that what is wrong with them is said at once."""
    x = problem.x
    try:
        value, gradient = problem.oracle.evaluate(x, sample)
    except (IndexError, TypeError) as error:
        if x.layout.shapes != [()]:
            raise
        raise ValueError(
            f"x0 is one number, so fun and jac get an array without axes, and failed: {error}. "
            "Give x0 as a list of one number for x[0]"
        ) from error
    if not math.isfinite(value):
        raise ValueError(f"fun(x0) is {value}: start from a point where f is finite")
    for j, gj in enumerate(gradient):
        if not all_finite(gj):
            raise ValueError(
                f"the gradient of fun at x0 has NaN or infinity in block {x.layout.names[j]!r}"
            )
    found = problem.contradiction(x, gradient, sample, most=32) if check_grad else None
    if found is not None:
        what = "fun has a kink, or jac" if found.kink else "jac"
        raise ValueError(f"{what} is not the gradient of fun: at x0, {found.evidence}")


def as_carried(
    resume: Any, method: Method, layout: Layout, source: Source | None,
    described: dict[str, Any] | None = None,
) -> Carried:  # fmt: skip
    """The state to resume from, if it belongs to this problem, and the run is as `described`."""
    if not isinstance(resume, Carried):
        raise TypeError(f"resume must be the `state` of a Result, got {type(resume).__name__}")
    if resume.method != method.name:
        raise ValueError(f"resume is a state of {resume.method}, not of {method.name}")
    n = 1.0 if source is None else source.n
    if resume.n != n:
        raise ValueError(f"resume is a state of a sum of n = {resume.n:g} terms, not {n:g}")
    there = resume.state.x.layout
    if there.block_shapes != layout.block_shapes:
        raise ValueError(
            f"resume has blocks of shapes {there.block_shapes}, the problem {layout.block_shapes}"
        )
    for name, value in (described or {}).items():
        if resume.described.get(name, value) != value:
            raise ValueError(
                f"resume is a state of a run with another {name}: all arguments but limits and "
                "tolerances must be as they were"
            )
    return copy.deepcopy(resume)


def check_checkpoint(resume: Any, stream: Any) -> None:
    """What a checkpoint cannot be combined with."""
    if resume is not None:
        raise ValueError("give resume= or checkpoint=, not both: a checkpoint resumes by itself")
    if stream is not None and not callable(stream):
        raise ValueError(
            "checkpoint needs a stream(rng, size) or n=: an iterator cannot be wound forward to "
            "where the run stood"
        )


def distance_kind(regs: Any, source: Source | None, sampler: Any, sample: Any) -> str:
    """ "exact", or what stands in for an exact distance."""
    kinds = []
    if not regs.exact_distance:
        kinds.append("lower bound: a regulariser gives no exact distance")
    if any(isinstance(one, InMatrixNorm) and one.bounded_distance for one in regs.regs):
        kinds.append("upper bound: a matrix Λ_j beside a regulariser")
    if source is not None and not math.isfinite(source.n) and sample is not ALL:
        kinds.append(f"estimate on {sampler.size(sample):g} samples of the stream")
    return "; ".join(kinds) or "exact"


MOST_SCALED = 8  # blocks; with more, each is short, and has a step of its own
STEPS = ("begin", "current", "metric", "prepare", "memory", "recall", "rate", "slow", "blocks",
         "measured", "remark")  # fmt: skip
ACCEPTED = (
    "'backtracking', 'scaled', 'estimate', 'search', a number, one number, diagonal or Matrix per "
    "block, or a Steps object"
)


def as_steps(
    L: Any,
    eta: Any,
    layout: Layout,
    user_layout: Layout,
    x0: Point,
    deterministic: bool,
    shrink_every: int = 1,
) -> Rated:
    """The steps for `layout`; Λ may be given for the blocks of `user_layout`, which it merges."""
    if callable(getattr(L, "at", None)):
        if eta is not None:
            raise ValueError("eta is part of the Steps object given as L: set it there")
        lacking = [name for name in STEPS if not hasattr(L, name)]
        if lacking:
            raise TypeError(
                f"L: {type(L).__name__} lacks {', '.join(lacking)} of a Steps object; "
                "cyclade.steps.Rated has them"
            )
        if L.blocks not in (None, layout.m):
            raise ValueError(f"L is a Steps object for {L.blocks} blocks, but there are {layout.m}")
        return copy.deepcopy(L)  # type: ignore[no-any-return]  # it learns; the user's stays as it was
    eta = (1.0 if deterministic else 0.15) if eta is None else eta
    if isinstance(eta, str):
        raise ValueError(
            "eta must be a positive number or a function of k; 'theory' is for methods that sample "
            f"and L left to be estimated, got {eta!r}"
        )
    if L is None:
        L = "backtracking" if deterministic else "estimate"
    if not isinstance(L, str):
        Lambda = _per_block(L, user_layout, x0.leaves[0])
        if layout.m != user_layout.m:
            Lambda = [_merged(Lambda, user_layout, x0.leaves[0])]
        return Fixed(Lambda, eta)
    if L in ("backtracking", "scaled"):
        guesses = [math.nan] * layout.m
        return Backtracking(guesses, eta, scaled=L == "scaled", shrink_every=shrink_every)
    if L == "estimate":
        return Curvature(layout.m, eta)
    if L == "search":
        raise ValueError(
            "L='search' is for methods that sample (give n= or stream=): use 'backtracking'"
        )
    raise ValueError(f"L={L!r} is unknown: use {ACCEPTED}")


ENTRYWISE = (Zero, L1, SquaredL2, ElasticNet, Box, MCP, SCAD, L0, LHalf, Grid)


def scaled_blocks(layout: Layout, regs: PerBlock) -> list[int]:
    """The blocks whose coordinates get steps of their own: few, long, with proxes by entries."""
    if layout.m > MOST_SCALED:
        return []

    def entrywise(reg: Any) -> bool:
        return all(isinstance(part, ENTRYWISE) for part in getattr(reg, "regularisers", [reg]))

    return [j for j, reg in enumerate(regs.regs) if layout.sizes[j] > 1 and entrywise(reg)]


def _per_block(L: Any, layout: Layout, like: Array) -> list[Any]:
    if isinstance(L, Mapping):
        if sorted(map(str, L)) != sorted(layout.names):
            raise ValueError(f"L must have the blocks' names {list(layout.names)}, got {list(L)}")
        named = {str(name): entry for name, entry in L.items()}
        L = [named[name] for name in layout.names]
    if is_number(L) or isinstance(L, Matrix):
        L = [L] * layout.m
    try:
        entries = listed("L", unmasked("L", L), ACCEPTED)
    except ValueError as error:
        raise TypeError(str(error)) from None
    if len(entries) != layout.m:
        raise ValueError(
            f"L must have one entry for each of the {layout.m} blocks, got {len(entries)}"
        )
    return [
        _of_block(entry, f"L[{j}]", shape, like)
        for j, (entry, shape) in enumerate(zip(entries, layout.block_shapes, strict=True))
    ]


def _of_block(entry: Any, name: str, shape: tuple[int, ...], like: Array) -> Any:
    if isinstance(entry, Matrix):
        size = math.prod(shape)
        if entry.size not in (None, size):
            raise ValueError(f"{name} must be {size} x {size} like its block, got {entry!r}")
        if entry.matrix is not None and kind(entry.matrix) != kind(like):
            raise TypeError(f"{name} must be a matrix of the array library of x0, {kind(like)}")
        return entry
    if is_number(entry):
        return checked(name, entry)
    try:
        if isinstance(entry, str | bytes | bool):
            raise TypeError
        diagonal = array_namespace(like).asarray(unmasked(name, entry), dtype=like.dtype)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise TypeError(f"{name} must be a number or an array, got {shown(entry)}") from None
    if tuple(diagonal.shape) != shape:
        raise ValueError(
            f"{name} must have the shape {shape} of its block, got {tuple(diagonal.shape)}"
        )
    return checked(name, diagonal.to(like.device) if kind(like) == "torch" else diagonal)


def _merged(Lambda: list[Any], layout: Layout, like: Array) -> Any:
    """Λ of all of x as one block: a number if all blocks share one, else a diagonal."""
    if any(isinstance(entry, Matrix) for entry in Lambda):
        raise ValueError("L: a Matrix per block needs a method that moves blocks one by one")
    if all(isinstance(entry, float) and entry == Lambda[0] for entry in Lambda):
        return Lambda[0]
    diagonal = from_numpy(np.ones(layout.d), like)
    for index, entry in zip(layout.flat_index(), Lambda, strict=True):
        diagonal[index] = entry if isinstance(entry, float) else entry.reshape(-1)
    return diagonal
