"""MCP regression: ‖y − Xβ‖²/2n + MCP(β; λ, γ)."""

from base import Cyclade


class Solver(Cyclade):
    """Least squares and the minimax concave penalty."""

    def set_objective(self, X, y, lmbd, gamma):
        """The same λ and γ."""
        from cyclade.linear.penalties import MCP

        self.problem = {"X": X, "y": y, "penalty": MCP(lmbd, gamma), "fit_intercept": False}
