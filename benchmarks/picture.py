"""The picture of the README and of the site's first page: what a cycle does, and two results.

    python benchmarks/picture.py        # writes docs/picture.png and docs/picture-narrow.png

The left and the middle panel are computed here, by cyclade; the right one is drawn from the
committed runs of docs/results/fig1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

from cyclade import minimize
from cyclade.experiments.report.figures import smaller
from measuring import arguments

ROOT = Path(__file__).resolve().parents[1]
BLUE, RED, GREY = "#0072b2", "#d55e00", "#555555"


def main() -> None:
    """Draw three panels, side by side and, for narrow screens, one below the other."""
    folder = arguments(__doc__, out=ROOT / "docs").out
    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    shapes = {"picture.png": (1, 3, (12, 3.5)), "picture-narrow.png": (3, 1, (4.4, 9.6))}
    for name, (rows, columns, size) in shapes.items():
        figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained")
        for panel, axis in zip((cycles, path, nets), axes, strict=True):
            panel(axis)
        out = folder / name
        figure.savefig(out, dpi=110, metadata={"Software": None})
        out.write_bytes(smaller(out.read_bytes()))


def cycles(axis: Any) -> None:
    """Five cycles and five gradient steps on a narrow valley."""
    H = np.array([[1.0, 2.5], [2.5, 10.0]])
    x0 = np.array([-2.4, 1.1])

    def trail(**options: Any) -> Any:
        points = [x0]
        minimize(
            lambda x: 0.5 * float(x @ H @ x), x0, jac=lambda x: H @ x, tol=None, max_cycles=5,
            callback=lambda report: points.append(report.x.copy()), **options,
        )  # fmt: skip
        return np.array(points)

    cyclic = trail(blocks="coordinates", L=list(np.diag(H)))
    together = trail(blocks=1, L=float(np.linalg.eigvalsh(H)[-1]))
    corners = np.stack([cyclic[1:, 0], cyclic[:-1, 1]], axis=1)
    stairs = np.insert(cyclic, np.arange(1, len(cyclic)), corners, axis=0)
    a, b = np.meshgrid(np.linspace(-2.7, 1.0, 150), np.linspace(-0.6, 1.3, 150))
    values = 0.5 * (H[0, 0] * a**2 + 2 * H[0, 1] * a * b + H[1, 1] * b**2)
    axis.contour(a, b, np.log(values + 0.02), levels=12, colors=GREY, linewidths=0.5, alpha=0.6)
    axis.plot(*together.T, "s--", color=BLUE, ms=5, label="all at once")
    axis.plot(*stairs.T, "-", color=RED)
    axis.plot(*cyclic.T, "o", color=RED, ms=5, label="one block after another")
    axis.set(title="Five steps down a valley", xlabel="block 1", ylabel="block 2")
    axis.legend(frameon=False, loc="upper right")


def path(axis: Any) -> None:
    """A lasso path on the diabetes data."""
    from sklearn.datasets import load_diabetes
    from sklearn.preprocessing import StandardScaler

    from cyclade.linear import Lasso

    data = load_diabetes()
    found = Lasso().path(StandardScaler().fit_transform(data.data), data.target, n_alphas=60)
    coefs = np.asarray(found.coefs)
    for j in np.argsort(-abs(coefs[:, -1])):
        (line,) = axis.semilogx(found.alphas, coefs[j], lw=1.5)
        if abs(coefs[j, -1]) > 16:
            axis.text(
                found.alphas[-1] * 0.8, coefs[j, -1], data.feature_names[j],
                color=line.get_color(), ha="left", va="center", fontsize=9,
            )  # fmt: skip
    axis.invert_xaxis()
    axis.set(title="Sparse models: a path", xlabel="penalty", ylabel="coefficient")


def nets(axis: Any) -> None:
    """Test accuracy by epoch of SGD and SCCD, means and ranges over the committed seeds."""
    from cyclade.experiments import find_runs

    curves: dict[str, dict[int, list[float]]] = {"SGD": {}, "SCCD": {}}
    for run in find_runs(ROOT / "docs" / "results" / "fig1"):
        if run.config.method in curves and run.config.spectral is None:
            for row in run.history:
                epochs = curves[run.config.method]
                epochs.setdefault(row.epoch, []).append(row.test_accuracy)
    for (method, epochs), colour in zip(curves.items(), (BLUE, RED), strict=True):
        x = sorted(epochs)
        axis.plot(x, [np.mean(epochs[e]) for e in x], color=colour, label=method)
        low, high = ([f(epochs[e]) for e in x] for f in (min, max))
        axis.fill_between(x, low, high, color=colour, alpha=0.2, lw=0)
    seeds = len(epochs[0])
    axis.set(title=f"LeNet on CIFAR-10, {seeds} seeds", xlabel="epoch", ylabel="test accuracy")
    axis.legend(frameon=False, loc="lower right")


if __name__ == "__main__":
    main()
