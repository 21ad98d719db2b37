"""Cycles over the blocks of a net: sweeps, the lagged point, `core.cycle`, CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from torch import Tensor

from cyclade import core
from cyclade.blocks.lag import Lag
from cyclade.blocks.layout import NoEstimate
from cyclade.optim.blocks.order_lock import LockWatch
from cyclade.optim.capture.device_numbers import DeviceNumbers
from cyclade.optim.capture.graphs import Graphs, Recorder, side_stream
from cyclade.optim.capture.turn_graphs import TurnGraphs
from cyclade.optim.cycle.closures import ClosureLoss, ModelReplay, ModelSweep
from cyclade.optim.cycle.lags import OneCycleBehind, put_tape, tape_of
from cyclade.optim.cycle.prox import NetProx
from cyclade.optim.cycle.schedule import RefreshRule, Turns
from cyclade.optim.cycle.steps import NetSteps
from cyclade.optim.cycle.sweep import Checked, CheckedLag, StagedSweep
from cyclade.optim.net import Batch, FlatPoint, LivePoint, Net
from cyclade.optim.options import GroupOptions, baked_in
from cyclade.optim.ranks.distributed import OneProcess
from cyclade.optim.spectral import spectral_norms
from cyclade.optim.stages import Replay
from cyclade.optim.state import BlockState
from cyclade.regularisers import Regulariser, Zero


class CycleRunner:
    """Runs `core.cycle` on batches, once the blocks are known.

    `run` makes the turns of one step and nothing else: it is what CUDA graphs record. `step` adds
    what surrounds it: the first estimate g_{−1}, the curvature, the counters, and leaving
    everything as it was when a step fails.
    """

    def __init__(
        self,
        net: Net,
        options: GroupOptions,
        block_state: BlockState,
        turns: Turns,
        rule: RefreshRule,
        regs: list[Regulariser],
        *,
        curvature: tuple[int, int],
        ranks: OneProcess,
        capture: bool = False,
    ) -> None:
        self.net, self.options, self.block_state = net, options, block_state
        self.turns, self.rule, self.ranks = turns, rule, ranks
        turns.m = net.m
        self.point = LivePoint(net)
        turns.forget = block_state.forget
        masters = turns.visit_steps is not None
        self.steps = NetSteps(net, options, block_state, masters=masters)
        self.reg = NetProx(regs, options, self.steps)
        self.lock = LockWatch(net, options, block_state, fixed=turns.fixed)
        self.measured: int | None = None  # the cycle before which the curvature was last measured
        self.draws = 0  # batches used: where a sampler should stand when a run resumes
        self.graphs: Graphs | TurnGraphs | None = None  # TurnGraphs for an order that changes
        self._curvature_every, self._curvature_iterations = curvature
        self._lagged: Any = None
        self._estimates: FlatPoint | None = None
        self._norms = spectral_norms(net.model)
        self._now: Any = None  # the checked sweep of the step under way
        if capture:
            self._prepare_capture()

    # ------------------------------------------------------------------------------- one step

    def step(
        self, batches: list[Batch], refresh: bool, closure: Callable[[], Tensor] | None = None
    ) -> Tensor:
        """One step on these batches, or from a closure, called for every block; its first loss.

        If it fails before a block has moved, all is as it was but that a batch is used. If it fails
        halfway, a recursive method's lagged point is between two cycles, and only a refresh puts it
        right.
        """
        order = self.turns.memory()
        norms = [(norm, norm.u.clone(), norm.v.clone()) for norm, _ in self._norms]
        self._now = None
        self.draws += 1
        try:
            self.options.refresh()
            loss = self._move(batches, refresh, closure)
        except BaseException:
            if self._now is None or not self._now.moved:
                self.turns.recall(order)
                for norm, u, v in norms:
                    norm.u.copy_(u)
                    norm.v.copy_(v)
            else:
                self.rule.halfway = self.rule.recursive
            raise
        self.rule.halfway = False
        return loss

    def _move(self, batches: list[Batch], refresh: bool, closure: Any) -> Tensor:
        if refresh and closure is None:  # a small batch is too noisy to measure on
            self._measure_curvature(batches)
        if not self.rule.formed:
            return self._form(batches, closure)
        loss = self._cycle(self.turns.next(), batches, refresh, closure)
        self.turns.done()
        # Estimates that are corrected stay alike by themselves.
        if self.options.moments and not self.rule.recursive:
            self.lock.look(self.turns.cycles, loss)
        return loss

    def _form(self, batches: list[Batch], closure: Any) -> Tensor:
        """Algorithm 2, line 2: g_{−1} from a large batch at x_0; nothing moves."""
        if closure is not None:
            self.advance_norms()
        replays = self._replays(batches, closure, undoable=True)
        sweep = self._sweep(self.point, batches, replays, live=True)
        reduced = self.ranks.reduced(sweep, self.net, closure=closure is not None)
        now = self._now = Checked(reduced, replays, self.ranks.fault_report)
        found = [now.grad(j) for j in range(self.net.m)]
        g, lagged = self.estimates(), self.lag().point
        for j, gj in enumerate(found):
            g.set(j, gj)
            lagged.set(j, self.point.get(j))  # x_{−1} = x_0
        self.rule.formed = True
        return now.loss

    def _cycle(
        self, turns: list[int] | None, batches: list[Batch], refresh: bool, closure: Any
    ) -> Tensor:
        groups = self.options
        if groups.numbers is not None:
            groups.numbers.sync()
        if self.graphs is None or closure is not None:
            return self.run(turns, batches, refresh, check=True, closure=closure)
        baked = tuple(map(baked_in, groups.groups))
        both = ("lr", "weight_decay")
        alike = [groups.uniform(j, name) for j in range(self.net.m) for name in both]
        weights = tuple(batch.weight for batch in batches)
        options = (self.net.model.training, *baked, *alike, *weights)
        if isinstance(self.graphs, TurnGraphs):
            assert turns is not None
            return self.graphs.run(options, turns, batches)
        kind = (refresh, None if turns is None else tuple(turns), options)
        return self.graphs.run(
            kind, batches, lambda copies: self.run(turns, copies, refresh, check=False)
        )

    def run(
        self, turns: list[int] | None, batches: list[Batch], refresh: bool, *, check: bool,
        closure: Any = None,
    ) -> Tensor:  # fmt: skip
        """`core.cycle` over sweeps of the live and the lagged point; the loss at its start."""
        self.advance_norms()
        replays = self._replays(batches, closure, undoable=check)
        in_pieces = () if turns is None else self.in_pieces()  # a greedy order compares vectors
        sweep = self._sweep(self.point, batches, replays, live=True, in_pieces=in_pieces)
        now: Any = self.ranks.reduced(sweep, self.net, closure=closure is not None)
        lag, whole = self.lag(), now
        if not refresh:
            lag.board(self._sweep(lag.point, batches, replays, live=False))
            lag = self.ranks.corrected(now, lag, greedy=turns is None)
        if check:
            now = self._now = Checked(now, replays, self.ranks.fault_report)
            lag = lag if refresh else CheckedLag(lag, now)
        steps: Any = self.steps  # they have what a cycle asks for, and nothing of `minimize`
        visit: Iterable[int] = turns or self.turns.chosen_on_the_way(
            lambda: core.scores(now, self.reg, steps, self.net.m)
        )
        core.cycle(visit, now, lag, self.estimates(), self.reg, steps, refresh)
        lag.trim()
        loss: Tensor = whole.loss
        return loss

    # ------------------------------------------------------------------------ what cycles need

    def _replays(
        self, batches: list[Batch], closure: Any = None, *, undoable: bool = False
    ) -> list[Any]:
        """What repeats the draws and buffers of one step: shared by both its sweeps."""
        if closure is not None:
            return [ClosureLoss(self.net, self.ranks.closure(closure))]
        if self.net.whole_model and batches:
            return [ModelReplay(self.net, batches)]
        return [Replay(undoable=undoable) for _ in batches]

    def in_pieces(self) -> frozenset[int]:
        """The blocks whose step is plain, so that vectors may stay in pieces.

        None for estimates, which are vectors; none under capture, where lr lies on the device;
        none over several processes, as what is reduced is one vector.
        """
        eager = self.options.numbers is None and self.ranks.alone
        if self.rule.recursive or not self.reg.plain or not eager or self.net.whole_model:
            return frozenset()
        return frozenset(filter(self.options.plain, range(self.net.m)))

    def _sweep(
        self, point: LivePoint | FlatPoint, batches: list[Batch], replays: list[Any], *,
        live: bool, in_pieces: Collection[int] = (),
    ) -> StagedSweep | ModelSweep:  # fmt: skip
        """A sweep over `point` on these batches; only a live one moves buffers."""
        sign = self.options.sign
        if replays and not isinstance(replays[0], Replay):
            return ModelSweep(self.net, point, replays[0], live=live, sign=sign)
        return StagedSweep(
            self.net, point, batches, replays, live=live, sign=sign,
            in_pieces=in_pieces,
        )  # fmt: skip

    def estimates(self) -> Any:
        """g; nothing for a method that carries none."""
        if not self.rule.recursive:
            return NoEstimate()
        if self._estimates is None:
            self._estimates = FlatPoint(self.net, self.block_state.vectors("g", self.point))
        return self._estimates

    def lag(self) -> Any:
        """The lagged point: two points in a fixed order, a tape otherwise."""
        if not self.rule.recursive:
            return NoEstimate()
        if self._lagged is None:
            point = FlatPoint(self.net, self.block_state.vectors("lag", self.point))
            if self.turns.fixed:
                side = None if self.graphs is None else side_stream(point.flats[0].get_device())
                self._lagged = OneCycleBehind(point, side)
            else:
                self._lagged = Lag(self.point, point)
        return self._lagged

    @property
    def has_norms(self) -> bool:
        """Whether the model has spectral norms to advance."""
        return bool(self._norms)

    def advance_norms(self) -> None:
        """One power iteration of every spectral norm in the model."""
        for norm, weight in self._norms:
            norm.advance(weight)

    def _measure_curvature(self, batches: list[Batch]) -> None:
        if not self.options.curved:
            return
        cycles = self.turns.cycles
        if self.measured is None or cycles >= self.measured + self._curvature_every:
            sweep = self._sweep(self.point, batches, self._replays(batches), live=False)
            with self.net.chain.eager():  # compiled stages have no second derivatives
                whole = self.ranks.reduced(sweep, self.net)
                if self.steps.measure(whole, self._curvature_iterations):
                    self.measured = cycles

    # ------------------------------------------------------------------------ capture and state

    def _prepare_capture(self) -> None:
        if not all(isinstance(reg, Zero) for reg in self.reg.regs):
            raise ValueError(
                "capture=True takes weight decay but no reg=: regularisers read their step back "
                "from the device"
            )
        if self.net.whole_model or self.net.chain.random:
            raise ValueError(
                "capture=True cannot repeat random masks within a cycle: set dropout to 0 (and "
                "give modules of your own that draw nothing the attribute "
                "draws_random_numbers = False), or capture=False"
            )
        if self.turns.fixed:
            self.graphs = Graphs()
        elif self.net.chain.repeatable:
            self.graphs = TurnGraphs(self, Recorder())
        else:
            raise ValueError(
                "capture=True with an order that changes needs stages whose output does not depend "
                "on buffers that they move: take order='forward', or capture=False"
            )
        self._record_anew()

    def _record_anew(self) -> None:
        self.options.numbers = DeviceNumbers(self.options.groups)

    def forget_graphs(self) -> None:
        """Something that the CUDA graphs point to was replaced: record them again."""
        if self.graphs is not None:
            self.graphs.clear()
            self._record_anew()

    def state(self) -> dict[str, Any]:
        """Counters and the tape; vectors lie in the optimizer's state."""
        lagged = self._lagged
        return {
            "draws": self.draws,
            "measured": self.measured,
            "trail": tape_of(lagged) if isinstance(lagged, Lag) else {},
        }

    def load(self, state: dict[str, Any]) -> None:
        """Stand where `state` was taken."""
        self.draws, self.measured = int(state["draws"]), state["measured"]
        self._lagged = self._estimates = None
        if state["trail"]:
            lag = self.lag()
            put_tape(lag, state["trail"], lag.point.flats[0].device)
        self.forget_graphs()
