"""Is one curve ahead of another? Differences seed by seed, their interval, and a fixed rule."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

LEVEL = 0.95
YES, NO, OPEN = "yes", "no", "not decided"
RULE = (
    "The verdict follows a fixed rule. Two methods are compared seed by seed: "
    "“yes” if the 95 % t-interval of the differences lies above 0, “no” if it lies below 0, “not "
    "decided” otherwise or with fewer than two seeds. Seeds on which a run diverged have no "
    "difference: they are counted against the method that diverged, which then gets no verdict in "
    "its favour. That two methods are alike can be refuted so, not shown. Times and learning rates "
    "have no interval: a ratio of times is as claimed within 10 %. Nothing is corrected for the "
    "number of comparisons."
)


@dataclass(frozen=True)
class Paired:
    """Differences over the seeds that both have: mean ± `half` is the interval (two or more)."""

    n: int
    mean: float | None
    half: float | None
    ahead: int

    @property
    def low(self) -> float | None:
        """The lower end of the interval."""
        return None if self.mean is None or self.half is None else self.mean - self.half

    @property
    def high(self) -> float | None:
        """The upper end of the interval."""
        return None if self.mean is None or self.half is None else self.mean + self.half

    def verdict(self, lost: int = 0, others_lost: int = 0) -> str:
        """By the rule; `lost` seeds on which only this one diverged, `others_lost` the other."""
        if lost and not self.n and not others_lost:
            return NO if lost > 1 else OPEN  # it never got to an end, where the other did
        if others_lost and not self.n and not lost:
            return YES if others_lost > 1 else OPEN
        if self.low is None or self.high is None:
            return OPEN
        if self.low > 0 and not lost:
            return YES
        return NO if self.high < 0 and not others_lost else OPEN


def paired(differences: Sequence[float]) -> Paired:
    """The mean of differences with its t-interval.

    Example
    -------
    >>> found = paired([1.0, 2.0, 3.0])
    >>> found.ahead, found.mean, round(found.half, 3), found.verdict()
    (3, 2.0, 2.484, 'not decided')
    """
    n, ahead = len(differences), sum(d > 0 for d in differences)
    if n == 0:
        return Paired(0, None, None, 0)
    mean = statistics.fmean(differences)
    if n == 1:
        return Paired(1, mean, None, ahead)
    half = t_quantile(n - 1) * statistics.stdev(differences) / math.sqrt(n)
    return Paired(n, mean, half, ahead)


@cache
def t_quantile(freedom: int, level: float = LEVEL) -> float:
    """The t with P(|T| ≤ t) = `level` for Student's T with so many degrees of freedom.

    Example
    -------
    >>> [round(t_quantile(freedom), 3) for freedom in (1, 2, 9)]
    [12.706, 4.303, 2.262]
    """
    low, high = 0.0, 1.0
    while _within(high, freedom) < level:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < level else (low, middle)
    return high


def _within(t: float, freedom: int) -> float:
    """P(|T| ≤ t), by the finite sums in θ = arctan(t/√ν) for whole degrees of freedom ν."""
    theta = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(theta), math.cos(theta)
    odd = freedom % 2
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for k in range(1 + odd, freedom, 2):  # the powers of the cosine below ν, each with its factor
        total += term
        term *= cosine**2 * k / (k + 1)
    if odd:
        return 2 / math.pi * (theta + sine * total)
    return sine * total
