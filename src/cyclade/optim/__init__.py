"""Cyclic optimizers for PyTorch models: exact block updates on one batch."""

from cyclade._extras import needs

with needs("cyclade.optim", "torch"):
    import torch as torch

from cyclade.optim.batches import PageBatchSampler
from cyclade.optim.checked import NotFiniteError
from cyclade.optim.checkpoints import Checkpoints, CheckpointWarning
from cyclade.optim.lock import LockWarning
from cyclade.optim.losses import CrossEntropy
from cyclade.optim.methods import PAGE, SCCD, SGD, VRCCD, VROCCD
from cyclade.optim.pruning import PruneReport, prune
from cyclade.optim.routes import CostWarning
from cyclade.optim.sparsity import SparsityReport, sparsity
from cyclade.optim.spectral import spectral_normalise
from cyclade.optim.stages import CutWarning
from cyclade.ranks import RankLostError

__all__ = [
    "PAGE",
    "SCCD",
    "SGD",
    "VRCCD",
    "VROCCD",
    "CheckpointWarning",
    "Checkpoints",
    "CostWarning",
    "CrossEntropy",
    "CutWarning",
    "LockWarning",
    "NotFiniteError",
    "PageBatchSampler",
    "PruneReport",
    "RankLostError",
    "SparsityReport",
    "prune",
    "sparsity",
    "spectral_normalise",
]
