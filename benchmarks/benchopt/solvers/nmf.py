"""Non-negative matrix factorisation: ½ ‖X − WH‖² over W, H ≥ 0."""

from base import Cyclade, SufficientProgressCriterion, warnings


class Solver(Cyclade):
    """Cycles over columns of W and rows of H: each is minimised over exactly."""

    sampling_strategy = "iteration"
    stopping_criterion = SufficientProgressCriterion(patience=7, strategy="iteration")

    def skip(self, X, rank, factors_init):
        """The start is given."""
        return factors_init is None, "starts from the shared factors"

    def set_objective(self, X, rank, factors_init):
        """The table and where all solvers start."""
        from cyclade.decomposition import NMF

        self.model = NMF(rank, init="custom", tol=0.0)
        self.X, self.start = X, factors_init

    def warm_up(self):
        """Compile kernels, or read them from their cache."""
        self.run(2)

    @staticmethod
    def get_next(cycles):
        """Half as many again."""
        return cycles + max(1, cycles // 2)

    def run(self, cycles):
        """So many cycles from the given start."""
        W, H = self.start
        if cycles:
            self.model.max_iter = cycles
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # no cycles suffice for a tolerance of zero
                W = self.model.fit_transform(self.X, W=W, H=H)
            H = self.model.components_
        self.found = {"W": W, "H": H}

    def get_result(self):
        """The factors."""
        return self.found
