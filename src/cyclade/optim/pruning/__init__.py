"""Dead rows and channels: counted, and taken out of a model with its outputs unchanged."""

from cyclade.optim.pruning.removal import PruneReport, SparsityReport, prune, sparsity

__all__ = ["PruneReport", "SparsityReport", "prune", "sparsity"]
