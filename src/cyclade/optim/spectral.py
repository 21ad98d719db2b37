"""The other reading of the paper's spectral normalisation: W/σ(W) as a reparametrisation."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from cyclade.optim.cycle.steps import first_vector, warm_norm


class SpectralNorm(nn.Module):
    """W ↦ W / σ with σ = uᵀWv for vectors u, v that move only when `advance` is called.

    torch's own `spectral_norm` runs its power iteration in every training forward, so a replayed
    stage would see other weights each time. Here forward is a pure function of W, u and v, and the
    optimizers call `advance` once per cycle. As in Miyato et al., u and v count as constants when σ
    is differentiated.
    """

    u: Tensor
    v: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        with torch.no_grad():
            W = weight.flatten(1)
            u = first_vector(W)
            warm_norm(W, u, 30)
            self.register_buffer("u", u)
            self.register_buffer("v", self._right(W))

    def _right(self, W: Tensor) -> Tensor:
        v: Tensor = W.T @ self.u
        return v.div(v.norm().clamp(min=torch.finfo(W.dtype).tiny))

    def forward(self, weight: Tensor) -> Tensor:
        """W / σ."""
        sigma = self.u @ (weight.flatten(1) @ self.v)
        return weight / torch.where(sigma == 0, torch.ones_like(sigma), sigma)

    @torch.no_grad()
    def advance(self, weight: Tensor) -> None:
        """One warm power iteration at W."""
        W = weight.detach().flatten(1)
        warm_norm(W, self.u, 1)
        self.v.copy_(self._right(W))


def spectral_normalise(
    model: nn.Module, kinds: Iterable[type[nn.Module]] = (nn.Linear,)
) -> nn.Module:
    """Reparametrise the weights of all layers of these kinds as W / σ(W), in place.

    The paper normalises the fully connected layers; pass ``kinds=(nn.Linear, nn.Conv2d)`` for both.
    Build the optimizer afterwards.

    Example
    -------
    >>> import torch
    >>> model = spectral_normalise(torch.nn.Sequential(torch.nn.Linear(4, 3)))
    >>> round(float(torch.linalg.matrix_norm(model[0].weight.detach(), 2)), 4)
    1.0
    """
    chosen = tuple(kinds)
    layers = [module for module in model.modules() if isinstance(module, chosen)]
    if not layers:
        raise ValueError(
            f"the model has no layer of the kinds {[kind.__name__ for kind in chosen]}"
        )
    for layer in layers:
        weight = layer.weight
        assert isinstance(weight, Tensor)
        parametrize.register_parametrization(layer, "weight", SpectralNorm(weight))
    return model


def spectral_norms(model: nn.Module) -> list[tuple[SpectralNorm, Tensor]]:
    """Every `SpectralNorm` of the model, with the weight it acts on."""
    found = []
    for module in model.modules():
        if isinstance(module, parametrize.ParametrizationList):
            found += [(p, module.original) for p in module if isinstance(p, SpectralNorm)]
    return found
