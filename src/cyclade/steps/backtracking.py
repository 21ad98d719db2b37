"""Steps found by a line search that knows what rounding hides from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

from cyclade._arrays import Array, all_finite, norm2, rounding_unit
from cyclade._checks import (
    above,
    as_float,
    is_number,
    listed,
    probability,
    require,
    shown,
    whole_number,
)
from cyclade.certificates import contradiction_along
from cyclade.steps.base import Eta, LineSearchError, Rated
from cyclade.steps.scaling import equilibrate


class Trial(NamedTuple):
    """What a trial step says about L_j, and the curvature that was seen along it (NaN: none).

    The step is lost where it is rounding itself; it is undecided where values and gradients differ
    by rounding only.
    """

    verdict: Literal["fits", "too long", "not finite", "undecided", "lost"]
    curvature: float = math.nan
    by_values: bool = False


class Backtracking(Rated):
    """Λ_j = L_j S_j with L_j found by a line search, for each block at each turn.

    The analysis needs block smoothness only between successive iterates, so L_j is raised (by
    `grow`) until

        f(x_{k−1,j+1}) ≤ f(x_{k−1,j}) + ⟨∇^j f(x_{k−1,j}), u⟩ + (L_j / 2) ‖u‖²_{S_j}

    on the sample in hand, with u = x_k^j − x_{k−1}^j. The next turn of the block starts from
    `shrink` · L_j, so that L_j may come down again where f is flatter (with `shrink_every` only in
    every so many cycles: extrapolation wants cycles that are alike). S_j is the identity; with
    ``scaled=True`` it is a diagonal that gives the rows of the block's Hessian at x_0 equal norms
    (see `cyclade.steps.scaling`), for blocks whose coordinates have different units.

    Rounding: where the two sides differ by no more than rounding, block smoothness itself decides,
    ‖∇^j f(x_{k−1,j+1}) − ∇^j f(x_{k−1,j})‖ ≤ L_j ‖u‖; where that is rounding too, L_j stays as it
    was last accepted. Where values go on rejecting what gradients accept, differences of values
    along the step decide which of the two is wrong (`cyclade.certificates`), and only a clear
    contradiction is an error. Those differences also tell the rounding unit of fun, which may
    compute in single precision though x is double.

    Certificates are measured with the largest curvature that was seen, not with an L_j that a
    search left behind: `metric` is the smaller of the two.
    """

    measured = True
    learnt = ("L", "seen", "shape", "first", "compared", "noise", "unit")
    most_trials = 60
    patience = 3  # rejections by values before gradients are asked whether they agree

    def __init__(
        self,
        L: Sequence[float],
        eta: Eta = 1.0,
        grow: float = 2.0,
        shrink: float = 0.8,
        scaled: bool = False,
        shrink_every: int = 1,
    ) -> None:
        super().__init__(eta)
        self.shrink_every = whole_number("shrink_every", shrink_every, 1)
        self._shrinks = True
        self.grow = above("grow", grow, 1.0)
        self.shrink = probability("shrink", shrink)
        if not isinstance(scaled, bool):
            raise TypeError(f"scaled must be True or False, got {shown(scaled)}")
        entries = listed("L", L, "a list with a number per block")
        require(bool(entries) and all(map(is_number, entries)), "L", L, "a number for each block")
        self.L = [as_float(value) for value in entries]
        if any(value <= 0 or math.isinf(value) for value in self.L):
            raise ValueError(f"L must be positive and finite (or NaN, to be guessed), got {self.L}")
        self.blocks = len(self.L)
        self.scaled = scaled
        self.shape: list[Any] = [1.0] * self.blocks  # S_j
        self.seen = [0.0] * self.blocks  # the largest curvature seen in each block, in units of S_j
        self.first = list(self.L)  # L_j at x_0: stands in until a curvature was seen
        self.compared = [False] * self.blocks  # blocks whose gradient was held against values
        self.noise = 0.0  # how much values were found to err beyond what is assumed, relatively
        self.unit = 0.0  # the rounding unit of values and gradients, where it was measured

    def begin(self, k: int) -> None:
        """Take η_k; every `shrink_every` cycles L_j may come down."""
        super().begin(k)
        self._shrinks = k > 0 and k % self.shrink_every == 0  # the first L_j is a fresh guess

    def current(self, j: int) -> Any:
        """η Λ_j^{−1}."""
        return self.rate / (self.L[j] * self.shape[j])

    def metric(self, j: int) -> Any:
        """Λ_j, with an L_j no larger than the curvature that was seen."""
        return min(self.L[j], self.seen[j] or self.first[j]) * self.shape[j]

    def at(self, j: int, now: Any, gj: Array, reg: Any) -> tuple[Array, Any]:
        """g^j, and η Λ_j^{−1} for the first L_j that passes."""
        value = now.value()
        if not math.isfinite(value):
            return gj, self.current(j)  # nothing to compare with; the caller sees the value
        xj, slope, accepted = now.get(j), now.grad(j), self.L[j]
        if not (math.isfinite(float(slope.sum())) or all_finite(slope)):
            raise LineSearchError(f"the gradient of fun turned NaN or infinite in block {j}")
        self.L[j] *= self.shrink**self.shrink_every if self._shrinks else 1.0
        growth, rejections, edge = self.grow, 0, False
        for trial_number in range(self.most_trials):
            t = self.current(j)
            u = reg.prox(j, xj - t * gj, t)
            trial = self._try(j, now, xj, u, slope, value)
            if trial.by_values and trial.verdict == "too long":
                rejections += 1
                if rejections >= self.patience:
                    trial = self._by_gradients(j, now, xj, u, slope)
                    if trial.verdict != "too long":
                        self._check_gradient(j, now, xj, u, slope, value)
            edge = trial.verdict == "not finite" or (edge and trial.verdict == "lost")
            if trial.verdict == "fits":
                if trial.curvature > self.seen[j]:
                    self.seen[j] = trial.curvature
                return gj, t
            if trial.verdict == "undecided":
                if rejections == 0 and trial_number == 0:
                    self.L[j] = accepted  # nothing was learnt: the last L_j that was accepted
                return gj, self.current(j)
            if trial.verdict == "lost":
                break
            if trial_number >= 10:  # the guess was far off, not a little
                growth = min(growth**1.5, 1e8)
            self.L[j] *= growth
        self.L[j] = accepted
        if edge:
            raise LineSearchError(
                f"fun is not finite at any step from here along the gradient of block {j}, however "
                "short: x is at the edge of where f has values"
            )
        return gj, t  # a step that rounding swallows: the block stays where it is

    def _try(self, j: int, now: Any, xj: Array, u: Array, slope: Array, value: float) -> Trial:
        """Whether the step to u fits L_j, by values or, where they cannot tell, by gradients."""
        step, eps = u - xj, rounding_unit(xj)
        length2 = norm2(step, self.shape[j])
        if not math.isfinite(length2):
            return Trial("too long")
        if norm2(step) <= (4 * eps) ** 2 * norm2(xj) or length2 == 0.0:
            return Trial("lost")
        there = now.trial(j, u)
        if not math.isfinite(there):
            return Trial("not finite")
        linear = float((slope * step).sum())
        excess, allowed = there - value - linear, 0.5 * self.L[j] * length2
        noise = (16 * eps + self.noise) * max(abs(value), abs(there), abs(linear))
        if abs(excess - allowed) <= noise:
            return self._by_gradients(j, now, xj, u, slope)
        if -2 * allowed - noise > excess and not self.compared[j]:
            # f falls by far more than promised: it bends down, or the gradient is too short.
            self._check_gradient(j, now, xj, u, slope, value)
        curvature = 2 * excess / length2 if excess > noise else math.nan
        return Trial("fits" if excess < allowed else "too long", curvature, by_values=True)

    def _by_gradients(self, j: int, now: Any, xj: Array, u: Array, slope: Array) -> Trial:
        """Block smoothness itself, ‖∇^j f(x + u) − ∇^j f(x)‖ ≤ L_j ‖u‖ in the norms of S_j."""
        shape, eps = self.shape[j], max(rounding_unit(xj), self.unit)
        there = now.trial_grad(j, u)
        bent, length2 = norm2(there - slope, 1.0 / shape), norm2(u - xj, shape)
        if not math.isfinite(bent):
            return Trial("not finite")
        if bent <= (64 * eps) ** 2 * max(norm2(there, 1.0 / shape), norm2(slope, 1.0 / shape)):
            return Trial("undecided")
        curvature = math.sqrt(bent / length2)
        # A hair of slack: for a quadratic at L_j = its curvature both sides are equal.
        fits = curvature <= self.L[j] * (1 + 1e-3)
        return Trial("fits" if fits else "too long", curvature)

    def _check_gradient(
        self, j: int, now: Any, xj: Array, u: Array, slope: Array, value: float
    ) -> None:
        """Values reject a step that gradients accept: LineSearchError if the gradient is wrong."""
        step, eps = u - xj, rounding_unit(xj)
        size = math.sqrt(norm2(step))
        direction = step / size
        claimed = float((slope * direction).sum())
        wrong, unit = contradiction_along(
            lambda h: now.trial(j, xj + h * direction), claimed,
            math.sqrt(norm2(slope * direction)), 1.0 + math.sqrt(norm2(xj)), eps,
            f"the step of block {j}",
        )  # fmt: skip
        if wrong is not None and not wrong.between:
            raise LineSearchError(str(wrong), "wrong_gradient", j)
        self.compared[j] = True
        # The gradient is right, so values err more than was assumed: believe them less from now on.
        self.unit = max(self.unit, unit)
        miss = abs(now.trial(j, u) - value - claimed * size)
        scale = max(abs(value), eps)
        if miss <= unit**0.5 * scale:  # more than that is no rounding, but a kink or a sharp bend
            self.noise = max(self.noise, 4 * miss / scale)

    def prepare(self, at_x0: Any) -> None:
        """S_j, and first guesses of the L_j that were not given: the curvature along −∇^j f."""
        for j, L in enumerate(self.L):
            if self.scaled:
                self.shape[j] = equilibrate(partial(at_x0.hvp, j), at_x0.get(j))
            if math.isnan(L):
                self.L[j] = self._first_guess(j, at_x0)
        self.first = list(self.L)

    def _first_guess(self, j: int, at_x0: Any) -> float:
        """The curvature along −S_j^{−1} ∇^j f, from one more gradient."""
        xj, gj, shape = at_x0.get(j), at_x0.grad(j), self.shape[j]
        length = math.sqrt(norm2(gj / shape))
        if length == 0.0:
            return 1.0
        step = (rounding_unit(xj) ** (1 / 3) * (1.0 + math.sqrt(norm2(xj))) / length) * (gj / shape)
        there = at_x0.trial_grad(j, xj - step)
        guess = math.sqrt(norm2(there - gj, 1.0 / shape) / norm2(step, shape))
        return guess if guess > 0 and math.isfinite(guess) else 1.0
