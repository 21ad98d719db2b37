"""Whether least squares takes the cheaper of two ways: products of all columns, or working sets.

Every line is timed on products (``precompute=True``), with working sets (``precompute=False``) and
as it is by default, in turns; each number is the least of several CPU times. `regret` is the
default's way over the better one.

    python benchmarks/linear_products.py --csv docs/benchmarks/linear-products.csv
    python benchmarks/linear_products.py --rows 6000  # only tables with so many
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cyclade.linear import path, solve
from cyclade.linear.api import lam_max
from cyclade.linear.losses import Squared
from cyclade.linear.penalties import L1
from cyclade.linear.products import fits
from measuring import arguments, in_turns
from tables import printed

SHAPES = (
    (20_000, 500, "F"), (6_000, 300, "F"), (6_000, 300, "C"), (50_000, 100, "F"),
    (2_000, 1_000, "F"), (2_000, 200, "F"), (400, 400, "F"),
)  # fmt: skip
WAYS: dict[str, Any] = {"products_ms": True, "working_sets_ms": False, "default_ms": "auto"}


def table(n: int, p: int, order: Any, kind: str, noise: float) -> tuple[Any, Any]:
    """Columns that are independent, share a factor, or are correlated by 0.9 with the next."""
    rng = np.random.default_rng(n + p)
    X = rng.standard_normal((n, p))
    if kind == "factor":
        X += rng.standard_normal((n, 1)) * rng.uniform(0.5, 1.5, p)
    if kind == "neighbours":
        for j in range(1, p):
            X[:, j] = 0.9 * X[:, j - 1] + np.sqrt(0.19) * X[:, j]
    y = X[:, :: max(p // 20, 1)] @ rng.standard_normal(len(range(0, p, max(p // 20, 1))))
    return np.asarray(X, order=order), y + noise * y.std() * rng.standard_normal(n)


def lines(rows: int) -> Iterator[dict[str, Any]]:
    """One row per table and λ: single fits at λ_max/ratio, and paths (ratio 0)."""
    taken: list[bool] = []
    suits = fits.suits
    fits.suits = lambda *args: taken.append(suits(*args)) or taken[-1]
    for n, p, order in (shape for shape in SHAPES if rows in (0, shape[0])):
        for kind in ("independent", "factor", "neighbours"):
            for noise in (1.0, 0.01):
                X, y = table(n, p, order, kind, noise)
                top = lam_max(X, y, Squared(), L1(1.0), None, None, True)
                for ratio in (10, 100, 1000, 0):
                    if not ratio and (noise < 1.0 or n * p > 2_000_000):
                        continue

                    def fit(
                        way: Any, X: Any = X, y: Any = y, ratio: int = ratio, top: float = top
                    ) -> Any:
                        if not ratio:
                            return path(X, y, n_alphas=20, alpha_ratio=0.01, precompute=way)
                        return solve(X, y, penalty=L1(top / ratio), precompute=way)

                    ways = {name: lambda way=way, fit=fit: fit(way) for name, way in WAYS.items()}
                    spent = in_turns(ways, 3, least=0.02, most=15)
                    times = {name: 1e3 * min(some) for name, some in spent.items()}
                    found = fit("auto")
                    coef = found.coef if ratio else found.coefs[:, -1]
                    chosen = "products_ms" if taken[-1] else "working_sets_ms"
                    best = min(times["products_ms"], times["working_sets_ms"])
                    yield {
                        "rows": n, "columns": p, "order": order, "kind": kind, "noise": noise,
                        "ratio": ratio or "path", "nonzero": int(np.count_nonzero(coef)),
                        **{name: round(took, 3) for name, took in times.items()},
                        "chosen": chosen.removesuffix("_ms"),
                        "regret": round(times[chosen] / best, 2),
                    }  # fmt: skip
    fits.suits = suits


def main() -> None:
    """Print every line, and write them."""
    args = arguments(__doc__, rows=0, csv=Path)
    rows = printed(lines(args.rows), args.csv)
    regrets = np.array([row["regret"] for row in rows])
    print(f"{len(rows)} lines; over 1.3: {(regrets > 1.3).sum()}; largest {regrets.max()}")


if __name__ == "__main__":
    main()
