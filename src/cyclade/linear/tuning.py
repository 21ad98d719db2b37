"""Every constant of the engine: its unit, what it trades, and how it was chosen.

Tests and experiments pass another `Tuning` to `solve` or `path`; nothing else sets a constant.
Compile-time constants of kernels stand at the top of their kernel.

They were chosen while the engine grew, on the lines of `benchmarks/linear.py`. What each is worth
today is measured by `benchmarks/tuning.py`, which halves and doubles every one of them on short
lines of every kind; the result is docs/benchmarks/linear-tuning.csv, and comments below quote it as
*2x: …*, the slowest line at half or double the value. Rounding is in `numerics.py`; guards,
which no line of it comes near, in `limits.py`.

>>> Tuning(near=0.9).near
0.9
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class CostModel:
    """What work costs, in entries of X read: for choices between two ways to the same numbers.

    2x: `product` 2.0 (`logistic leukemia path`), `product_cached` 1.8 (`logistic madelon /10`),
    `by_rows` 1.28, `row` 1.14.
    """

    product: float = 1 / 16  # a multiplication within a matrix product
    product_cached: float = 1 / 4  # the same, beside cycles over columns that a cache holds
    by_rows: float = 10.0  # an entry that is put by rows and multiplied with its row
    gathered: float = 5.0  # an entry that is picked by its row, or added there
    model_cycles: float = 2.0  # over its columns, that products of a model may cost
    row: float = 20.0  # of a loss and its derivatives, per row; measured for the logistic loss

    def check(self, design: Any) -> float:
        """Of a check of all columns: the loss at every row, and a product with all of X."""
        return float(design.entries + self.row * design.n)

    def is_tall(self, design: Any) -> bool:
        """Whether in a check the product with X costs less than the loss."""
        return bool(design.entries < self.row * design.n)


@dataclass(frozen=True)
class Tuning:
    """The constants of a fit, by the part that reads them."""

    cost: CostModel = field(default_factory=CostModel)

    # Working sets (working_set.py): checks of all columns, against work on columns that stay zero.
    # 2x: `forcing_scale` 1.7 (`lasso mushrooms /10`), `forcing` 1.6 (`logistic logit /100`),
    # `forcing_blocks` 1.34 (`group leukemia /100`), `share` 1.26 (`enet near /100`), `room` 1.13,
    # `least_columns` 1.12, `near` 1.09, `path_distance` 1.03.
    near: float = 0.75  # of its threshold: a zero with a larger |g| is taken in beforehand
    room: int = 48  # columns that may always be taken in so, and twice as many that violate
    forcing: float = 0.1  # of the violation that comes in: the distance W is brought to
    rough: float = 0.3  # of λ: the same at most, and for points on the way of nonconvex fits
    forcing_blocks: float = 0.3  # of the distance before: the same for blocks of several entries
    # F − min F falls with the square of the distance but a gap only in proportion, so a gap lets go
    # of points that the next λ would start badly from.
    path_distance: float = 1e-3  # of λ: on a path of least squares each λ is brought this near

    # Starts (starts/), single fits: working sets at larger λ, against wrong ones at λ. A convex fit
    # at λ_max times the square of the step or more starts at zero at once. 2x: `lam_step` 1.37
    # (`enet near /100`); with models of a larger X, `logistic logit /10` takes 1.15 times as long.
    lam_step: tuple[float, float] = (0.3, 0.1)  # of the λ before; distance in λ that is enough

    # Starts of nonconvex penalties: lower minima, against time. By objectives on crowded designs.
    # 2x: `hops` 1.2, `companion_step` 1.19 in time.
    straighter: tuple[float, ...] = (4.0, 2.0)  # times a penalty is less nonconvex on the way
    # Of 2,400 problems of `benchmarks/nonconvex.py`, 33 end higher than skglm's by more than 1 %
    # after one round of hops and 20 with more, in 1.45 times the time. With rounds on any X, `mcp
    # dense /100` and `mcp basehock /100` take 2.2 and 2.4 times as long.
    hops: tuple[float, ...] = (2.0, 0.5)  # of λ, where a single fit goes and comes back from
    hop_entries: int = 100_000  # of X, at most, where another round follows one that gained
    companion_step: float = 0.6  # of the λ before: how often a path is compared with another
    same_point: float = 1e-3  # of F or the largest coefficient: by less two points are the same

    # Starts along a path: models of the loss, against working sets. 2x: `entry` 1.9 (`logistic
    # counts /1000`), `predictor_distance` 1.35 (`logistic madelon path`), `model_precision` 1.15.
    strong_rule_step: float = 0.8  # of the λ before: below it the strong rule takes too many
    predictor_steps: int = 3  # models at one λ, at most
    predictor_distance: float = 2e-3  # of λ: at this distance no further model is made
    model_precision: float = 0.01  # of its first distance, what a model is minimised to
    entry: float = 0.25  # of the largest violation: columns with less wait for the next step

    # Starts through easier losses: fits of wider windows, against models that know no curvature.
    # 2x: 1.6 (a quantile with a window of 0.01).
    window_first: float = 0.1  # of the residuals' spread: the first window is no narrower
    window_step: float = 3.0  # from one window to the next; one step more is not worth a stage

    # Quadratic models (quadratic.py): steps that are too long, against steps that are too short.
    first_trust: float = 0.1  # of a majoriser's weights: what replaces φ'' < 0 at first
    damping_step: float = 4.0  # times the weights after a step that was too long, less after others
    least_curvature: float = 1e-3  # of a majoriser's weights: φ'' counts as no less; 2x: 1.06

    # Products of all columns (products/), against working sets: `benchmarks/linear_products.py`
    # prints the times of both ways, and which one was taken.
    calls: float = 5.0 * 2**19  # entries read: about what the calls of any fit cost
    path_passes: float = 1.0  # over X, that working sets cost at each λ of a path
    # Their price: passes over X; more for each log of λ_max/λ times log of how alike columns are,
    # or if X is by rows; and entries per row, for each column that will be in the solution.
    forecast_passes: tuple[float, ...] = (3.0, 1.3, 10.0, 36.0)  # in this order
    most_measured: float = 2.0**24  # entries times points: fewer are always measured on X
    single_tol: float = 1e-7  # with a tighter tolerance products for a path are made in float64
    # Curved losses, measured on tables of 178 x 13 to 1,000 x 500 with correlated columns: fits of
    # a higher price take as long with working sets. Most λ of a path need few columns.
    curved_calls: tuple[float, float] = (2.0**19, 2.0**22)  # entries read: what the calls of a
    # curved fit, and of a path, cost about
    curved_part: float = 0.5  # of the tolerance, where gaps are told from terms of second order
    newton_precision: float = 1e-3  # of its first distance, what a model on cheap products is
    fold_rest: float = 1e-6  # of a sum over all rows: less after a subtraction is rounding, nearly

    # A shorter table in place of a tall X (products/shorter.py)
    compressed_tall: float = 4.0  # rows per column that X must have

    # Sizes of X or of what is read of it, in entries. 2x: 1.04 or less.
    cache: int = 2**19  # what a cache holds: worked on at a time; half so small an X in float64
    large: int = 2**21  # about 1 ms to read: threads share larger work, models are in float32
    huge: int = 2**26  # a larger X is not copied as a whole; BLAS has all its threads for it
    sample: int = 512  # rows that tell about all: of a rough fit, of a mean
    long_run: int = 1024  # bytes in a row: columns so long are read where they lie, by our loops

    # Every subproblem (subproblem/): cycles on W, against checks of it. 2x: `active_part` 1.6
    # (`lasso mushrooms /10`), `inner_part` 1.24 (`logistic madelon /10`).
    inner_part: float = 0.3  # of the distance aimed at: smaller moves end a burst of cycles
    active_part: float = 0.1  # of the distance aimed at: zeros with less are not cycled over
    stall_drop: float = 0.9  # of the lowest distance: a lower one is progress

    # Coordinate subproblem (subproblem/coordinate.py, panel_solver.py, gram.py): models
    # against cycles on each of them; products of columns and factors against cycles. 2x:
    # `first_burst` 1.9 (`lasso mushrooms /10`), `small_gram` 1.75 (a quantile), `gram_at_once` 1.43
    # (`logistic madelon /10`), `model_forcing` 1.37 (`logistic logit /100`), `max_model_cycles`
    # 1.2, others 1.12 or less. Dense paths take 1.33 times as long without bordered factors, `lasso
    # mushrooms /10` 1.7 times and `lasso madelon /10` 1.4 times without cycles guessed ahead
    # (`cycle_rate`), `lasso mushrooms /100` 1.2 times without `recheck`.
    model_forcing: float = 0.1  # of its first distance, what a curved model is minimised to
    burst: int = 4  # cycles before active blocks are chosen anew, points combined
    cycle_rate: tuple[float, float] = (4.0, 1.0)  # cycles per factor e of a distance, as first
    # guessed: of copied columns, and of sparse ones and those in place; then as measured
    small_gram: int = 128  # columns: cycles and Newton steps are one call, factors are made again

    # Group subproblem (subproblem/group.py): steps on one block against cycles over all. 2x:
    # `anderson_depth` 1.4 (`group leukemia /100`), `stalled_rounds` 1.15; no line of the sweep has
    # sparse groups, or groups of more than ten columns. In float32, `group leukemia /100`, which is
    # smaller than `large_design`, makes 1.14 times as many cycles.
    max_group_hessian: int = 512  # columns: larger groups move by proximal steps with one bound
    group_inner_steps: int = 12  # proximal steps on a sparse group; 30: 1.1 to 2.4 times as long

    # Active-set Newton (subproblem/active_set.py): products and pivots against cycles. 2x:
    # `pivot_near` 1.38 (`cauchy a9a /10`), `pivot_cycles` 1.24 and `pivot_distance` 1.19 (`cauchy
    # outliers /10`).
    pivot_cycles: float = 60.0  # cycles that products and a factor may cost anywhere
    pivot_cycles_near: float = 400.0  # the same near the minimum
    pivot_distance: float = 0.3  # of λ: near the minimum
    pivot_near: float = 0.95  # of its threshold: a zero with a larger |g| has its products formed
    pivot_rate: float = 0.8  # of the distance before: where more is left, products are made anew
    pivot_burst: int = 8  # cycles that a step with old products costs, about
    pivot_ridges: tuple[float, ...] = (0.0, 1e-10, 1e-8)  # of the diagonal, in turn; guard

    # Products of columns: of more than so many only where these pay in other ways.
    max_gram_columns: int = 4_000  # columns whose products are ever formed if these are many
    max_columns_kept: int = 1_000  # columns whose products are formed for one model of many


DEFAULT = Tuning()
