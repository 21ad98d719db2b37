"""How often nominal 95 % intervals of the debiased lasso hold the truth.

    python benchmarks/interval_coverage.py [--draws 100] [--csv docs/benchmarks/coverage.csv]

Designs are those of van de Geer et al. (2014) and Dezeure et al. (2015), with n = 100 rows: columns
independent, Toeplitz (ρ^|i−j|) or equally correlated; s coefficients of size 1, or uniform up to 2,
among p. Errors have variance 1. Logistic and Poisson models have n = 400 and smaller coefficients.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cyclade.linear import LassoCV, PoissonRegressorCV, SparseLogisticRegressionCV
from measuring import arguments
from tables import printed


class Design(NamedTuple):
    """How rows are drawn."""

    columns: str
    family: str
    n: int
    p: int
    s: int
    size: str
    rule: str = "1se"


DESIGNS = [
    Design("independent", "gaussian", 100, 200, 3, "1"),
    Design("independent", "gaussian", 100, 200, 3, "1", rule="min"),
    Design("independent", "gaussian", 100, 200, 3, "0-2"),
    Design("independent", "gaussian", 100, 200, 10, "1"),
    Design("toeplitz 0.9", "gaussian", 100, 200, 3, "1"),
    Design("toeplitz 0.9", "gaussian", 100, 200, 10, "1"),
    Design("equal 0.8", "gaussian", 100, 200, 3, "1"),
    Design("independent", "gaussian", 100, 500, 3, "1"),
    Design("independent", "logistic", 400, 100, 3, "0.5"),
    Design("independent", "poisson", 400, 100, 3, "0.5"),
]


def draw(design: Design, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """X, the truth and y."""
    n, p, at = design.n, design.p, np.arange(design.p)
    kind, *rho = design.columns.split()
    X = rng.standard_normal((n, p))
    if kind != "independent":
        part = float(rho[0])
        sigma = (
            part ** abs(np.subtract.outer(at, at)) if kind == "toeplitz" else np.full((p, p), part)
        )
        np.fill_diagonal(sigma, 1.0)
        X = X @ np.linalg.cholesky(sigma).T
    truth, chosen = np.zeros(p), rng.choice(p, design.s, replace=False)
    truth[chosen] = rng.uniform(0.0, 2.0, design.s) if "-" in design.size else float(design.size)
    z = X @ truth
    if design.family == "gaussian":
        return X, truth, z + rng.standard_normal(n)
    if design.family == "logistic":
        return X, truth, rng.random(n) < 1.0 / (1.0 + np.exp(-z))
    return X, truth, rng.poisson(np.exp(z)).astype(float)


MODELS: dict[str, Callable[..., Any]] = {
    "gaussian": LassoCV, "logistic": SparseLogisticRegressionCV, "poisson": PoissonRegressorCV,
}  # fmt: skip


def coverage(design: Design, draws: int) -> dict[str, Any]:
    """Shares of intervals that hold the truth, and their mean length."""
    found = []
    for seed in range(draws):
        X, truth, y = draw(design, np.random.default_rng([2026, seed]))
        model = MODELS[design.family](n_alphas=30, alpha_ratio=0.01, rule=design.rule).fit(X, y)
        inference = model.inference(X, y)
        low, high = inference.interval(0.95).T
        inside, on = (low <= truth) & (truth <= high), truth != 0.0
        wrong = ~on[inference.discoveries(0.1)]
        found.append([inside[on].mean(), inside[~on].mean(), (high - low)[on].mean(),
                      wrong.sum() / max(wrong.size, 1)])  # fmt: skip
    on, off, length, false = (f"{value:.3f}" for value in np.mean(found, axis=0))
    return design._asdict() | {
        "covered in S": on, "covered in rest": off, "length in S": length,
        "false discoveries at 0.1": false, "draws": draws,
    }  # fmt: skip


def main() -> None:
    """All designs."""
    given = arguments(__doc__, draws=100, designs=len(DESIGNS), csv=Path)
    warnings.simplefilter("ignore")
    printed((coverage(design, given.draws) for design in DESIGNS[: given.designs]), given.csv)


if __name__ == "__main__":
    main()
