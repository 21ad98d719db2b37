"""Solves problems with a peer, in an interpreter that has it; NumPy is all else it needs.

    python peers.py skglm FOLDER

skglm runs without compiling. Problems come from the folder, answers go there.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import numpy as np


def adelie(
    X, y, family, lam, groups, factors, alpha=1.0, weights=None, offset=None, intercept=True
):
    """Its grpnet at one λ, as tightly as it goes."""
    import adelie as ad

    glm = getattr(ad.glm, family)(y=y, weights=weights)
    state = ad.grpnet(
        np.asfortranarray(X), glm, groups=groups, penalty=factors, alpha=alpha, offsets=offset,
        lmda_path=np.array([lam]), intercept=intercept, early_exit=False, adev_tol=1.0, tol=1e-16,
        irls_tol=1e-14, max_iters=10_000_000, progress_bar=False,
    )  # fmt: skip
    return state.betas.toarray()[0], state.intercepts[0]


def skglm(X, y, datafit, penalty, solver, fit_intercept, groups=None, **arrays):
    """One of its solvers, as tightly as it goes. `datafit` and `penalty` are names and arguments.

    An argument "@key" is the array of that key.
    """
    import numba

    numba.types.bool_ = np.bool_  # numba's own is no dtype where nothing is compiled
    from skglm import datafits, penalties, solvers

    # A target it cannot round to is asked for, so that it goes as far as it can.
    warnings.simplefilter("ignore")
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


if __name__ == "__main__":
    solve, folder = {"adelie": adelie, "skglm": skglm}[sys.argv[1]], Path(sys.argv[2])
    problems = json.loads((folder / "problems.json").read_text())
    with np.load(folder / "problems.npz") as arrays:
        for place, array in arrays.items():
            name, key = place.rsplit("/", 1)
            problems[name][key] = array
    answers = {}
    for name, entries in problems.items():
        answers[f"{name}/coef"], answers[f"{name}/intercept"] = solve(**entries)
    np.savez(folder / "answers.npz", **answers)
