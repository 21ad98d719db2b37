"""Experimental: models cut over ranks by torch's `fully_shard` (FSDP2), cycles over its units.

A block is an FSDP unit. Parameters, the lagged point and the estimates lie in shards, one part on
every rank. In the turn of block j FSDP's own hooks gather the units one after the other, for the
forward pass and for the backward pass, which `torch.autograd.grad` runs down to unit j alone. So no
other gradient is formed, and g^j is reduced and scattered here. The update touches the rank's own
shard, and the trajectory is that of one process.

Every gradient is sent once a cycle, as FSDP does. In forward order unit i of m is gathered for m
forward and i backward passes, where a step of FSDP gathers it twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, Partial
from torch.nn.modules.dropout import _DropoutNd

from cyclade import core
from cyclade._checks import each, non_negative
from cyclade.blocks.lag import Lag
from cyclade.blocks.layout import NoEstimate, Stored
from cyclade.optim.cycle.lags import put_tape, tape_of
from cyclade.optim.cycle.schedule import RefreshRule, Turns
from cyclade.optim.cycle.sweep import NotFiniteError
from cyclade.optim.net import Batch, flatten, unflatten
from cyclade.optim.page_sampler import page_sizes
from cyclade.optim.ranks.distributed import ManyProcesses
from cyclade.ranks import Ranks
from cyclade.sampling.orders import Greedy, as_order

_RATES = ("lr", "weight_decay")


class Unit:
    """One FSDP unit: the parameters that it gathers itself, not those of units inside it."""

    def __init__(self, name: str, module: Any) -> None:
        self.name, self.module = name, module
        units: list[Any] = [m for m in module.modules() if isinstance(m, FSDPModule)]
        inside = {m for unit in units if unit is not module for m in unit.modules()}
        own = [m for m in module.modules() if m not in inside]
        self._places = [(m, key) for m in own for key, p in m._parameters.items() if p is not None]

    @property
    def params(self) -> list[Any]:
        """DTensors; inside the module's forward pass, and only there, whole parameters."""
        return [getattr(inner, key) for inner, key in self._places]


class ShardedPoint:
    """x or the lagged point in shards; a block is one vector, this rank's part of it."""

    def __init__(self, shards: list[list[Tensor]]) -> None:
        self.shards, self.m = shards, len(shards)  # by block, by parameter
        self.layout = self  # as `Lag` asks for the number of blocks

    def get(self, j: int) -> Tensor:
        return flatten(self.shards[j])

    def set(self, j: int, u: Tensor) -> None:
        pieces = unflatten(u, [shard.shape for shard in self.shards[j]])
        torch._foreach_copy_(self.shards[j], pieces)

    def copy(self) -> ShardedPoint:
        return ShardedPoint([[shard.clone() for shard in block] for block in self.shards])


class ShardedSweep:
    """`point` moving along one cycle on a batch, in the model's own shards."""

    def __init__(self, net: ShardedNet, point: ShardedPoint, batches: Sequence[Batch]) -> None:
        self._net, self._point, self._batches = net, point, batches
        self.get, self.set = point.get, point.set
        self.loss: Tensor | None = None

    def grad(self, j: int) -> Tensor:
        """This rank's part of ∇^j over the whole batch."""
        net, unit = self._net, self._net.units[j]
        losses, total = [], None
        with net.at(self._point):
            for batch in self._batches:
                seen: list[Any] = []  # the whole parameters, as this pass uses them
                watch = unit.module.register_forward_pre_hook(
                    lambda *_, seen=seen: seen.append(unit.params)
                )
                with torch.enable_grad(), watch:
                    output = net.model(*batch.inputs.args, **batch.inputs.kwargs)
                    loss = batch.weight * net.loss_fn(output, batch.target)
                    parts = torch.autograd.grad(loss, seen[0], materialize_grads=True)
                losses.append(loss.detach())
                total = parts if total is None else torch._foreach_add(total, parts)
        assert total is not None
        if self.loss is None:
            self.loss = net.ranks.sum(torch.stack(losses).sum())
            if not bool(torch.isfinite(self.loss)):
                raise NotFiniteError(f"the loss is {float(self.loss)}: the step was not applied")
        return flatten([_scattered(g, p) for g, p in zip(total, unit.params, strict=True)])


def _scattered(g: Tensor, p: Any) -> Tensor:
    """This rank's part of the sum of g over the ranks, cut as p is."""
    summed = DTensor.from_local(g, p.device_mesh, [Partial()], run_check=False)
    return summed.redistribute(placements=p.placements).to_local()


class ShardedNet:
    """A model in FSDP units (in its order; what belongs to the root alone last), and its loss."""

    def __init__(self, model: nn.Module, loss_fn: Callable[..., Tensor]) -> None:
        self.model, self.loss_fn = model, loss_fn
        found = [Unit(name, m) for name, m in model.named_modules() if isinstance(m, FSDPModule)]
        self.units = sorted((u for u in found if u.params), key=lambda u: u.module is model)
        _check(model, self.units)
        self.ranks = Ranks(self.units[0].params[0].device_mesh.get_group())
        self.point = ShardedPoint([[p.to_local() for p in unit.params] for unit in self.units])

    @contextmanager
    def at(self, point: ShardedPoint) -> Iterator[None]:
        """The model with the parameters of `point`."""
        if point is self.point:
            yield
            return
        own = self.point.copy()
        try:
            self._take(point)
            yield
        finally:
            self._take(own)

    @torch.no_grad()
    def _take(self, point: ShardedPoint) -> None:
        for block, values in zip(self.point.shards, point.shards, strict=True):
            torch._foreach_copy_(block, values)


def _check(model: nn.Module, units: list[Unit]) -> None:
    """Refuse what would not be exact, before anything is done."""
    if not units:
        raise ValueError("model: has no unit of torch's fully_shard; for other models use SCCD")
    own = {id(p) for unit in units for p in unit.params}
    for name, p in model.named_parameters():
        if id(p) not in own or not isinstance(p, DTensor):
            raise ValueError(f"model: {name} is in no unit of fully_shard: shard the root as well")
        sharded = len(p.placements) == 1 and p.placements[0].is_shard()
        if not (sharded and p.requires_grad):
            raise ValueError(
                f"model: {name} is frozen, or placed as {p.placements}: every parameter is trained "
                "as one shard a rank"
            )
    for name, module in model.named_modules():
        draws = isinstance(module, _DropoutNd) and module.p > 0
        norm = isinstance(module, nn.modules.batchnorm._BatchNorm)
        if module.training and (draws or norm):
            raise ValueError(
                f"model: {name} ({type(module).__name__}) does not repeat itself within a cycle; "
                "put it in eval mode or take it out"
            )


class _ShardedOptimizer(torch.optim.Optimizer):
    """What both methods share. To a cycle it is the step x − lr g and the prox of weight decay."""

    sizes: tuple[int, ...] = ()  # b and b', for a method that carries an estimate

    def __init__(
        self, model: nn.Module, loss_fn: Callable[..., Tensor], *, lr: float = 0.1,
        weight_decay: float = 0.0, order: Any = "forward", seed: int = 0,
    ) -> None:  # fmt: skip
        each(non_negative, lr=lr, weight_decay=weight_decay)
        self.net = ShardedNet(model, loss_fn)
        self._rule = RefreshRule(type(self).__name__, *self.sizes)
        super().__init__(model.parameters(), {"lr": lr, "weight_decay": weight_decay})
        turns = as_order(order, len(self.net.units))
        if isinstance(turns, Greedy):
            raise ValueError("order: greedy would gather every unit before every turn")
        self._ranks = ManyProcesses(self.net.ranks)
        self._ranks.synchronised = self.net.ranks.size > 1  # they meet in every pass
        said = {"blocks": [unit.name for unit in self.net.units], "order": repr(order)}
        self._ranks.agree({"seed": seed, **said})
        self._turns = Turns(turns, self.net.ranks.first(seed))
        self._turns.m = len(self.net.units)
        self.draws = 0
        self._g: Any = NoEstimate()
        self._lag: Any = NoEstimate()

    def at(self, j: int, now: Any, gj: Any, reg: Any) -> tuple[Any, float]:
        return gj, float(self.param_groups[0]["lr"])

    def prox(self, j: int, u: Tensor, t: float) -> Tensor:
        decay = float(self.param_groups[0]["weight_decay"])
        return u / (1.0 + t * decay) if decay else u

    @torch.no_grad()
    def step(  # type: ignore[override]  # it takes the batch, and runs the model itself
        self, inputs: Any, target: Any = None, *, refresh: bool | None = None
    ) -> Tensor:
        """One cycle on this rank's part of a batch; the loss of the whole batch at its start."""
        net, rule = self.net, self._rule
        whole = self._ranks.global_batch(
            (inputs, target, net.loss_fn, None), refresh, ready=lambda batches: True,
            draws=self.draws, groups=self.param_groups,
        )  # fmt: skip
        again = rule.refreshes(whole.size, refresh)
        self.draws += 1
        now = ShardedSweep(net, net.point, whole.batches)
        if not rule.formed:  # Algorithm 2, line 2: g_{−1} from a large batch at x_0; nothing moves
            self._g = Stored([now.grad(j) for j in range(self._turns.m)])
            self._lag = Lag(net.point)
            rule.formed = True
        else:
            if not again:
                self._lag.board(ShardedSweep(net, self._lag.point, whole.batches))
            turns = self._turns.next()
            assert turns is not None
            rule.halfway = rule.recursive
            steps: Any = self  # it has what a cycle asks for, and nothing of `minimize`
            core.cycle(turns, now, self._lag, self._g, steps, steps, again)
            rule.halfway = False
            self._lag.trim()
            self._turns.done()
        assert now.loss is not None
        return now.loss

    def _rates(self) -> list[Any]:
        return [self.param_groups[0][name] for name in _RATES]

    def state_dict(self) -> dict[str, Any]:
        """Counters, and this rank's shards of the estimates and of the lagged point."""
        found: dict[str, Any] = {"draws": self.draws, "rates": self._rates()}
        found |= {"turns": self._turns.state(), "rule": self._rule.state()}
        if isinstance(self._lag, Lag):
            lagged = [self._lag.point.get(j) for j in range(self._turns.m)]
            found |= {"g": list(self._g.arrays), "lag": lagged, "trail": tape_of(self._lag)}
        return found

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.draws = int(state["draws"])
        self._turns.load(state["turns"])
        self._rule.load(state["rule"])
        self.param_groups[0].update(zip(_RATES, state["rates"], strict=True))
        if "g" in state:
            self._g, self._lag = Stored(state["g"]), Lag(self.net.point)
            for j, value in enumerate(state["lag"]):
                self._lag.point.set(j, value)
            put_tape(self._lag, state["trail"], state["g"][0].device)


class ShardedSCCD(_ShardedOptimizer):
    """SCCD (Algorithm 1 on a batch) for a model of `fully_shard`'s; every unit is a block.

    Experimental: names and options may change from one version to the next.

    Call `fully_shard` on the parts that are to be blocks and then on the model itself. Each rank
    gives its part of the batch; the trajectory is that of one process. The model runs as a whole
    for each block.

    Parameters
    ----------
    model : Module
        After `fully_shard`; without dropout and batch norm (or with them in eval mode).
    loss_fn : callable
        ``loss_fn(output, target)``, a mean over samples.
    lr, weight_decay : float
        As in `SCCD`: x − lr g, then divided by 1 + lr weight_decay.
    order : str or list
        As in `SCCD`, but not greedy.
    seed : int
        Of orders that change; the first rank's.
    """


class ShardedVROCCD(_ShardedOptimizer):
    """VRO-CCD (Algorithm 2) for a model of `fully_shard`'s; see `ShardedSCCD` and `VROCCD`.

    The lagged point and the estimates are shards too: three vectors of P/k numbers on each of k
    ranks, the parameters included. `b` and `b_small` are sizes of the whole batch.
    """

    def __init__(
        self, model: nn.Module, loss_fn: Callable[..., Tensor], *, b: int,
        b_small: int | None = None, **options: Any,
    ) -> None:  # fmt: skip
        self.sizes = page_sizes(b, b_small)
        super().__init__(model, loss_fn, **options)
