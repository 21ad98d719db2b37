"""Every constant of the engine: its unit, what it trades, and how it was chosen.

Tests and experiments pass another `Tuning` to `solve` or `path`; nothing else sets a constant.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CostModel:
    """What work costs, in entries of X that are read in passing."""

    product: float = 1 / 16  # a multiplication within a matrix product
    product_cached: float = 1 / 4  # the same beside columns that are read from a cache
    by_rows: float = 10.0  # an entry that is put by rows and multiplied with its row
    cluster_sums: float = 8.0  # per pair of columns, to sum their products by clusters


@dataclass(frozen=True)
class Tuning:
    """The constants of a fit, by the part that reads them."""

    # Working sets (working_set.py)

    # Stopping (stopping.py)

    # Screening (screening.py)

    # Starts (starts/)

    # Quadratic models and line searches (quadratic.py)

    # Coordinate subproblem (subproblem/coordinate.py, panel_solver.py, gram.py, factor.py)
    model_forcing: float = 0.1  # of its first distance, what a curved model is minimised to
    model_forcing_nonconvex: float = 0.5  # the same for a nonconvex loss: models are worth less
    max_model_cycles: int = 100  # cycles on a model that is not exact
    slow_models: int = 2  # in a row that needed more cycles: then expensive products are tried
    float32_models: int = 5  # of float32 columns; then z is computed from x again
    newton_steps_nonconvex: int = 5  # in a row on a settled support, for a nonconvex loss
    recheck: float = 2.0  # times a check of W must cost less than one of all columns to be made
    first_burst: int = 4  # cycles before the active columns are chosen anew; then 8, 16, 32
    active_part: float = 0.1  # of the distance aimed at: zeros with less are not cycled over
    gram_at_once: int = 20  # cycles: products of a curved model that cost less are formed at once
    small_gram: int = 128  # columns whose cycles and Newton steps are one compiled call
    min_bordered: int = 200  # columns: a factor of fewer is made again, not bordered
    max_bordered: float = 1 / 24  # of the columns of a factor that may have changed

    # Group subproblem (subproblem/group.py)
    max_group_hessian: int = 512  # columns: larger groups move by proximal steps with one bound
    group_inner_steps: int = 30  # proximal steps on one sparse group, in first-level cache
    anderson_depth: int = 4  # differences combined; one extrapolation after so many cycles
    stalled_rounds: int = 4  # checks of W in a row without a distance lower by 10 %

    # Sorted l1 subproblem (subproblem/sorted_l1.py)

    cluster_cycles: int = 5  # between two proximal steps
    stalled_splits: int = 100  # proximal steps in a row without a distance lower by 10 %

    # Active-set Newton (subproblem/active_set.py)
    pivot_cycles: float = 60.0  # cycles that products and a factor may cost anywhere
    pivot_cycles_near: float = 400.0  # the same near the minimum
    pivot_distance: float = 0.3  # of λ: near the minimum
    true_hessian_distance: float = 1.0  # of λ: from here on φ'' < 0 is taken as it is
    pivot_near: float = 0.95  # of its threshold: a zero with a larger |g| has its products formed
    pivot_steps: int = 20  # Newton steps before the outer loop checks progress
    max_pivots: int = 400  # changes of the support on one model

    # Designs and panels (designs.py, panels/, weighted_columns.py)
    max_widened: int = 2**18  # entries of a float32 X that is worked on in float64
    max_widened_uneven: int = 2**26  # the same for models that weigh rows very unevenly
    short_column_bytes: int = 12 * 1024  # columns that are read faster one by one than by gemv
    lopsided: float = 100.0  # times the average: a longest column of more entries is lopsided
    shared_entries: float = 100.0  # per column, on average: longer columns are not copied
    least_curvature: float = 1e-12  # of a column's uncentred norm: constant columns keep a step
    max_gram_columns: int = 4_000  # columns whose products are ever formed if these are many
    max_columns_dense: int = 96  # columns whose products under changing weights are formed
    max_columns_kept: int = 1_000  # the same of all columns of a tall X, for several models
    max_columns_sparse: int = 1_000  # the same of sparse columns
    max_row_entries: float = 40.0  # per row, on average, in such sparse columns

    cost: CostModel = CostModel()


DEFAULT = Tuning()
