"""Whether checks still find anything better."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

ROUNDING = 1e-15
"""A relative fall of F below this is none."""


@dataclass
class Progress:
    """The best that checks have found, and how many in a row found nothing better."""

    value: float = np.inf
    objective: float = np.inf
    idle: int = 0

    def stale(self, value: float, objective: float) -> int:
        """Take note of a check; the number that were in vain."""
        lower = objective < self.objective * (1.0 - math.copysign(ROUNDING, self.objective))
        self.idle = 0 if lower or value < 0.9 * self.value else self.idle + 1
        self.value, self.objective = min(self.value, value), min(self.objective, objective)
        return self.idle
