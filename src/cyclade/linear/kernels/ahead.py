"""Columns that come next are asked for while one is worked on.

Columns that are picked from X do not follow one another in memory, so the processor cannot guess
the next: a short one would be waited for longer than it takes. To ask changes no number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from cyclade.linear.kernels.jit import inner

COLUMNS = 3  # how many columns ahead: one is too late where columns are short
LINE, LINES = 64, 6  # bytes that come together, and how many such; what follows is guessed


@intrinsic
def _ask(typingctx: Any, first: Any, last: Any) -> Any:
    """Ask for memory from one address to another, or its first lines.

    There is no loop, whose end could not be predicted. Addresses are numbers: arrays would be
    counted as referred to.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address, number, number, number])
        found = builder.module.declare_intrinsic("llvm.prefetch", [address], kind)
        read, keep, data = (ir.Constant(number, value) for value in (0, 3, 1))
        for line in range(LINES):
            at = builder.add(args[0], ir.Constant(ir.IntType(64), LINE * line))
            at = builder.select(builder.icmp_signed("<", at, args[1]), at, args[1])
            builder.call(found, [builder.inttoptr(at, address), read, keep, data])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


ask: Any = _ask  # what a caller sees has no `typingctx`


@inner
def ask_for(places: tuple[int, int, int, int], starts: Any, order: Any, k: int) -> None:
    """Ask for the column some places after order[k], unless it follows in memory as well.

    `places` are the addresses of entries and of their rows, and the bytes of one of each.
    """
    j = order[min(k + COLUMNS, order.shape[0] - 1)]
    if j != order[k] + COLUMNS:
        data, rows, size, width = places
        first, last = np.int64(starts[j]), np.int64(starts[j + 1])
        ask(data + size * first, data + size * last)
        ask(rows + width * first, rows + width * last)


@inner
def places_of(data: Any, rows: Any) -> tuple[int, int, int, int]:
    """What `ask_for` needs to know of entries and their rows."""
    return data.ctypes.data, rows.ctypes.data, data.itemsize, rows.itemsize
