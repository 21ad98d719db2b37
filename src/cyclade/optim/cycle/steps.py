"""Direction and step of each block of a net: lr, Λ_j, momentum, clipping."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from cyclade.optim.cycle.adam import Adam
from cyclade.optim.cycle.in_place import Pieces, Step
from cyclade.optim.net import Net, flatten
from cyclade.optim.options import SPECTRAL, GroupOptions
from cyclade.optim.state import BlockState

CLIPS = ("clip_norm", "clip_total_norm")
NORMS = ("clip_norm", "adagrad_norm")


class NetSteps:
    """η Λ_j^{−1} with η the lr of block j's param group, and the direction g^j, bent if asked.

    What it carries from cycle to cycle lies in `state`; lr and the rest in `options`.
    """

    def __init__(
        self, net: Net, options: GroupOptions, state: BlockState, *, masters: bool = False
    ) -> None:
        self._net, self._options, self._slot = net, options, state.get
        self._adam = Adam(net, options, state, masters=masters)
        self._used: dict[int, Tensor | None] = {}
        self.ready: dict[int, Step] = {}  # of the cycle to come, for blocks updated in place

    def at(self, j: int, now: Any, gj: Any, reg: Any) -> tuple[Any, Any]:
        """The direction and the step η Λ_j^{−1}."""
        if isinstance(gj, Pieces):
            self._used[j] = None
            return gj, self._one_step(j, gj)
        used = self._used[j] = self._mask(j, now.unused.get(j))
        gj = self._clipped(j, gj)
        if self._options.shared(j, "adagrad_norm") is not None:
            self._squares(j).add_(gj.norm().square())
        precondition = self._options.shared(j, "precondition")
        if precondition == "adam":
            return self._adam.at(j, gj, used)
        if precondition in SPECTRAL:
            self._power_iteration(j)
        return self._direction(j, gj, used), self.current(j)

    def current(self, j: int) -> Any:
        """The step as it stands."""
        if self._options.shared(j, "precondition") == "adam":
            return self._adam.current(j)
        Lambda, rate = self.metric(j), self._options.rate(j)
        return rate if isinstance(Lambda, float) else rate / Lambda

    def metric(self, j: int) -> Any:
        """Λ_j: 1, a number on the device, or a diagonal."""
        Lambda = self._preconditioner(j)
        if self._options.shared(j, "adagrad_norm") is not None:
            Lambda = Lambda * self._adagrad(j)
        return Lambda

    def _preconditioner(self, j: int) -> Any:
        precondition = self._options.shared(j, "precondition")
        if precondition is None:
            return 1.0
        if precondition == "adam":
            return self._adam.metric(j)
        if precondition == "curvature":
            return self._slot(j, "curvature", lambda: self._scalar(j, 1.0))
        return self._spread(j, self._slot(j, "sigma", lambda: self._first_sigma(j)))

    def shrink(self, j: int, t: Any) -> Any:
        """1 + t·wd, by which the prox of weight decay divides block j; None without any."""
        return self._options.shrink(j, t, self._used.get(j))

    def in_place(self, j: int) -> Step | None:
        """The step of block j, if it is two numbers and the direction is g^j, perhaps clipped."""
        options = self._options
        bent = options.shared(j, "precondition") or options.shared(j, "momentum")
        bent = bent or options.shared(j, "clip_total_norm") is not None
        if bent or not options.one_number(j):
            return None
        rate = options.rate(j)
        return Step(rate, options.shrink(j, rate)) if isinstance(rate, float) else None

    def _one_step(self, j: int, gj: Pieces) -> Step | None:
        """The step of a block whose gradient lies in pieces; notes there how it is clipped."""
        step = self.ready.pop(j, None) or self.in_place(j)
        clip, c = (self._options.shared(j, name) for name in NORMS)
        if clip is None and c is None:
            return step
        flat = flatten(gj.tensors)
        if clip is not None:
            gj.scale = _scale(flat, clip)
            flat = flat * gj.scale
        if c is None or step is None:
            return step
        self._squares(j).add_(flat.norm().square())
        t = step.rate / self._adagrad(j)
        return Step(t, self._options.shrink(j, t))

    # ------------------------------------------------------- Λ_j by the gradients seen so far

    def _squares(self, j: int) -> Tensor:
        """G_j, the sum of ‖g^j‖² over all cycles; in float32 at least."""
        like = self._net.block_parameters(j)[0]
        dtype = torch.promote_types(like.real.dtype, torch.float32)
        total: Tensor = self._slot(
            j, "grad_squares", lambda: torch.zeros((), dtype=dtype, device=like.device)
        )
        return total

    def _adagrad(self, j: int) -> Tensor:
        """√(1 + G_j / c²)."""
        c = self._options.shared(j, "adagrad_norm")
        root: Tensor = (1.0 + self._squares(j) / c**2).sqrt()
        return root.to(self._net.block_parameters(j)[0].real.dtype)

    # ------------------------------------------------------------------------------- direction

    def _mask(self, j: int, unused: set[int] | None) -> Tensor | None:
        """0 on the parameters that had no gradient, which neither move nor decay; None for none."""
        if not unused:
            return None
        params = self._net.block_parameters(j)
        return torch.cat(
            [
                p.detach().new_full((p.numel(),), float(k not in unused))
                for k, p in enumerate(params)
            ]
        )

    def _clipped(self, j: int, gj: Tensor) -> Tensor:
        clip, whole = (self._options.shared(j, name) for name in CLIPS)
        if clip is not None:
            gj = gj * _scale(gj, clip)
        if whole is not None:
            # The other blocks' gradients are those last seen: with one block it is torch's rule.
            norms = [self._slot(i, "grad_norm", partial(self._scalar, i, 0.0))
                     for i in range(self._net.m)]  # fmt: skip
            norms[j].copy_(gj.norm())
            gj = gj * (whole / (torch.stack(norms).norm() + 1e-6)).clamp(max=1.0)
        return gj

    def _direction(self, j: int, gj: Tensor, used: Tensor | None) -> Tensor:
        momentum = self._options.shared(j, "momentum")
        if not momentum:
            return gj
        buffer = self._slot(j, "momentum_buffer", lambda: torch.zeros_like(gj))
        moved = buffer * momentum + gj
        buffer.copy_(moved if used is None else torch.where(used > 0, moved, buffer))
        nesterov = self._options.shared(j, "nesterov")
        d = gj + momentum * buffer if nesterov else buffer.clone()
        bent: Tensor = d if used is None else d * used
        return bent

    # -------------------------------------------------------------- Λ_j by the weights' norms

    def _weights(self, j: int) -> list[int]:
        """Which parameters of block j are weights that Λ_j looks at."""
        dims = SPECTRAL[self._options.shared(j, "precondition")]
        return [i for i, p in enumerate(self._net.block_parameters(j)) if p.dim() in dims]

    def _matrices(self, j: int) -> list[Tensor]:
        """These weights as matrices."""
        names = self._net.blocks[j].params
        return [self._net.live[names[i]].flatten(1) for i in self._weights(j)]

    def _power_iteration(self, j: int, iterations: int = 1) -> None:
        """Improve σ(W) of block j's weights by warm power iterations."""
        sigma = self._slot(j, "sigma", lambda: self._first_sigma(j))
        vectors = self._slot(j, "vectors", lambda: [])
        for i, (W, u) in enumerate(zip(self._matrices(j), vectors, strict=True)):
            sigma[i].copy_(warm_norm(W, u, iterations))

    def _first_sigma(self, j: int) -> Tensor:
        """σ(W) from a cold start, and the vectors that later iterations start from."""
        matrices = self._matrices(j)
        like = self._net.block_parameters(j)[0]
        vectors = [first_vector(W) for W in matrices]
        self._slot(j, "vectors", lambda: vectors)
        found = [warm_norm(W, u, 30) for W, u in zip(matrices, vectors, strict=True)]
        return torch.stack(found) if found else like.new_ones(0)

    def _spread(self, j: int, sigma: Tensor) -> Any:
        """σ for every parameter: a bias shares its layer's; a layer without a matrix has 1."""
        params = self._net.block_parameters(j)
        layers = [name.rpartition(".")[0] for name in self._net.blocks[j].params]
        sigma = sigma.clamp(min=self._options.shared(j, "damping"))
        own = self._weights(j)
        if not own:
            return 1.0
        if len(own) == 1 and set(layers) == {layers[own[0]]}:
            return sigma[0]
        norms = dict(zip(own, sigma, strict=True))
        of_layer = {layers[i]: norms[i] for i in reversed(own)}  # a layer's first matrix
        one = sigma.new_ones(())
        return torch.cat(
            [
                norms.get(i, of_layer.get(layer, one)).expand(p.numel())
                for i, (layer, p) in enumerate(zip(layers, params, strict=True))
            ]
        )

    # ------------------------------------------------------------------- Λ_j by the curvature

    def measure(self, sweep: Any, iterations: int) -> bool:
        """L_j of every block by warm power iteration on its Hessian, on the batch of `sweep`.

        Where the Hessian is not finite the old L_j stays; False says so.
        """
        good = True
        for j in range(self._net.m):
            if self._options.shared(j, "precondition") != "curvature":
                continue
            L = self._slot(j, "curvature", partial(self._scalar, j, 1.0))
            v = self._slot(j, "hessian_vector", partial(self._unit, j))
            norm = v.norm()
            for _ in range(iterations):
                w = sweep.hvp(j, v)
                norm = w.norm()
                if not bool(norm > 0) or not bool(torch.isfinite(norm)):
                    break
                v.copy_(w / norm)
            if bool(torch.isfinite(norm)):
                L.copy_(norm + self._options.shared(j, "damping"))
            else:
                good = False
        return good

    def _unit(self, j: int) -> Tensor:
        """A fixed start for the power iteration."""
        params = self._net.block_parameters(j)
        size = sum(p.numel() for p in params)
        generator = torch.Generator().manual_seed(j)
        v = torch.randn(size, generator=generator, dtype=torch.float64)
        unit: Tensor = v / v.norm()
        return unit.to(dtype=params[0].dtype, device=params[0].device)

    def _scalar(self, j: int, value: float) -> Tensor:
        return self._net.block_parameters(j)[0].new_full((), value)


def _scale(gj: Tensor, clip: float) -> Tensor:
    """By what a gradient is multiplied so that its norm is at most `clip`."""
    scale: Tensor = clip / gj.norm().clamp(min=clip)
    return scale


def first_vector(W: Tensor) -> Tensor:
    """A fixed start for `warm_norm`, so that runs repeat.

    The row sums are rarely orthogonal to the top.
    """
    u = W.sum(dim=1) + W.norm() / W.shape[0]
    unit: Tensor = u / u.norm().clamp(min=torch.finfo(W.dtype).tiny)
    return unit


def warm_norm(W: Tensor, u: Tensor, iterations: int) -> Tensor:
    """σ(W) from below by power iteration from `u`, which is improved in place."""
    tiny = torch.finfo(W.dtype).tiny
    sigma = W.new_ones(())
    for _ in range(iterations):
        v = W.T @ u
        v = v / v.norm().clamp(min=tiny)
        w = W @ v
        found = w.norm()
        # A weight that is zero says nothing of the step: then σ counts as 1, and u stays.
        sigma = torch.where(found > tiny, found, torch.ones_like(found))
        u.copy_(torch.where(found > tiny, w / sigma, u))
    return sigma
