"""The shell: a `torch.optim.Optimizer` whose step is `core.cycle` along a staged sweep."""

from __future__ import annotations

import functools
import json
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from cyclade import core
from cyclade.lag import Lag, Nothing
from cyclade.optim import partition
from cyclade.optim.arguments import check_numbers, direction, rates_of, refuse_half
from cyclade.optim.batches import as_batches, as_inputs
from cyclade.optim.capture import Graphs, side_stream
from cyclade.optim.checked import Checked
from cyclade.optim.costs import overhead, stage_costs
from cyclade.optim.device_numbers import DeviceNumbers
from cyclade.optim.lags import OneCycleBehind, Rewound
from cyclade.optim.net import Batch, Block, FlatPoint, InPlace, LivePoint, Loss, Net
from cyclade.optim.prox import NetProx, net_regularisers
from cyclade.optim.spectral import spectral_norms
from cyclade.optim.stages import Chain, cut
from cyclade.optim.steps import NetSteps
from cyclade.optim.sweep import ClosureSweep, StagedSweep, exact_autocast
from cyclade.orders import Backward, Custom, Forward, Greedy, as_order
from cyclade.regularisers import Regulariser, Zero


class CyclicOptimizer(Optimizer):
    """Block after block, each along its exact gradient at the partly updated point, on one batch.

    The base of `SCCD`, `VROCCD`, `VRCCD`, `PAGE` and `SGD`, which see for the parameters.
    """

    name = "cyclic"
    one_block = False
    recursive = False  # carries an estimate g and a lagged point from step to step

    def __init__(
        self,
        model: nn.Module,
        loss_fn: Loss | None = None,
        lr: float | Tensor | Sequence[float] = 1e-2,
        *,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        nesterov: bool = False,
        clip_norm: float | None = None,
        maximize: bool = False,
        precondition: str | None = None,
        reg: Regulariser | Mapping[str, Regulariser] | None = None,
        blocks: int | Iterable[Any] | None = None,
        max_overhead: float | None = None,
        order: Any = "forward",
        example: Any = None,
        stages: Sequence[nn.Module] | None = None,
        capture: bool = False,
        compile: bool = False,
        curvature_every: int = 100,
        curvature_iterations: int = 10,
        damping: float = 1e-3,
        beta2: float = 0.999,
        eps: float = 1e-8,
        seed: int = 0,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"model must be an nn.Module, got {type(model).__name__}")
        if loss_fn is not None and not callable(loss_fn):
            raise TypeError(f"loss_fn must be callable or None, got {type(loss_fn).__name__}")
        check_numbers(
            weight_decay=weight_decay, momentum=momentum, nesterov=nesterov, clip_norm=clip_norm,
            precondition=precondition, damping=damping, beta2=beta2, eps=eps,
            curvature_every=curvature_every, curvature_iterations=curvature_iterations,
        )  # fmt: skip
        inputs = None if example is None else as_inputs(example)
        chain = cut(model, example=inputs, stages=stages)
        slope = getattr(loss_fn, "slope", None)
        if compile:
            chain.compile()
            loss_fn = None if loss_fn is None else torch.compile(loss_fn)
        self._costs = None if inputs is None else stage_costs(chain, inputs)
        chosen = self._blocks(model, chain, blocks, max_overhead, order)
        self.net = Net(model, loss_fn, chain, chosen, slope)
        defaults = {
            "lr": lr if isinstance(lr, Tensor) else 0.0, "weight_decay": float(weight_decay),
            "momentum": momentum, "nesterov": nesterov, "clip_norm": clip_norm,
            "maximize": maximize, "precondition": precondition, "damping": damping,
            "beta2": beta2, "eps": eps,
        }  # fmt: skip
        groups = [
            {"params": self.net.block_parameters(j), "name": block.name, "lr": rate}
            for j, (block, rate) in enumerate(zip(chosen, rates_of(lr, len(chosen)), strict=True))
        ]
        self._built = False
        super().__init__(groups, defaults)
        self._built = True
        self.order = as_order(order, self.net.m)
        self._fixed = isinstance(self.order, Forward | Backward | Custom)
        self._point = LivePoint(self.net)
        self._reg = NetProx(net_regularisers(reg, self.net), self._shrink)
        self._steps = NetSteps(self.net, self.param_groups, self._slot, self._rate)
        self._order_rng = np.random.default_rng(seed)
        self.cycles = 0
        self.draws = 0  # batches used: where a sampler should stand when a run resumes
        self._curvature = (curvature_every, curvature_iterations)
        self._measured: int | None = None  # the cycle before which the curvature was last measured
        self._verified = self._warned = False
        self._trail: Any = None
        self._norms = spectral_norms(model)
        self._now: Any = None  # the checked sweep of the step under way
        self._halfway = False  # whether the last step failed between two blocks
        self._graphs: Graphs | None = None
        self._numbers: DeviceNumbers | None = None
        if capture:
            self._prepare_capture()

    @property
    def _sign(self) -> float:
        return -1.0 if self.param_groups[0]["maximize"] else 1.0

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        raise TypeError(
            f"{type(self).__name__} belongs to its model: build a new one on the copied model and "
            "load_state_dict into it"
        )

    # ------------------------------------------------------------------------------ the blocks

    def _blocks(
        self, model: nn.Module, chain: Chain, blocks: Any, max_overhead: float | None, order: Any
    ) -> list[Block]:
        if blocks is not None and max_overhead is not None:
            raise ValueError("give blocks or max_overhead, not both")
        parts = partition.layers(model, chain)
        if self.one_block:
            return partition.merged(parts, [0])
        if isinstance(blocks, int) and not isinstance(blocks, bool):
            return (
                parts
                if blocks == len(parts)
                else partition.into(parts, self._known_costs(), blocks)
            )
        if max_overhead is not None:
            return partition.under(parts, self._known_costs(), max_overhead, direction(order))
        if blocks is None:
            return parts
        if isinstance(blocks, str) or not isinstance(blocks, Iterable):
            raise TypeError(
                "blocks must be a number, or a list of modules, their names, or lists of these, "
                f"got {type(blocks).__name__}"
            )
        return partition.named(model, chain, blocks)

    def _known_costs(self) -> list[float]:
        if self._costs is None:
            raise ValueError(
                "blocks=k and max_overhead weigh the layers by their cost, which needs example=, "
                "an input batch of the usual shape"
            )
        return self._costs

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Only while the optimizer is being built: the blocks are fixed by the model."""
        if self._built:
            raise ValueError("the blocks are fixed when the optimizer is built; build a new one")
        super().add_param_group(param_group)

    @property
    def predicted_overhead(self) -> float:
        """Multiply-adds of a cycle over those of an SGD step; NaN before the first batch."""
        if self._costs is None:
            return math.nan
        return overhead(self._costs, self.net.starts, direction(self.order), keep=False)

    def __repr__(self) -> str:
        share = [math.nan] * self.net.m
        if self._costs is not None:
            costs = partition.layer_costs(self.net.blocks, self._costs)
            share = [cost / max(sum(costs), 1e-300) for cost in costs]
        width = max(len(block.name) for block in self.net.blocks)
        rows = [f"{'block':>5}  {'name':<{width}}  {'parameters':>11}  {'cost':>6}  {'lr':>9}"]
        for j, group in enumerate(self.param_groups):
            size = sum(p.numel() for p in group["params"])
            part = "?" if math.isnan(share[j]) else f"{share[j]:.1%}"
            rows.append(
                f"{j:>5}  {group['name']:<{width}}  {size:>11,}  {part:>6}  "
                f"{float(group['lr']):>9.3g}"
            )
        cost = self.predicted_overhead
        predicted = "known after the first step" if math.isnan(cost) else f"{cost:.2f}x an SGD step"
        head = (
            f"{type(self).__name__}: {self.net.m} blocks, {len(self.net.chain.stages)} stages "
            f"(cut by {self.net.chain.how}), order {type(self.order).__name__.lower()}"
        )
        return "\n".join([head, *rows, f"predicted cost of a cycle: {predicted}"])

    # -------------------------------------------------------------------------------- one step

    @torch.no_grad()
    def step(self, inputs: Any = None, target: Any = None, *, refresh: bool | None = None) -> Any:
        """One cycle on a batch; returns the loss at its start.

        ``step(x, y)``; a tuple x is spread over the model's arguments, a dict gives keywords. A
        list of such pairs is one batch in micro-batches. ``step(closure)`` runs the closure once
        per block, for models that cannot be cut.
        """
        if inputs is None:
            raise TypeError(
                f"{type(self).__name__}.step needs the batch, step(x, y), or a closure: it runs "
                "the model itself, once per block. GradScaler.step and trainers that call step() "
                "without arguments do not fit; bfloat16 autocast needs no scaler"
            )
        refuse_half()
        if callable(inputs) and not isinstance(inputs, Tensor):
            return self._closure_step(inputs, refresh)
        batches = as_batches(inputs, target, own_loss=self.net.loss_fn is None)
        changed = self.net.changed()
        if changed is not None:
            raise RuntimeError(f"{changed} after the optimizer was built: build it afterwards")
        with exact_autocast():
            self._look_once(batches)
            size = sum(batch.size for batch in batches)
            again = self._refreshes(size, refresh)
            return self._guarded(lambda: self._move(batches, again))

    def _guarded(self, move: Callable[[], Tensor]) -> Tensor:
        """`move`; if it fails before a block has moved, all is as it was but that a batch is used.

        If it fails halfway, a recursive method's lagged point is between two cycles, and only a
        refresh puts it right.
        """
        order = self._order_memory()
        norms = [(norm, norm.u.clone(), norm.v.clone()) for norm, _ in self._norms]
        self._now = None
        self.draws += 1
        try:
            loss = move()
        except BaseException:
            if self._now is None or not self._now.moved:
                self._order_recall(order)
                for norm, u, v in norms:
                    norm.u.copy_(u)
                    norm.v.copy_(v)
            else:
                self._halfway = self.recursive
            raise
        self._halfway = False
        return loss

    def _order_memory(self) -> Any:
        return self._order_rng.bit_generator.state

    def _order_recall(self, memory: Any) -> None:
        self._order_rng.bit_generator.state = memory

    def _refreshes(self, size: int, refresh: bool | None) -> bool:
        """Whether a batch of this size refreshes g; without g, every batch does."""
        if refresh is False:
            raise ValueError(
                f"{type(self).__name__} carries no estimate that refresh=False corrects"
            )
        return True

    def _move(self, batches: list[Batch], refresh: bool) -> Tensor:
        """One cycle on these batches."""
        if refresh:  # a small batch is too noisy to measure on
            self._measure_curvature(batches)
        loss = self._cycle(self._turns(), batches, refresh)
        self._finish_cycle()
        return loss

    def _finish_cycle(self) -> None:
        self.cycles += 1

    def _turns(self) -> list[int] | None:
        """The turns of the next cycle; None when they can only be chosen on the way (greedy)."""
        return None if isinstance(self.order, Greedy) else self._round()

    def _round(self) -> list[int]:
        """The blocks of a whole cycle, in an order that does not ask for scores."""
        return list(self.order.turns(self.net.m, self._order_rng, list))

    def _cycle(self, turns: list[int] | None, batches: list[Batch], refresh: bool) -> Tensor:
        if self._graphs is None:
            return self._run(turns, batches, refresh, check=True)
        assert self._numbers is not None
        self._numbers.sync()
        fixed = ("momentum", "nesterov", "clip_norm", "precondition", "damping", "beta2", "eps")
        numbers = tuple(group[name] for group in self.param_groups for name in fixed)
        kind = (refresh, None if turns is None else tuple(turns), self.net.model.training, numbers)
        return self._graphs.run(
            kind, batches, lambda copies: self._run(turns, copies, refresh, check=False)
        )

    def _run(
        self, turns: list[int] | None, batches: list[Batch], refresh: bool, *, check: bool
    ) -> Tensor:
        """`core.cycle` over staged sweeps of the live and the lagged point."""
        self._advance_norms()
        replays = self._replays(batches, undoable=check)
        now = self._sweep(self._point, batches, replays, live=True)
        trail = self._lag()
        if not refresh:
            trail.board(self._sweep(trail.point, batches, replays, live=False))
        if check:
            self._now = Checked(now, replays)
        self._core(turns, self._now if check else now, trail, refresh)
        assert now.loss is not None
        return now.loss

    def _advance_norms(self) -> None:
        for norm, weight in self._norms:
            norm.advance(weight)

    def _replays(self, batches: list[Batch], *, undoable: bool = False) -> list[Any]:
        return [self.net.chain.replay(undoable=undoable) for _ in batches]

    def _sweep(
        self, point: Any, batches: list[Batch], replays: list[Any], *, live: bool
    ) -> StagedSweep:
        keep = not isinstance(self.order, Forward)
        return StagedSweep(self.net, point, batches, replays, live=live, keep=keep, sign=self._sign)

    def _checked_sweep(self, batches: list[Batch]) -> Checked:
        replays = self._replays(batches, undoable=True)
        checked = self._now = Checked(
            self._sweep(self._point, batches, replays, live=True), replays
        )
        return checked

    def _core(self, turns: list[int] | None, now: Any, trail: Any, refresh: bool) -> None:
        visit: Iterable[int]
        if turns is None:
            m = self.net.m
            visit = self.order.turns(
                m, self._order_rng, lambda: core.scores(now, self._reg, self._steps, m)
            )
        else:
            visit = turns
        core.cycle(visit, now, trail, self._estimates(), self._reg, self._steps, refresh)
        trail.trim()

    def _closure_step(self, closure: Callable[[], Tensor], refresh: bool | None) -> Tensor:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"step(closure) runs the closure once for each of the {self.net.m} blocks; "
                "step(x, y) does the same for far less",
                stacklevel=4,
            )
        if refresh is None and self.recursive:
            raise ValueError("step(closure) cannot see the batch size: give refresh=True or False")
        if any(group["precondition"] == "curvature" for group in self.param_groups):
            raise ValueError("precondition='curvature' needs the batch: step(x, y), not a closure")
        with exact_autocast():
            return self._guarded(lambda: self._closure_move(closure, refresh))

    def _closure_move(self, closure: Callable[[], Tensor], refresh: bool | None) -> Tensor:
        self._advance_norms()
        if self._numbers is not None:
            self._numbers.sync()
        now = ClosureSweep(self.net, self._point, closure, sign=self._sign)
        again = self._refreshes(0, True if refresh is None else refresh)
        trail = self._lag()
        if not again:
            trail.board(ClosureSweep(self.net, trail.point, closure, sign=self._sign))
        self._closure_cycle(now, trail, again)
        assert now.loss is not None
        return now.loss

    def _closure_cycle(self, now: Any, trail: Any, refresh: bool) -> None:
        self._now = Checked(now, [])
        self._core(self._turns(), self._now, trail, refresh)
        self._finish_cycle()

    def _look_once(self, batches: list[Batch]) -> None:
        """On the first batch: make sure the chain is the model, and count its cost."""
        if not self._verified:
            inputs = batches[0].inputs
            self.net.chain.verify(inputs)
            if self._costs is None:
                self._costs = stage_costs(self.net.chain, inputs)
            self._verified = True

    def _measure_curvature(self, batches: list[Batch]) -> None:
        every, iterations = self._curvature
        wanted = any(group["precondition"] == "curvature" for group in self.param_groups)
        if wanted and (self._measured is None or self.cycles >= self._measured + every):
            sweep = self._sweep(self._point, batches, self._replays(batches), live=False)
            if self._steps.measure(sweep, iterations):
                self._measured = self.cycles

    # ----------------------------------------------------------------------------------- state

    def _slot(self, j: int, name: str, make: Callable[[], Any]) -> Any:
        """Block j's place `name` in the optimizer's state, kept with its first parameter."""
        state = self.state[self.param_groups[j]["params"][0]]
        if name not in state:
            state[name] = make()
        return state[name]

    def _slots(self, name: str) -> list[Tensor]:
        """One vector a block in the optimizer's state, made from x on first use."""
        found = []
        for j in range(self.net.m):
            found.append(self._slot(j, name, functools.partial(self._point.get, j)))
        return found

    def _estimates(self) -> Any:
        return InPlace(self._slots("g")) if self.recursive else Nothing()

    def _lag(self) -> Any:
        """The lagged point: two points in a fixed order, a tape otherwise."""
        if not self.recursive:
            return Nothing()
        if self._trail is None:
            point = FlatPoint(self.net, self._slots("lag"))
            if self._fixed:
                side = None if self._graphs is None else side_stream(point.flats[0].get_device())
                self._trail = OneCycleBehind(point, side)
            else:
                self._trail = Rewound(Lag(self._point), point)
        return self._trail

    def _shrink(self, j: int, t: Any) -> Any:
        """1 + t·wd for block j; None without weight decay.

        With precondition="adam" the decay takes the plain lr, as in AdamW: with the step of a
        coordinate that hardly ever has a gradient it would wipe that coordinate out.
        """
        if self.param_groups[j]["precondition"] == "adam":
            t = self._rate(j)
        if self._numbers is None:
            decay = self.param_groups[j]["weight_decay"]
            return 1.0 + t * decay if decay > 0.0 else None
        if t is self._numbers.get("lr", j):  # without Λ_j it is known on the host
            return self._numbers.get("shrink", j)
        return 1.0 + t * self._numbers.get("weight_decay", j)

    def _rate(self, j: int) -> Any:
        return self.param_groups[j]["lr"] if self._numbers is None else self._numbers.get("lr", j)

    def _prepare_capture(self) -> None:
        if not self._fixed:
            raise ValueError("capture=True needs an order that stays: forward, backward or a list")
        parameters = list(self.net.parameters.values())
        if all(p.is_cuda for p in parameters):
            if self.net.chain.random:
                raise ValueError(
                    "capture=True cannot repeat random masks within a cycle: set dropout to 0 (and "
                    "give modules of your own that draw nothing the attribute "
                    "draws_random_numbers = False), or capture=False"
                )
            if not all(isinstance(reg, Zero) for reg in self._reg.regs):
                raise ValueError(
                    "capture=True takes weight decay but no reg=: regularisers read their step "
                    "back from the device"
                )
            self._graphs = Graphs()
            self._numbers = DeviceNumbers(self.param_groups)

    def state_dict(self) -> dict[str, Any]:
        """Everything: per-block tensors, counters, the order's generator and the tape."""
        state = super().state_dict()
        state["cyclade"] = {
            "cycles": self.cycles,
            "draws": self.draws,
            "measured": self._measured,
            "order_rng": json.dumps(self._order_rng.bit_generator.state),
            "trail": self._trail.memory() if isinstance(self._trail, Rewound) else {},
            **self._more_state(),
        }
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on exactly where `state_dict` was taken."""
        if "cyclade" not in state_dict:
            raise ValueError(
                f"this is not a state_dict of {type(self).__name__}: no 'cyclade' in it"
            )
        mine = state_dict["cyclade"]
        super().load_state_dict({k: state_dict[k] for k in ("state", "param_groups")})
        self._restore_dtypes(state_dict)
        self._steps = NetSteps(self.net, self.param_groups, self._slot, self._rate)
        self.cycles, self.draws = int(mine["cycles"]), int(mine["draws"])
        self._measured = mine["measured"]
        self._order_rng.bit_generator.state = json.loads(mine["order_rng"])
        self._trail = None
        self._load_more(mine)
        if mine["trail"]:
            self._lag().recall(mine["trail"])
        if self._graphs is not None:
            self._graphs.clear()
            self._numbers = DeviceNumbers(self.param_groups)

    def _restore_dtypes(self, state_dict: dict[str, Any]) -> None:
        """torch casts state to the dtype of a group's first parameter; take it as it was saved."""
        numbers = [i for group in state_dict["param_groups"] for i in group["params"]]
        params = [p for group in self.param_groups for p in group["params"]]
        for number, p in zip(numbers, params, strict=True):
            for name, value in state_dict["state"].get(number, {}).items():
                self.state[p][name] = _on(value, p.device)

    def _more_state(self) -> dict[str, Any]:
        return {}

    def _load_more(self, mine: dict[str, Any]) -> None:
        pass


def _on(value: Any, device: torch.device) -> Any:
    """Tensors (also in lists) on `device`, in the dtype they have."""
    if isinstance(value, Tensor):
        return value.to(device=device, copy=True)
    return [_on(entry, device) for entry in value] if isinstance(value, list) else value
