"""Direction and step of each block of a net: lr, Λ_j, momentum, clipping."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cyclade.optim.net import Net

PRECONDITIONERS = (None, "spectral", "spectral-linear", "curvature", "adam")
SPECTRAL = {
    "spectral": (2, 3, 4, 5),
    "spectral-linear": (2,),
}  # the weights it looks at, by dimensions


class NetSteps:
    """η Λ_j^{−1} with η the lr of block j's param group, and the direction g^j, bent if asked.

    `slot(j, name, make)` is block j's place `name` in the optimizer's state, made on first use;
    `rate(j)` is its lr, a number or (under capture) a device tensor.
    """

    def __init__(
        self,
        net: Net,
        groups: list[dict[str, Any]],
        slot: Callable[[int, str, Callable[[], Any]], Any],
        rate: Callable[[int], Any],
    ) -> None:
        self._net, self._groups, self._slot, self._rate = net, groups, slot, rate

    def begin(self, k: int) -> None:
        """Nothing depends on k."""

    def prepare(self, at_x0: Any) -> None:
        """Nothing to learn before the first cycle."""

    def memory(self) -> dict[str, Any]:
        """All of it is in the optimizer's state."""
        return {}

    def recall(self, memory: dict[str, Any]) -> None:
        """All of it is in the optimizer's state."""

    def at(self, j: int, now: Any, gj: Tensor, reg: Any) -> tuple[Tensor, Any]:
        """The direction and the step η Λ_j^{−1}."""
        group = self._groups[j]
        if group["precondition"] == "adam":
            self._second_moment(j, gj, group["beta2"])
        if group["precondition"] in SPECTRAL:
            self._power_iteration(j)
        return self._direction(j, gj, group), self.current(j)

    def current(self, j: int) -> Any:
        """The step as it stands."""
        Lambda = self.metric(j)
        rate = self._rate(j)
        return rate if isinstance(Lambda, float) else rate / Lambda

    def metric(self, j: int) -> Any:
        """Λ_j: 1, a number on the device, or a diagonal."""
        precondition = self._groups[j]["precondition"]
        if precondition is None:
            return 1.0
        if precondition == "adam":
            return self._adam(j)
        if precondition == "curvature":
            return self._slot(j, "curvature", lambda: self._scalar(j, 1.0))
        return self._spread(j, self._slot(j, "sigma", lambda: self._first_sigma(j)))

    # ------------------------------------------------------------------------------- direction

    def _direction(self, j: int, gj: Tensor, group: dict[str, Any]) -> Tensor:
        clip, momentum = group["clip_norm"], group["momentum"]
        if clip is not None:
            gj = gj * (clip / gj.norm().clamp(min=clip))
        if momentum:
            buffer = self._slot(j, "momentum_buffer", lambda: torch.zeros_like(gj))
            buffer.mul_(momentum).add_(gj)
            gj = gj + momentum * buffer if group["nesterov"] else buffer.clone()
        return gj

    # ------------------------------------------------------------------- Λ_j by second moments

    def _second_moment(self, j: int, gj: Tensor, beta2: float) -> None:
        moment, updates = self._moments(j)
        gj = gj.to(moment.dtype)
        moment.mul_(beta2).addcmul_(gj, gj, value=1 - beta2)
        updates.add_(1)

    def _moments(self, j: int) -> tuple[Tensor, Tensor]:
        """The second moment and the number of updates, in float32 at least: bfloat16 stalls."""
        params = self._net.block_parameters(j)
        size, like = sum(p.numel() for p in params), params[0]
        dtype = torch.promote_types(like.dtype, torch.float32)
        moment = self._slot(j, "second_moment", lambda: like.new_zeros(size, dtype=dtype))
        return moment, self._slot(j, "updates", lambda: like.new_zeros((), dtype=dtype))

    def _adam(self, j: int) -> Tensor:
        group, (moment, updates) = self._groups[j], self._moments(j)
        corrected = moment / (1 - group["beta2"] ** updates.clamp(min=1))
        Lambda = corrected.sqrt_().add_(group["eps"])
        # A coordinate that never had a gradient has no scale: it keeps the plain step.
        Lambda = torch.where(moment > 0, Lambda, torch.ones_like(Lambda))
        return Lambda.to(self._net.block_parameters(j)[0].dtype)

    # -------------------------------------------------------------- Λ_j by the weights' norms

    def _matrices(self, j: int) -> list[Tensor]:
        """The weights of block j that Λ_j looks at, as matrices."""
        names = [name for name in self._net.blocks[j].params if self._counts(j, name)]
        return [self._net.live[name].flatten(1) for name in names]

    def _counts(self, j: int, name: str) -> bool:
        """Whether this parameter is a weight that Λ_j looks at."""
        return self._net.parameters[name].dim() in SPECTRAL[self._groups[j]["precondition"]]

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
        vectors = []
        for W in matrices:
            # A fixed start, so that runs repeat; the row sums are rarely orthogonal to the top.
            u = W.sum(dim=1) + W.norm() / W.shape[0]
            vectors.append(u / u.norm().clamp(min=torch.finfo(W.dtype).tiny))
        self._slot(j, "vectors", lambda: vectors)
        found = [warm_norm(W, u, 30) for W, u in zip(matrices, vectors, strict=True)]
        return torch.stack(found) if found else like.new_ones(0)

    def _spread(self, j: int, sigma: Tensor) -> Any:
        """σ for every parameter: a bias shares its layer's; a layer without a matrix has 1."""
        params = self._net.block_parameters(j)
        layers = [name.rpartition(".")[0] for name in self._net.blocks[j].params]
        sigma = sigma.clamp(min=self._groups[j]["damping"])
        own = [i for i, name in enumerate(self._net.blocks[j].params) if self._counts(j, name)]
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
            group = self._groups[j]
            if group["precondition"] != "curvature":
                continue
            L = self._slot(j, "curvature", lambda j=j: self._scalar(j, 1.0))  # type: ignore[misc]
            v = self._slot(j, "hessian_vector", lambda j=j: self._unit(j))  # type: ignore[misc]
            norm = v.norm()
            for _ in range(iterations):
                w = sweep.hvp(j, v)
                norm = w.norm()
                if not bool(norm > 0) or not bool(torch.isfinite(norm)):
                    break
                v.copy_(w / norm)
            if bool(torch.isfinite(norm)):
                L.copy_(norm + group["damping"])
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
