"""Lasso: ½ ‖y − Xβ‖² + λ ‖β‖₁."""

from base import Cyclade


class Solver(Cyclade):
    """Least squares and l1."""

    def set_objective(self, X, y, lmbd, fit_intercept):
        """Their sum is our mean, so λ is divided by n."""
        self.problem = {"X": X, "y": y, "alpha": lmbd / len(y), "fit_intercept": fit_intercept}
