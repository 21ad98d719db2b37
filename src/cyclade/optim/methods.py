"""The five optimizers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from cyclade.optim.net import Loss
from cyclade.optim.optimizer import CyclicOptimizer
from cyclade.optim.page_sampler import page_sizes

_PARAMETERS = """

    Parameters
    ----------
    model:
        Any `nn.Module`; it is cut into stages (see `cyclade.optim.stages`).
    loss_fn:
        ``loss_fn(output, target)``, a mean over the batch; None if the model returns its own loss.
    lr, weight_decay, momentum, nesterov, maximize:
        As in `torch.optim` (lr may be a list, one per param group). Weight decay is the prox of
        (weight_decay / 2) ‖x‖². Where neither lr nor anything else is said of the steps they are
        Adam's, with 1e-3; those of `SGD` are plain. With an lr they are plain unless you say
        otherwise. With a preconditioner, momentum or `adagrad_norm`, but without lr, it is one that
        trains small nets in the first try, times 1 − momentum.
    no_decay:
        "biases" (parameters with fewer than two dimensions) or names: they do not decay.
    clip_norm, clip_total_norm:
        Clip each block's gradient by its norm; by the norm over all blocks, each as last seen.
        With a default lr, plain and spectral steps are clipped at 0.5 (1 with one block;
        infinity: never). With an lr of yours nothing is, unless you say so.
    adagrad_norm:
        c: divide the lr of block j by √(1 + G_j/c²), with G_j the sum of ‖g^j‖² over all cycles so
        far (AdaGrad-Norm by blocks). With 1 and no lr, plain steps have a rate that goes with it.
        Where no lr is given it is 1 for spectral steps (infinity: never).
    precondition:
        Λ_j: None (the identity where lr is given, else "adam"); "spectral", the spectral norm of
        linear and convolution weights by a warm power iteration every cycle; "spectral-linear", the
        same with Λ = 1 for convolutions; "curvature", the norm of the block Hessian (plus
        `damping`) by `curvature_iterations` power iterations every `curvature_every` cycles, on a
        large batch; "adam", AdamW's step, with both moments (`betas`, `eps`) and its decoupled
        weight decay.
    reg:
        A regulariser on all weights (parameters with two or more dimensions), or a dict from
        parameter or module names.
    blocks:
        None: layers merged into the finest blocks under `max_overhead`, with one param group per
        layer. "layers": one block per layer. A number: that many blocks of balanced cost. A list of
        modules, module names, parameter names, or lists of these.
    max_overhead:
        What a cycle may cost in SGD steps; 2 if not given.
    order:
        "forward" (input to output), "backward", "shuffled", "rotated", "reflected", "random",
        "greedy", or a list of block numbers or names. None: forward, but shuffled for Adam's
        steps and for SCCD with momentum, which lock in a fixed order (a `LockWarning` says so
        where it is seen).
    example:
        A batch of inputs, to cut the model and choose the blocks before the first batch.
    stages:
        Modules that, applied one after the other, are the model.
    capture:
        The whole cycle as a CUDA graph, or as one for each turn where the order changes.
    compile:
        torch.compile every stage, and the loss.
    seed:
        Of the random orders; with several ranks also of the model's random numbers.
    process_group:
        Ranks of torch.distributed that each give `step` their part of the batch; None: the
        initialised group, if there is one (see `docs/nets.md`).
    batch_size:
        A function of the inputs that returns how many samples they are; without one they are the
        rows of the first tensor.
    resident:
        "block", for SCCD alone: one block at a time is trained, for `visit_steps` steps on a batch
        each. It alone has gradients, both moments of Adam and (where parameters are narrower) a
        float32 copy, and all of it goes when its visit ends. Without `blocks` there are eight of
        balanced size, in a new order each time. See `docs/nets.md`.
    visit_steps:
        How many steps a visit has."""


class SCCD(CyclicOptimizer):
    """Stochastic cyclic coordinate descent: every block in turn, all on the same batch.

    Example
    -------
    >>> import torch
    >>> from torch import nn
    >>> _ = torch.manual_seed(0)
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    >>> opt = SCCD(model, nn.functional.mse_loss, lr=0.1)
    >>> x, y = torch.randn(16, 4), torch.randn(16, 1)
    >>> first = opt.step(x, y)
    >>> for _ in range(20):
    ...     loss = opt.step(x, y)
    >>> bool(loss < first)
    True
    """

    name = "SCCD"


class SGD(CyclicOptimizer):
    """SGD on the same engine: one block, for a fair comparison."""

    name = "SGD"
    one_block = True


class VROCCD(CyclicOptimizer):
    """Variance-reduced cyclic descent with one batch per cycle (Algorithm 2, VRO-CCD).

    A batch of at least `b` samples refreshes the estimates g; one of at least `b_small` corrects
    them by the difference between the current and the lagged point. Feed it from a
    `PageBatchSampler`. The very first batch must be large: it forms g_{−1} and moves nothing. The
    paper's steps are one word away: ``lr=0.005``.
    """

    name = "VRO-CCD"
    recursive = True

    def __init__(
        self,
        model: nn.Module,
        loss_fn: Loss | None = None,
        lr: float | Tensor | Sequence[float] | None = None,
        *,
        b: int | None = None,
        b_small: int | None = None,
        **options: Any,
    ) -> None:
        self.b, self.b_small = page_sizes(b, b_small)
        super().__init__(model, loss_fn, lr, **options)


class PAGE(VROCCD):
    """PAGE on the same engine: VRO-CCD with one block."""

    name = "PAGE"
    one_block = True


class VRCCD(VROCCD):
    """Variance-reduced cyclic descent with a fresh batch and coin for every block (VR-CCD).

    Each step moves one block, the next in the order; a cycle is as many steps as there are blocks.
    Without `blocks` there are two, as a cycle costs that many batches.
    """

    name = "VR-CCD"
    one_at_a_time = True


_SIZES = """
    b, b_small:
        The samples of a large batch, which refreshes the estimates, and of a small one, which
        corrects them. Without b they are 64 and 16; with b alone b_small is ⌊√b⌋."""

for _optimizer in (SCCD, SGD, VROCCD, PAGE, VRCCD):
    _sizes = _SIZES if _optimizer.recursive else ""
    _optimizer.__doc__ = f"{(_optimizer.__doc__ or '').rstrip()}{_PARAMETERS}{_sizes}\n    "
