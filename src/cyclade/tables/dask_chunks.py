"""Dask arrays and dataframes: a pass is one graph, with a task for each chunk and a tree of sums.

X is never brought to the client, and no worker keeps more than the chunks it works on: what a task
reads, it reads again in the next pass (from files, or from memory where X was persisted). So a
worker that is lost costs its chunks of one pass, which Dask runs again elsewhere. Small chunks that
lie in the memory of one worker share a task: what Dask spends on a task is then spent once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from cyclade.linear.checks import check_table
from cyclade.tables.chunks import Chunk, Mapped, Sums, Task, merge, summed
from cyclade.tables.tuning import DEFAULT, Tuning

POLL = 2.0  # seconds between two looks at workers
STUCK_POLLS = 10  # in a row at which none could run a task


class DaskChunks:
    """A Dask array or dataframe, cut into chunks of whole rows, with what belongs to the rows."""

    def __init__(self, X: Any, y: Any, s: Any, offset: Any, tuning: Tuning = DEFAULT) -> None:
        check_table(X)
        if len(X.shape) != 2:
            raise ValueError(f"X: must have two dimensions, rows and columns, got {len(X.shape)}")
        self.p = int(X.shape[1])
        if self.p == 0:
            raise ValueError("X: must have at least one row and one column")
        self.split = tuning.chunk_split
        frame = hasattr(X, "dtypes")  # whose columns may share a name
        dtypes = list(zip(X.columns, X.dtypes, strict=True)) if frame else [(None, X.dtype)]
        for name, dtype in dtypes:
            if getattr(dtype, "kind", "O") not in "fiub":
                where = "" if name is None else f"; encode or drop column {name!r} (get_dummies)"
                raise ValueError(f"X: its entries must be real numbers, got dtype {dtype}{where}")
        single = all(dtype == np.float32 for _, dtype in dtypes)
        self.given = np.dtype(np.float32 if single else np.float64)
        if hasattr(X, "chunks") and len(X.chunks[1]) > 1:
            X = X.rechunk({1: -1})  # whole rows
        rows = known_rows(X)
        if rows is not None and not any(rows):
            raise ValueError("X: must have at least one row and one column")
        self.names = list(X.columns) if frame else None
        self.X = delayed_parts(X)
        self.columns = [
            aligned(name, column, rows, len(self.X))
            for name, column in (("y", y), ("sample_weight", s), ("offset", offset))
        ]
        size = self.p * self.given.itemsize * (max(rows) if rows else np.inf)
        most = int(max(tuning.chunk_group_bytes // size, 1))
        futures = futures_of(X)
        inside = all(part.key in futures for part in self.X)
        self.groups = [[k] for k in range(len(self.X))]
        if inside and most > 1:
            self.groups = neighbours([futures[part.key] for part in self.X], most)

    def _rows(self, with_X: bool = True) -> list[tuple[Any, ...]]:
        """X, y, weights and offset of every chunk, not computed."""
        nothing = [None] * len(self.X)
        columns = [self.X if with_X else None, *self.columns]
        return list(zip(*(nothing if c is None else c for c in columns), strict=True))

    def parts(self) -> Iterator[Chunk]:
        """One chunk after another, computed when it is asked for."""
        import dask

        like = self.p, self.names
        return (chunk_of(like, k, *dask.compute(*part)) for k, part in enumerate(self._rows()))

    def reduce(self, task: Task, with_X: bool = True) -> Sums:
        """One graph; it runs where Dask runs graphs now: a Client, threads or processes."""
        from dask import delayed

        sent = delayed(task, pure=False, traverse=False)  # Dask would look into anything else
        rows, one, join = self._rows(with_X), delayed(run, pure=False), delayed(merge, pure=False)
        like = self.p, self.names
        sums = [one(sent, like, group, *(part for k in group for part in rows[k]))
                for group in self.groups]  # fmt: skip
        while len(sums) > self.split:
            groups = [sums[k : k + self.split] for k in range(0, len(sums), self.split)]
            sums = [join(group) for group in groups]
        return merge(computed(sums))


Like = tuple[int, list[Any] | None]  # how many columns a table has; their names, if any


def run(task: Task, like: Like, numbers: tuple[int, ...], *parts: Any) -> Sums:
    """The sums of a task over some chunks, whose parts come one after another."""
    each = len(parts) // len(numbers)
    rows = (parts[k * each : (k + 1) * each] for k in range(len(numbers)))
    columns = zip(*rows, strict=True)
    return summed(task, (chunk_of(like, *own) for own in zip(numbers, *columns, strict=True)))


def chunk_of(like: Like, number: int, X: Any, *own: Any) -> Chunk:
    """A chunk, whatever its parts came as; ValueError if its columns are not those of the table."""
    p, names = like
    if X is not None and X.shape[1] != p:
        raise ValueError(
            f"X: chunk {number} has {X.shape[1]} columns, the table has {p}: cut all chunks alike"
        )
    if names is not None and X is not None and list(X.columns) != names:
        pairs = zip(X.columns, names, strict=True)
        has, expected = next((own, name) for own, name in pairs if own != name)
        raise ValueError(
            f"X: chunk {number} has column {has!r} where the table has {expected!r}: all chunks "
            "must have the same columns in the same order"
        )
    return Chunk(number, X, *(None if c is None else np.asarray(c) for c in own))


def computed(sums: list[Any]) -> list[Sums]:
    """What the tasks return; MemoryError where workers have no memory left to run them.

    Dask pauses a worker whose memory is full. Where all are paused and none runs a task, none
    will: Dask itself would wait for ever.
    """
    import dask
    from dask.base import get_scheduler

    client = getattr(get_scheduler(collections=sums), "__self__", None)
    if client is None or in_a_task():
        return list(dask.compute(*sums))
    distributed, idle = sys.modules["distributed"], 0
    futures = client.compute(sums)
    try:
        while True:
            try:
                distributed.wait(futures, timeout=POLL)
                return list(client.gather(futures))
            except (TimeoutError, distributed.TimeoutError):
                workers = client.scheduler_info(n_workers=-1)["workers"].values()
                idle = idle + 1 if workers and all(map(is_stuck, workers)) else 0
            if idle == STUCK_POLLS:
                raise MemoryError(
                    "X: all Dask workers are paused because their memory is full, so the fit "
                    "would wait for ever; give them more memory, or X in smaller chunks (rechunk, "
                    "repartition), or persist less"
                )
    except distributed.KilledWorker as error:
        raise RuntimeError(
            "X: Dask workers died while they read a chunk, mostly because their memory was full; "
            f"give them more memory, or X in smaller chunks (rechunk, repartition): {error}"
        ) from error
    finally:
        client.cancel([one for one in futures if not one.done()])


def in_a_task() -> bool:
    """Whether this runs on a worker, whose thread `dask.compute` lends out meanwhile."""
    try:
        sys.modules["distributed"].get_worker()
    except ValueError:
        return False
    return True


def is_stuck(worker: dict[str, Any]) -> bool:
    """Whether a worker is paused and runs nothing."""
    return bool(worker["status"] == "paused" and not worker["metrics"].get("executing"))


def futures_of(X: Any) -> dict[Any, Any]:
    """What of X lies on workers, by keys."""
    distributed = sys.modules.get("distributed")  # it is there if anything does
    return {one.key: one for one in distributed.futures_of(X)} if distributed else {}


def neighbours(futures: list[Any], most: int) -> list[list[int]]:
    """Numbers of chunks that one task works on: at most so many, in the memory of one worker.

    A worker has at least as many groups as threads. Should it be lost, its chunks are made anew
    wherever Dask likes, and those of a group are brought together: so a group is small.
    """
    sys.modules["distributed"].wait(futures)
    client, groups, by_worker = futures[0].client, list[list[int]](), dict[str, list[int]]()
    places, threads = client.who_has(futures), client.nthreads()
    for k, one in enumerate(futures):
        if places[one.key]:
            by_worker.setdefault(min(places[one.key]), []).append(k)
        else:  # it failed, or was lost just now
            groups.append([k])
    for worker, own in by_worker.items():
        count = min(max(-(-len(own) // most), threads.get(worker, 1)), len(own))
        groups += [own[k::count] for k in range(count)]
    return groups


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
