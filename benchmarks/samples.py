"""Component gradients to a certificate: all six methods, all orders.

The problem is nonconvex logistic regression,

    F(x) = (1/n) Σ_i log(1 + exp(−y_i a_iᵀx)) + α Σ_t x_t² / (1 + x_t²) + λ ‖x‖₁,

α = 0.01, λ = 0.001, from x_0 = 0, with contiguous blocks of about 5 to 20 features and Λ_j = L_j I,
the known bound on the curvature of block j. What is counted is component gradients (block gradients
by their share d^j/d), divided by n, until dist²(∂F(x), 0) ≤ target in the norm of Λ^{−1}, which is
looked at about four times per n. Looking is not counted. A greedy turn needs all blocks' gradients,
and they are counted.

Batches are the paper's: b = n, b' = √n, p = b'/(b + b') for VR-CCD, VRO-CCD and PAGE; b = 512 for
SGD and SCCD. η is constant, chosen for each method from a grid in forward order, on seeds of its
own (fewest samples; else the smallest certificate), then used for all orders. Stochastic rows are
medians over the seeds. PAGE and SGD move all blocks at once, so they have no order.

    python benchmarks/samples.py digits
    python benchmarks/samples.py a9a w8a --data-dir FOLDER --out docs/benchmarks
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.progress import track
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from cyclade import L1
from cyclade.problems import LogisticRegression
from linear_peers.problems import npz
from measuring import parser_of
from tables import printed

ALPHA, LAM = 1e-2, 1e-3
BLOCKS = {"digits": 12, "a9a": 12, "w8a": 15}
EPOCHS = {"digits": 60.0, "a9a": 40.0, "w8a": 40.0}
ORDERS = ("forward", "backward", "shuffled", "random", "greedy")
BATCH = 512  # of SGD and SCCD
GRIDS = {
    "P-CCD": (0.5, 1.0, 1.5, 1.8),
    "SCCD": (0.01, 0.03, 0.1, 0.3, 1.0),
    "VR-CCD": (0.05, 0.1, 0.2, 0.5, 1.0),
    "VRO-CCD": (0.05, 0.1, 0.2, 0.5, 1.0),
    "PAGE": (0.05, 0.1, 0.2, 0.5, 1.0),
    "SGD": (0.01, 0.03, 0.1, 0.3, 1.0),
}
TUNING_SEEDS = (1000, 1001, 1002)  # none of those that are reported


class Job(NamedTuple):
    """One run."""

    dataset: str
    data_dir: Path | None
    method: str
    order: str
    eta: float
    seed: int
    target: float
    epochs: float


class Run(NamedTuple):
    """What a run came to. Samples are in units of n; inf where the target was not reached."""

    job: Job
    to_target: float
    best: float
    fun: float


@cache
def problem(dataset: str, data_dir: Path | None) -> LogisticRegression:
    """The problem, made once per process."""
    A, y = _load(dataset, data_dir)
    blocks = BLOCKS.get(dataset, max(1, A.shape[1] // 20))
    return LogisticRegression(A, y, alpha=ALPHA, blocks=blocks, reg=L1(LAM))


def run(job: Job) -> Run:
    """Run until the target or the end of the budget."""
    p = problem(job.dataset, job.data_dir)
    sizes = {"b": min(BATCH, p.n)} if job.method in ("SCCD", "SGD") else {}
    with threadpool_limits(1):
        result = p.minimize(
            method=job.method, order=job.order, eta=job.eta, seed=job.seed, returns="last",
            tol=math.sqrt(job.target), max_cycles=None, max_samples=job.epochs * p.n,
            every=_every(job, p), **sizes,
        )  # fmt: skip
    samples, far = (np.array(result.history[name]) for name in ("samples", "squared_distance"))
    reached = min(samples[far <= job.target] / p.n, default=math.inf)
    return Run(job, reached, float(np.nanmin(far)), result.fun)


def _every(job: Job, p: LogisticRegression) -> int:
    """Cycles between looks: about four looks per n component gradients."""
    b_small = math.isqrt(p.n)
    cost = {"P-CCD": p.n, "SCCD": BATCH, "SGD": BATCH}.get(job.method, 3 * b_small)
    return max(1, round(p.n / (4 * cost * (p.layout.m if job.order == "greedy" else 1))))


def compete(dataset: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each method and order, at its chosen η."""
    common = {"dataset": dataset, "data_dir": options.data_dir, "target": options.target,
              "epochs": options.epochs or EPOCHS.get(dataset, 40.0)}  # fmt: skip
    tuning = [
        Job(method=method, order="forward", eta=eta, seed=seed, **common)
        for method, grid in GRIDS.items()
        for eta in grid
        for seed in TUNING_SEEDS[: _seeds(method, "forward", len(TUNING_SEEDS))]
    ]
    tuned = _all(tuning, options.jobs, f"{dataset}: η")
    chosen = {method: _best([r for r in tuned if r.job.method == method]) for method in GRIDS}
    groups = [
        [Job(method=method, order=order, eta=chosen[method], seed=seed, **common)
         for seed in range(_seeds(method, order, options.seeds))]
        for method in GRIDS for order in (ORDERS if "CCD" in method else ORDERS[:1])
    ]  # fmt: skip
    runs = iter(_all([job for group in groups for job in group], options.jobs, dataset))
    for group in groups:
        yield row([next(runs) for _ in group])


def _seeds(method: str, order: str, seeds: int) -> int:
    return 1 if method == "P-CCD" and order in ("forward", "backward", "greedy") else seeds


def _best(runs: list[Run]) -> float:
    """The η with the smallest median of samples; of equals, with the smallest certificate."""

    def medians(eta: float) -> tuple[float, ...]:
        mine = [(r.to_target, r.best) for r in runs if r.job.eta == eta]
        return tuple(np.median(mine, axis=0))

    return min({r.job.eta for r in runs}, key=medians)


def row(runs: list[Run]) -> dict[str, Any]:
    """The row of one method and order."""
    job, times = runs[0].job, sorted(r.to_target for r in runs)
    return {
        "dataset": job.dataset, "method": job.method,
        "order": job.order if "CCD" in job.method else "–", "eta": job.eta, "seeds": len(runs),
        "reached": sum(map(math.isfinite, times)), "median": float(np.median(times)),
        "least": times[0], "most": times[-1],
        "best_certificate": float(np.median([r.best for r in runs])),
        "F": float(np.median([r.fun for r in runs])),
    }  # fmt: skip


def _all(jobs: list[Job], workers: int, label: str) -> list[Run]:
    if workers == 1:
        return [run(job) for job in track(jobs, label)]
    with ProcessPoolExecutor(workers) as pool:
        done = track(pool.map(run, jobs), label, total=len(jobs))
        return list(done)


def main() -> None:
    """Run, print and save, one data set after another."""
    parser = parser_of(__doc__)
    parser.add_argument("datasets", nargs="*", default=["digits"], help="digits, a9a, w8a, …")
    parser.add_argument("--data-dir", type=Path, help="a folder of npz tables")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where tables go")
    parser.add_argument("--target", type=float, default=1e-4, help="dist² to reach")
    parser.add_argument("--epochs", type=float, help="the budget, in component gradients / n")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    for dataset in options.datasets:
        p = problem(dataset, options.data_dir)
        print(f"{dataset}: n = {p.n:,}, d = {p.d}, m = {p.layout.m}")
        printed(compete(dataset, options), options.out / f"samples-{dataset}.csv", digits=6)


def _load(name: str, data_dir: Path | None) -> tuple[Any, Any]:
    """(A, y) with labels ±1: of digits even (1) against odd (−1), else the larger label becomes 1.

    Digits are standardised, and constant pixels are dropped.
    """
    if name == "digits":
        X, digit = load_digits(return_X_y=True)
        X = X[:, X.std(axis=0) > 0]
        return (X - X.mean(axis=0)) / X.std(axis=0), np.where(digit % 2 == 0, 1.0, -1.0)
    if data_dir is None:
        raise SystemExit(f"{name} needs --data-dir, a folder that holds {name}.npz")
    X, labels = npz(data_dir / f"{name}.npz")
    return X, np.where(labels == labels.max(), 1.0, -1.0)


if __name__ == "__main__":
    main()
