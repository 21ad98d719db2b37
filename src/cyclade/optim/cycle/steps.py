"""Direction and step of each block of a net: lr, Λ_j, momentum, clipping."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from cyclade.optim.cycle.adam import Adam
from cyclade.optim.net import Net
from cyclade.optim.options import SPECTRAL, GroupOptions
from cyclade.optim.state import BlockState


class NetSteps:
    """η Λ_j^{−1} with η the lr of block j's param group, and the direction g^j, bent if asked."""

    def __init__(
        self, net: Net, options: GroupOptions, state: BlockState, *, masters: bool = False
    ) -> None:
        self._net, self._options, self._slot = net, options, state.get
        self._adam = Adam(net, options, state, masters=masters)
        self.used: dict[int, Tensor | None] = {}  # by block: see `_mask`

    def at(self, j: int, now: Any, gj: Any, reg: Any) -> tuple[Any, Any]:
        own, unused = self._options.blocks[j], now.unused.get(j)
        used = self.used[j] = self._mask(j, unused) if unused else None
        gj = self._clipped(j, gj)
        if own["adagrad_norm"] is not None:
            self._squares(j).add_(gj.norm().square())
        if own["precondition"] == "adam":
            return self._adam.at(j, gj, used)
        if own["precondition"] in SPECTRAL:
            self._power_iteration(j)
        if own["momentum"]:
            gj = self._with_momentum(j, gj, used)
        return gj, self.current(j)

    def current(self, j: int) -> Any:
        if self._options.blocks[j]["precondition"] == "adam":
            return self._adam.current(j)
        Lambda, rate = self.metric(j), self._options.rate(j)
        return rate if isinstance(Lambda, float) else rate / Lambda

    def metric(self, j: int) -> Any:
        """Λ_j: 1, a number on the device, or a diagonal."""
        own = self._options.blocks[j]
        Lambda: Any = 1.0
        if own["precondition"] == "adam":
            Lambda = self._adam.metric(j)
        elif own["precondition"] == "curvature":
            Lambda = self._slot(j, "curvature", partial(self._scalar, j, 1.0))
        elif own["precondition"] in SPECTRAL:
            Lambda = self._spread(j, self._slot(j, "sigma", partial(self._first_sigma, j)))
        if own["adagrad_norm"] is None:
            return Lambda
        root = (1.0 + self._squares(j) / own["adagrad_norm"] ** 2).sqrt()
        return Lambda * root.to(self._net.block_parameters(j)[0].real.dtype)

    def _squares(self, j: int) -> Tensor:
        """G_j, the sum of ‖g^j‖² over all cycles; in float32 at least."""
        like = self._net.block_parameters(j)[0]
        dtype = torch.promote_types(like.real.dtype, torch.float32)
        make = partial(torch.zeros, (), dtype=dtype, device=like.device)
        total: Tensor = self._slot(j, "grad_squares", make)
        return total

    # ------------------------------------------------------------------------------- direction

    def _mask(self, j: int, unused: set[int]) -> Tensor:
        """0 on the parameters that had no gradient, which neither move nor decay."""
        return self._net.spread(
            j, [float(k not in unused) for k in range(len(self._net.block_parameters(j)))]
        )

    def _clipped(self, j: int, gj: Any) -> Any:
        own = self._options.blocks[j]
        clip, whole = own["clip_norm"], own["clip_total_norm"]
        if clip is not None:
            gj = gj * (clip / gj.norm().clamp(min=clip))
        if whole is not None:
            # The other blocks' gradients are those last seen: with one block it is torch's rule.
            norms = [self._slot(i, "grad_norm", partial(self._scalar, i, 0.0))
                     for i in range(self._net.m)]  # fmt: skip
            norms[j].copy_(gj.norm())
            gj = gj * (whole / (torch.stack(norms).norm() + 1e-6)).clamp(max=1.0)
        return gj

    def _with_momentum(self, j: int, gj: Tensor, used: Tensor | None) -> Tensor:
        own = self._options.blocks[j]
        buffer = self._slot(j, "momentum_buffer", partial(torch.zeros_like, gj))
        moved = buffer * own["momentum"] + gj
        buffer.copy_(moved if used is None else torch.where(used > 0, moved, buffer))
        d = gj + own["momentum"] * buffer if own["nesterov"] else buffer.clone()
        bent: Tensor = d if used is None else d * used
        return bent

    # -------------------------------------------------------------- Λ_j by the weights' norms

    def _weights(self, j: int) -> list[int]:
        """Which parameters of block j are weights that Λ_j looks at."""
        dims = SPECTRAL[self._options.blocks[j]["precondition"]]
        return [i for i, p in enumerate(self._net.block_parameters(j)) if p.dim() in dims]

    def _matrices(self, j: int) -> list[Tensor]:
        """These weights as matrices."""
        names = self._net.blocks[j].params
        return [self._net.live[names[i]].flatten(1) for i in self._weights(j)]

    def _power_iteration(self, j: int, iterations: int = 1) -> None:
        """Improve σ(W) of block j's weights by warm power iterations."""
        sigma = self._slot(j, "sigma", partial(self._first_sigma, j))
        vectors = self._slot(j, "vectors", list)
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
        layers = [name.rpartition(".")[0] for name in self._net.blocks[j].params]
        sigma = sigma.clamp(min=self._options.blocks[j]["damping"])
        own = self._weights(j)
        if not own:
            return 1.0
        if len(own) == 1 and set(layers) == {layers[own[0]]}:
            return sigma[0]
        norms = dict(zip(own, sigma, strict=True))
        of_layer = {layers[i]: norms[i] for i in reversed(own)}  # a layer's first matrix
        found = [norms.get(i, of_layer.get(layer, 1.0)) for i, layer in enumerate(layers)]
        return self._net.spread(j, found)

    # ------------------------------------------------------------------- Λ_j by the curvature

    def measure(self, sweep: Any, iterations: int) -> bool:
        """L_j of each block by power iteration; False if one is not finite: the old one stays."""
        good = True
        for j in range(self._net.m):
            own = self._options.blocks[j]
            if own["precondition"] != "curvature":
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
                L.copy_(norm + own["damping"])
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


def first_vector(W: Tensor) -> Tensor:
    """A fixed start for `warm_norm`: the row sums, which are rarely orthogonal to the top."""
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
