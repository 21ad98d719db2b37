"""Quantile regression: the mean of the check loss of y − Xβ − c, and λ ‖β‖₁."""

from base import Cyclade, np


class Solver(Cyclade):
    """The smoothed check loss and l1; the smoothing falls with the tolerance."""

    def set_objective(self, X, y, lmbd, quantile, fit_intercept):
        """A window of half width h moves the loss by h/4 at most."""
        self.problem = {"X": X, "y": y, "alpha": lmbd, "fit_intercept": fit_intercept}
        self.quantile, self.scale = quantile, np.abs(y - np.median(y)).mean()

    @staticmethod
    def get_next(tol):
        """Decades: wide windows all give the same point."""
        return 0.1 if tol > 1.0 else max(tol / 10, 1e-15)

    def fit(self, tol):
        """Half of the tolerance for the smoothing, half for the fit."""
        from cyclade.linear import solve
        from cyclade.linear.losses import Quantile

        loss = Quantile(self.quantile, smoothing=tol * self.scale)
        self.found = solve(loss=loss, tol=0.5 * tol, **self.problem)

    def get_result(self):
        """The same vector under another name."""
        return {"params": super().get_result()["beta"]}
