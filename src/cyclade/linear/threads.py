"""One thread for BLAS while a problem is solved, unless it is very large.

A fit makes thousands of calls of BLAS and LAPACK that take microseconds each: factors, products of
few columns, products with a vector. Several threads spend longer waiting for one another than they
work, and where other processes want the same cores a fit takes many times as long.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from cyclade.linear.tuning import DEFAULT, Tuning

_lock = threading.Lock()
_inside, _limits = 0, None


@cache
def controller() -> Any:
    """What knows the libraries of NumPy and SciPy; it takes a millisecond to find them."""
    import scipy.linalg  # noqa: F401  (with a library of its own, which must be there to be found)
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()


@contextmanager
def one_thread(entries: int, tuning: Tuning = DEFAULT) -> Iterator[None]:
    """Within it, BLAS has one thread; an X of more than `tuning.threaded_entries` is left alone.

    The setting is one for the whole process. So fits in several threads of Python, as in
    cross-validation, share it: the first to come in sets it, the last to leave restores it.
    """
    if entries > tuning.threaded_entries:
        yield
        return
    global _inside, _limits
    with _lock:
        if _inside == 0:
            _limits = controller().limit(limits=1, user_api="blas")
        _inside += 1  # only now: had that failed, there would be nothing to restore
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                assert _limits is not None
                _limits.restore_original_limits()
                _limits = None
