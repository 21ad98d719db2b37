"""The formulas compiled by numba, for kernels: `value`, `prox`, `distance`, `threshold`, ….

The module `formulas` itself stays ordinary Python, so that importing penalties does not load
numba. Here a private copy of it is loaded and each of its functions is replaced, in place, by its
compiled form; calls between them then find the compiled ones.
"""

from __future__ import annotations

import importlib.util
import types
from typing import Any

import numba

from cyclade.linear.penalties import formulas

# Only kernels call these: a door to Python for each of them would double the time to compile.
INSIDE: dict[str, Any] = {"cache": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def _compiled_copy() -> types.ModuleType:
    spec = importlib.util.find_spec(formulas.__name__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, function in vars(formulas).items():
        if isinstance(function, types.FunctionType):
            setattr(module, name, numba.njit(**INSIDE)(getattr(module, name)))
    return module


_module = _compiled_copy()

value: Any = _module.value
prox: Any = _module.prox
distance: Any = _module.distance
threshold: Any = _module.threshold
conjugate: Any = _module.conjugate
soft_threshold: Any = _module.soft_threshold
