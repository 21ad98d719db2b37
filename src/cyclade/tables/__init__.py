"""Linear models on tables in chunks of rows: Dask arrays and dataframes, files, lists of blocks.

The same problems, solutions and certificates as in memory; X is never held as a whole.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from cyclade.linear.checks import check_weights
from cyclade.linear.tuning import DEFAULT, Tuning
from cyclade.tables.chunks import Chunks, RowChunks, SlicedChunks


def as_chunks(X: Any, y: Any, sample_weight: Any, offset: Any, tuning: Tuning = DEFAULT) -> Chunks:
    """The rows of X with what belongs to them."""
    if isinstance(sample_weight, Real):  # all rows weigh the same
        check_weights(sample_weight, 1, np.float64)
        sample_weight = None
    if isinstance(X, RowChunks):
        return SlicedChunks(X, y, sample_weight, offset)
    from cyclade.tables.dask_chunks import DaskChunks

    return DaskChunks(X, y, sample_weight, offset, tuning)
