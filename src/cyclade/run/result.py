"""What `minimize` returns, as an object, a picture, and as notebooks show it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal

from cyclade._checks import choice

HISTORY = ("cycle", "samples", "seconds", "fun", "squared_distance", "dist", "change", "eta")
LABELS = {"cycle": "cycle", "samples": "component gradients", "seconds": "seconds in cycles"}


@dataclass
class Iterate:
    """One iterate of a run: the point, F there, and the cycle it came from."""

    x: Any = field(repr=False)
    fun: float
    cycle: int


@dataclass
class Result:
    """The outcome of `minimize`.

    Attributes
    ----------
    x:
        The point returned, in the structure, shapes, dtype and device of x0.
    fun:
        F(x) = f(x) + r(x).
    dist:
        dist(∂F(x), 0) in the Euclidean norm: zero exactly at stationary points.
    relative:
        `dist` at x over `dist` at x0, which no change of units moves.
    squared_distance:
        dist²(∂F(x), 0) in the norm of Λ^{−1}, as in the paper's theorems. After a line search, Λ
        is no larger than the curvature that was seen.
    distance_kind:
        How both distances are known. "exact", or a lower bound where a regulariser gives no exact
        distance, an upper bound where Λ_j is a matrix beside a regulariser, an estimate on a fixed
        batch for a stream.
    success:
        Whether a tolerance was reached, or (when none was asked for) the budget used up.
    status:
        Why the run stopped, in a word: "stationary" (tol or rtol was reached), "small_change"
        (change_tol was), "still" (no block moves any more), "max_cycles", "max_samples",
        "max_seconds", "callback", "interrupted", "wrong_gradient", "wrong_regulariser", "no_step"
        (along a gradient that turned NaN, or to where f has no value), "diverged", "unbounded" or
        "stream_ended".
    message:
        The same in a sentence, with evidence, and which iterate is returned.
    best:
        The iterate with the smallest F among those evaluated (`x` is): `best.x`, its F as
        `best.fun`, its cycle as `best.cycle`. Of values that agree to rounding it is the last.
    method:
        The method, by its name in the paper.
    cycles, samples, prox_calls:
        Cycles done; component gradients evaluated (see `cyclade.oracles.counting`), where f without
        `n` or `stream` counts as one component; proxes evaluated.
    values, hvps:
        Function values (by line searches) and Hessian-vector products (by curvature estimates),
        counted in samples too; zero with given steps.
    nfev, njev:
        Calls of fun, and of its gradient (`jac`, `block_jac` or autograd), in this process: those
        of the set-up and of evaluations as well. With ``jac=True`` or torch a gradient counts as a
        call of fun too.
    seconds:
        Time spent in cycles; evaluating F and the certificate for the history is not counted.
    Lambda:
        Λ_j of every block, as the run left it.
    history:
        A dict of equally long lists, ready for ``pandas.DataFrame(result.history)``: cycle,
        samples, seconds, fun, squared_distance, dist, change ‖x_k − x_{k−1}‖_Λ and the learning
        rate η at every evaluation.
    state:
        What ``minimize(..., resume=result.state)`` goes on from, exactly; it pickles. None after an
        interrupt in the middle of a cycle.
    """

    x: Any
    fun: float
    dist: float
    relative: float
    squared_distance: float
    distance_kind: str
    success: bool
    status: str
    message: str
    method: str
    cycles: int
    samples: float
    values: float
    hvps: float
    nfev: int
    njev: int
    prox_calls: int
    seconds: float
    best: Iterate
    Lambda: list[Any] = field(repr=False)
    history: dict[str, list[float]] = field(repr=False)
    state: Any = field(repr=False, default=None)

    def __str__(self) -> str:
        rows = self._rows()
        width = max(len(name) for name, _ in rows)
        lines = [f"{name:>{width}}: {value}" for name, value in rows]
        return "\n".join([f"{self.method} result", *lines])

    def plot(
        self, against: Literal["cycle", "samples", "seconds"] = "cycle", ax: Any = None
    ) -> Any:
        """Draw F above the best value seen, and dist(∂F, 0), along the run; needs matplotlib.

        Parameters
        ----------
        against : {"cycle", "samples", "seconds"}, default="cycle"
            What the run is measured by: cycles, component gradients or seconds in cycles.
        ax : two matplotlib axes, optional
            Where to draw; a new figure by default. They are returned.

        Examples
        --------
        >>> import matplotlib; matplotlib.use("Agg")
        >>> import numpy as np
        >>> from cyclade import minimize
        >>> res = minimize(lambda x: (x @ x) / 2, np.ones(3), jac=lambda x: x, every=1)
        >>> [axis.get_ylabel() for axis in res.plot()]
        ['F − best F', 'dist(∂F, 0)']
        """
        choice("against", against, list(LABELS))
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError("Result.plot needs matplotlib: pip install matplotlib") from error
        if ax is None:
            _, ax = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
        try:
            left, right = ax
        except (TypeError, ValueError):
            raise ValueError(
                "ax must be two matplotlib axes, as plt.subplots(1, 2)[1] is"
            ) from None
        history = self.history
        best = min(history["fun"])
        for axis, values in (left, [f - best for f in history["fun"]]), (right, history["dist"]):
            shown = [value if value > 0 else math.nan for value in values]
            axis.plot(history[against], shown, marker=".")
        left.set(ylabel="F − best F", title=self.method)
        right.set(ylabel="dist(∂F, 0)", title=self._outcome)
        for axis in (left, right):
            axis.set(xlabel=LABELS[against], yscale="log")
            axis.grid(alpha=0.25)
        return left, right

    def _repr_html_(self) -> str:
        """What notebooks show."""
        rows = "".join(
            f'<tr><th scope="row" style="text-align:right">{escape(name)}</th>'
            f'<td style="text-align:left">{escape(value)}</td></tr>'
            for name, value in self._rows()
        )
        mark = "✓" if self.success else "✗"
        return (
            f"<div><table><caption><b>{mark} {escape(self.method)}</b>: {self._outcome}</caption>"
            f"<tbody>{rows}</tbody></table></div>"
        )

    @property
    def _outcome(self) -> str:
        return "a tolerance was reached" if self.success else "no tolerance was reached"

    def _rows(self) -> list[tuple[str, str]]:
        """What is worth showing, as pairs of a name and words."""
        return [
            ("success", str(self.success)),
            ("status", self.status),
            ("message", self.message),
            ("fun", f"{self.fun:.10g}"),
            ("dist", f"{self.dist:.3g}  ({self.relative:.2g} of that at x0)"),
            ("squared_distance", f"{self.squared_distance:.3g}  ({self.distance_kind})"),
            ("cycles", str(self.cycles)),
            ("samples", f"{self.samples:.10g}"),
            ("values", f"{self.values:.10g}"),
            ("nfev, njev", f"{self.nfev}, {self.njev}"),
            ("prox_calls", str(self.prox_calls)),
            ("seconds in cycles", f"{self.seconds:.3g}"),
            ("x", _shapes(self.x)),
        ]

    def __repr__(self) -> str:
        return (
            f"Result(success={self.success}, fun={self.fun:.10g}, dist={self.dist:.3g}, "
            f"squared_distance={self.squared_distance:.3g}, cycles={self.cycles}, "
            f"method={self.method!r}, message={self.message!r})"
        )


def _shapes(x: Any) -> str:
    if isinstance(x, dict):
        return "dict of " + ", ".join(f"{name} {_shapes(a)}" for name, a in x.items())
    if isinstance(x, list | tuple):
        return f"{type(x).__name__} of " + ", ".join(_shapes(a) for a in x)
    if x.ndim == 1 and len(x) <= 6:
        return str(x)
    return f"array of shape {tuple(x.shape)}"


@dataclass
class Report:
    """What a callback is given after each cycle; return True from it to stop the run.

    `fun`, `squared_distance` and `dist` are those of the last evaluation (see `every`); `x` is a
    copy of x_k in the structure of x0.
    """

    cycle: int
    samples: float
    seconds: float
    fun: float
    squared_distance: float
    dist: float
    change: float
    x: Any = field(repr=False)
