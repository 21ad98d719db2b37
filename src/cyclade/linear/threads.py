"""Threads: one for the small calls of a fit, several for passes over a large X.

A fit makes thousands of calls of BLAS and LAPACK that take microseconds each. Several threads spend
longer waiting for one another than they work, and where other processes want the same cores a fit
takes many times as long. So BLAS has one thread while a problem is solved, unless that is very
large.

Passes over many entries of X and products of columns are split by hand among as many threads as
BLAS had before: what ``OMP_NUM_THREADS`` or a limit of threadpoolctl says, and no more than there
are cores. A fit that is not alone has one thread: one in a thread of its own, in a process that
another started, or beside another fit, as in cross-validation with ``n_jobs``. How many there are
changes results by rounding only.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import numpy as np

from cyclade.linear.tuning import DEFAULT, Tuning

T = TypeVar("T")
_lock = threading.Lock()
_inside = 0  # fits at work in threads of this process
_before: list[tuple[Any, int]] = []  # libraries that had several threads when the first began
_own = threading.local()  # how many threads the fit of this thread has


@cache
def controller() -> Any:
    """What knows the libraries of NumPy and SciPy; it takes a millisecond to find them."""
    import scipy.linalg  # noqa: F401  (with a library of its own, which must be there to be found)
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()


def libraries() -> list[Any]:
    """Those that are BLAS."""
    return [one for one in controller().lib_controllers if one.user_api == "blas"]


@cache
def keep_freed_memory() -> None:
    """Have the C library keep what is freed, up to 32 MiB: fits ask for it again and again."""
    np.empty(2**25 - 2**16, np.uint8)  # never written to


@contextmanager
def one_thread(entries: int, tuning: Tuning = DEFAULT) -> Iterator[None]:
    """Within it, BLAS has one thread in this process, unless X is huge."""
    keep_freed_memory()
    large = entries >= tuning.large
    with allowed(max(getattr(_own, "number", 1), permitted()) if large else 1):
        if entries > tuning.huge:
            yield
            return
        global _inside, _before
        with _lock:
            if _inside == 0:
                found = [(one, int(one.num_threads)) for one in libraries()]
                _before = [(one, threads) for one, threads in found if threads != 1]
                for one, _ in _before:  # a limit of threadpoolctl would take 20 µs
                    one.set_num_threads(1)
            _inside += 1  # only now: had that failed, there would be nothing to restore
        try:
            yield
        finally:
            with _lock:
                _inside -= 1
                if _inside == 0:
                    for one, threads in _before:
                        one.set_num_threads(threads)


def permitted() -> int:
    """How many threads a fit that begins now may have."""
    alone = threading.current_thread() is threading.main_thread() and _inside == 0
    if not alone or os.name != "posix" or multiprocessing.parent_process() is not None:
        return 1
    return max(min([cores(), *(int(one.num_threads) for one in libraries())]), 1)


def cores() -> int:
    """Those that this process may run on."""
    known = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1


@contextmanager
def allowed(threads: int) -> Iterator[None]:
    """Within it, work of the calling thread may be split among so many."""
    before, _own.number = getattr(_own, "number", 1), threads
    try:
        yield
    finally:
        _own.number = before


def number(work: float, tuning: Tuning = DEFAULT) -> int:
    """How many threads share work on so many entries: no more than `together` has."""
    return min(getattr(_own, "number", 1), 1 + _others()) if work >= tuning.large else 1


@cache
def _others() -> int:
    """Threads besides the one that calls; those of a loop wait for one another, so all must run."""
    return max((os.cpu_count() or 1) - 1, 1)


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """The other threads; a process that was forked off has none of them."""
    return ThreadPoolExecutor(_others(), "cyclade")


def together(part: Callable[[int], T], ranks: int) -> list[T]:
    """part(0), …, part(ranks − 1) at the same time: it must not need Python while it works."""
    if ranks == 1:
        return [part(0)]
    others = [_pool(os.getpid()).submit(part, rank) for rank in range(1, ranks)]
    return [part(0), *(other.result() for other in others)]


def split(part: Callable[[slice], Any], size: int, ranks: int) -> None:
    """`part` for each of so many slices of range(size)."""
    if ranks == 1:
        part(slice(0, size))
    else:
        together(lambda k: part(slice(size * k // ranks, size * (k + 1) // ranks)), ranks)
