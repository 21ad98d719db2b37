"""Non-negative least squares: ½ ‖y − Xβ‖² over β ≥ 0."""

from base import Cyclade


class Solver(Cyclade):
    """Least squares in a box."""

    def set_objective(self, X, y, fit_intercept):
        """The box is [0, ∞)."""
        from cyclade.linear.penalties import Box

        self.problem = {"X": X, "y": y, "penalty": Box(0.0), "fit_intercept": fit_intercept}
