"""Solves problems with skglm, in an interpreter that has it, without compiling."""

from __future__ import annotations

import warnings

import numba
import numpy as np
from peer_files import run

numba.types.bool_ = np.bool_  # numba's own is no dtype where nothing is compiled
from skglm import datafits, penalties, solvers  # noqa: E402

# A target it cannot round to is asked for, so that it goes as far as it can.
warnings.simplefilter("ignore")


def solve(X, y, datafit, penalty, solver, fit_intercept, groups=None, **arrays):
    """One solver of skglm, as tightly as it goes. `datafit` and `penalty` are names and arguments.

    An argument "@key" is the array of that key.
    """
    arrays["ends"] = np.arange(0, X.shape[1] + 1, groups or 1, dtype=np.int32)
    arrays["indices"] = np.arange(X.shape[1], dtype=np.int32)

    def make(module, name, arguments):
        given = [arrays[a[1:]] if isinstance(a, str) else a for a in arguments]
        return getattr(module, name)(*given)

    loss, reg = make(datafits, *datafit), make(penalties, *penalty)
    options = {"tol": 1e-12, "max_iter": 200, "fit_intercept": fit_intercept}
    X = np.asfortranarray(X)
    found = getattr(solvers, solver)(**options).solve(X, np.asfortranarray(y), loss, reg)[0]
    p = X.shape[1]
    return found[:p], (found[p] if fit_intercept else 0.0)


run(solve)
