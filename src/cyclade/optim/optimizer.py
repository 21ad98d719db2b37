"""The shell: a `torch.optim.Optimizer` whose step is `core.cycle` along a staged sweep."""

from __future__ import annotations

import inspect
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from cyclade._checks import function, whole_number
from cyclade.optim import arguments, views
from cyclade.optim._warn import warn_user
from cyclade.optim.batches import Count, as_inputs
from cyclade.optim.blocks.costs import CostWarning
from cyclade.optim.blocks.partitioning import Partitioning
from cyclade.optim.cycle.prox import net_regularisers, no_decay_names
from cyclade.optim.cycle.schedule import RefreshRule, Turns
from cyclade.optim.cycle.sweep import exact_autocast
from cyclade.optim.net import Block, Loss, Net
from cyclade.optim.options import GroupOptions
from cyclade.optim.proof.routes import ProofReport, Routes
from cyclade.optim.ranks.distributed import GlobalBatch, ranks_of
from cyclade.optim.runner import CycleRunner
from cyclade.optim.stages.preserve import in_turn
from cyclade.optim.state import BlockState, check_state, restore_dtypes
from cyclade.regularisers import Regulariser
from cyclade.sampling.orders import Order, OrderName, as_order

if TYPE_CHECKING:
    from typing_extensions import Self

_DEAR = 3.0  # SGD steps; a cycle that costs more is warned about


class CyclicOptimizer(torch.optim.Optimizer):
    """Block after block, each along its exact gradient at the partly updated point, on one batch.

    The base of `SCCD`, `VROCCD`, `VRCCD`, `PAGE` and `SGD`, which see for the parameters.
    """

    name: ClassVar[str] = "cyclic"
    one_block = False
    one_at_a_time = False  # moves one block a step
    visit_steps: int | None = None  # steps in a row on the block that alone has Adam's state
    recursive = False  # carries an estimate g and a lagged point from step to step
    b: Any = None  # samples of a large batch and of a small one, where they differ
    b_small: Any = None

    __signature__: ClassVar[inspect.Signature]

    def __init_subclass__(cls) -> None:
        """Signatures show every parameter, also those that a method hands on to this class."""
        super().__init_subclass__()
        cls.__signature__ = arguments.signature_of(cls)

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Refuse options that there are not, by name; remember the others."""
        arguments.check_names(cls.__name__, options, cls.__signature__)
        self = super().__new__(cls)
        self.__dict__["_given"] = (args, options)
        return self

    def __init__(
        self, model: nn.Module, loss_fn: Loss | None = None,
        lr: float | Tensor | Sequence[float] | None = None, *,
        weight_decay: float = 0.0, no_decay: str | Iterable[str] = (),
        momentum: float = 0.0, nesterov: bool = False,
        clip_norm: float | None = None, clip_total_norm: float | None = None,
        adagrad_norm: float | None = None, maximize: bool = False,
        precondition: str | None = None, reg: Regulariser | Mapping[str, Regulariser] | None = None,
        blocks: int | str | Iterable[Any] | None = None, max_overhead: float | None = None,
        order: OrderName | Sequence[int] | Order | None = None, example: Any = None,
        stages: Sequence[nn.Module] | None = None,
        capture: bool = False, compile: bool = False,
        curvature_every: int = 100, curvature_iterations: int = 10, damping: float | None = None,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        seed: int = 0, process_group: Any = None,
        batch_size: Callable[[Any], int] | None = None,
        resident: str | None = None, visit_steps: int = 50,
    ) -> None:  # fmt: skip
        model = arguments.check_model(model, precondition)
        arguments.check_loss(loss_fn, model)
        if batch_size is not None:
            function("batch_size", batch_size, "a function of the inputs that counts their samples")
        whole_number("curvature_every", curvature_every, 1)
        whole_number("curvature_iterations", curvature_iterations, 1)
        steps = arguments.StepOptions(
            lr, weight_decay, momentum, nesterov, clip_norm, clip_total_norm, adagrad_norm,
            maximize, precondition, damping, betas, eps,
        )  # fmt: skip
        steps.check()
        if resident is not None:
            arguments.check_resident(self, resident, visit_steps, steps, reg=reg, capture=capture)
            self.visit_steps, steps.precondition = int(visit_steps), "adam"
        kind = {"one_block": self.one_block, "recursive": self.recursive}
        imaginary = any(p.is_complex() for p in model.parameters())
        steps.complete(**kind, imaginary=imaginary)
        order = steps.default_order(**kind, capture=capture) if order is None else order
        self._ranks = ranks_of(process_group)
        self._ranks.broadcast_model(model)
        inputs = None if example is None else as_inputs(example)
        self._loss_fn, self._batch_size = loss_fn, batch_size
        again = not capture and self.visit_steps is None
        with in_turn(alone=True):
            self._routes = Routes(
                model, inputs, stages, compile=compile, recursive=self.recursive, again=again
            )
        self.partitioning = Partitioning(
            model, self._routes.chain, blocks, max_overhead, order, one_block=self.one_block,
            alone=self.one_at_a_time or self.visit_steps is not None,
            resident=self.visit_steps is not None,
        )  # fmt: skip
        chain, loss = self._routes.chain, torch.compile(loss_fn) if compile and loss_fn else loss_fn
        self.net = Net(model, loss, chain, self.partitioning.placed(chain))
        m, names = self.partitioning.m, [block.name for block in self.net.blocks]
        turns = as_order(order, m, names if len(names) == m else ())  # merged later: no names yet
        self.partitioning.order = turns
        self.net.weigh_losses = self._ranks.synchronised
        self._routes.net, self._routes.partitioning = self.net, self.partitioning
        groups = self.partitioning.groups
        super().__init__(
            [
                {"params": [self.net.parameters[n] for n in one.params], "name": one.name, "lr": lr}
                for one, lr in zip(groups, arguments.rates_of(steps.lr, len(groups)), strict=True)
            ],
            steps.defaults(),
        )
        if inputs is not None:
            self.partitioning.count(self.net.chain, inputs)
        self.run_options = arguments.shared_options(self, loss_fn, order, seed)
        settled = self._routes.settled and self.partitioning.ready  # blocks need no batch
        said = {**self.run_options, "whether the blocks are known (example=)": settled}
        self._seed = self._ranks.agree(said)["seed"]
        self._turns = Turns(
            turns, self._seed, one_at_a_time=self.one_at_a_time, visit_steps=self.visit_steps
        )
        if capture:
            parameters, alone = self.net.parameters.values(), self._ranks.alone
            arguments.check_capture(self._turns, parameters, recursive=self.recursive, alone=alone)
        self.rule = RefreshRule(type(self).__name__, self.b, self.b_small)
        self._reg, self._capture = reg, capture
        self._no_decay = no_decay_names(no_decay, self.net)
        net_regularisers(reg, self.net)  # before the first batch, so that errors come at once
        self._curvature = (curvature_every, curvature_iterations)
        self._runner: CycleRunner | None = None
        self._warned: set[str] = set()
        self._fed: list[tuple[Any, float | None]] = []  # micro-batches and weights for step()
        self.seconds: deque[float] = deque(maxlen=10)  # of the last steps, by the clock
        self._loss: Tensor | None = None  # of the last step
        if settled:
            self._arrange(self.partitioning.choose(self.net.chain), first=True)

    # ------------------------------------------------------------------------------ the blocks

    @property
    def runner(self) -> CycleRunner:
        """What runs the cycles; there is one once the blocks are known."""
        if self._runner is None:
            raise RuntimeError(
                "the blocks are chosen on the first batch: give example=, or make a step"
            )
        return self._runner

    @property
    def order(self) -> Order:
        """In which order a cycle visits the blocks."""
        return self._turns.order

    @property
    def runs_on(self) -> int:
        """How many ranks share every batch."""
        return self._ranks.size

    @property
    def cycles(self) -> int:
        """Cycles done."""
        return self._turns.cycles

    @property
    def draws(self) -> int:
        """Batches used: where a sampler should stand when a run resumes."""
        return 0 if self._runner is None else self._runner.draws

    @property
    def route(self) -> str:
        """How the model is run: cut by "stages=", "sequential", "fx" or "export".

        Else not cut: "whole" is one stage, "model" the model itself.
        """
        return self._routes.how

    @property
    def predicted_overhead(self) -> float:
        """Multiply-adds of a cycle over those of an SGD step; NaN before the first batch."""
        return math.nan if self._runner is None else self.partitioning.overhead(self.net.blocks)

    @property
    def blocks_to_come(self) -> str:
        """Into what the first batch will merge the layers; "" once they are blocks."""
        by_cost = self._runner is None and self.partitioning.by_cost
        return str(self.partitioning) if by_cost else ""

    def _arrange(self, blocks: list[Block], *, first: bool = False) -> None:
        """Get ready to run cycles over these blocks; at `first` over those of the first rank.

        On other ranks a batch may have cost something else.
        """
        net = self.net
        if first:
            names = [list(block.params) for block in blocks]
            agreed = self._ranks.agree({"blocks": names})["blocks"]
            blocks = blocks if agreed == names else self.partitioning.saved(net.chain, agreed)
        net.arrange(blocks)
        self._routes.chosen = True
        self._runner = CycleRunner(
            net, GroupOptions(net, self.param_groups, self._no_decay), BlockState(net, self.state),
            self._turns, self.rule, net_regularisers(self._reg, net),
            curvature=self._curvature, ranks=self._ranks, capture=self._capture,
        )  # fmt: skip

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Only while the optimizer is being built: the blocks are fixed by the model."""
        if "_runner" in vars(self):
            raise ValueError("the blocks are fixed when the optimizer is built; build a new one")
        super().add_param_group(param_group)

    __repr__ = views.text
    _repr_html_ = views.html

    # -------------------------------------------------------------------------------- one step

    @torch.no_grad()
    def step(  # type: ignore[override]  # the first argument may also be a batch
        self,
        inputs: Any = None,
        target: Any = None,
        *,
        closure: Callable[[], Any] | None = None,
        refresh: bool | None = None,
        weights: Sequence[float] | None = None,
    ) -> Any:
        """One cycle on a batch; returns the loss at its start.

        ``step(x, y)``; a tuple x is spread over the model's arguments, a dict gives keywords. A
        list of such pairs is one batch in micro-batches, weighed by their samples (or by the labels
        that PyTorch's losses do not ignore) unless `weights` are given. ``step(closure)`` runs the
        closure once per block, for trainers that have the batch and will not hand it over; for
        those that call ``step()`` there is `feed`.
        """
        if self._fed and inputs is None and weights is None:  # some trainers add a closure
            inputs, weights = self._take_fed()
        elif self._fed:
            raise ValueError("step got a batch, but another one was fed and waits for step()")
        elif closure is not None:
            if inputs is not None:
                raise TypeError("give step a batch or a closure, not both")
            inputs = closure
        if inputs is None:
            raise TypeError(
                f"{type(self).__name__}.step needs the batch, step(x, y), or a closure: it runs "
                "the model itself, once per block. A trainer that calls step() without arguments "
                "must be given the batch before: override training_step (or what it is called "
                "there) with opt.feed(x, y) in place of the backward pass. GradScaler.step does "
                "not fit; bfloat16 autocast needs no scaler"
            )
        if callable(inputs) and not isinstance(inputs, Tensor):
            if weights is not None:
                raise TypeError("weights are for micro-batches: a closure weighs its own")
            return self._closure_step(inputs, refresh)
        with exact_autocast():
            batch = self._global_batch(inputs, target, weights, refresh)
            prove = partial(self._routes.prove, batch.batches, self.draws)
            if self._ranks.prove(prove, batch):
                self._take_proved()
            again = self.rule.refreshes(batch.size, refresh)
            begun = time.perf_counter()
            with self._drawing():
                self._loss = self.runner.step(batch.batches, again)
            self.rule.count(again, asked=refresh is not None)
            self.seconds.append(time.perf_counter() - begun)
        return self._loss

    def _global_batch(
        self, inputs: Any, target: Any, weights: Any, refresh: bool | None, *, prove: bool = False
    ) -> GlobalBatch:
        count = Count(self._batch_size, matters=self.recursive and refresh is None)
        return self._ranks.global_batch(
            (inputs, target, self._loss_fn, weights, count), refresh, draws=self.draws,
            ready=lambda batches: not prove and self._routes.ready(batches, self.draws),
            groups=self.param_groups,
        )  # fmt: skip

    @contextmanager
    def _drawing(self) -> Iterator[None]:
        """A context in which the model draws its random numbers, which are the process's own."""
        draws = self.net.whole_model or self.net.chain.random
        others = threading.active_count() > 1  # threads that may train too
        turn = in_turn(alone=draws) if others else nullcontext()
        with turn, self._ranks.drawing(self._seed, self.draws, self.net):
            yield

    @torch.no_grad()
    def prove(self, inputs: Any, target: Any = None) -> ProofReport:
        """Prove the gradients again on this batch, as before the first step; nothing moves.

        The proof takes all samples, at the present point and at one beside it, where parameters
        that are zero are not. What it shows, and what it cannot see: `docs/design/nets.md`.
        """
        with exact_autocast():
            batch = self._global_batch(inputs, target, None, True, prove=True)
            prove = partial(self._routes.prove, batch.batches, self.draws, thorough=True)
            self._ranks.prove(lambda every: prove(True), batch)
            self._take_proved()
        return ProofReport(self.route, self.net.m, tuple(self._routes.unseen))

    def feed(self, inputs: Any, target: Any = None, *, weight: float | None = None) -> Tensor:
        """Give a batch to the next ``step()``, which a trainer calls without arguments.

        Batches fed one after the other are micro-batches of one step, as accumulated gradients are;
        `weight` is what this one counts (its labels, say), as the `weights` of `step`. Returns the
        loss of the last step for the trainer's log; NaN before the first.
        """
        self._fed.append((inputs if self._loss_fn is None else (inputs, target), weight))
        return torch.full((), math.nan) if self._loss is None else self._loss.detach()

    def _take_fed(self) -> tuple[list[Any], list[float] | None]:
        batches, weights = zip(*self._fed, strict=True)
        self._fed = []
        given = [weight for weight in weights if weight is not None]
        if given and len(given) < len(weights):
            raise ValueError("feed got a weight for some micro-batches only: give one for each")
        return list(batches), given or None

    def _closure_step(self, closure: Callable[[], Tensor], refresh: bool | None) -> Tensor:
        if refresh is None and self.recursive:
            raise ValueError("step(closure) cannot see the batch size: give refresh=True or False")
        arguments.check_closure(self.param_groups, self.net.parameters)
        self._routes.check_parameters()
        if self._runner is None:  # a closure costs a pass for every block
            self._arrange(self.partitioning.for_closures(self.net.chain))
        self._warn_once(
            UserWarning(
                f"step(closure) runs the closure once for each of the {self.net.m} blocks; "
                "step(x, y) does the same for far less"
            )
        )
        again = self.rule.refreshes(0, True if refresh is None else refresh)
        self._ranks.check_closure(refresh, self.draws, self.param_groups)
        with exact_autocast(), self._drawing():
            self._loss = self.runner.step([], again, closure)
        self.rule.count(again, asked=True)
        return self._loss

    def _take_proved(self) -> None:
        """What follows from a proof: the blocks stand, and graphs recorded before it do not."""
        if self._runner is None:
            self._arrange(self.net.blocks, first=True)
        else:
            self._runner.forget_graphs()
        cost = self.predicted_overhead
        if cost > _DEAR:
            self._warn_once(
                CostWarning(
                    f"a cycle over these {self.net.m} blocks costs {cost:.1f} SGD steps: fewer "
                    "blocks (max_overhead=2, or blocks=None) cost less"
                )
            )

    # ------------------------------------------------------------------- saving, loading, copying

    def __reduce__(self) -> Any:
        """Copied and pickled as its arguments (the model among them) and its state."""
        args, options = self.__dict__["_given"]
        options = {name: value for name, value in options.items() if name != "process_group"}
        return _built_again, (type(self), args, options, self.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """Everything: per-block tensors, counters, the order's generator and the tape."""
        state = super().state_dict()
        blocks: list[list[str]] | None = None
        counters: dict[str, Any] = {"draws": 0, "measured": None, "trail": {}}
        if self._runner is not None:
            blocks = [list(block.params) for block in self.net.blocks]
            counters = self._runner.state()
        held = {k: sorted(map(str, values)) for k, values in state["state"].items() if values}
        state["cyclade"] = {
            "method": self.name, "blocks": blocks, "held": held, **counters, **self._turns.state(),
            **self.rule.state(),
        }  # fmt: skip
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on exactly where `state_dict` was taken."""
        own = check_state(self, state_dict)
        super().load_state_dict({k: state_dict[k] for k in ("state", "param_groups")})
        for group in self.param_groups:  # older states do not know it
            group.setdefault("adagrad_norm", None)
        restore_dtypes(self, state_dict)
        self._turns.load(own)
        self.rule.load(own)
        blocks = self.net.blocks  # where the state is from before the first batch
        if own["blocks"] is not None:
            blocks = self.partitioning.saved(self.net.chain, own["blocks"])
        elif self._runner is None:
            return
        self._arrange(blocks)
        self.runner.load(own)

    def _warn_once(self, warning: Warning) -> None:
        kind = type(warning).__name__
        if kind not in self._warned:
            self._warned.add(kind)
            warn_user(warning)


def _built_again(cls: Any, args: Any, options: Any, state: dict[str, Any]) -> CyclicOptimizer:
    optimizer: CyclicOptimizer = cls(*args, **options)
    optimizer.load_state_dict(state)
    return optimizer


CyclicOptimizer.__signature__ = arguments.signature_of(CyclicOptimizer)
