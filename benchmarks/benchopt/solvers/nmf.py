"""Non-negative matrix factorisation: ½ ‖X − WH‖² over W, H ≥ 0."""

from base import Cyclade, SufficientProgressCriterion, np


class Solver(Cyclade):
    """Cycles over components: each is minimised over exactly."""

    requirements = ["pip::cyclade"]  # noqa: RUF012
    sampling_strategy = "iteration"
    stopping_criterion = SufficientProgressCriterion(patience=7, strategy="iteration")

    def skip(self, X, rank, factors_init):
        """The start is given."""
        return factors_init is None, "starts from the shared factors"

    def set_objective(self, X, rank, factors_init):
        """Columns of W, then rows of H."""
        from cyclade.problems import NMF

        self.problem = NMF(X, rank, blocks="components")
        W, H = factors_init
        self.x0 = np.r_[W.T.ravel(), H.ravel()]

    def warm_up(self):
        """Imports."""
        self.run(2)

    @staticmethod
    def get_next(cycles):
        """Half as many again."""
        return cycles + max(1, cycles // 2)

    def run(self, cycles):
        """So many cycles from the given start."""
        self.x = self.x0
        if cycles:
            self.x = self.problem.minimize(self.x0, max_cycles=cycles, tol=None, returns="last").x

    def get_result(self):
        """The factors."""
        W, H = self.problem.factors(self.x)
        return {"W": W, "H": H}
