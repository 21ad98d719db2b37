"""Elastic net: ‖y − Xβ‖²/2n + λ (ρ ‖β‖₁ + (1 − ρ) ‖β‖²/2)."""

from base import Cyclade


class Solver(Cyclade):
    """Least squares and the elastic net."""

    def set_objective(self, X, y, l1_ratio, lmbda, fit_intercept):
        """The same λ and ρ."""
        from cyclade.linear.penalties import ElasticNet

        penalty = ElasticNet(lmbda, l1_ratio)
        self.problem = {"X": X, "y": y, "penalty": penalty, "fit_intercept": fit_intercept}
