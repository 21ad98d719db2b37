"""What each constant of `cyclade.linear.tuning` is worth.

    python benchmarks/tuning.py --data-dir FOLDER --csv docs/benchmarks/linear-tuning.csv

Every constant is halved and doubled (``--by`` sets the factor), and a set of fits and paths is made
with it and without, in turns, in one process and on one thread. A variant that leaves a result bit
for bit as it was has no effect on that line and is not timed. Printed for every constant: the lines
it acts on, the slowest and the fastest of them, as the median of its CPU seconds over those of the
default. A constant that moves no line by more than the noise is a candidate to go.
"""

from __future__ import annotations

import dataclasses
import statistics
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cyclade.linear import losses, path, penalties, solve
from cyclade.linear.tuning import CostModel, Tuning
from linear_peers import kinds, ours, problems
from linear_peers.problems import SYNTHETIC, Problem
from measuring import command_line, in_turns, seconds
from tables import read_csv, write_csv

FIELDS = ("constant", "value", "variant", "lines", "median", "slowest", "fastest", "line")
Case = Callable[[Tuning], Any]

# (kind, data, place): short lines of every subproblem, loss and storage.
LINES = (
    ("lasso", "dense", "100"), ("lasso", "dense", "path"), ("lasso", "sparse", "100"),
    ("lasso", "leukemia_allaml", "100"), ("lasso", "leukemia_allaml", "path"),
    ("lasso", "madelon", "10"), ("lasso", "w8a", "path"), ("lasso", "mushrooms", "10"),
    ("logistic", "logit", "100"), ("logistic", "leukemia_allaml", "path"),
    ("logistic", "w8a", "100"), ("logistic", "a9a", "path"), ("logistic", "basehock", "100"),
    ("logistic", "madelon", "10"), ("logistic", "madelon", "path"),
    ("group", "groups", "10"), ("group", "leukemia_allaml", "100"),
    ("group", "a9a", "10"), ("mcp", "dense", "10"), ("mcp", "leukemia_allaml", "path"),
    ("mcp", "a9a", "100"), ("cauchy", "leukemia_allaml", "100"), ("cauchy", "a9a", "10"),
    ("cauchy", "outliers", "10"),
    ("lasso", "tall-tuned", "100"), ("lasso", "tall-tuned", "path"), ("mcp", "tall-tuned", "10"),
    ("huber", "tall-tuned", "10"), ("lasso+1", "square-tuned", "100"),
    ("lasso+1", "small-tuned", "path"), ("logistic+1", "smalllabels-tuned", "path"),
    ("logistic", "tfidf-tuned", "100"), ("logistic", "counts-tuned", "1000"),
    ("logistic+1", "onehot-tuned", "100"), ("lasso+1", "onehot-tuned", "path"),
    ("poisson+1", "events-tuned", "100"), ("lasso", "large-tuned", "100"),
    ("enet", "near-tuned", "100"), ("lasso", "genes-tuned", "100"),
)  # fmt: skip


def cases(data_dir: Path | None) -> Iterator[tuple[str, Case]]:
    """Fits and paths by name."""
    for kind, data, place in LINES:
        if data in SYNTHETIC:
            X, y = problems.synthetic(data)
        elif data_dir is None:
            continue
        else:
            make = kinds.generate if "-" in data else problems.table
            X, y = make(data, data_dir)
        problem = Problem(kind, X, y)
        yield f"{kind} {data} {'/' if place != 'path' else ''}{place}", case(problem, place)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 1000))
    X[:, 1:] += 0.7 * X[:, :-1]
    z = X[:, ::50] @ rng.standard_normal(20)
    y, labels = z + rng.standard_normal(300), (z > 0) + (z > 2.0) * 1
    Y = np.stack([y, y[::-1] + z, z], axis=1)
    smooth = losses.Quantile(0.7, 0.01)
    for name, target, loss, penalty in (
        ("slope", y, "squared", penalties.Slope(1.0)),
        ("quantile", y[:100], smooth, penalties.L1(1.0)),
        ("multitask", Y, "squared", penalties.Rows(1.0)),
        ("multinomial", labels, "multinomial", penalties.Rows(1.0)),
        ("scad", y, "squared", penalties.SCAD(1.0)),
    ):
        yield name, synthetic(X[: len(target)], target, loss, penalty)


def case(problem: Problem, place: str) -> Case:
    """A line of the benchmark."""
    r, loss = ours.penalty, ours.loss(problem)
    if place == "path":
        lams = problem.lams()
        return lambda tuning: path(
            problem.X, problem.y, loss, r(problem, 1.0), alphas=lams, tol=1e-6, tuning=tuning,
            fit_intercept=problem.intercept,
        ).coefs  # fmt: skip
    penalty = r(problem, problem.lam_max / float(place))
    return lambda tuning: (
        solve(
            problem.X,
            problem.y,
            loss,
            penalty,
            tol=1e-6,
            tuning=tuning,
            fit_intercept=problem.intercept,
        ).coef
    )


def synthetic(X: Any, y: Any, loss: Any, penalty: Any) -> Case:
    """A path of 20 points."""
    return lambda tuning: (
        path(X, y, loss, penalty, n_alphas=20, alpha_ratio=0.05, tuning=tuning).coefs
    )


def variants(by: float) -> Iterator[tuple[str, Any, Any, Tuning]]:
    """Name, default, value and `Tuning` of every constant times and over `by`."""
    default = Tuning()
    for owner in (CostModel(), default):
        for field in dataclasses.fields(owner):
            value = getattr(owner, field.name)
            if isinstance(value, CostModel):
                continue
            for factor in (1 / by, by):
                changed = scaled(value, factor)
                if changed == value:
                    continue
                if owner is default:
                    tuning = dataclasses.replace(default, **{field.name: changed})
                else:
                    cost = dataclasses.replace(CostModel(), **{field.name: changed})
                    tuning = dataclasses.replace(default, cost=cost)
                yield field.name, value, changed, tuning


def scaled(value: Any, factor: float) -> Any:
    """The constant times a factor; whole numbers stay whole and positive, shares below 1."""
    if isinstance(value, tuple):
        return tuple(scaled(v, factor) for v in value)
    if isinstance(value, int):
        return max(1, round(value * factor))
    if 0.5 <= value < 1.0 < factor:
        return 1.0 - (1.0 - value) / factor
    return value * factor


def compare(run: Case, base: Any, tuning: Tuning, rounds: int) -> float | None:
    """Median of the variant's seconds over the default's; None where the result is the same."""
    if np.array_equal(run(tuning), base):
        return None
    times = in_turns({one: partial(run, one) for one in (Tuning(), tuning)}, rounds, warm=0)
    before, after = times.values()
    return statistics.median(b / a for a, b in zip(before, after, strict=True))


def main() -> None:
    """Read the command line and run."""
    parser = command_line(__doc__)
    parser.add_argument("--data-dir", type=Path, help="a folder of real tables")
    parser.add_argument("--by", type=float, default=2.0, help="factor between values")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], help="constants, by name")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = dict(cases(options.data_dir))
    base = {name: run(Tuning()) for name, run in chosen.items()}
    for name, run in chosen.items():
        least = min(seconds(partial(run, Tuning())) for _ in range(2))
        print(f"{name:34s} {least:8.3f} s", flush=True)
    rows: list[dict[str, Any]] = [*read_csv(options.csv)]  # it goes on where it stopped
    done = {(row["constant"], row["variant"]) for row in rows}
    for constant, value, changed, tuning in variants(options.by):
        if (constant, str(changed)) in done or (options.only and constant not in options.only):
            continue
        found = {}
        for name, run in chosen.items():
            try:
                ratio = compare(run, base[name], tuning, options.rounds)
            except (ValueError, FloatingPointError):  # a value that makes no sense
                continue
            if ratio is not None:
                found[name] = ratio
        row = summary(constant, value, changed, found)
        rows.append(row)
        print(*(f"{v:.3g}" if isinstance(v, float) else v for v in row.values()), flush=True)
        write_csv(options.csv, rows, FIELDS)


def summary(constant: str, value: Any, changed: Any, found: dict[str, float]) -> dict[str, Any]:
    """One row of the table."""
    slowest = max(found, key=lambda name: found[name], default="")
    ratios = list(found.values()) or [1.0]
    middle, top, least = statistics.median(ratios), max(ratios), min(ratios)
    figures = (round(ratio, 3) for ratio in (middle, top, least))
    return dict(zip(FIELDS, (constant, value, changed, len(found), *figures, slowest), strict=True))


if __name__ == "__main__":
    main()
