"""Huber regression with its scale: Σ_i σ (1 + H(r_i/σ)) + λ ‖β‖² over β, c and σ > 0."""

from base import Cyclade, np


class Solver(Cyclade):
    """The best σ is a root of one monotone function; each value of it is a fit at that σ."""

    def set_objective(self, X, y, lmbd, epsilon):
        """H is |u|² up to ε, then 2ε|u| − ε²."""
        self.X, self.y, self.lam, self.epsilon = X, y, lmbd, epsilon

    def slope(self, log_scale, tol):
        """The derivative in σ of the least value at σ, over n."""
        from cyclade.linear import solve
        from cyclade.linear.losses import Huber
        from cyclade.linear.penalties import ElasticNet

        self.scale = np.exp(log_scale)
        self.found = solve(
            self.X, self.y, Huber(self.epsilon * self.scale),
            ElasticNet(self.lam * self.scale / len(self.y), l1_ratio=0.0), tol=tol, **self.start,
        )  # fmt: skip
        self.start = {"coef": self.found.coef, "intercept": self.found.intercept}
        u = (self.y - self.X @ self.found.coef - self.found.intercept) / self.scale
        return 1.0 - np.mean(np.minimum(np.abs(u), self.epsilon) ** 2)

    def fit(self, tol):
        """The root, by a bracket that is widened first."""
        from functools import cache

        from scipy.optimize import brentq

        # Kept, as fits from another start differ by their tolerance, and signs by that.
        slope = cache(lambda log_scale: self.slope(log_scale, tol))
        self.start, low = {}, np.log(self.y.std())
        while slope(low) > 0.0:
            low -= 1.0
        high = low + 1.0
        while slope(high) < 0.0:
            high += 1.0
        root = brentq(slope, low, high, xtol=max(1e-12, tol**0.5))
        self.slope(root, tol)

    def get_result(self):
        """Intercept, scale, coefficients."""
        return {"params": np.r_[self.found.intercept, self.scale, self.found.coef]}
