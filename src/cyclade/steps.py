"""The step η Λ_j^{−1} of each block: fixed, found by backtracking, or from estimated curvature."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from cyclade._arrays import Array, array_namespace, kind, norm2

Eta = float | Callable[[int], float]
"""The learning rate η, or a schedule: a function of the number k of cycles done."""


class Steps(Protocol):
    """Gives each block its step."""

    def begin(self, k: int) -> None:
        """Cycle k + 1 begins."""

    def at(self, j: int, now: Any, gj: Array, reg: Any) -> tuple[Array, Array | float]:
        """The direction, and the step η Λ_j^{−1} (a scalar or a diagonal) to take along it.

        The direction is g^j itself; only steps with momentum or clipping bend it.
        """

    def current(self, j: int) -> Array | float:
        """The step as it stands, without looking at the point."""

    def metric(self, j: int) -> Array | float:
        """Λ_j as it stands."""

    def prepare(self, at_x0: Any) -> None:
        """Look at the starting point, before the first cycle."""

    def memory(self) -> dict[str, Any]:
        """What has been learnt, for `recall` when a run is resumed."""

    def recall(self, memory: dict[str, Any]) -> None:
        """Take up what `memory` gave."""


class LineSearchError(RuntimeError):
    """No step makes f decrease as its gradient promises."""


def as_schedule(eta: Any) -> Callable[[int], float]:
    """A function k → η from a positive number or a function."""
    if callable(eta):
        return lambda k: _positive_eta(eta(k))
    constant = _positive_eta(eta)
    return lambda k: constant


def _positive_eta(eta: Any) -> float:
    try:
        value = float(eta)
    except (TypeError, ValueError):
        raise TypeError(f"eta must be a positive number or a function of k, got {eta!r}") from None
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"eta must be positive and finite, got {value}")
    return value


class Fixed:
    """Given Λ_j: one positive number for all blocks, or one number or diagonal per block.

    The step is η Λ_j^{−1}. With Λ_j = L_j I and η = 1 this is the step of Algorithm 1.

    Example
    -------
    >>> steps = Fixed([2.0, 4.0], eta=0.5)
    >>> steps.begin(0)
    >>> steps.current(1)
    0.125
    """

    def __init__(self, Lambda: Sequence[Array | float], eta: Eta = 1.0) -> None:
        self.Lambda = list(Lambda)
        self.blocks = len(self.Lambda)
        for j, entry in enumerate(self.Lambda):
            positive = (entry > 0).all() if kind(entry) else entry > 0  # type: ignore[union-attr]
            if not bool(positive):
                raise ValueError(f"Lambda[{j}] must be positive, got {entry}")
        self.eta = as_schedule(eta)
        self._rate = math.nan
        self._steps: list[Array | float] = []

    def begin(self, k: int) -> None:
        """Scale the steps by η_k, if it changed."""
        rate = self.eta(k)
        if rate != self._rate:
            self._rate = rate
            self._steps = [rate / Lambda for Lambda in self.Lambda]

    def at(self, j: int, now: Any, gj: Array, reg: Any) -> tuple[Array, Array | float]:
        """g^j and η Λ_j^{−1}."""
        return gj, self._steps[j]

    def current(self, j: int) -> Array | float:
        """η Λ_j^{−1}."""
        return self._steps[j]

    def metric(self, j: int) -> Array | float:
        """Λ_j."""
        return self.Lambda[j]

    def prepare(self, at_x0: Any) -> None:
        """Nothing to learn."""

    def memory(self) -> dict[str, Any]:
        """Nothing was learnt."""
        return {}

    def recall(self, memory: dict[str, Any]) -> None:
        """Nothing was learnt."""


class Backtracking:
    """Λ_j = L_j I with L_j found by a line search, for each block at each turn.

    The analysis needs block smoothness only between successive iterates, so L_j is raised (by
    `grow`) until

        f(x_{k−1,j+1}) ≤ f(x_{k−1,j}) + ⟨∇^j f(x_{k−1,j}), u⟩ + (L_j / 2) ‖u‖²

    on the sample in hand, with u = x_k^j − x_{k−1}^j. The next turn of the block starts from
    `shrink` · L_j, so that L_j may come down again where f is flatter. Where the two sides agree to
    rounding error, they decide nothing; then the condition is block smoothness itself,
    ‖∇^j f(x_{k−1,j+1}) − ∇^j f(x_{k−1,j})‖ ≤ L_j ‖u‖. Where that is rounding too, or the block does
    not move, L_j stays as it was. A first guess of L_j that is NaN is made from
    the curvature along the gradient at x_0.
    """

    most_trials = 40

    def __init__(
        self, L: Sequence[float], eta: Eta = 1.0, grow: float = 2.0, shrink: float = 0.8
    ) -> None:
        if not grow > 1:
            raise ValueError(f"grow must be larger than 1, got {grow}")
        if not 0 < shrink <= 1:
            raise ValueError(f"shrink must be in (0, 1], got {shrink}")
        self.L = [float(value) for value in L]
        self.blocks = len(self.L)
        if any(value <= 0 or math.isinf(value) for value in self.L):
            raise ValueError(f"L must be positive and finite (or NaN, to be guessed), got {self.L}")
        self.eta = as_schedule(eta)
        self.grow, self.shrink = grow, shrink
        self._rate = math.nan

    def begin(self, k: int) -> None:
        """Take η_k."""
        self._rate = self.eta(k)

    def current(self, j: int) -> float:
        """η / L_j."""
        return self._rate / self.L[j]

    def metric(self, j: int) -> float:
        """L_j."""
        return self.L[j]

    def at(self, j: int, now: Any, gj: Array, reg: Any) -> tuple[Array, float]:
        """g^j, and η / L_j for the first L_j that passes."""
        xj, slope, value = now.get(j), now.grad(j), now.value()
        before = self.L[j]
        if not math.isfinite(value):
            return gj, self.current(j)  # nothing to compare with; the caller sees the value
        self.L[j] *= self.shrink
        factor, rejected = self.grow, False
        for trial in range(self.most_trials):
            t = self.current(j)
            u = reg.prox(j, xj - t * gj, t) - xj
            passed = self._passes(j, now, xj, u, slope, value)
            if passed:
                return gj, t
            if passed is None:  # a step lost in rounding
                self.L[j] = before
                if rejected:  # every longer one was wrong
                    break
                return gj, self.current(j)  # it decides nothing: L_j stays what it was
            rejected = True
            if trial >= 10:  # the guess was far off, not a little
                factor = min(factor**1.5, 1e8)
            self.L[j] *= factor
        self.L[j] = before
        raise LineSearchError(
            f"no step along the gradient of block {j} fits the values of fun: "
            "check that jac is the gradient of fun"
        )

    def _passes(
        self, j: int, now: Any, xj: Array, u: Array, slope: Array, value: float
    ) -> bool | None:
        """Whether the step u fits L_j; None if u is too short for the values to tell."""
        length2 = norm2(u)
        if not math.isfinite(length2):
            return False
        epsilon = _epsilon(xj)
        if length2 <= (4 * epsilon) ** 2 * norm2(xj):
            return None
        now.set(j, xj + u)
        trial = now.value()
        model = float((slope * u).sum()) + 0.5 * self.L[j] * length2
        passed: bool | None
        if not math.isfinite(trial):
            passed = False
        elif trial <= value + model:
            passed = True
        else:
            rounding = 16 * epsilon * max(abs(value), abs(trial))
            undecided = abs(model) <= rounding and abs(trial - value) <= rounding
            passed = self._smooth(now.grad(j), slope, length2, j, epsilon) if undecided else False
        now.set(j, xj)
        return passed

    def _smooth(
        self, there: Array, here: Array, length2: float, j: int, epsilon: float
    ) -> bool | None:
        """Block smoothness itself, on the gradients; None where their difference is rounding."""
        bent = norm2(there - here)
        if bent <= (64 * epsilon) ** 2 * max(norm2(there), norm2(here)):
            return None
        return bent <= self.L[j] ** 2 * length2

    def prepare(self, at_x0: Any) -> None:
        """First guesses of the L_j that were not given: the curvature along the gradient."""
        for j, L in enumerate(self.L):
            if math.isnan(L):
                gj = at_x0.grad(j)
                length2 = norm2(gj)
                bend = math.sqrt(norm2(at_x0.hvp(j, gj)) / length2) if length2 > 0 else 0.0
                self.L[j] = bend if bend > 0 and math.isfinite(bend) else 1.0

    def memory(self) -> dict[str, Any]:
        """The L_j found so far."""
        return {"L": list(self.L)}

    def recall(self, memory: dict[str, Any]) -> None:
        """Go on from these L_j."""
        self.L = list(memory["L"])


class Curvature:
    """Λ_j = L_j I with L_j = `safety` · ‖∇²_jj f‖ at the current point, by power iteration.

    Each estimate is `iterations` Hessian-vector products on the sample in hand, started from the
    vector the last one ended with. L_j is estimated at the block's first turn, and again every
    `every` cycles (never again with `every=None`). The result is a local estimate, not a bound.
    """

    def __init__(
        self,
        m: int,
        eta: Eta = 1.0,
        every: int | None = None,
        iterations: int = 20,
        safety: float = 1.0,
        seed: int = 0,
    ) -> None:
        if every is not None and every < 1:
            raise ValueError(f"every must be at least 1 or None, got {every}")
        if iterations < 1:
            raise ValueError(f"iterations must be at least 1, got {iterations}")
        if not safety > 0:
            raise ValueError(f"safety must be positive, got {safety}")
        self.L = [math.nan] * m
        self.blocks = m
        self.eta = as_schedule(eta)
        self.every, self.iterations, self.safety = every, iterations, safety
        self._vectors: list[Array | None] = [None] * m
        self._rng = np.random.default_rng(seed)
        self._due = [True] * m
        self._rate = math.nan

    def begin(self, k: int) -> None:
        """Take η_k; every `every` cycles the estimates are due again."""
        self._rate = self.eta(k)
        if self.every is not None and k > 0 and k % self.every == 0:
            self._due = [True] * len(self._due)

    def current(self, j: int) -> float:
        """η / L_j."""
        return self._rate / self.L[j]

    def metric(self, j: int) -> float:
        """L_j."""
        return self.L[j]

    def at(self, j: int, now: Any, gj: Array, reg: Any) -> tuple[Array, float]:
        """g^j and η / L_j, estimated first if it is due."""
        if self._due[j]:
            self.measure(j, now)
        return gj, self.current(j)

    def measure(self, j: int, now: Any) -> None:
        """Estimate L_j on the sample of `now`."""
        start = self._vectors[j]
        if start is None:
            start = random_like(now.get(j), self._rng)
        norm, self._vectors[j] = power_iteration(lambda v: now.hvp(j, v), start, self.iterations)
        # A block on which f is flat bounds nothing; any step will do, and 1 is a step.
        self.L[j] = self.safety * norm if norm > 0 else 1.0
        self._due[j] = False

    def prepare(self, at_x0: Any) -> None:
        """Estimate every L_j at x_0."""
        for j in range(len(self.L)):
            self.measure(j, at_x0)

    def memory(self) -> dict[str, Any]:
        """The estimates, with the vectors the next ones start from."""
        return {"L": list(self.L), "vectors": list(self._vectors), "due": list(self._due)}

    def recall(self, memory: dict[str, Any]) -> None:
        """Go on from these estimates."""
        self.L, self._vectors = list(memory["L"]), list(memory["vectors"])
        self._due = list(memory["due"])


def power_iteration(
    apply: Callable[[Array], Array], start: Array, iterations: int, tol: float = 1e-4
) -> tuple[float, Array]:
    """The norm of a symmetric operator, from below, and the vector it was found with.

    Example
    -------
    >>> import numpy as np
    >>> A = np.diag([1.0, -3.0])
    >>> norm, _ = power_iteration(lambda v: A @ v, np.ones(2), 50, tol=0.0)
    >>> round(norm, 6)
    3.0
    """
    v, norm = start / math.sqrt(norm2(start)), 0.0
    for _ in range(iterations):
        w = apply(v)
        new = math.sqrt(norm2(w))
        if new == 0.0 or not math.isfinite(new):
            return norm, v
        v, last, norm = w / new, norm, new
        if abs(norm - last) <= tol * norm:
            break
    return norm, v


def random_like(a: Array, rng: np.random.Generator) -> Array:
    """A standard normal array with the shape, dtype and device of `a`."""
    noise = rng.standard_normal(tuple(a.shape))
    if kind(a) == "torch":
        import torch

        return torch.as_tensor(noise, dtype=a.dtype, device=a.device)
    return noise.astype(a.dtype)


def _epsilon(a: Array) -> float:
    return float(array_namespace(a).finfo(a.dtype).eps)
