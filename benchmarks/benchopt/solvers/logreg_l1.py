"""Sparse logistic regression: Σ log(1 + exp(−y xᵀβ)) + λ ‖β‖₁."""

from base import Cyclade


class Solver(Cyclade):
    """The logistic loss and l1."""

    def set_objective(self, X, y, lmbd):
        """Their sum is our mean, so λ is divided by n."""
        self.problem = {
            "X": X,
            "y": y,
            "loss": "logistic",
            "alpha": lmbd / len(y),
            "fit_intercept": False,
        }
