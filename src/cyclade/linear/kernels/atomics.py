"""What threads that share one compiled loop need: a counter they wait for one another with.

All of them run the same loop on rows of their own and meet after every few columns, which takes a
fraction of a microsecond. Where a core is taken away from one of them the others yield theirs, so
that more threads than cores make a loop slower but do not stop it.
"""

from __future__ import annotations

import os
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from cyclade.linear.kernels.jit import inner

SPINS = 2_000  # looks at the counter, about 10 µs, before a core is yielded


def _pointer(context: Any, builder: Any, array: Any, value: Any) -> Any:
    """The address of the first entry."""
    proxy: Any = cgutils.create_struct_proxy(array)  # type: ignore[no-untyped-call]
    return proxy(context, builder, value=value).data


@intrinsic
def _arrive(typingctx: Any, counter: Any) -> Any:
    """counter[0] += 1, seen by all threads with all that was written before."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], args[0])
        one = ir.Constant(ir.IntType(64), 1)
        return builder.atomic_rmw("add", pointer, one, "seq_cst")

    return types.int64(counter), codegen


@intrinsic
def _read(typingctx: Any, counter: Any) -> Any:
    """counter[0], as the other threads left it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], args[0])
        return builder.load_atomic(pointer, "seq_cst", 8)

    return types.int64(counter), codegen


@intrinsic
def _yield(typingctx: Any) -> Any:
    """Let another thread have the core."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if os.name == "posix":
            kind = ir.FunctionType(ir.IntType(32), [])
            name = "sched_yield"
            found = cgutils.get_or_insert_function(builder.module, kind, name)  # type: ignore[no-untyped-call]
            builder.call(found, [])
        return context.get_dummy_value()

    return types.void(), codegen


# What a caller sees has no `typingctx`.
arrive: Any = _arrive
read: Any = _read
give_way: Any = _yield


@inner
def meet(counter: Any, until: int) -> None:
    """Arrive, and wait until so many arrivals were counted."""
    arrive(counter)
    spins = 0
    while read(counter) < until:
        spins += 1
        if spins > SPINS:
            give_way()
