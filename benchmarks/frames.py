"""Frames with categorical columns: our fits beside glum's, encoding included.

    python benchmarks/frames.py [--rows 300000] [--rounds 5] [--csv FILE]

Five columns of numbers and three of 20, 200 and 1,000 levels, a Poisson and a squared target, l1 at
λ_max/10 and /100. The two take turns; medians of seconds of the processor. F is computed here from
the coefficients of both. A ratio above 1 is how much longer glum takes.
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd

from cyclade.linear import GeneralizedLinear, losses
from measuring import command_line, in_turns, medians
from tables import printed

LEVELS = (20, 200, 1000)
FIELDS = ("line", "ours_s", "glum_s", "glum_over_ours", "F_glum_over_ours", "rounds")


def draw(rows: int) -> tuple[pd.DataFrame, dict[str, Any]]:
    """A frame, and a target for each loss."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((rows, 5)), columns=[f"x{j}" for j in range(5)])
    eta = 0.3 * frame["x0"] - 0.2 * frame["x1"] - 0.5
    for levels in LEVELS:
        codes = rng.integers(0, levels, rows)
        frame[f"c{levels}"] = pd.Categorical(codes)
        eta = eta + 0.3 * rng.standard_normal(levels)[codes]
    counts = rng.poisson(np.exp(eta)).astype(float)
    return frame, {"poisson": counts, "squared": eta + rng.standard_normal(rows)}


def theirs(loss: str, alpha: float, frame: Any, y: Any) -> Any:
    """Glum's fit of the same problem."""
    from glum import GeneralizedLinearRegressor

    family = {"poisson": "poisson", "squared": "normal"}[loss]
    options = {"l1_ratio": 1.0, "drop_first": False, "gradient_tol": 1e-5}
    return GeneralizedLinearRegressor(family=family, alpha=alpha, **options).fit(frame, y)


def measure(frame: Any, loss: str, y: Any, ratio: int, rounds: int) -> dict[str, Any]:
    """One line of the table."""
    alpha = float(GeneralizedLinear(loss, "l1").path(frame, y, n_alphas=1).alphas[0]) / ratio
    ways = {"ours": partial(GeneralizedLinear(loss, "l1", alpha).fit, frame, y)}
    if find_spec("glum"):
        ways["glum"] = partial(theirs, loss, alpha, frame, y)
    fits: dict[str, Any] = {name: way() for name, way in ways.items()}
    X = fits["ours"].encoder_.transform(frame)
    F = {
        name: losses.get(loss).value(np.asarray(y), X @ fit.coef_ + fit.intercept_).mean()
        + alpha * np.abs(fit.coef_).sum()
        for name, fit in fits.items()
    }
    took = medians(in_turns(ways, rounds))
    row = {"line": f"{loss} /{ratio}", "ours_s": took["ours"], "rounds": rounds}
    if "glum" not in took:
        return row
    times = {"glum_s": took["glum"], "glum_over_ours": took["glum"] / took["ours"]}
    return row | times | {"F_glum_over_ours": F["glum"] / F["ours"]}


def main() -> None:
    """Measure every line."""
    parser = command_line(__doc__)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    frame, targets = draw(args.rows)
    pairs = ((loss, y, ratio) for loss, y in targets.items() for ratio in (10, 100))
    printed((measure(frame, *pair, args.rounds) for pair in pairs), args.csv, FIELDS)


if __name__ == "__main__":
    main()
