"""A start from samples: every chunk in memory fits some of its rows, and the client averages.

A pass over the table costs far more than such a fit, and the first pass is then made near the
minimum, with the products of the columns that most samples chose. It is a guess and no more: the
passes over all rows that follow are those of any other start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cyclade.linear.losses import Loss
from cyclade.linear.penalty_bound import bind
from cyclade.linear.tuning import Tuning
from cyclade.tables.chunks import Chunk, Chunks, RowChunks, SlicedChunks, Sums
from cyclade.tables.fit import Place, begin, minimise, nonzero
from cyclade.tables.passes import Look, NullPass
from cyclade.tables.products import as_array
from cyclade.tables.table import Seen, Table

Array = NDArray[Any]


@dataclass(frozen=True)
class Opening:
    """`Look`, the null model without an intercept, and a fit of some rows."""

    look: Look
    penalty: Any
    fit_intercept: bool
    tuning: Tuning

    def __call__(self, chunk: Chunk) -> Sums:
        """The sums of a chunk; those of a guess are lacking where it is small, or cannot be."""
        sums, n, many = self.look(chunk), len(chunk.y), self.tuning.chunk_guess
        if np.ndim(chunk.y) > 1 or n < 8 * many:
            return sums
        column, tuning = self.look.column, self.tuning
        some = slice(None, None, n // many)
        if hasattr(chunk.X, "tocsr"):
            X = chunk.X.tocsr()[some]
        else:
            X = np.ascontiguousarray(as_array(chunk.X)[some])
        own = (None if one is None else one[some] for one in chunk[2:])
        try:
            chunks = SlicedChunks(RowChunks([X]), *own)
            seen, bound = Seen(chunks, column.loss, tuning), bind(self.penalty, chunks.p)
            column = replace(column, total=seen.weight)
            table = Table(chunks, column, seen, bound, self.fit_intercept, tuning)
            place = begin(table, np.zeros(chunks.p), 0.0)
            minimise(table, place, tuning.chunk_guess_tol, tuning.chunk_guess, lambda row: None)
            null = NullPass(self.look.column, 0.0, tuning)(chunk)
        except (ValueError, FloatingPointError):  # a pass over all rows says why
            return sums
        x = sparse.csr_array(bound.by_features(place.x)[None])
        found = {"guesses": 1, "guess": sparse.vstack([x, x * x]), "guess c": place.measured.c}
        return sums | found | {f"null {name}": value for name, value in null.items()}


def opening(
    chunks: Chunks, loss: Loss, penalty: Any, fit_intercept: bool, tuning: Tuning
) -> Callable[[Look], Opening] | None:
    """What a look at the rows may guess a start with, where that is cheap and does no harm.

    The squared loss needs two steps from anywhere: guesses would cost it what they save.
    """
    needless = loss.quadratic or loss.target == "classes" or hasattr(loss, "width")
    if chunks.at_hand < 8 * tuning.chunk_guess or needless or not loss.convex:
        return None
    return partial(Opening, penalty=penalty, fit_intercept=fit_intercept, tuning=tuning)


def guess(table: Table) -> Place | None:
    """A place near the minimum, if chunks made guesses and F is lower there than at zero.

    Columns stay that are not zero in the mean: by twice the standard error of the guesses.
    """
    sums, count = table.seen.sums, table.seen.sums.get("guesses", 0)
    if not (count and table.has_dual and table.column.outputs is None):
        return None
    total, squares = sums["guess"].toarray()
    x = np.where(total**2 > 4.0 * (squares - total**2 / count), total / count, 0.0)
    x = table.penalty.by_blocks(x)
    place = begin(table, x, sums["guess c"] / count, np.flatnonzero(nonzero(table, x)))
    return place if place.measured.objective <= table.null.value else None
