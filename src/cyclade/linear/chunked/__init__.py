"""Linear models on tables in chunks of rows: Dask arrays and dataframes, files, lists of blocks.

The same problems, solutions and certificates as in memory; X is never held as a whole.

>>> from cyclade.linear.chunked import in_chunks
>>> in_chunks([[1.0, 2.0]])
False
"""

from __future__ import annotations

from typing import Any

from cyclade.linear.chunked.chunks import Chunks, RowChunks, SlicedChunks
from cyclade.linear.tuning import DEFAULT, Tuning


def in_chunks(X: Any) -> bool:
    """Whether X is a table in chunks; Dask is not imported to tell."""
    return isinstance(X, RowChunks) or from_dask(X)


def from_dask(X: Any) -> bool:
    """Whether X is an array or a dataframe of Dask."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(X, "__dask_keys__")


def as_chunks(X: Any, y: Any, sample_weight: Any, offset: Any, tuning: Tuning = DEFAULT) -> Chunks:
    """The rows of X with what belongs to them."""
    if isinstance(X, RowChunks):
        return SlicedChunks(X, y, sample_weight, offset)
    from cyclade.linear.chunked.dask_chunks import DaskChunks

    return DaskChunks(X, y, sample_weight, offset, tuning.chunk_split)
