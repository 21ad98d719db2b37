"""SLOPE: ‖y − Xβ − c‖²/2n + Σ_k α_k |β|_(k)."""

from base import Cyclade, np


class Solver(Cyclade):
    """Least squares and the sorted l1 norm."""

    def set_objective(self, X, y, alphas, fit_intercept):
        """The same weights."""
        from cyclade.linear.penalties import Slope

        penalty = Slope(1.0, weights=alphas)
        self.problem = {"X": X, "y": y, "penalty": penalty, "fit_intercept": fit_intercept}

    def get_result(self):
        """The intercept stands first, and is there without one, too."""
        return {"beta": np.r_[self.found.intercept, self.found.coef]}
