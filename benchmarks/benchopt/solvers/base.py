"""Cyclade in benchopt."""

import warnings

import numpy as np
from benchopt.stopping_criterion import INFINITY, SufficientProgressCriterion

from benchopt import BaseSolver


class Cyclade(BaseSolver):
    """Cyclic block coordinate descent on a working set, with a certificate."""

    name = "cyclade"
    install_cmd = "conda"
    requirements = ["pip::cyclade[linear]"]  # noqa: RUF012
    sampling_strategy = "tolerance"
    # a loose tolerance often gives the point of the one before
    stopping_criterion = SufficientProgressCriterion(patience=7, strategy="tolerance")

    def warm_up(self):
        """Compile kernels, or read them from their cache."""
        for tol in (1e-1, 1e-6):
            self.run(tol)

    @staticmethod
    def get_next(tol):
        """Tolerances from 0.1 down, two or three in a decade."""
        return 0.1 if tol >= INFINITY else max(tol / 3, 1e-15)

    def run(self, tol):
        """Fit to a tolerance; one below rounding is not reached."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.fit(min(tol, 1.0))

    def fit(self, tol):
        """One call of `solve`."""
        from cyclade.linear import solve

        self.found = solve(tol=tol, **self.problem)

    def get_result(self):
        """The coefficients, with the intercept behind them where there is one."""
        coef, intercept = self.found.coef, self.found.intercept
        return {"beta": np.r_[coef, intercept] if self.problem["fit_intercept"] else coef}
