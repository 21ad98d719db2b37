"""What `minimize` returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

HISTORY = ("cycle", "samples", "seconds", "fun", "certificate", "dist", "change", "eta")


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
    certificate:
        dist²(∂F(x), 0) in the norm of Λ^{−1}, as in the paper's theorems. After a line search, Λ
        is no larger than the curvature that was seen.
    certificate_kind:
        "exact", or what stands in for it: a lower bound where a regulariser gives no exact
        distance, an upper bound where Λ_j is a matrix beside a regulariser, an estimate on a fixed
        batch for a stream.
    success:
        Whether a tolerance was reached, or (when none was asked for) the budget used up.
    message:
        Why the run stopped, and which iterate is returned.
    best:
        The iterate with the smallest F among those evaluated: `best.x`, `best.fun`, `best.cycle`.
    method:
        The method, by its name in the paper.
    cycles, samples, prox_calls:
        Cycles done; component gradients evaluated (see `cyclade.counting`); proxes evaluated.
    values, hvps:
        Function values (by line searches) and Hessian-vector products (by curvature estimates),
        counted in samples too; zero with given steps.
    seconds:
        Time spent in cycles; evaluating F and the certificate for the history is not counted.
    Lambda:
        Λ_j of every block, as the run left it.
    history:
        A dict of equally long lists, ready for ``pandas.DataFrame(result.history)``: cycle,
        samples, seconds, fun, certificate, dist, change ‖x_k − x_{k−1}‖_Λ and the learning rate η
        at every evaluation.
    state:
        What ``minimize(..., resume=result.state)`` goes on from, exactly; it pickles. None after an
        interrupt in the middle of a cycle.
    """

    x: Any
    fun: float
    dist: float
    relative: float
    certificate: float
    certificate_kind: str
    success: bool
    message: str
    method: str
    cycles: int
    samples: float
    values: float
    hvps: float
    prox_calls: int
    seconds: float
    best: Iterate
    Lambda: list[Any] = field(repr=False)
    history: dict[str, list[float]] = field(repr=False)
    state: Any = field(repr=False, default=None)

    def __str__(self) -> str:
        rows = [
            ("success", self.success),
            ("message", self.message),
            ("fun", f"{self.fun:.10g}"),
            ("dist", f"{self.dist:.3g}  ({self.relative:.2g} of that at x0)"),
            ("certificate", f"{self.certificate:.3g}  ({self.certificate_kind})"),
            ("cycles", self.cycles),
            ("samples", f"{self.samples:.10g}"),
            ("values", f"{self.values:.10g}"),
            ("prox_calls", self.prox_calls),
            ("seconds", f"{self.seconds:.3g}"),
            ("x", _shapes(self.x)),
        ]
        width = max(len(name) for name, _ in rows)
        lines = [f"{name:>{width}}: {value}" for name, value in rows]
        return "\n".join([f"{self.method} result", *lines])

    def __repr__(self) -> str:
        return (
            f"Result(success={self.success}, fun={self.fun:.10g}, dist={self.dist:.3g}, "
            f"certificate={self.certificate:.3g}, cycles={self.cycles}, method={self.method!r}, "
            f"message={self.message!r})"
        )


def _shapes(x: Any) -> str:
    if isinstance(x, dict):
        return "dict of " + ", ".join(f"{name} {_shapes(a)}" for name, a in x.items())
    if isinstance(x, list | tuple):
        return f"{type(x).__name__} of " + ", ".join(_shapes(a) for a in x)
    if x.ndim == 1 and len(x) <= 6:
        return str(x)
    return f"array of shape {tuple(x.shape)}"
