"""A model, its loss and its blocks: what the sweeps of the net optimizers move along."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from cyclade.optim.stages import Chain, Inputs

Loss = Callable[..., Tensor]


@dataclass(frozen=True)
class Batch:
    """One micro-batch: what the model is called with, the target, and its share of the batch."""

    inputs: Inputs
    target: Any
    weight: float
    size: int


@dataclass(frozen=True)
class Block:
    """The parameters of one block, and the stage where the first of them is used."""

    name: str
    params: tuple[str, ...]  # qualified names, those of one param group after the other
    start: int
    groups: tuple[int, ...] = ()  # its param groups

    def __str__(self) -> str:
        return self.name


class Net:
    """The chain of stages with its parameters by name, cut into blocks."""

    def __init__(
        self, model: nn.Module, loss_fn: Loss | None, chain: Chain, blocks: Sequence[Block]
    ) -> None:
        self.model, self.loss_fn, self.chain = model, loss_fn, chain
        self.parameters = dict(model.named_parameters())
        self.whole_model = False  # differentiate the model itself, not its stages
        self.moving: tuple[str, ...] = ()  # frozen parameters that forward itself moves
        self.weigh_losses = False  # weigh before differentiating: losses share a normalisation
        self.arrange(blocks)
        # Detached views of the live parameters: they share storage, so they are always current.
        self.live = {name: p.detach() for name, p in self.parameters.items()}
        self._as_built = self._looks()

    def arrange(self, blocks: Sequence[Block]) -> None:
        """Take these blocks."""
        for block in blocks:
            if len({self.parameters[name].is_complex() for name in block.params}) > 1:
                raise ValueError(
                    f"the block {block.name} mixes complex and real parameters: give blocks= that "
                    "keep them apart (blocks='layers' may do)"
                )
        self.blocks = list(blocks)
        self.m = len(self.blocks)
        self.starts = [block.start for block in self.blocks]
        self._by_block = [[self.parameters[n] for n in block.params] for block in self.blocks]

    def block_parameters(self, j: int) -> list[nn.Parameter]:
        """The parameters of block j."""
        return self._by_block[j]

    def spread(self, j: int, values: Sequence[Any]) -> Tensor:
        """One vector of block j, with a value for each of its parameters."""
        return torch.cat(
            [
                torch.as_tensor(value, dtype=p.dtype, device=p.device).reshape(1).expand(p.numel())
                if isinstance(value, Tensor)
                else p.detach().new_full((p.numel(),), value)
                for p, value in zip(self._by_block[j], values, strict=True)
            ]
        )

    def loss_of(self, output: Any, batch: Batch) -> Tensor:
        """The loss of the model's output (or the loss that the model returns itself)."""
        if self.loss_fn is not None:
            loss = self.loss_fn(output, batch.target)
        else:
            loss = own_loss(output)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            got = f"shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
            hint = "" if self.loss_fn is not None else (
                ": the optimizer was built without a loss, so the model must return it; or give "
                "one, SCCD(model, loss_fn)"
            )  # fmt: skip
            raise ValueError(f"the loss must be a scalar tensor, got {got}{hint}")
        return loss.reshape(())

    def check_unchanged(self) -> None:
        """Refuse to go on when something happened to a parameter that cannot be followed."""
        for name, here, before in zip(self.parameters, self._looks(), self._as_built, strict=True):
            if here != before:
                what = (
                    f"{name} was frozen or unfrozen" if here[:2] == before[:2]
                    else f"the storage or shape of {name} changed (by .to(), a new .data, or "
                    "pruning)"
                )  # fmt: skip
                raise RuntimeError(f"{what} after the optimizer was built: build it afterwards")

    def _looks(self) -> list[tuple[int, torch.Size, bool]]:
        return [(p.data_ptr(), p.shape, p.requires_grad) for p in self.parameters.values()]

    def check_registry(self) -> None:
        """Refuse to go on when the model has other parameters than it had."""
        now = dict(self.model.named_parameters())
        for name in {**self.parameters, **now}:
            if now.get(name) is not self.parameters.get(name):
                what = (
                    "is new" if name not in self.parameters
                    else "is gone" if name not in now
                    else "is another tensor (load_state_dict without assign=True keeps it)"
                )  # fmt: skip
                raise RuntimeError(
                    f"the parameter {name} {what} since the optimizer was built, which would train "
                    "what the model no longer uses: build it afterwards"
                )


def own_loss(output: Any) -> Any:
    """The loss in the output of a model that computes it itself."""
    if isinstance(output, Tensor):
        return output
    if isinstance(output, dict) and "loss" in output:
        return output["loss"]
    if getattr(output, "loss", None) is not None:
        return output.loss
    if isinstance(output, tuple | list):
        scalars = [a for a in output if isinstance(a, Tensor) and a.numel() == 1]
        if len(scalars) == 1:
            return scalars[0]
    raise ValueError(
        "loss_fn is None, so the model must return its loss: a scalar tensor, or a dict or object "
        f"with `loss`; got {type(output).__name__}"
    )


def flatten(tensors: Sequence[Tensor]) -> Tensor:
    """One new vector that holds all the tensors."""
    return torch.cat([t.reshape(-1) for t in tensors])


def unflatten(flat: Tensor, shapes: Sequence[torch.Size]) -> list[Tensor]:
    """Views of a vector in the given shapes."""
    pieces = torch.split(flat, [shape.numel() for shape in shapes])
    return [piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True)]


class Pieces(list[Tensor]):
    """A gradient of one block as a list, one tensor for each parameter; the roundings of a vector.

    With `LiveBlock` it has the arithmetic of a plain step, x − η g and then u / (1 + η wd). So a
    block need not be copied into one vector and back.
    """

    def __mul__(self, scale: Any) -> Pieces:
        return Pieces(torch._foreach_mul(self, scale))

    __rmul__ = __mul__

    def norm(self) -> Tensor:
        """The norm of the vector."""
        norm: Tensor = flatten(self).norm()
        return norm


class LiveBlock(list[Tensor]):
    """The parameters of one block where they lie: the block moves as it is computed with."""

    def __sub__(self, move: Pieces) -> LiveBlock:
        torch._foreach_sub_(self, move)
        return self

    def __truediv__(self, number: Any) -> LiveBlock:
        torch._foreach_div_(self, number)
        return self


class LivePoint:
    """x: the model's own parameters, read as one vector a block and written in place."""

    def __init__(self, net: Net) -> None:
        self.net = net
        self.layout = net  # `layout.m` is all that a lag asks for
        self._params = [[net.live[name] for name in block.params] for block in net.blocks]
        self._shapes = [[p.shape for p in params] for params in self._params]

    def get(self, j: int) -> Tensor:
        """A copy of block j."""
        return flatten(self._params[j])

    def block(self, j: int) -> LiveBlock:
        """Block j where it lies."""
        return LiveBlock(self._params[j])

    def set(self, j: int, u: Tensor | LiveBlock) -> None:
        """Write block j into the parameters, unless it was moved there."""
        if isinstance(u, Tensor):
            torch._foreach_copy_(self._params[j], unflatten(u, self._shapes[j]))

    def tensors(self) -> dict[str, Tensor]:
        """Every parameter by name."""
        return self.net.live


class FlatPoint:
    """One vector a block, in optimizer state: the lagged point, and the estimates g."""

    def __init__(self, net: Net, flats: list[Tensor]) -> None:
        self.net, self.flats = net, flats
        self.layout = net
        self._views: dict[str, Tensor] = dict(net.live)
        for j, flat in enumerate(flats):
            views = unflatten(flat, [p.shape for p in net.block_parameters(j)])
            self._views.update(zip(net.blocks[j].params, views, strict=True))

    def get(self, j: int) -> Tensor:
        """Vector j itself."""
        return self.flats[j]

    def set(self, j: int, u: Tensor) -> None:
        """Write block j."""
        self.flats[j].copy_(u)

    def tensors(self) -> dict[str, Tensor]:
        """Every parameter by name; those in no block are the model's own."""
        return self._views
