"""Checkpoints of paths and of fits of tables: killed at any moment, they go on from the last one.

`cyclade.kept` writes and reads the files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.kept import Kept, fingerprint
from cyclade.linear.results import Certificate, PathResult, Solution

Array = NDArray[Any]
Follow = Callable[[Any, Any, Array, Callable[[Solution], None]], None]


def described(penalty: Any) -> Any:
    """A penalty by its class and what it holds, for a fingerprint."""
    return type(penalty).__name__, [
        (name, fingerprint(np.asarray(value)) if isinstance(value, np.ndarray) else repr(value))
        for name, value in sorted(vars(penalty).items())
    ]


def resumed(kept: Kept | None, lams: Array, x: Any, c: Any, follow: Follow) -> list[Solution]:
    """Solutions at all λ: those of the checkpoint, and `follow(coef, intercept, rest, done)`.

    `x` and `c` are where the first λ starts from; `done` takes each solution when it is there.
    """
    fits: list[Solution] = []
    if kept is not None and (found := kept.load()) is not None:
        fits = unpack(found)
        x, c = fits[-1].coef, fits[-1].intercept

    def done(fit: Solution) -> None:
        fits.append(replace(fit, coef=fit.coef.copy()))  # the fit goes on in the same array
        if kept is not None:
            kept.save(**pack(fits))

    if len(fits) < lams.size:
        follow(x, c, lams[len(fits) :], done)
    return fits


def pack(fits: list[Solution]) -> dict[str, Array]:
    """Solutions as arrays."""
    return {
        "coefs": np.stack([fit.coef for fit in fits]),
        "intercepts": np.stack([np.asarray(fit.intercept) for fit in fits]),
        "objectives": np.array([fit.objective for fit in fits]),
        "certificates": np.array(
            [(c.value, c.tolerance, c.kind == "gap") for c in (fit.certificate for fit in fits)]
        ),
        "passes": np.array([fit.passes for fit in fits]),
    }


def unpack(found: dict[str, Array]) -> list[Solution]:
    """The reverse."""
    return [
        Solution(
            coef, float(c) if np.ndim(c) == 0 else c, float(F),
            Certificate("gap" if gap else "distance", float(value), float(tolerance)), int(passes),
        )
        for coef, c, F, (value, tolerance, gap), passes in zip(
            found["coefs"], found["intercepts"], found["objectives"], found["certificates"],
            found["passes"], strict=True,
        )
    ]  # fmt: skip


def as_path(lams: Array, fits: list[Solution]) -> PathResult:
    """Solutions at decreasing λ as a path."""
    return PathResult(
        lams, np.stack([fit.coef for fit in fits], axis=-1),
        np.stack([np.asarray(fit.intercept) for fit in fits], axis=-1),
        np.array([fit.objective for fit in fits]), [fit.certificate for fit in fits],
        np.array([fit.passes for fit in fits]),
    )  # fmt: skip
