"""Cox's proportional hazards with the elastic net, ties by Efron or Breslow."""

from base import Cyclade


class Solver(Cyclade):
    """The partial likelihood and the elastic net."""

    def set_objective(self, X, y, alpha, l1_ratio, use_efron):
        """The columns of y are time and event."""
        ties = "efron" if use_efron else "breslow"
        self.X, self.y = X, y
        self.options = {"alpha": alpha, "l1_ratio": l1_ratio, "ties": ties}

    def fit(self, tol):
        """One fit of the estimator."""
        from cyclade.linear import CoxRegression

        self.found = CoxRegression(tol=tol, **self.options).fit(self.X, self.y)

    def get_result(self):
        """There is no intercept."""
        return {"w": self.found.coef_}
