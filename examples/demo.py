"""All six methods on one nonconvex composite problem, from the same start, for the same budget.

Is a breast tumour malignant? Scikit-learn ships 569 cases with 30 measurements. The model is
logistic regression with the nonconvex penalty α Σ x²/(1 + x²), which leaves large weights alone,
and λ‖x‖₁, which makes small ones exactly zero; the 30 weights form 10 blocks of 3. Every method may
evaluate the same number of component gradients. Prints a table, and saves a picture of F − best and
of the certificate dist²(∂F(x), 0) against component gradients.

    python examples/demo.py [--out out/demo.png] [--quick]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from cyclade import L1, Report, Result
from cyclade.problems import LogisticRegression

ETA = {"P-CCD": 1.0, "SCCD": 0.1, "VR-CCD": 0.2, "VRO-CCD": 0.2, "PAGE": 0.2, "SGD": 0.1}
COLOURS = {
    "P-CCD": "#222222", "SCCD": "#56b4e9", "VR-CCD": "#e69f00",
    "VRO-CCD": "#d55e00", "PAGE": "#009e73", "SGD": "#0072b2",
}  # fmt: skip

DASHED = {"PAGE": "--", "SGD": "--"}  # the two that move all blocks at once


def data() -> tuple[Any, Any, Any, Any]:
    """Standardised measurements and labels ±1, for training and for testing."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    X, benign = load_breast_cancer(return_X_y=True)
    y = np.where(benign == 1, -1.0, 1.0)
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
    mean, deviation = train.mean(axis=0), train.std(axis=0)
    return (train - mean) / deviation, y_train, (test - mean) / deviation, y_test


def solve(problem: LogisticRegression, budget: float, console: Console) -> dict[str, Result]:
    """Run every method until it has used `budget` component gradients."""
    results = {}
    with Progress(console=console) as progress:
        for method, eta in ETA.items():
            task = progress.add_task(f"{method:8}", total=budget)

            def watch(report: Report, task: Any = task) -> None:
                progress.update(task, completed=min(report.samples, budget))

            results[method] = problem.minimize(
                method=method, eta=eta, seed=1, max_samples=budget, max_cycles=None, tol=None,
                returns="last", every=1 if method == "P-CCD" else None, callback=watch,
            )  # fmt: skip
    return results


def show(results: dict[str, Result], test: Any, y_test: Any, console: Console) -> None:
    """The table."""
    table = Table(title="Breast cancer: nonconvex logistic regression + l1, equal budgets")
    names = ("method", "F", "dist²", "test accuracy", "non-zeros", "samples", "seconds")
    for name in names:
        table.add_column(name, justify="left" if name == "method" else "right")
    for method, result in results.items():
        accuracy = np.mean(np.sign(test @ result.x) == y_test)
        table.add_row(
            method, f"{result.fun:.6f}", f"{result.squared_distance:.1e}", f"{accuracy:.3f}",
            f"{np.count_nonzero(result.x)} of {len(result.x)}", f"{result.samples:,.0f}",
            f"{result.seconds:.2f}",
        )  # fmt: skip
    console.print(table)


def draw(results: dict[str, Result], path: Path) -> None:
    """The picture."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    best = min(min(result.history["fun"]) for result in results.values())
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.8), layout="constrained")
    for method, result in results.items():
        history = {name: np.array(column) for name, column in result.history.items()}
        style = {"color": COLOURS[method], "label": method, "ls": DASHED.get(method, "-")}
        left.plot(history["samples"], history["fun"] - best, **style)
        right.plot(history["samples"], history["squared_distance"], **style)
    left.set(title="Objective", ylabel="F(x) − best F found", ylim=(1e-13, None))
    right.set(title="Certificate", ylabel="dist²(∂F(x), 0)", ylim=(1e-17, None))
    for axes in (left, right):
        axes.set(yscale="log", xlabel="component gradients")
        axes.grid(alpha=0.25)
    left.legend(frameon=False, ncols=2)
    figure.suptitle("Breast cancer: logistic loss + α Σ x²/(1 + x²) + λ‖x‖₁, ten blocks")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> None:
    """Solve, show and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/demo.png"), help="the picture")
    parser.add_argument("--quick", action="store_true", help="a tenth of the budget")
    options = parser.parse_args()
    console = Console()
    train, y_train, test, y_test = data()
    problem = LogisticRegression(train, y_train, alpha=0.05, blocks=10, reg=L1(0.01))
    results = solve(problem, (15 if options.quick else 150) * problem.n, console)
    show(results, test, y_test, console)
    draw(results, options.out)
    console.print(f"Picture: {options.out.resolve()}", soft_wrap=True)


if __name__ == "__main__":
    main()
