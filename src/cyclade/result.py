"""What `minimize` returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

HISTORY = ("cycle", "samples", "seconds", "fun", "certificate", "change")


@dataclass
class Result:
    """The outcome of `minimize`.

    Attributes
    ----------
    x:
        The point returned, in the structure, shapes, dtype and device of x0.
    fun:
        F(x) = f(x) + r(x).
    certificate:
        dist²(∂F(x), 0) in the norm of Λ^{−1}: zero exactly at stationary points.
    certificate_kind:
        "exact", or what stands in for it: a lower bound where a regulariser gives no exact
        distance, an estimate on a fixed batch for a stream.
    success:
        Whether a tolerance was reached, or (when none was asked for) the budget used up.
    message:
        Why the run stopped.
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
        samples, seconds, fun, certificate and change ‖x_k − x_{k−1}‖_Λ at every evaluation.
    state:
        What ``minimize(..., resume=result.state)`` goes on from, exactly; it pickles. None after an
        interrupt in the middle of a cycle.
    """

    x: Any
    fun: float
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
    Lambda: list[Any]
    history: dict[str, list[float]] = field(repr=False)
    state: Any = field(repr=False, default=None)

    def __str__(self) -> str:
        rows = [
            ("success", self.success),
            ("message", self.message),
            ("fun", f"{self.fun:.10g}"),
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


def _shapes(x: Any) -> str:
    if isinstance(x, dict):
        return "dict of " + ", ".join(f"{name} {tuple(a.shape)}" for name, a in x.items())
    if isinstance(x, list | tuple):
        return f"{type(x).__name__} of " + ", ".join(str(tuple(a.shape)) for a in x)
    if x.ndim == 1 and len(x) <= 6:
        return str(x)
    return f"array of shape {tuple(x.shape)}"
