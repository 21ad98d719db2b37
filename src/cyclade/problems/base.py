"""What a problem is: f by samples and by blocks, r, a starting point and block constants."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from cyclade._arrays import Array
from cyclade._minimize import minimize
from cyclade.blocks import Blocks, Layout
from cyclade.methods import as_method
from cyclade.run.result import Result
from cyclade.sampling.orders import Greedy
from cyclade.steps import Eta, Rated

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.integer[Any]]
Rng = np.random.Generator | int


class Problem(abc.ABC):
    """F(x) = f(x) + r(x), f = (1/n) Σ_i f_i, x = (x^1, …, x^m).

    `fun`, `jac` and `block_jac` take x and an integer array `idx`: the mean over those terms.
    Without `idx` they mean all n terms; so they do when `idx` has n entries, and then no data are
    copied.

    To add a problem, set the four attributes and write `x0`, `fun` and `jac`; write `block_jac`
    where one block is cheaper than all, `L` where the curvature of the blocks is bounded, and
    `local_L` where it is known given the other blocks.
    """

    n: int
    """The number of terms of f."""

    blocks: Any
    """How x is cut into blocks, as `cyclade.minimize` takes it."""

    reg: Any
    """r, as `cyclade.minimize` takes it."""

    layout: Layout
    """The blocks, in full."""

    @abc.abstractmethod
    def x0(self, rng: Rng = 0) -> Any:
        """A starting point."""

    @abc.abstractmethod
    def fun(self, x: Any, idx: Indices | None = None) -> float:
        """The mean of f_i(x) over idx."""

    @abc.abstractmethod
    def jac(self, x: Any, idx: Indices | None = None) -> Any:
        """The mean of ∇f_i(x) over idx, structured like x."""

    def block_jac(self, x: Any, j: int, idx: Indices | None = None) -> Array:
        """Block j of `jac`."""
        return self.layout.split(self.jac(x, idx))[j]

    @property
    def L(self) -> list[float] | None:
        """L_j with ‖∇^j f(x) − ∇^j f(y)‖ ≤ L_j ‖x^j − y^j‖ everywhere (Assumption 2), or None."""
        return None

    def local_L(self, j: int, now: Blocks) -> Array | float | None:
        """Λ_j that bounds f's curvature in block j with the other blocks as they are, or None.

        It may depend on the other blocks only, so that it holds between successive iterates, which
        is all that the analysis needs.
        """
        return None

    def minimize(self, x0: Any = None, **options: Any) -> Result:
        """`cyclade.minimize` on this problem; `options` as there, but P-CCD is the default method.

        x0 defaults to ``self.x0(0)``; L to `L`, else to `local_L`, else to minimize's own choice.
        """
        method = as_method(options.setdefault("method", "P-CCD"), True)
        start = self.x0() if x0 is None else x0
        joined = method.one_block and self.layout.m > 1
        greedy = isinstance(options.get("order"), Greedy) or options.get("order") == "greedy"
        if not joined and not greedy:  # else all blocks are wanted at every point
            options.setdefault("block_jac", self.block_jac)
        if options.get("L") is None:
            options.pop("L", None)
            if self.L is not None:
                options["L"] = self.L
            elif not joined and self.local_L(0, self.layout.point(start)) is not None:
                eta = options.pop("eta", None) or (1.0 if method.deterministic else 0.3)
                options["L"] = LocalCurvature(self.local_L, self.layout.m, eta)
        given = {"blocks": self.blocks, "reg": self.reg, "jac": self.jac, "n": self.n}
        return minimize(self.fun, start, **(given | options))

    def _chosen(self, idx: Indices | None) -> Indices | None:
        """`idx`, or None where it is all n terms."""
        return None if idx is None or len(idx) == self.n else idx


class LocalCurvature(Rated):
    """Steps η Λ_j^{−1} with Λ_j computed from the other blocks at every turn.

    For an f that is quadratic in each block this is its exact block curvature; where that is a
    multiple of the identity, η = 1 minimises F over the block exactly.

    Example
    -------
    >>> import numpy as np
    >>> from cyclade import minimize
    >>> result = minimize(  # ½ (uv − 6)²: as a function of u alone its curvature is v²
    ...     lambda x: 0.5 * (x[0] * x[1] - 6.0) ** 2,
    ...     np.array([2.0, 1.0]),
    ...     jac=lambda x: (x[0] * x[1] - 6.0) * x[::-1],
    ...     blocks="coordinates",
    ...     L=LocalCurvature(lambda j, now: float(now.get(1 - j)[0] ** 2), m=2),
    ... )
    >>> result.x
    array([6., 1.])
    """

    def __init__(
        self, curvature: Callable[[int, Blocks], Array | float | None], m: int, eta: Eta = 1.0
    ) -> None:
        super().__init__(eta)
        self.curvature = curvature
        self.Lambda: list[Any] = [1.0] * m

    def at(self, j: int, now: Any, gj: Array, reg: Any) -> tuple[Array, Array | float]:
        """g^j and η Λ_j^{−1}, with Λ_j computed here."""
        self.Lambda[j] = self.curvature(j, now)
        return gj, self.current(j)

    def current(self, j: int) -> Array | float:
        """η Λ_j^{−1} with Λ_j as of the last turn."""
        return self.rate / self.Lambda[j]

    def metric(self, j: int) -> Array | float:
        """Λ_j as of the last turn."""
        return self.Lambda[j]

    def prepare(self, at_x0: Any) -> None:
        """Compute every Λ_j at x_0."""
        self.Lambda = [self.curvature(j, at_x0) for j in range(len(self.Lambda))]

    def memory(self) -> dict[str, Any]:
        """The Λ_j of the last turns."""
        return super().memory() | {"Lambda": list(self.Lambda)}

    def recall(self, memory: dict[str, Any]) -> None:
        """Go on from these Λ_j."""
        super().recall(memory)
        self.Lambda = list(memory["Lambda"])


def positive_or_one(value: float) -> float:
    """`value`, or 1 where f is flat: then any step will do, and 1 is a step."""
    return value if value > 0 else 1.0


def as_table(name: str, data: Any, ndim: int) -> Any:
    """`data` as a finite float64 array (or a SciPy CSR matrix), or an error that names it."""
    if callable(getattr(data, "tocsr", None)):
        table = data.tocsr().astype(np.float64)
        entries = table.data
    else:
        table = entries = np.asarray(data, dtype=np.float64)
    if table.ndim != ndim or 0 in table.shape:
        raise ValueError(f"{name} must be a non-empty {ndim}-D array, got shape {table.shape}")
    if not np.isfinite(entries).all():
        raise ValueError(f"{name} contains NaN or infinity")
    return table


def same_length(n: int, **others: Any) -> None:
    """Raise ValueError naming the first of `others` that has not n entries."""
    for name, other in others.items():
        if len(other) != n:
            raise ValueError(f"{name} must have {n} entries, one per term, got {len(other)}")
