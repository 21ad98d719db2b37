"""Every constant of the engine: its unit, what it trades, and how it was chosen.

Tests and experiments pass another `Tuning` to `solve` or `path`; nothing else sets a constant.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """The constants of a fit, by the part that reads them."""

    # Working sets (working_set.py)

    # Stopping (stopping.py)

    # Screening (screening.py)

    # Starts (starts/)

    # Quadratic models and line searches (quadratic.py)

    # Coordinate subproblem (subproblem/coordinate.py)

    # Group subproblem (subproblem/group.py)

    # Sorted l1 subproblem (subproblem/sorted_l1.py)

    # Active-set Newton (subproblem/active_set.py)

    # Designs and panels (designs.py, panels/)


DEFAULT = Tuning()
