"""Rows in chunks: what a pass over a table that is never held as a whole asks of its storage.

A pass is a function of one chunk that returns sums; the sums of all chunks are merged by a tree.
Nothing else is asked, so a table may lie in files, in a list of arrays or on other machines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cyclade._checks import whole_number

Array = NDArray[Any]
Sums = dict[str, Any]


class Chunk(NamedTuple):
    """Some rows: X (None in passes that do not read it), targets, weights and offset, as given."""

    number: int
    X: Any
    y: Any
    s: Any  # or None: all weigh 1
    offset: Any  # or None


Task = Callable[[Chunk], Sums]


class Mapped:
    """function(*columns) where these lie, row by row: y encoded, weights with a fold left out.

    Columns are of Dask, arrays, `Mapped` themselves, or None.
    """

    def __init__(self, function: Callable[..., Any], *columns: Any) -> None:
        self.function, self.columns = function, columns


class Chunks(Protocol):
    """X in chunks of rows, with what belongs to the rows."""

    p: int
    given: np.dtype[Any]  # that X came in, and results go back in

    def reduce(self, task: Task, with_X: bool = True) -> Sums:
        """The sums of a task over all chunks."""


def merge(parts: Sequence[Sums]) -> Sums:
    """Sums are added, what is called `most …` is the largest, what is called `list …` is chained.

    >>> merge([{"n": 2, "most": 3.0, "list": [1]}, {"n": 5, "most": 1.0, "list": [2]}])
    {'n': 7, 'most': 3.0, 'list': [1, 2]}
    """
    out: Sums = {}
    for part in parts:
        for name, value in part.items():
            if name not in out:
                out[name] = value
            elif name.startswith("most"):
                out[name] = max(out[name], value)
            else:
                out[name] = out[name] + value
    return out


def summed(task: Task, chunks: Iterable[Chunk]) -> Sums:
    """The sums of a task over some chunks, one at a time."""
    return reduce(lambda out, part: merge([out, part]), map(task, chunks))


class RowChunks:
    """X as blocks of rows that are read one at a time: for tables that do not fit into memory.

    Parameters
    ----------
    X : array, or list of arrays
        Anything with `shape` and `dtype` whose slices of rows are arrays or SciPy sparse matrices:
        a `numpy.memmap`, an array of Zarr or HDF5, a CSR matrix. Or a list of such blocks.
    rows : int, optional
        Rows that are read at once. Default: about 64 MiB of a dense X, or the blocks of the list.

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import RowChunks, solve
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((1000, 5))  # or np.load("X.npy", mmap_mode="r")
    >>> fit = solve(RowChunks(X, rows=100), X[:, 0], alpha=0.1)
    >>> np.flatnonzero(fit.coef), fit.certificate.reached
    (array([0]), True)
    """

    def __init__(self, X: Any, rows: int | None = None) -> None:
        blocks = list(X) if isinstance(X, (list, tuple)) else [X]
        blocks = [by_rows(block) for block in blocks]
        for block in blocks:
            if not (hasattr(block, "shape") and hasattr(block, "dtype")):
                raise TypeError(
                    "X: must be an array with shape and dtype, or a list of them, got "
                    f"{type(block).__name__}"
                )
            if len(block.shape) != 2:
                raise ValueError(f"X: must have two dimensions, got {len(block.shape)}")
        if not blocks or 0 in (sum(block.shape[0] for block in blocks), blocks[0].shape[1]):
            raise ValueError("X: must have at least one row and one column")
        if len({block.shape[1] for block in blocks}) > 1:
            raise ValueError("X: all blocks must have the same number of columns")
        self.blocks = [block for block in blocks if block.shape[0]]
        self.dtype = np.result_type(*(block.dtype for block in self.blocks))
        if self.dtype.kind not in "fiub":
            raise ValueError(f"X: its entries must be real numbers, got dtype {self.dtype}")
        self.shape = (sum(block.shape[0] for block in self.blocks), self.blocks[0].shape[1])
        if rows is None:
            whole = isinstance(X, (list, tuple))
            rows = self.shape[0] if whole else max(2**26 // (8 * self.shape[1]), 1)
        self.rows = whole_number("rows", rows, 1)
        self.cols: Array | None = None  # of the blocks; None: all

    def take(self, cols: Array) -> RowChunks:
        """The same with some of the columns."""
        other = RowChunks(self.blocks, self.rows)
        other.cols = cols if self.cols is None else self.cols[cols]
        other.shape = (self.shape[0], len(cols))
        return other

    def read(self, block: Any, first: int, last: int) -> Any:
        """Rows of a block; of a sparse matrix, slices are copies."""
        whole = hasattr(block, "tocsr") and (first, last) == (0, block.shape[0])
        rows = block if whole else block[first:last]
        return rows if self.cols is None else rows[:, self.cols]

    def spans(self) -> Iterator[tuple[Any, int, int, int]]:
        """(block, first row in it, last, first row of all) of each chunk."""
        begin = 0
        for block in self.blocks:
            for first in range(0, block.shape[0], self.rows):
                last = min(first + self.rows, block.shape[0])
                yield block, first, last, begin + first
            begin += block.shape[0]

    def __len__(self) -> int:
        return int(self.shape[0])


def by_rows(block: Any) -> Any:
    """The block, or as CSR if it is a sparse matrix whose format is not cut by rows."""
    other = hasattr(block, "tocsr") and getattr(block, "format", None) not in ("csr", "csc")
    return block.tocsr() if other else block


class SlicedChunks:
    """`RowChunks` with targets, weights and offset, read one after another."""

    def __init__(self, X: RowChunks, y: Any, s: Any, offset: Any) -> None:
        y, s, offset = (evaluated(column) for column in (y, s, offset))
        for name, column in (("y", y), ("sample_weight", s), ("offset", offset)):
            if column is not None and np.shape(column)[:1] != (len(X),):
                raise ValueError(
                    f"{name}: X has {len(X)} rows, so {name} must have as many, "
                    f"got shape {np.shape(column)}"
                )
        self.X, self.columns = X, (y, s, offset)
        self.p = X.shape[1]
        self.given = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)

    def parts(self, with_X: bool = True) -> Iterator[Chunk]:
        """One chunk after another."""
        for number, (block, first, last, begin) in enumerate(self.X.spans()):
            rows = slice(begin, begin + last - first)
            own = [None if c is None else np.asarray(c[rows]) for c in self.columns]
            yield Chunk(number, self.X.read(block, first, last) if with_X else None, *own)

    def reduce(self, task: Task, with_X: bool = True) -> Sums:
        """One chunk at a time: memory is that of a chunk."""
        return summed(task, self.parts(with_X))


def evaluated(column: Any) -> Any:
    """A column in memory, computed from others if it is `Mapped`."""
    if not isinstance(column, Mapped):
        return column
    return column.function(*(evaluated(own) for own in column.columns))
