"""A model as stages: its cut for one mode and one kind of call, and its replay on a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from cyclade.optim._warn import warn_user
from cyclade.optim.stages import effects
from cyclade.optim.stages.effects import MAYBE, YES, RngState
from cyclade.optim.stages.inputs import Inputs, Signature, guess, signature
from cyclade.optim.stages.preserve import Places
from cyclade.optim.stages.stage import Env, Guard, Stage
from cyclade.optim.stages.structure import Mode

CUT = "%cut"  # the env's note of the cut it belongs to; no value can have this name

_MOST = 8  # cuts kept for different modes and calls
_MANY = 16  # cuts that are worth a word


class CutWarning(UserWarning):
    """A model that is cut often, or that could not be cut, so that every replay runs all of it."""


@dataclass(eq=False)
class Cut:
    """Stages in execution order, the ways into and out of their env, and when they hold.

    `fits` says whether an export may serve a call of other sizes than its own. `kind` is what the
    cut depends on beside them: the model's mode, and the signature of the call.
    """

    stages: tuple[Stage, ...]
    enter: Callable[[list[Any]], Env]  # from the leaves of a call
    leave: Callable[[Env], Any]
    fits: Callable[[list[Any]], bool] | None
    kind: tuple[Any, Signature | None] = (None, None)
    sizes: Any = ()
    proved: set[Any] = field(default_factory=set)  # (several micro-batches?, sizes)


class Chain:
    """A model as stages run one after the other.

    ``stages`` lists them with their parameters, ``how`` says how the model was cut. ``build`` cuts
    it anew when its mode (training flags, device, plain attributes) or the kind of call
    changes; the list of stages must stay the same then. ``warning`` says why it could not be cut,
    if so; with ``needs_example`` an example might give more stages.
    """

    def __init__(
        self,
        model: nn.Module,
        how: str,
        build: Callable[[Signature | None, Inputs | None], Cut],
        example: Inputs | None = None,
        warning: str = "",
        needs_example: bool = False,
    ) -> None:
        self.model, self.how, self._build = model, how, build
        self.warning, self.needs_example = warning, needs_example
        self._recorded = how in ("fx", "export")  # then a cut depends on how the model is called
        self._mode = Mode(model, recorded=self._recorded)
        self._compile: dict[str, Any] | None = None
        self._alone: set[Any] = set()  # sizes that need an export of their own
        called, leaves = self._call(example) if example is not None else (None, [])
        if called is None and how == "fx":
            called = guess(model)
        cut = build(called, example)
        cut.kind, cut.sizes = (self._mode.now(), called), self._sizes(leaves)
        self.stages, self._cuts, self._made = cut.stages, [cut], 1

    def warn(self) -> None:
        """Say why the model could not be cut, if it could not."""
        if self.warning:
            warn_user(CutWarning(self.warning))

    @property
    def random(self) -> bool:
        """Whether a stage draws random numbers in the model's present mode, as far as is known."""
        return any(
            stage.random == YES or (stage.random == MAYBE and stage.drew is not False)
            for stage in self._present().stages
        )

    @property
    def repeatable(self) -> bool:
        """Whether nothing is drawn, and no output depends on a buffer that a run moves."""
        stages = self._present().stages
        return not self.random and all(stage.idle.issuperset(stage.state) for stage in stages)

    def start(self, inputs: Inputs) -> Env:
        """The env before the first stage."""
        found, leaves = self._find(inputs)
        cut = found or self._cut_for(inputs)
        return {**cut.enter(leaves), CUT: cut}

    def serves(self, inputs: Inputs) -> bool:
        """Whether such a call needs no new cut."""
        return self._find(inputs)[0] is not None

    def is_proved(self, inputs: Inputs, *, many: bool = False) -> bool:
        """Whether stages were proved for such a call, or (`many`) such a micro-batch of several."""
        found, leaves = self._find(inputs)
        return found is not None and (many, self._sizes(leaves)) in found.proved

    def mark_proved(self, inputs: Inputs, *, many: bool = False) -> None:
        """Note that they were."""
        found, leaves = self._find(inputs)
        assert found is not None
        found.proved.add((many, self._sizes(leaves)))

    def cut_alone(self, inputs: Inputs) -> bool:
        """Cut anew for the sizes of this call, on which exports may depend; False if done."""
        found, leaves = self._find(inputs)
        sizes = self._sizes(leaves)
        if found is None or found.sizes == sizes:
            return False
        self._alone.add(sizes)
        return True

    def run(self, inputs: Inputs, tensors: Mapping[str, Tensor], *, live: bool = True) -> Env:
        """The env after the last stage, each run once."""
        env, replay = self.start(inputs), Replay()
        for i in range(len(self.stages)):
            env = replay.run(i, env, tensors, live=live)
        return env

    def output(self, env: Env) -> Any:
        """What the model returns, from the env after the last stage."""
        return env[CUT].leave(env)

    def compile(self, **options: Any) -> None:
        """Run every stage through ``torch.compile`` from now on."""
        self._compile_with(options)

    @contextmanager
    def eager(self) -> Iterator[None]:
        """Run the stages as they are for a while, for comparing bits and counting operations."""
        kept = self._compile
        self._compile_with(None)
        try:
            yield
        finally:
            self._compile_with(kept)

    def _compile_with(self, options: dict[str, Any] | None) -> None:
        self._compile = options
        for cut in self._cuts:
            for stage in cut.stages:
                stage.compile(options)

    def _call(self, inputs: Inputs) -> tuple[Signature | None, list[Any]]:
        """What a cut depends on of a call, and the leaves that it enters with."""
        if self._recorded:
            return signature(inputs)
        return None, [tuple(inputs.args), dict(inputs.kwargs)]

    def _sizes(self, leaves: list[Any]) -> tuple[Any, ...]:
        """The shapes and types of the tensors of a call, which an export bakes in."""
        if self.how != "export":
            return ()
        return tuple((v.shape, v.dtype, v.device) if isinstance(v, Tensor) else v for v in leaves)

    def _find(self, inputs: Inputs) -> tuple[Cut | None, list[Any]]:
        """The cut that serves a call, which is moved to the front, and the leaves of the call."""
        called, leaves = self._call(inputs)
        kind, sizes = (self._mode.now(), called), self._sizes(leaves)
        for cut in self._cuts:
            open_to = cut.fits if sizes not in self._alone else None
            if cut.kind == kind and (cut.sizes == sizes or (open_to and open_to(leaves))):
                if cut is not self._cuts[0]:
                    self._cuts.remove(cut)
                    self._cuts.insert(0, cut)
                return cut, leaves
        return None, leaves

    def _present(self) -> Cut:
        """The latest cut for the model's present mode."""
        now = self._mode.now()
        for cut in self._cuts:
            if cut.kind[0] == now:
                return cut
        if self.how == "export":
            raise ValueError(
                "the model's mode (training or eval, device) has changed since it was exported: "
                "call start() with a batch first"
            )
        return self._recut(None, (now, self._cuts[0].kind[1]), ())

    def _cut_for(self, inputs: Inputs) -> Cut:
        """A new cut, for this call."""
        called, leaves = self._call(inputs)
        former = self._cuts[0].kind[0]
        fresh = self._recut(inputs, (self._mode.now(), called), self._sizes(leaves))
        self._made += 1
        if self._made == _MANY and self._recorded:
            name = self._mode.changed(former, fresh.kind[0])
            why = "for calls of many kinds"
            if name:
                why = f"lately because {name!r} changed: make it a buffer, which stages read"
            warn_user(CutWarning(f"the model has been cut {_MANY} times, each with a proof, {why}"))
        return fresh

    def _recut(self, inputs: Inputs | None, kind: tuple[Any, Signature | None], sizes: Any) -> Cut:
        advice = "Give example= when cutting, in the mode used for training"
        try:
            cut = self._build(kind[1], inputs)
        except Exception as error:
            raise ValueError(
                f"the model was cut with {self.how!r}, but not in its present mode or for this "
                f"kind of call: {type(error).__name__}: {error}. {advice}"
            ) from error
        if [(s.name, s.params) for s in cut.stages] != [(s.name, s.params) for s in self.stages]:
            old, new = ([s.name for s in stages] for stages in (self.stages, cut.stages))
            raise ValueError(
                "the model has other stages in its present mode or for this kind of call: "
                f"{new} instead of {old}. {advice}"
            )
        for stage in cut.stages:
            stage.compile(self._compile)
        cut.kind, cut.sizes = kind, sizes
        self._cuts = [cut, *self._cuts[: _MOST - 1]]
        return cut


@dataclass
class _Memory:
    """How a stage's first run in a replay began."""

    buffers: dict[Any, Tensor | None]  # None for those that the output ignores
    rng: RngState | None
    moved: bool = False


class Replay:
    """Runs stages on one batch, again and again, as if the model had been called once.

    Buffers such as running statistics move with a stage's first live run only; random draws of
    its first run are repeated by all later ones.
    """

    def __init__(self, undoable: bool = False) -> None:
        self._cut: Cut | None = None
        self._memory: dict[int, _Memory] = {}
        self._undoable = undoable
        self._before: list[Places] = []  # buffers that moved, as they were

    @classmethod
    def spent(cls, env: Env) -> Replay:
        """One in which every stage has run: it moves no buffers. For `repeatable` stages."""
        replay = cls()
        replay._cut = env[CUT]
        for i, stage in enumerate(env[CUT].stages):
            replay._memory[i] = _Memory(dict.fromkeys(stage.state), None, moved=True)
        return replay

    def undo(self) -> None:
        """Put the buffers back as they were before this replay moved them."""
        for places in reversed(self._before):
            places.restore()

    def run(self, i: int, env: Env, tensors: Mapping[str, Tensor], *, live: bool = True) -> Env:
        """The env after stage ``i``, from the env before it.

        ``tensors`` maps canonical parameter names to the tensors to use; the model's own
        parameters stand in for missing ones, as constants. With ``live=False`` buffers are not
        moved. The env given is not changed.
        """
        cut: Cut = env[CUT]
        stage = cut.stages[i]
        if stage.quiet:
            return stage.run(env, tensors, None)
        if self._cut is None:
            self._cut = cut
        elif self._cut is not cut:
            raise ValueError("one Replay serves one batch: make another for each")
        memory = self._memory.get(i)
        first = memory is None
        if memory is None:
            copies = {s: None if s in stage.idle else s.get().detach().clone() for s in stage.state}
            memory = self._memory[i] = _Memory(copies, _generators(stage, env))
        guard: Guard | None = None
        if stage.state:
            if memory.moved or not live:
                guard = {s: None if b is None else b.clone() for s, b in memory.buffers.items()}
            elif self._undoable:
                self._before.append(Places((slot.store, slot.attr) for slot in stage.state))
            memory.moved = memory.moved or live
        if first or memory.rng is None:
            return stage.run(env, tensors, guard)
        with effects.repeated(memory.rng):
            return stage.run(env, tensors, guard)


def _generators(stage: Stage, env: Env) -> RngState | None:
    """The state of the generators, where a stage may draw."""
    # While a CUDA graph is captured they cannot be asked.
    capturing = torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
    settled = stage.random == MAYBE and stage.drew is False and capturing
    if not stage.random or settled:
        return None
    values = [env[name] for name in stage.reads if name in env]
    own = [slot.get() for slot in (*stage.direct, *stage.swapped)]
    return effects.save_rng(values, own)
