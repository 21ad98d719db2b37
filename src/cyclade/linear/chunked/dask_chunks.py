"""Dask arrays and dataframes: a pass is one graph, with a task for each chunk and a tree of sums.

X is never brought to the client, and no worker keeps more than the chunks it works on: what a task
reads, it reads again in the next pass (from files, or from memory where X was persisted). So a
worker that is lost costs its chunks of one pass, which Dask runs again elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cloudpickle
import numpy as np

from cyclade.linear.chunked.chunks import Chunk, Mapped, Sums, Task, merge
from cyclade.linear.tuning import DEFAULT, Tuning


class DaskChunks:
    """A Dask array or dataframe, cut into chunks of whole rows, with what belongs to the rows."""

    def __init__(self, X: Any, y: Any, s: Any, offset: Any, tuning: Tuning = DEFAULT) -> None:
        if len(X.shape) != 2:
            raise ValueError(f"X: must have two dimensions, rows and columns, got {len(X.shape)}")
        self.p = int(X.shape[1])
        self.split, self.inline = tuning.chunk_split, tuning.chunk_inline
        dtypes = dict(X.dtypes) if hasattr(X, "dtypes") else {None: X.dtype}
        for name, dtype in dtypes.items():
            if getattr(dtype, "kind", "O") not in "fiub":
                where = "" if name is None else f"; encode or drop column {name!r} (get_dummies)"
                raise ValueError(f"X: its entries must be real numbers, got dtype {dtype}{where}")
        single = all(dtype == np.float32 for dtype in dtypes.values())
        self.given = np.dtype(np.float32 if single else np.float64)
        if hasattr(X, "chunks") and len(X.chunks[1]) > 1:
            X = X.rechunk({1: -1})  # whole rows
        rows = known_rows(X)
        self.X = delayed_parts(X)
        self.columns = [
            aligned(name, column, rows, len(self.X))
            for name, column in (("y", y), ("sample_weight", s), ("offset", offset))
        ]

    def parts(self) -> Iterator[Chunk]:
        """One chunk after another, computed when it is asked for."""
        import dask

        nothing = [None] * len(self.X)
        rows = zip(self.X, *(nothing if c is None else c for c in self.columns), strict=True)
        for number, part in enumerate(rows):
            X, *own = dask.compute(*part)
            yield Chunk(number, X, *(None if c is None else np.asarray(c) for c in own))

    def reduce(self, task: Task, with_X: bool = True) -> Sums:
        """One graph; it runs where Dask runs graphs now: a Client, threads or processes."""
        import dask
        from dask import delayed

        sealed: Any = Sealed(task)
        if len(sealed.content) > self.inline:
            sealed = delayed(sealed, pure=False, traverse=False)
        nothing = [None] * len(self.X)
        X = self.X if with_X else nothing
        rows = zip(X, *(nothing if c is None else c for c in self.columns), strict=True)
        sums = [delayed(run, pure=False)(sealed, k, *part) for k, part in enumerate(rows)]
        while len(sums) > 1:
            groups = [sums[k : k + self.split] for k in range(0, len(sums), self.split)]
            sums = [delayed(merge, pure=False)(group) for group in groups]
        (found,) = dask.compute(sums[0])
        return found  # type: ignore[no-any-return]


class Sealed:
    """A task as bytes: Dask looks into everything else, and a short one goes with every chunk.

    A longer one is sent to one worker, from which the others have it: they wait for that.
    """

    def __init__(self, task: Task) -> None:
        self.content = cloudpickle.dumps(task)

    def __call__(self, chunk: Chunk) -> Sums:
        """The sums of a chunk."""
        task: Task = cloudpickle.loads(self.content)
        return task(chunk)


def run(task: Task, number: int, X: Any, y: Any, s: Any, offset: Any) -> Sums:
    """A task on one chunk, whatever its parts came as."""
    return task(Chunk(number, X, *(None if c is None else np.asarray(c) for c in (y, s, offset))))


def known_rows(X: Any) -> list[int] | None:
    """Rows of every chunk, where Dask knows them."""
    if not hasattr(X, "chunks") or np.isnan(X.chunks[0]).any():
        return None
    return [int(rows) for rows in X.chunks[0]]


def delayed_parts(X: Any) -> list[Any]:
    """The chunks of rows, not computed.

    Dask may join partitions of a Parquet file of which few columns are read, so that X and y of one
    file would no longer match: then they are taken as they are, without its optimisation.
    """
    found = np.ravel(np.asarray(X.to_delayed(), dtype=object))
    if len(found) != X.npartitions:
        found = np.ravel(np.asarray(X.to_delayed(optimize_graph=False), dtype=object))
    return list(found)


def aligned(name: str, column: Any, rows: list[int] | None, count: int) -> list[Any] | None:
    """The chunks of y, weights or an offset beside those of X."""
    if column is None:
        return None
    if isinstance(column, Mapped):
        from dask import delayed

        own = [aligned(name, one, rows, count) or [None] * count for one in column.columns]
        function = delayed(column.function, pure=False, traverse=False)
        return [function(*part) for part in zip(*own, strict=True)]
    if not hasattr(column, "__dask_keys__"):
        column = np.asarray(column)
        if rows is None:
            raise ValueError(
                f"{name}: the chunks of X have unknown sizes, so {name} must be of Dask, chunked "
                "as X is (a column of the same dataframe); or give X with known ones: "
                "X.compute_chunk_sizes() of an array, X.to_dask_array(lengths=True) of a dataframe"
            )
        if column.shape[:1] != (sum(rows),):
            raise ValueError(
                f"{name}: X has {sum(rows)} rows, so {name} must have as many, "
                f"got shape {column.shape}"
            )
        return np.split(column, np.cumsum(rows)[:-1])
    if hasattr(column, "chunks"):
        if len(column.shape) > 1 and len(column.chunks[1]) > 1:
            column = column.rechunk({1: -1})
        has = known_rows(column)
        if rows is not None and has is not None and has != rows:
            if sum(has) != sum(rows):
                raise ValueError(f"{name}: X has {sum(rows)} rows, {name} has {sum(has)}")
            column = column.rechunk({0: tuple(rows)})
    found = delayed_parts(column)
    if len(found) != count:
        raise ValueError(
            f"{name}: X has {count} chunks of rows, {name} has {len(found)}: take both from one "
            "dataframe, or cut them alike (repartition, rechunk)"
        )
    return found
