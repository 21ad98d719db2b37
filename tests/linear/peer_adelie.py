"""Solves problems with adelie, in an interpreter that has it."""

from __future__ import annotations

import adelie
import numpy as np
from peer_files import run


def solve(X, y, family, lam, groups, factors, alpha=1.0, weights=None, offset=None, intercept=True):
    """grpnet at one λ, as tightly as it goes."""
    glm = getattr(adelie.glm, family)(y=y, weights=weights)
    state = adelie.grpnet(
        np.asfortranarray(X), glm, groups=groups, penalty=factors, alpha=alpha, offsets=offset,
        lmda_path=np.array([lam]), intercept=intercept, early_exit=False, adev_tol=1.0, tol=1e-16,
        irls_tol=1e-14, max_iters=10_000_000, progress_bar=False,
    )  # fmt: skip
    return state.betas.toarray()[0], state.intercepts[0]


run(solve)
