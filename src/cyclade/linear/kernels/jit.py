"""One way to compile, and one way to compile the same text with other functions inside."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
from numba.core import event

F = TypeVar("F", bound=Callable[..., Any])
COMMON: dict[str, Any] = {
    "cache": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True,
}  # fmt: skip
INSIDE: dict[str, Any] = {"no_cpython_wrapper": True}


class Note(event.Listener):
    """Says once in a process that kernels are compiled: a first fit may take a minute by that."""

    def on_start(self, started: Any) -> None:
        """Say it, and listen no longer."""
        function = getattr(started.data.get("dispatcher"), "py_func", None)
        module = getattr(function, "__module__", None) or ""  # others' code may have none
        if module.startswith("cyclade.linear."):
            event.unregister("numba:compile", self)  # type: ignore[no-untyped-call]
            logging.getLogger("cyclade.linear").warning(
                "kernels of this kind of fit are compiled here, once: later ones are fast"
            )

    def on_end(self, ended: Any) -> None:
        """Nothing more to say."""


event.register("numba:compile", Note())  # type: ignore[no-untyped-call]


def compiled(function: F) -> F:
    """Compile on first use, and keep the machine code on disk for later processes."""
    return cast(F, numba.njit(**COMMON)(function))


def inner(function: F) -> F:
    """As `compiled`, for what only kernels call: no CPython wrapper, which is slow to compile."""
    return cast(F, numba.njit(**COMMON, **INSIDE)(function))


def pasted(function: F) -> F:
    """As `compiled`, for text that goes where it is called: a call counts references to arrays."""
    return cast(F, numba.njit(inline="always", **COMMON)(function))


def reductions(function: F) -> F:
    """As `compiled`, for sums whose order is free: they become vector instructions.

    Only the reassociation and contraction flags are set, so inf and nan keep their meaning.
    """
    flags = {"reassoc", "contract", "nsz"}
    return cast(F, numba.njit(fastmath=flags, inline="never", **COMMON)(function))


def rebound(function: Any, names: Mapping[str, Any], *, cache: bool) -> Any:
    """The text of `function`, compiled with other meanings of the global `names` it uses."""
    text = getattr(function, "py_func", function)
    twin = FunctionType(
        text.__code__, {**text.__globals__, **names}, text.__name__, text.__defaults__
    )
    twin.__qualname__ = text.__qualname__
    twin.__module__ = text.__module__
    return numba.njit(cache=cache, nogil=True, error_model="numpy")(twin)
