"""What an optimizer says where it cannot do what was asked: what was wrong, and what to give."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small_nets import ALL, batch, net
from torch import Tensor, nn

from cyclade.optim import SCCD, NotFiniteError


def test_a_forgotten_loss_is_named() -> None:
    x, y = batch(8)
    with pytest.raises(ValueError, match=r"built without a loss.*SCCD\(model, loss_fn"):
        SCCD(net(6, 5, 3), lr=0.1).step(x, y)
    with pytest.raises(ValueError, match=r"shape \(8, 3\).*SCCD\(model, loss_fn\)"):
        SCCD(net(6, 5, 3), lr=0.1).step(x)
    with pytest.raises(TypeError, match=r"got float.*lr=0.1"):
        SCCD(net(6, 5, 3), 0.1)  # type: ignore[arg-type]  # what is refused


@pytest.mark.parametrize("blocks", [None, "layers", 1])
def test_a_gradient_that_is_nan_in_the_first_batch_is_refused_before_anything_moves(
    blocks: Any,
) -> None:
    def loss(out: Tensor, y: Tensor) -> Tensor:
        return (out - out.detach()).abs().sqrt().sum() + F.cross_entropy(out, y)

    model = net(6, 5, 3)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(NotFiniteError, match="gradient of block 0 is not finite"):
        SCCD(model, loss, lr=0.1, blocks=blocks).step(*batch(8))
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


@pytest.mark.parametrize("cls", ALL)
def test_a_misspelt_option_is_answered_with_the_one_that_is_meant(cls: Any) -> None:
    more = {"b": 4} if cls.recursive else {}
    with pytest.raises(TypeError, match=rf"{cls.__name__} has no option 'momentun'.*'momentum'\?"):
        cls(net(6, 5, 3), F.cross_entropy, momentun=0.9, **more)
    with pytest.raises(TypeError, match=r"has no option 'learning_rate'.*weight_decay"):
        cls(net(6, 5, 3), F.cross_entropy, learning_rate=0.9, **more)


@pytest.mark.parametrize("cls", ALL)
def test_signatures_show_the_real_parameters(cls: Any) -> None:
    shown = inspect.signature(cls).parameters
    assert list(shown)[:3] == ["model", "loss_fn", "lr"]
    assert {"momentum", "clip_norm", "blocks", "order", "seed"} <= set(shown)
    assert ("b_small" in shown) == cls.recursive
    assert shown["betas"].default == (0.9, 0.999)
    kinds = {p.kind for p in shown.values()}
    assert not kinds & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
    for name in set(shown) - {"self"}:  # and each of them is described
        assert name in str(cls.__doc__), name


class GAN(nn.Module):
    """Both nets; in `turn` "G" the generator's loss, else the discriminator's."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.G = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3)).double()
        self.D = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)).double()

    def forward(self, z: Tensor, real: Tensor, turn: Tensor) -> Tensor:
        fake = self.D(self.G(z))
        d_loss = F.softplus(fake).mean() + F.softplus(-self.D(real)).mean()
        return turn * F.softplus(-fake).mean() + (1 - turn) * d_loss


def test_the_recipe_of_a_gan_moves_each_net_in_its_turn() -> None:
    model = GAN()
    generator = SCCD(model, blocks=["G", "D"], lr=[0.1, 0.0])
    discriminator = SCCD(model, blocks=["G", "D"], lr=[0.0, 0.1])
    torch.manual_seed(1)
    for _ in range(3):
        z = torch.randn(6, 2, dtype=torch.float64)
        real = torch.randn(6, 3, dtype=torch.float64)
        for opt, turn, moving in ((discriminator, 0.0, "D"), (generator, 1.0, "G")):
            twin = copy.deepcopy(model)
            params = dict(twin.named_parameters())
            found = torch.autograd.grad(
                twin(z, real, torch.tensor(turn).double()), list(params.values()), allow_unused=True
            )
            opt.step((z, real, torch.full((), turn, dtype=torch.float64)))
            for (name, p), g in zip(params.items(), found, strict=True):
                moved = p - 0.1 * g if name.startswith(moving) and g is not None else p
                torch.testing.assert_close(model.get_parameter(name), moved, rtol=0, atol=1e-12)
