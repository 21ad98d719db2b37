"""Every constant of the engine: its unit, and what it trades.

Tests and experiments pass another `Tuning` to `solve` or `path`. Rounding is in `numerics.py`, and
guards in `limits.py`.

Each was halved and doubled on short lines of every kind; docs/benchmarks/linear-tuning.csv has what
an earlier version took. Comments quote it as *2x: …*, the slowest line at half or double the value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class CostModel:
    """Measured rates, in entries of X that are read one after another.

    Every choice between two ways to the same numbers compares two prices that are made of these.
    """

    product: float = 1 / 16  # a multiplication within a matrix product; 2x: 2.0
    product_cached: float = 1 / 4  # the same, beside cycles over columns in a cache; 2x: 1.8
    gathered: float = 5.0  # an entry that is picked by its row, or added there; 2x: 1.28
    row: float = 20.0  # of a loss and its derivatives, per row, as of the logistic loss; 2x: 1.14
    calls: float = 5.0 * 2**19  # of Python and NumPy, about as many as any fit makes

    def is_tall(self, design: Any) -> bool:
        """Whether in a check the product with X costs less than the loss."""
        return bool(design.entries < self.row * design.n)


@dataclass(frozen=True)
class Tuning:
    """The constants of a fit."""

    cost: CostModel = field(default_factory=CostModel)

    # Working sets: checks of all columns, against work on columns that stay zero.
    near: float = 0.75  # of its threshold: zeros with a larger |g| come in beforehand; 2x: 1.1
    room: int = 48  # columns that may always come in so, and twice as many that violate; 2x: 1.1
    checks: float = 3.0  # of all columns, that a fit on working sets makes at least

    # How far, as a part of the distance before: steps on what is not yet right, against too few.
    forcing: float = 0.1  # what W or a model is brought to; zeros with less wait; 2x: 1.6
    rough: float = 0.3  # the same of blocks, and of λ where another λ or penalty follows; 2x: 1.3
    inner_part: float = 0.3  # of the distance aimed at: smaller moves end a burst; 2x: 1.24
    model_precision: float = 0.01  # what a model is brought to whose cycles read no row; 2x: 1.15
    close: float = 1e-3  # of λ, F or coefficients: nearer is as good, so a path goes on; 2x: 1.35
    stall_drop: float = 0.9  # of the lowest distance: a lower one is progress; 2x: 1.05

    # Steps: of few that are long, against many that are short.
    lam_step: float = 0.3  # of the λ before, on the way to a single fit; 2x: 1.37
    hop: float = 2.0  # times λ, or less nonconvex: where other minima are looked for; 2x: 1.2
    window_step: float = 3.0  # from one window of a loss to the next narrower one; 2x: 1.6
    burst: int = 4  # cycles between checks of W, points combined, cycles per factor e at first
    group_inner_steps: int = 12  # proximal steps on a sparse group; 30: 1.1 to 2.4 times as long
    support_cycles: float = 30.0  # over the support, that its products and a factor may cost

    # Quadratic models: steps that are too long, against steps that are too short.
    least_curvature: float = 1e-3  # of a majoriser's weights: φ'' counts as no less; 2x: 1.06

    # Sizes of X or of what is read of it, in entries. 2x: 1.04 or less, `small_gram` 1.75.
    cache: int = 2**19  # what a cache holds: worked on at a time; half so small an X in float64
    large: int = 2**21  # about 1 ms to read: threads share larger work, models are in float32
    huge: int = 2**26  # a larger X is not copied as a whole; BLAS has all its threads for it
    sample: int = 512  # rows that tell about all: of a rough fit, of a mean
    long_run: int = 1024  # bytes in a row: columns so long are read where they lie, by our loops
    small_gram: int = 128  # columns: cycles and Newton steps are one call, factors are made again
    most_columns: int = 2**12  # whose products are ever formed where these are many
    few_columns: int = 2**10  # whose products are formed for one model of many


DEFAULT = Tuning()
