"""What fits and paths return: certificates, solutions, how those of outputs join, checkpoints.

A path or a fit of a table that was killed at any moment goes on from its last checkpoint;
`cyclade.files.checkpoint` writes and reads the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cyclade.files.checkpoint import Kept

Array = NDArray[Any]


@dataclass(frozen=True)
class Certificate:
    """What was measured on all columns at the point that is reported.

    Attributes
    ----------
    kind : {"gap", "distance"}
        "gap": F(x, c) − D(θ) for a feasible dual point θ, an upper bound on F(x, c) − min F.
        "distance": the largest dist(∂F, 0), over all coordinates (of groups and of rows of several
        outputs, in the Euclidean norm) and the intercept.
    value : float
        The measurement.
    tolerance : float
        What it had to come under.

    Examples
    --------
    >>> print(Certificate("gap", 9.4615e-06, 0.0029649))
    gap 9.46e-06, within its tolerance 0.00296
    >>> print(Certificate("distance", 7.41e-16, 1e-7))
    distance from stationarity 7.41e-16, within its tolerance 1e-07
    """

    kind: Literal["gap", "distance"]
    value: float
    tolerance: float

    @property
    def reached(self) -> bool:
        """Whether value ≤ tolerance."""
        return self.value <= self.tolerance

    def __str__(self) -> str:
        where = "within" if self.reached else "not within"
        what = "gap" if self.kind == "gap" else "distance from stationarity"
        return f"{what} {self.value:.3g}, {where} its tolerance {self.tolerance:.3g}"


@dataclass
class Solution:
    """A fit.

    Attributes
    ----------
    coef : array of shape (p,), or (p, T) with several outputs
    intercept : float, or array of shape (T,)
    objective : float
        F(coef, intercept).
    certificate : Certificate
        Measured on all columns at this very point.
    passes : int
        Cycles made, each over the columns then active.
    working_set : array of int
        The columns of the last working set.
    history : list of dict
        One row per check of all columns: objective, gap or distance, passes, working.
    """

    coef: Array
    intercept: Any
    objective: float
    certificate: Certificate
    passes: int
    working_set: Array = field(repr=False, default_factory=lambda: np.empty(0, np.int64))
    history: list[dict[str, float]] = field(repr=False, default_factory=list)


@dataclass
class PathResult:
    """A path.

    Attributes
    ----------
    alphas : array of shape (L,)
        λ, decreasing.
    coefs : array of shape (p, L), or (p, T, L)
    intercepts : array of shape (L,), or (T, L)
    objectives : array of shape (L,)
    certificates : list of Certificate
    passes : array of int, shape (L,)
    """

    alphas: Array
    coefs: Array = field(repr=False)
    intercepts: Array = field(repr=False)
    objectives: Array = field(repr=False)
    certificates: list[Certificate] = field(repr=False)
    passes: Array = field(repr=False)

    @staticmethod
    def of(lams: Array, fits: Iterable[Solution]) -> PathResult:
        """Solutions at decreasing λ as a path."""
        path = PathResult._empty(lams)
        for fit in fits:
            path._append(fit)
        return path

    @staticmethod
    def _empty(lams: Array) -> PathResult:
        """A path that solutions are appended to."""
        none = np.empty(0)
        return PathResult(lams, none, none, none, [], np.zeros(lams.size, np.int64))

    def _append(self, fit: Solution) -> None:
        """Copy the solution at the next λ."""
        k, size = len(self.certificates), self.alphas.size
        if k == 0:
            # By rows: few are ever nonzero, and memory that stays zero is never touched.
            self.coefs = np.zeros((*fit.coef.shape, size), fit.coef.dtype)
            self.intercepts, self.objectives = (
                np.zeros((*np.shape(fit.intercept), size)),
                np.zeros(size),
            )
        rows = np.flatnonzero(fit.coef != 0 if fit.coef.ndim == 1 else fit.coef.any(axis=1))
        self.coefs[..., k][rows] = fit.coef[rows]
        self.intercepts[..., k], self.objectives[k] = fit.intercept, fit.objective
        self.passes[k] = fit.passes
        self.certificates.append(fit.certificate)

    @property
    def reached(self) -> bool:
        """Whether every certificate holds."""
        return all(certificate.reached for certificate in self.certificates)

    def at(self, k: int) -> Solution:
        """The k-th solution, with all the passes that led there."""
        return replace(self._one(k), passes=int(self.passes[: k + 1].sum()))

    def _one(self, k: int) -> Solution:
        """The k-th solution, with its own passes."""
        return Solution(
            np.ascontiguousarray(self.coefs[..., k]), self.intercepts.T[k],
            float(self.objectives[k]), self.certificates[k], int(self.passes[k]),
        )  # fmt: skip


def both(certificates: list[Certificate]) -> Certificate:
    """Of outputs apart: gaps and tolerances add up, the largest distance counts; all must hold."""
    kind = certificates[0].kind
    combine: Any = sum if kind == "gap" else max
    value = float(combine(c.value for c in certificates))
    whole = Certificate(kind, value, float(combine(c.tolerance for c in certificates)))
    if whole.reached and not all(c.reached for c in certificates):
        return max(certificates, key=lambda c: c.value - c.tolerance)
    return whole


def together(fits: list[Solution]) -> Solution:
    """One solution from one per output."""
    return Solution(
        np.stack([fit.coef for fit in fits], axis=1), np.array([fit.intercept for fit in fits]),
        float(sum(fit.objective for fit in fits)), both([fit.certificate for fit in fits]),
        sum(fit.passes for fit in fits),
        np.unique(np.concatenate([fit.working_set for fit in fits])),
        [row for fit in fits for row in fit.history],
    )  # fmt: skip


def paths_together(paths: list[PathResult]) -> PathResult:
    """One path from one per output."""
    lams = paths[0].alphas
    return PathResult.of(lams, (together([p._one(k) for p in paths]) for k in range(lams.size)))


def worst(certificates: list[Any]) -> Any:
    """The certificate that is furthest from its tolerance."""
    return max(certificates, key=lambda c: c.value / c.tolerance if c.tolerance else c.value)


Follow = Callable[[Any, Any, Array, Callable[[Solution], None]], None]


def resumed(kept: Kept | None, lams: Array, part: Any, follow: Follow) -> PathResult:
    """The path: λ of the checkpoint, if there is one, and `follow(coef, intercept, rest, done)`.

    `part` is what is fitted and where it starts. `done` takes each solution when it is there. What
    is done is taken as it is, so X and y must be those it was done for: the gradient of the null
    model tells them.
    """
    if kept is None:
        path = PathResult._empty(lams)
        follow(part.x, part.c, lams, path._append)
        return path
    g, found = np.asarray(part.problem.null_gradient, np.float64), kept.load()
    path, x, c = PathResult._empty(lams), part.x, part.c
    if found is not None:
        single = found["coefs"].dtype == np.float32
        if not _alike(found.pop("null_gradient"), g, float(lams[-1]), 1e-4 if single else 1e-6):
            raise kept.foreign()
        rows = found.pop("certificate_rows").tolist()
        certificates = [Certificate("gap" if gap else "distance", *at) for *at, gap in rows]
        before = PathResult(lams[: len(rows)], certificates=certificates, **found)
        for k in range(len(rows)):
            path._append(before._one(k))
        x, c = before.coefs[..., -1], before.intercepts.T[-1]

    def done(fit: Solution) -> None:
        path._append(fit)
        rows = [(at.value, at.tolerance, at.kind == "gap") for at in path.certificates]
        names = "coefs", "intercepts", "objectives", "passes"
        arrays = {name: getattr(path, name)[..., : len(rows)] for name in names}
        kept.save(certificate_rows=np.array(rows), null_gradient=g, **arrays)

    if len(path.certificates) < lams.size:
        follow(x, c, lams[len(path.certificates) :], done)
    return path


def _alike(one: Array, other: Array, lam: float, rounding: float) -> bool:
    """Whether two gradients differ by rounding alone, beside the largest entry and λ."""
    if one.shape != other.shape:
        return False
    size = float(np.max(np.abs([one, other]), initial=lam))
    return bool((np.abs(one - other) <= rounding * size).all())
