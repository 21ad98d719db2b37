"""Cyclic optimizers for PyTorch models: exact block updates on one batch.

A map, in the order in which it is best read:

- `reference`: SCCD and VRO-CCD written literally, on any model, in one screen;
- `methods`: the five optimizers; `optimizer`, the shell they share (with `arguments`, `state` and
  `views`);
- `runner`: what one step does with `core.cycle`, along a `net` on `batches` by `options`;
- `cycle/`: the staged sweep, steps and prox, whose turn it is, and the lagged point;
- `stages/`: a model cut into stages that repeat themselves exactly (`cutting` chooses how,
  `recording` and `stage` make the stages, `chain` replays them, `verifying` compares; `inputs`,
  `effects`, `structure` and `preserve` say what a call and a model are);
- `proof/`: the stages' gradients held against the model's, before anything moves;
- `blocks/`: which parameters form a block, what a cycle costs, and whether its order locks;
- `ranks/`: one batch over many processes; `sharded`, models of `fully_shard` (experimental);
- `capture/`: CUDA graphs of cycles;
- `checkpoints`, `losses`, `spectral` and `pruning/`: beside the optimizers.
"""

from cyclade._extras import needs

with needs("cyclade.optim", "torch"):
    import torch as torch

from cyclade.optim.blocks.costs import CostWarning
from cyclade.optim.blocks.order_lock import LockWarning
from cyclade.optim.checkpoints import Checkpoints, CheckpointWarning
from cyclade.optim.cycle.sweep import NotFiniteError
from cyclade.optim.losses import CrossEntropy
from cyclade.optim.methods import PAGE, SCCD, SGD, VRCCD, VROCCD
from cyclade.optim.page_sampler import PageBatchSampler
from cyclade.optim.proof.routes import ProofReport
from cyclade.optim.pruning import PruneReport, SparsityReport, prune, sparsity
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
    "ProofReport",
    "PruneReport",
    "RankLostError",
    "SparsityReport",
    "prune",
    "sparsity",
    "spectral_normalise",
]
