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
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from cyclade import L1
from cyclade.experiments.report.figures import smaller
from cyclade.problems import LogisticRegression
from linear_peers.problems import npz
from measuring import command_line
from tables import table, write_csv

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


@dataclass(frozen=True)
class Job:
    """One run."""

    dataset: str
    data_dir: Path | None
    method: str
    order: str
    eta: float
    seed: int
    target: float
    epochs: float


@dataclass
class Run:
    """What a run came to. Samples are in units of n; inf where the target was not reached."""

    job: Job
    to_target: float
    best: float
    fun: float
    history: dict[str, list[float]] = field(repr=False)


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
    history = {name: result.history[name] for name in ("samples", "squared_distance", "fun")}
    history["samples"] = [s / p.n for s in history["samples"]]
    reached = [s for s, c in zip(history["samples"], history["squared_distance"], strict=True)
               if c <= job.target]  # fmt: skip
    best = float(np.nanmin(history["squared_distance"]))
    return Run(job, reached[0] if reached else math.inf, best, result.fun, history)


def _every(job: Job, p: LogisticRegression) -> int:
    """Cycles between looks: about four looks per n component gradients."""
    b_small = math.isqrt(p.n)
    cost = {"P-CCD": p.n, "SCCD": BATCH, "SGD": BATCH}.get(job.method, 3 * b_small)
    return max(1, round(p.n / (4 * cost * (p.layout.m if job.order == "greedy" else 1))))


def compete(dataset: str, options: argparse.Namespace) -> list[list[Run]]:
    """All runs on one data set, grouped by (method, order), each at its chosen η."""
    epochs = options.epochs or EPOCHS.get(dataset, 40.0)
    common = {"dataset": dataset, "data_dir": options.data_dir, "target": options.target,
              "epochs": epochs}  # fmt: skip
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
    return [[next(runs) for _ in group] for group in groups]


def _seeds(method: str, order: str, seeds: int) -> int:
    return 1 if method == "P-CCD" and order in ("forward", "backward", "greedy") else seeds


def _best(runs: list[Run]) -> float:
    """The η with the smallest median of samples; of equals, with the smallest certificate."""

    def medians(eta: float) -> tuple[float, float]:
        mine = [r for r in runs if r.job.eta == eta]
        return float(np.median([r.to_target for r in mine])), float(
            np.median([r.best for r in mine])
        )

    return min({r.job.eta for r in runs}, key=medians)


def _all(jobs: list[Job], workers: int, label: str) -> list[Run]:
    if workers == 1:
        return [run(job) for job in track(jobs, label)]
    with ProcessPoolExecutor(workers) as pool:
        done = track(pool.map(run, jobs), label, total=len(jobs))
        return list(done)


def rows(groups: list[list[Run]]) -> list[dict[str, Any]]:
    """The table, one row per method and order."""
    out = []
    for runs in groups:
        job = runs[0].job
        times = sorted(r.to_target for r in runs)
        out.append({
            "dataset": job.dataset,
            "method": job.method,
            "order": job.order if "CCD" in job.method else "–",
            "eta": job.eta,
            "seeds": len(runs),
            "reached": sum(math.isfinite(t) for t in times),
            "median": float(np.median(times)),
            "least": times[0],
            "most": times[-1],
            "best_certificate": float(np.median([r.best for r in runs])),
            "F": float(np.median([r.fun for r in runs])),
        })  # fmt: skip
    return out


def shown(table_rows: list[dict[str, Any]]) -> str:
    """The table to read."""
    head = ("method", "order", "η", "component gradients / n", "range", "reached", "F")
    cells = [
        (row["method"], row["order"], f"{row['eta']:g}", figure(row), _range(row),
         f"{row['reached']}/{row['seeds']}", f"{row['F']:.5f}")
        for row in table_rows
    ]  # fmt: skip
    return table(head, cells)


def figure(row: dict[str, Any]) -> str:
    """The median, or how close it came."""
    if math.isfinite(row["median"]):
        return f"{row['median']:.1f}"
    return f"not reached (best {row['best_certificate']:.1e})"


def _range(row: dict[str, Any]) -> str:
    if row["seeds"] == 1 or not math.isfinite(row["least"]):
        return ""
    most = f"{row['most']:.1f}" if math.isfinite(row["most"]) else "∞"
    return f"{row['least']:.1f}–{most}"


COLOURS = {
    "P-CCD": "#222222", "SCCD": "#56b4e9", "VR-CCD": "#e69f00",
    "VRO-CCD": "#d55e00", "PAGE": "#009e73", "SGD": "#0072b2",
}  # fmt: skip


def save_picture(groups: list[list[Run]], title: str, target: float, path: Path) -> None:
    """Left: the certificate along the runs in forward order. Right: what each order needed."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure_, (left, right) = plt.subplots(1, 2, figsize=(13, 5), layout="constrained")
    for runs in groups:
        job = runs[0].job
        if job.order == "forward":
            middle = sorted(runs, key=lambda r: (r.to_target, r.best))[len(runs) // 2]
            label = f"{job.method}  (η = {job.eta:g})"
            left.plot(middle.history["samples"], middle.history["squared_distance"],
                      color=COLOURS[job.method], label=label, lw=1.8,
                ls="--" if job.method in ("PAGE", "SGD") else "-")  # fmt: skip
    left.axhline(target, color="grey", ls="--", lw=1)
    left.annotate("target", (0.99, target), xycoords=("axes fraction", "data"), ha="right",
                  va="bottom", color="grey")  # fmt: skip
    left.set(yscale="log", xlabel="component gradients / n", ylabel="dist²(∂F(x), 0)",
             title="Forward order, median run")  # fmt: skip
    left.legend(frameon=False)
    _bars(right, groups)
    figure_.suptitle(title)
    figure_.savefig(path, dpi=130)
    path.write_bytes(smaller(path.read_bytes()))
    plt.close(figure_)


def _bars(axes: Any, groups: list[list[Run]]) -> None:
    ticks, labels, place = [], [], 0.0
    budget, last = groups[0][0].job.epochs, None
    for runs in groups:
        job = runs[0].job
        place += 1.0 if last == job.method else 1.8
        last = job.method
        median = float(np.median([r.to_target for r in runs]))
        reached = math.isfinite(median)
        axes.barh(place, median if reached else budget, height=0.8, color=COLOURS[job.method],
                  alpha=1.0 if reached else 0.15)  # fmt: skip
        note = f" {median:.1f}" if reached else " not reached"
        axes.text(median if reached else 0.0, place, note, va="center", fontsize=8)
        ticks.append(place)
        labels.append(f"{job.method} {job.order}" if "CCD" in job.method else job.method)
    axes.set_yticks(ticks, labels, fontsize=8)
    axes.invert_yaxis()
    axes.set(xlabel="component gradients / n to the target", title="All orders, medians",
             xlim=(0, budget * 1.05))  # fmt: skip


def main() -> None:
    """Run, print and save, one data set after another."""
    parser = command_line(__doc__, csv="")
    parser.add_argument("datasets", nargs="*", default=["digits"], help="digits, a9a, w8a, …")
    parser.add_argument("--data-dir", type=Path, help="a folder of npz tables")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where CSV and PNG go")
    parser.add_argument("--target", type=float, default=1e-4, help="dist² to reach")
    parser.add_argument("--epochs", type=float, help="the budget, in component gradients / n")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for dataset in options.datasets:
        groups = compete(dataset, options)
        p = problem(dataset, options.data_dir)
        title = (
            f"{dataset}: n = {p.n:,}, d = {p.d}, m = {p.layout.m}; to dist² ≤ {options.target:g}, "
            f"at most {groups[0][0].job.epochs:g} n"
        )
        table_rows = rows(groups)
        print(title, shown(table_rows), sep="\n\n")
        write_csv(options.out / f"samples-{dataset}.csv", table_rows, digits=6)
        save_picture(groups, title, options.target, options.out / f"samples-{dataset}.png")
        print(f"saved {options.out}/samples-{dataset}.csv and .png")


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
