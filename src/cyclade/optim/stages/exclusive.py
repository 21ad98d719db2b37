"""Several threads that train: proofs and steps that draw random numbers run one at a time.

A proof sets torch's generators back, and a trace replaces functions of torch for its time. Both
belong to the process, not to a thread. Steps that draw nothing run beside each other.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["in_turn"]

_changed = threading.Condition()
_inside: set[int] = set()  # the threads that have a turn
_alone = False  # whether it is one that no other may run beside


@contextmanager
def in_turn(*, alone: bool) -> Iterator[None]:
    """Wait for a turn, `alone` or beside others that are not; a thread that has one keeps it."""
    global _alone
    me = threading.get_ident()
    if me in _inside:
        yield
        return
    with _changed:
        _changed.wait_for(lambda: not _alone and not (alone and _inside))
        _inside.add(me)
        _alone = alone
    try:
        yield
    finally:
        with _changed:
            _inside.remove(me)
            _alone = False
            _changed.notify_all()
