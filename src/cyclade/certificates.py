"""How far a point is from stationary, and whether that number can be believed.

The certificate is dist²(∂F(x), 0) in the norm of Λ^{−1}. That norm certifies only where Λ is of the
size of the curvature of f: see `metric_inflation`. And the gradient must belong to the function:
see `contradiction`.

Differences of values along a line show whether it does. Values are known up to rounding, and nobody
knows how large a user's rounding is. So the derivative along a line is taken from central
differences over several lengths h. Too long ones disagree because f bends, too short ones because
of rounding; where neighbours agree best, their disagreement is the error. A gradient contradicts
only where it misses by several times that error. Before that is said, the noise of the values is
measured: fun may compute in single precision though x is double. One-sided differences show
whether f has a kink there instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cyclade._arrays import Array, kind, largest_entry, norm2, random_like, rounding_unit
from cyclade._checks import function, shown
from cyclade.blocks import Point

TOO_LARGE = 1e4  # how many times the curvature around x Λ may be
PROBES = 3


def squared_distance(
    x: Sequence[Array], gradient: Sequence[Array], reg: Any, metric: Callable[[int], Any]
) -> float:
    """dist²(∂F(x), 0) = Σ_j min over s ∈ ∂r^j(x^j) of ‖∇^j f(x) + s‖² in the norm of Λ_j^{−1}.

    `x` and `gradient` are lists of blocks, `reg` the separable regulariser (`PerBlock`), and
    ``metric(j)`` is Λ_j, a number or a diagonal. It is zero exactly at the stationary points of F.

    Example
    -------
    >>> import numpy as np
    >>> from cyclade.regularisers import L1, per_block
    >>> x, gradient = [np.array([0.0, 1.0])], [np.array([0.5, -0.9])]
    >>> squared_distance(x, gradient, per_block(L1(1.0), 1), lambda j: 2.0)  # (1 - 0.9)² / 2
    0.005
    """
    for name, blocks in (("x", x), ("gradient", gradient)):
        if not isinstance(blocks, list | tuple):
            raise TypeError(f"{name} must be a list of blocks, got {type(blocks).__name__}")
    if len(x) != len(gradient):
        raise ValueError(f"gradient must have {len(x)} blocks like x, got {len(gradient)}")
    if not callable(getattr(reg, "distance", None)):
        raise TypeError(f"reg must be a PerBlock (see per_block), got {type(reg).__name__}")
    function("metric", metric, "a function j -> Λ_j")
    total = 0.0
    for j, (u, v) in enumerate(zip(x, gradient, strict=True)):
        if not kind(u) or kind(u) != kind(v) or u.shape != v.shape:
            raise ValueError(
                f"gradient[{j}] must be an array like x[{j}], of shape "
                f"{getattr(u, 'shape', None)}, got {shown(v)} for {shown(u)}"
            )
        try:
            weight = 1.0 / metric(j)
        except (TypeError, ZeroDivisionError):
            raise ValueError(f"metric must give a positive number or array for {j}") from None
        try:
            total += reg.distance(j, u, v, weight) ** 2
        except (IndexError, ValueError) as error:
            raise ValueError(f"x[{j}] does not fit reg and metric: {error}") from None
    return total


def metric_inflation(
    oracle: Any,
    x: Point,
    sample: Any,
    gradient: Sequence[Array],
    reg: Any,
    metric: Callable[[int], Any],
    tol: float,
) -> float:
    """How many times too large Λ is, where that alone makes dist(∂F(x), 0) ≤ tol; else 0.

    Where Λ_j is over `TOO_LARGE` times the curvature along normal directions, it is cut down to it.
    """
    m, rng = x.layout.m, np.random.default_rng(0)
    eps = rounding_unit(x.leaves[0])
    h = float(np.cbrt(eps)) * (1.0 + math.sqrt(sum(norm2(a) for a in x.leaves) / x.layout.d))
    curvature = [0.0] * m
    for _ in range(PROBES):
        there = x.copy()
        for j in range(m):
            there.set(j, there.get(j) + h * random_like(x.get(j), rng))
        ahead = oracle.evaluate(there, sample)[1]
        for j in range(m):
            bent = math.sqrt(norm2(ahead[j] - gradient[j])) / h
            curvature[j] = max(curvature[j], bent)
    largest = [largest_entry(metric(j)) for j in range(m)]
    cut = [
        max(min(L, TOO_LARGE * seen), 1e-300) for L, seen in zip(largest, curvature, strict=True)
    ]
    if cut == largest:
        return 0.0
    dist2 = squared_distance(x.blocks(), list(gradient), reg, lambda j: cut[j])
    if math.sqrt(dist2) <= tol:
        return 0.0
    return max(L / max(seen, 1e-300) for L, seen in zip(largest, curvature, strict=True))


def curvature_used(
    oracle: Any, x: Point, sample: Any, gradient: Sequence[Array], reg: Any,
    current: Callable[[int], Any],
) -> float:  # fmt: skip
    """The curvature of f along one step of all blocks, beside that which steps allow for.

    One where steps are as long as they may be, next to zero where they are far too short.
    """
    there, moves = x.copy(), []
    for j, gj in enumerate(gradient):
        t = current(j)
        u = reg.prox(j, x.get(j) - t * gj, t)
        moves.append((u - x.get(j), 1.0 / t))
        there.set(j, u)
    length = sum(norm2(u, weight) for u, weight in moves)
    if not 0.0 < length < math.inf:
        return math.nan
    ahead = oracle.evaluate(there, sample)[1]
    turned = zip(ahead, gradient, moves, strict=True)
    return sum(float(((new - old) * u).sum()) for new, old, (u, _) in turned) / length


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


POWERS = (1 / 2, 5 / 12, 1 / 3, 1 / 4, 1 / 6)  # of the rounding unit: lengths of differences


def slope_along(phi: Callable[[float], float], length: float, eps: float) -> Slope:
    """φ'(0) by central differences; `length` is the scale on which φ is expected to change."""
    slopes = [_central_slope(phi, length * eps**power, eps) for power in POWERS]
    best = Slope(math.nan, math.inf)
    for before, slope, after in zip(slopes, slopes[1:], slopes[2:], strict=False):
        misses = [abs(slope.value - near.value) for near in (before, after)]
        error = max(*misses, slope.error)
        if math.isfinite(error) and error < best.error:
            best = Slope(slope.value, error)
    return best


def _central_slope(phi: Callable[[float], float], h: float, eps: float) -> Slope:
    """φ'(0) by one difference; its error is what rounding makes of it."""
    ahead, behind = phi(h), phi(-h)
    return Slope((ahead - behind) / (2 * h), 8 * eps * max(abs(ahead), abs(behind)) / h)


def noise_along(phi: Callable[[float], float], length: float, eps: float) -> float:
    """The relative error of values of φ near 0, at least `eps`, from differences of sixth order.

    Those of a smooth φ vanish beside its noise; of fourth order they would not. Points are taken on
    either side of 0, where φ may have a kink, and at two distances, since neighbours may differ by
    less than rounding; further apart where some are equal.
    """
    noise = scale = 0.0
    for power in (1 / 4, 1 / 6, 1 / 8):
        h = length * eps**power
        sides = np.array([[phi(sign * k * h) for k in range(1, 10)] for sign in (-1, 1)])
        variances = np.mean(np.diff(sides, 6) ** 2, axis=1) / 924  # Var Δ⁶ = (12 over 6) Var
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
) -> tuple[Contradiction | None, float]:
    """How φ contradicts φ'(0) = `claimed`, if it does; and the rounding unit of its values.

    `size` is the usual size of such slopes, `where` says which line it is.
    """
    with np.errstate(all="ignore"):
        if not _central_slope(phi, length * eps ** (1 / 3), eps).contradicts(claimed, size, eps):
            return None, eps  # the ordinary case, for two values
        found = slope_along(phi, length, eps)
        if not found.contradicts(claimed, size, eps):
            return None, eps
        unit = noise_along(phi, length, eps)
        if unit > 8 * eps:
            found = slope_along(phi, length, unit)
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

    For a φ with a Lipschitz derivative they come together like the length they are taken over.
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
    blocks: Sequence[int],
) -> Contradiction | None:
    """How two random directions through x, in `blocks` only, contradict `gradient`, or None."""
    names, where = x.layout.names, "a random direction"
    if len(names) > 1:
        where += f" of block {', '.join(repr(names[j]) for j in blocks[:3])}"
        where += " …" if len(blocks) > 3 else ""
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
        found, _ = contradiction_along(phi, claimed, size, length, eps, where)
        if found is None:
            return None
    return found


def contradiction_by_blocks(
    value: Callable[[Any], float],
    x: Any,
    gradient: Sequence[Array],
    rng: np.random.Generator,
    most: int,
) -> Contradiction | None:
    """How one block of `gradient`, or one of at most `most` groups, contradicts the values of f.

    In a direction of all blocks the error of one would hide behind the size of the others. A group
    that does is asked block by block. What lies between the slopes at a kink yields.
    """
    found, m = None, x.layout.m
    for group in np.array_split(np.arange(m), min(m, most)):
        one = contradiction(value, x, gradient, rng, group.tolist())
        if one is not None and not one.between:
            alone = (contradiction(value, x, gradient, rng, [j]) for j in group if len(group) > 1)
            return next((it for it in alone if it is not None and not it.between), one)
        found = found or one
    return found


FRACTIONS = (1.0, -1.0, 1 / 8, -1 / 8, 1 / 64, -1 / 64, 1 / 512, -1 / 512)


def prox_error(reg: Any, u: Array, v: Array, t: float, tol: float) -> str:
    """How the prox, value and distance of a regulariser contradict each other at u; else "".

    u is said to be stationary to `tol` where f has the gradient `v`. A prox step of length t from
    there ends at a z that minimises h(z) = r(z) + ‖z − (u − t v)‖² / (2t): neither u nor
    u − t v may do better, nor points on the lines from z to that and to zero. And z is u, up to
    the distance that is claimed: for a convex r the step over t is no longer.
    """
    ahead = u - t * v
    z, root = reg.prox(ahead, t), math.sqrt(t)
    rounding = math.sqrt(rounding_unit(u))
    moved, claimed = math.sqrt(norm2(z - u)) / root, float(reg.distance(u, v, t))
    slack = 2.0 * (tol * max(1.0, root) + rounding * math.sqrt(norm2(u)) / root)
    if reg.convex and not moved <= 2.0 * claimed + slack:
        return (
            f"distance says that x is stationary to {claimed / root:.3g}, but a prox step of "
            f"length {t:.3g} moves it by {moved * root:.3g}"
        )
    if moved <= slack:
        z = u  # of which F is known to be finite
    best = reg.value(z) + norm2(z - ahead) / (2 * t)
    if not math.isfinite(best):  # rounding may put z out of a domain: F at x says if x is
        return ""
    near = [z + a * way for way in (ahead - z, z) for a in FRACTIONS]
    for rival in (u, ahead, *near):
        there = reg.value(rival) + norm2(rival - ahead) / (2 * t)
        if there < best - 2.0 * slack * slack - 1e3 * rounding**2 * (abs(best) + abs(there)):
            return (
                f"prox does not minimise value(z) + |z - u|^2 / (2 t): with t = {t:.3g} that is "
                f"{best:.8g} at its answer, and {there:.8g} at another z"
            )
    return ""
