"""What the loop costs: time per block of `cyclade.core.iterate` against a bare NumPy loop.

The problem is separable: m least-squares terms of 200 rows each,

    f(x) = Σ_j ‖C_j x^j − y_j‖² / 400,   r(x) = λ ‖x‖₁.

Block j's gradient needs block j alone and costs 2 · 200 · d^j multiply-adds, so it hides little.
Both loops call the same gradient function (`block_jac`) at the same points on the same samples; the
bare loop is written out below by hand, with no oracle, layout or regulariser object. Both must walk
the same trajectory before anything is timed. P-CCD sees all rows. VRO-CCD draws a large or a small
batch of them for each cycle, 14 rows mostly, so its gradients are cheap and there are two a block.

A second table is about many blocks: P-CCD on a chain of 10,000 coordinates, each a block,

    f(x) = ½ xᵀHx − q·x,   H tridiagonal (−1, 2.5, −1),   r(x) = λ ‖x‖₁,

with f given as `jac` (the whole gradient, called at every turn), as `block_jac`, and as a sweep of
the user's own that keeps Hx − q. Here the library's loop counts what it asks for, as in `minimize`.

Times are medians over interleaved repeats, per block. Targets: at most 1.3 times the bare loop at
1,000 coordinates a block, and at most 2 times at 10,000 blocks of one.

    python benchmarks/overhead.py [--repeats 15] [--csv out/overhead.csv]
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from cyclade import L1, Fixed, Forward, Full, Layout, Page, PerBlock, iterate, start
from cyclade.oracles.callables import CallableOracle, Jacobian
from cyclade.oracles.counting import Counting, CountingProx
from cyclade.oracles.user import UserOracle
from measuring import command_line
from tables import printed

ROWS, LAM = 200, 1e-3
SIZES = (1, 10, 100, 1000, 10_000)
TARGET, TARGET_SIZE = 1.3, 1000
LINKS, TARGET_LINKS = 10_000, 2.0


class Separable:
    """m least-squares problems of 200 rows, one per block; idx chooses rows in all of them."""

    def __init__(self, size: int, m: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.size, self.m = size, m
        self.C = rng.normal(size=(m, ROWS, size)) / np.sqrt(ROWS * max(size, ROWS))
        self.y = rng.normal(size=(m, ROWS))
        self.L = [float(np.linalg.norm(C, 2) ** 2 / ROWS) for C in self.C]
        self.x0 = rng.normal(size=m * size)

    def fun(self, x: Any, idx: Any) -> float:
        """f: never called by the loops that are timed."""
        raise NotImplementedError

    def block_jac(self, x: Any, j: int, idx: Any) -> Any:
        """∇^j f on the rows idx."""
        C, y = self.C[j], self.y[j]
        if len(idx) != ROWS:
            C, y = C[idx], y[idx]
        xj = x[j * self.size : (j + 1) * self.size]
        return C.T @ (C @ xj - y) / len(idx)


def ours(problem: Separable, vro: bool, seed: int = 0) -> Iterator[Any]:
    """The library's loop; yields x, live."""
    layout = Layout.of(problem.x0, [problem.size] * problem.m)
    x0 = layout.point(problem.x0)
    oracle = CallableOracle(
        layout, Jacobian(problem.fun, None, problem.block_jac), ROWS, x0.leaves[0]
    )
    sampler: Any = Page(ROWS, b=ROWS) if vro else Full(ROWS)
    state = start(oracle, x0, sampler, np.random.default_rng(seed))
    reg, steps = PerBlock([L1(LAM)] * problem.m), Fixed(problem.L, eta=0.3 if vro else 1.0)
    for moved in iterate(state, oracle, reg, steps, sampler, Forward()):
        yield moved.x.leaves[0]


def bare(problem: Separable, vro: bool, seed: int = 0) -> Iterator[Any]:
    """Algorithms 1 and 2 by hand; yields x, live."""
    return (bare_vro_ccd if vro else bare_p_ccd)(problem, seed)


def bare_p_ccd(problem: Separable, seed: int) -> Iterator[Any]:
    """Algorithm 1 with soft thresholding, and nothing else."""
    cuts, x, everything = _cuts(problem), problem.x0.copy(), np.arange(ROWS)
    steps = [1.0 / L for L in problem.L]
    while True:
        for j, cut in enumerate(cuts):
            t = steps[j]
            u = x[cut] - t * problem.block_jac(x, j, everything)
            x[cut] = u - np.clip(u, -LAM * t, LAM * t)
        yield x


def bare_vro_ccd(problem: Separable, seed: int) -> Iterator[Any]:
    """Algorithm 2, one draw per cycle, with soft thresholding; the lagged point is a second x."""
    cuts, x, everything = _cuts(problem), problem.x0.copy(), np.arange(ROWS)
    steps = [0.3 / L for L in problem.L]
    sampler = Page(ROWS, b=ROWS)
    _, rng, _ = np.random.default_rng(seed).spawn(3)
    lag = x.copy()
    g = [problem.block_jac(x, j, everything) for j in range(problem.m)]
    while True:
        sample, refresh = sampler.draw(rng)
        idx = everything if refresh else sample
        for j, cut in enumerate(cuts):
            gj = problem.block_jac(x, j, idx)
            if not refresh:
                gj = g[j] + (gj - problem.block_jac(lag, j, idx))
            g[j] = gj
            lag[cut] = x[cut]
            t = steps[j]
            u = x[cut] - t * gj
            x[cut] = u - np.clip(u, -LAM * t, LAM * t)
        yield x


class Chain:
    """½ xᵀHx − q·x with H tridiagonal, by its gradient, by blocks of it, and by a sweep."""

    stencil = np.array([-1.0, 2.5, -1.0])

    def __init__(self, m: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.m, self.q, self.x0 = m, rng.normal(size=m), rng.normal(size=m)

    def fun(self, x: Any) -> float:
        """f: never called by the loops that are timed."""
        raise NotImplementedError

    def jac(self, x: Any) -> Any:
        """∇f."""
        g = 2.5 * x - self.q
        g[1:] -= x[:-1]
        g[:-1] -= x[1:]
        return g

    def block_jac(self, x: Any, j: int) -> Any:
        """∇^j f."""
        g = 2.5 * x[j : j + 1] - self.q[j : j + 1]
        if j > 0:
            g -= x[j - 1 : j]
        if j < self.m - 1:
            g -= x[j + 1 : j + 2]
        return g

    def sweep(self, x: Any, sample: Any) -> ChainSweep:
        """A point that moves with its gradient."""
        return ChainSweep(self, x)


class ChainSweep:
    """x and, with a zero at either end, Hx − q."""

    def __init__(self, chain: Chain, x: Any) -> None:
        self.x, self.stencil = x, chain.stencil
        self.g = np.pad(chain.jac(x.view()), 1)
        self.get = x.get

    def set(self, j: int, u: Any) -> None:
        """Move x_j to u."""
        self.g[j : j + 3] += self.stencil * (u - self.x.get(j))
        self.x.set(j, u)

    def grad(self, j: int) -> Any:
        """∇^j f."""
        return self.g[j + 1 : j + 2]

    def value(self) -> float:
        """f: not needed for fixed steps."""
        return 0.0


def our_chain(chain: Chain, given: str) -> Iterator[Any]:
    """The library's loop, with f as `given`; yields x, live."""
    layout = Layout.of(chain.x0, "coordinates")
    x0 = layout.point(chain.x0)
    if given == "sweep":
        oracle: Any = UserOracle(chain, layout)
    else:
        jac, block_jac = (chain.jac, None) if given == "jac" else (None, chain.block_jac)
        derivatives = Jacobian(chain.fun, jac, block_jac)
        oracle = CallableOracle(layout, derivatives, None, x0.leaves[0])
    oracle, sampler = Counting(oracle, Full(), layout.shares()), Full()
    state = start(oracle, x0, sampler, np.random.default_rng(0))
    reg, steps = CountingProx(PerBlock([L1(LAM)] * chain.m)), Fixed([2.5] * chain.m)
    for moved in iterate(state, oracle, reg, steps, sampler, Forward()):
        yield moved.x.leaves[0]


def bare_chain(chain: Chain, given: str) -> Iterator[Any]:
    """The same by hand; yields x, live."""
    x, t, s = chain.x0.copy(), 1 / 2.5, LAM / 2.5
    cuts = [slice(j, j + 1) for j in range(chain.m)]
    while True:
        if given == "jac":
            for cut in cuts:
                u = x[cut] - t * chain.jac(x)[cut]
                x[cut] = u - u.clip(-s, s)
        elif given == "block_jac":
            for j, cut in enumerate(cuts):
                u = x[cut] - t * chain.block_jac(x, j)
                x[cut] = u - u.clip(-s, s)
        else:
            g = np.pad(chain.jac(x), 1)
            for j, cut in enumerate(cuts):
                xj = x[cut]
                u = xj - t * g[j + 1 : j + 2]
                u = u - u.clip(-s, s)
                g[j : j + 3] += chain.stencil * (u - xj)
                x[cut] = u
        yield x


def _cuts(problem: Separable) -> list[slice]:
    return [slice(j * problem.size, (j + 1) * problem.size) for j in range(problem.m)]


def check(loops: list[Callable[[], Iterator[Any]]], cycles: int) -> None:
    """Both loops must walk the same trajectory."""
    pairs = zip(*(loop() for loop in loops), strict=False)
    for k, (a, b) in enumerate(islice(pairs, cycles)):
        if not np.allclose(a, b, rtol=1e-12, atol=1e-14):
            raise AssertionError(f"the loops differ by {np.abs(a - b).max():g} in cycle {k + 1}")


def seconds_per_block(loop: Iterator[Any], cycles: int, m: int) -> float:
    """Processor time of `cycles` cycles, per block; what other programs do is not in it."""
    begun = time.process_time()
    for _ in islice(loop, cycles):
        pass
    return (time.process_time() - begun) / (cycles * m)


def measure(loops: list[Callable[[], Iterator[Any]]], m: int, repeats: int) -> list[float]:
    """Median seconds per block of each loop over m blocks, interleaved."""
    running = [loop() for loop in loops]
    warm = max(seconds_per_block(loop, 2, m) for loop in running)
    cycles = max(1, int(0.02 / (warm * m)))
    times: list[list[float]] = [[] for _ in loops]
    for repeat in range(repeats):
        running = [loop() for loop in loops]  # the same seed: the same draws in every repeat
        for which in (0, 1) if repeat % 2 else (1, 0):
            next(running[which])  # set-up is off the clock
            times[which].append(seconds_per_block(running[which], cycles, m))
    return [float(np.median(each)) for each in times]


def separable(size: int, vro: bool, repeats: int) -> list[float]:
    """The library's loop and the bare one on blocks of `size` coordinates."""
    m = max(4, min(50, 20_000 // size))
    problem = Separable(size, m)
    loops = [partial(loop, problem, vro) for loop in (ours, bare)]
    check(loops, cycles=12)
    return measure(loops, m, repeats)


def chained(given: str, repeats: int) -> list[float]:
    """The library's loop and the bare one on blocks of one."""
    short, long = (
        [partial(loop, Chain(m), given) for loop in (our_chain, bare_chain)] for m in (50, LINKS)
    )
    check(short, cycles=12)
    return measure(long, LINKS, repeats)


def lines(repeats: int) -> Iterator[dict[str, Any]]:
    """The rows of the table, in microseconds a block."""
    for name, vro in (("P-CCD", False), ("VRO-CCD", True)):
        for size in SIZES:
            yield row(name, size, *separable(size, vro, repeats))
    for given in ("jac", "block_jac", "sweep"):
        yield row(f"chain, {given}", 1, *chained(given, min(repeats, 7)))


def row(method: str, block: int, own: float, bare: float) -> dict[str, Any]:
    """One of them."""
    return {
        "method": method, "block": block, "iterate_us": 1e6 * own, "bare_us": 1e6 * bare,
        "ratio": own / bare, "extra_us": 1e6 * (own - bare),
    }  # fmt: skip


def main() -> None:
    """Measure, print, save; say whether the targets are met."""
    parser = command_line(__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    with threadpool_limits(1):  # one thread: what is measured is the loop
        rows = printed(lines(options.repeats), options.csv)
    for target, size, many in ((TARGET, TARGET_SIZE, False), (TARGET_LINKS, 1, True)):
        chosen = [r for r in rows if r["method"].startswith("chain") == many and r["block"] == size]
        worst = max(r["ratio"] for r in chosen)
        what = f"{LINKS:,} blocks of one" if many else f"{size:,} coordinates a block"
        met = "met" if worst <= target else "not met"
        print(f"Target {target:g}x at {what}: {met} ({worst:.2f}x)")


if __name__ == "__main__":
    main()
