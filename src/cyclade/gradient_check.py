"""Does the gradient belong to the function? Differences of values along a line say so.

Values are known up to rounding, and nobody knows how large a user's rounding is. So the derivative
along a line is taken from central differences over several lengths h. Too long ones disagree
because f bends, too short ones because of rounding; where neighbours agree best, their disagreement
is the error. A gradient contradicts only where it misses by several times that error. Before that
is said, the noise of the values is measured: fun may compute in single precision though x is
double. And one-sided differences show whether f has a kink there instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cyclade._arrays import Array, norm2, random_like, rounding_unit

TIMES_THE_ERROR = 8.0  # how many times the error of the differences a contradiction must be


@dataclass(frozen=True)
class Slope:
    """A derivative found by differences, and how far off it may be (NaN, infinity: unknown)."""

    value: float
    error: float

    def contradicts(self, claimed: float, size: float, eps: float) -> bool:
        """Whether `claimed` is clearly another number; `size` is the usual size of such slopes."""
        miss = abs(self.value - claimed)
        least = eps**0.25 * max(size, abs(claimed), abs(self.value))
        return bool(miss > TIMES_THE_ERROR * self.error and miss > least)


@dataclass(frozen=True)
class Contradiction:
    """How values of f along a line contradict the gradient, and what they show instead."""

    evidence: str
    kink: bool = False  # one-sided slopes differ: f has a kink, or bends like one
    between: bool = False  # the gradient lies between the slopes behind and ahead

    def __str__(self) -> str:
        if self.kink:
            return f"fun has a kink here, or jac is wrong: {self.evidence}"
        return (
            f"the gradient contradicts the values of fun: {self.evidence}. Check that jac is the "
            "gradient of fun"
        )


FIVE = (1 / 2, 5 / 12, 1 / 3, 1 / 4, 1 / 6)  # lengths are these powers of the rounding unit
THREE = FIVE[1:4]


def slope_along(
    phi: Callable[[float], float], length: float, eps: float, powers: Sequence[float] = FIVE
) -> Slope:
    """φ'(0) by central differences; `length` is the scale on which φ is expected to change.

    Example
    -------
    >>> import math
    >>> found = slope_along(math.sin, length=1.0, eps=2.2e-16)
    >>> abs(found.value - 1.0) < 8 * found.error < 1e-6
    True
    """
    lengths = [length * eps**power for power in powers]
    slopes, floors = [], []
    for h in lengths:
        ahead, behind = phi(h), phi(-h)
        slopes.append((ahead - behind) / (2 * h))
        floors.append(8 * eps * max(abs(ahead), abs(behind)) / h)
    best = Slope(math.nan, math.inf)
    for i in range(1, len(lengths) - 1):
        near = [abs(slopes[i] - slopes[i - 1]), abs(slopes[i] - slopes[i + 1]), floors[i]]
        error = max(near)
        if math.isfinite(error) and error < best.error:
            best = Slope(slopes[i], error)
    return best


def noise_along(phi: Callable[[float], float], length: float, eps: float) -> float:
    """The relative error of values of φ near 0, at least `eps`, from differences of fourth order.

    Those of a smooth φ vanish beside its noise, and that of single precision is seen whatever the
    type of the values. Points are taken on either side of 0, where φ may have a kink, and at two
    distances, since neighbours may differ by less than rounding; further apart where some are
    equal.

    Example
    -------
    >>> noise_along(lambda h: float(np.float32(np.exp(h))), 1.0, 2.2e-16) > 1e-8
    True
    >>> noise_along(abs, 1.0, 2.2e-16) < 1e-15
    True
    """
    noise = scale = 0.0
    for power in (1 / 4, 1 / 6, 1 / 8):
        h = length * eps**power
        sides = np.array([[phi(sign * k * h) for k in range(1, 8)] for sign in (-1, 1)])
        variances = np.mean(np.diff(sides, 4) ** 2, axis=1) / 70  # Var Δ⁴ = (8 over 4) Var
        noise, scale = max(noise, math.sqrt(float(np.min(variances)))), float(np.max(abs(sides)))
        if power < 1 / 4 and np.all(np.diff(sides) != 0):
            break
    return min(max(eps, noise / scale), 1e-3) if scale > 0 and math.isfinite(noise) else eps


def contradiction_along(
    phi: Callable[[float], float],
    claimed: float,
    size: float,
    length: float,
    eps: float,
    where: str,
    powers: Sequence[float] = THREE,
) -> tuple[Contradiction | None, float]:
    """How φ contradicts φ'(0) = `claimed`, if it does; and the rounding unit of its values.

    `size` is the usual size of such slopes, `where` says which line it is. The unit is that of the
    arithmetic, `eps`, until a contradiction makes it worth measuring.
    """
    with np.errstate(all="ignore"):
        found = slope_along(phi, length, eps, powers)
        if not found.contradicts(claimed, size, eps):
            return None, eps
        unit = noise_along(phi, length, eps)
        if unit > 8 * eps:
            found = slope_along(phi, length, unit, powers)
            if not found.contradicts(claimed, size, unit):
                return None, unit
        behind, ahead = kink_along(phi, length, unit)
    rates, kink = f"{found.value:.6g} (± {found.error:.1g})", behind != ahead
    if kink:
        rates = f"{behind:.6g} behind x and {ahead:.6g} ahead"
    evidence = f"along {where} f changes at the rate {rates}, the gradient says {claimed:.6g}"
    return Contradiction(evidence, kink, between=kink and behind <= claimed <= ahead), unit


def kink_along(phi: Callable[[float], float], length: float, eps: float) -> tuple[float, float]:
    """The slopes behind and ahead of 0, where they stay apart on small scales; else equal ones.

    For a φ with a Lipschitz derivative they come together like the length h over which they are
    taken; at a kink they do not, and next to √h, as of |h|^1.5, only slowly.

    Example
    -------
    >>> kink_along(abs, 1.0, 2.2e-16)
    (-1.0, 1.0)
    >>> kink_along(math.exp, 1.0, 2.2e-16)
    (0.0, 0.0)
    """
    short, long = length * eps ** (5 / 12), length * eps ** (1 / 4)
    here, sides = phi(0.0), [(phi(-h), phi(h), h) for h in (short, long)]
    (behind, ahead), (far_behind, far_ahead) = (
        ((here - left) / h, (right - here) / h) for left, right, h in sides
    )
    apart, far_apart = abs(ahead - behind), abs(far_ahead - far_behind)
    rounding = 8 * 4 * eps * max(abs(here), abs(sides[0][0]), abs(sides[0][1])) / short
    if apart > rounding and far_apart < (long / short) ** 0.75 * apart:
        return behind, ahead
    return 0.0, 0.0


def contradiction(
    value: Callable[[Any], float],
    x: Any,
    gradient: Sequence[Array],
    rng: np.random.Generator,
    block: int | None = None,
) -> Contradiction | None:
    """How `gradient` (by blocks) contradicts the values of f around the point x, or None.

    Two random directions through x, in `block` only or in all blocks, must both contradict it.
    """
    blocks = range(x.layout.m) if block is None else [block]
    eps = rounding_unit(x.leaves[0])
    length = 1.0 + math.sqrt(sum(norm2(x.get(j)) for j in blocks))
    found = None
    for _ in range(2):
        v = {j: random_like(x.get(j), rng) for j in blocks}
        unit = 1.0 / math.sqrt(sum(norm2(vj) for vj in v.values()))

        def phi(h: float) -> float:
            there = x.copy()
            for j, vj in v.items():  # noqa: B023
                there.set(j, x.get(j) + (h * unit) * vj)  # noqa: B023
            return value(there)

        claimed = unit * sum(float((gradient[j] * v[j]).sum()) for j in blocks)
        size = unit * math.sqrt(sum(norm2(gradient[j] * v[j]) for j in blocks))
        found, _ = contradiction_along(phi, claimed, size, length, eps, "a random direction")
        if found is None:
            return None
    return found
