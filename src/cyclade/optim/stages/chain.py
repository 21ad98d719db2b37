"""A model as stages: its cut for one mode and one kind of call, and its replay on a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor, nn

from cyclade.optim._warn import warn_user
from cyclade.optim.stages import effects
from cyclade.optim.stages.effects import MAYBE, YES, RngState
from cyclade.optim.stages.inputs import Inputs, Signature, guess, signature
from cyclade.optim.stages.parts import Env, Guard, Part, StageInfo
from cyclade.optim.stages.structure import Mode

PROGRAM = "%program"  # the env's note of the cut it belongs to; no value can have this name


class Program:
    """Parts in execution order, and the ways into and out of their env."""

    def __init__(
        self,
        parts: Sequence[Part],
        enter: Callable[[list[Any]], Env] | None = None,
        leave: Callable[[Env], Any] = itemgetter("x"),
        fits: Callable[[list[Any]], bool] | None = None,
    ) -> None:
        self.fits = fits  # whether an export may serve a call of other sizes
        self.parts, self.infos = tuple(parts), [part.info for part in parts]
        self._enter, self.leave = enter, leave
        for part in self.parts:
            part.passes = (*part.passes, PROGRAM)

    def enter(self, inputs: Inputs, leaves: list[Any]) -> Env:
        """The env before the first stage."""
        if self._enter is None:  # modules
            env: Env = {"args": tuple(inputs.args), "kwargs": dict(inputs.kwargs)}
        else:
            env = self._enter(leaves)
        env[PROGRAM] = self
        return env


def shapes(leaves: Sequence[Any]) -> tuple[Any, ...]:
    """The shapes and types of the tensors among ``leaves``, which an export bakes in."""
    return tuple((v.shape, v.dtype, v.device) if isinstance(v, Tensor) else v for v in leaves)


_MOST = 8  # cuts kept for different modes and calls
_MANY = 16  # cuts that are worth a word


class CutWarning(UserWarning):
    """A model that is cut often, or that could not be cut, so that every replay runs all of it."""


@dataclass
class _Cut:
    """A program, and the conditions under which it holds."""

    mode: tuple[Any, ...]
    called: Signature | None
    shapes: tuple[Any, ...]
    program: Program
    proved: set[Any] = field(default_factory=set)  # (several micro-batches?, sizes)


class Chain:
    """A model as stages run one after the other.

    ``stages`` lists them with their parameters, ``how`` says how the model was cut. ``build`` cuts
    it anew when its mode (training flags, device, plain attributes) or the kind of call
    changes; the list of stages must stay the same then.
    """

    def __init__(
        self,
        model: nn.Module,
        how: str,
        build: Callable[[Signature | None, Inputs | None], Program],
        example: Inputs | None = None,
    ) -> None:
        called, leaves = (None, []) if example is None else signature(example)
        if called is None and how == "fx":
            called = guess(model)
        program = build(called, example)
        self.model, self.how, self._build = model, how, build
        self.stages: list[StageInfo] = program.infos
        self._mode = Mode(model, recorded=self._depends)
        self._compile: dict[str, Any] | None = None
        self._alone: set[Any] = set()  # sizes that need an export of their own
        self.cuts_made = 1  # when it grows, an older cut may have been dropped
        fixed = shapes(leaves) if how == "export" else ()
        self._cuts = [_Cut(self._mode.now(), called if self._depends else None, fixed, program)]

    @property
    def _depends(self) -> bool:
        """Whether the cut depends on how the model is called."""
        return self.how in ("fx", "export")

    @property
    def random(self) -> bool:
        """Whether a stage draws random numbers in the model's present mode.

        Python code that cannot be looked into counts until ``verify`` has watched it.
        """
        return any(
            part.random == YES or (part.random == MAYBE and part.drew is not False)
            for part in self._present().parts
        )

    def start(self, inputs: Inputs) -> Env:
        """The env before the first stage."""
        found, leaves = self._find(inputs)
        return (found or self._cut_for(inputs)).program.enter(inputs, leaves)

    def serves(self, inputs: Inputs) -> bool:
        """Whether such a call needs no new cut."""
        return self._find(inputs)[0] is not None

    def is_proved(self, inputs: Inputs, *, many: bool = False) -> bool:
        """Whether the stages for such a call, in the model's present mode, were proved.

        `many` asks for one of several micro-batches.
        """
        found, leaves = self._find(inputs)
        return found is not None and (many, self._sizes(leaves)) in found.proved

    def mark_proved(self, inputs: Inputs, *, many: bool = False) -> None:
        """Note that they were."""
        found, leaves = self._find(inputs)
        assert found is not None
        found.proved.add((many, self._sizes(leaves)))

    def cut_alone(self, inputs: Inputs) -> bool:
        """Cut anew for the sizes of this call; False if that was done already.

        An export leaves sizes open and may not know every condition on them.
        """
        found, leaves = self._find(inputs)
        sizes = self._sizes(leaves)
        if found is None or found.shapes == sizes:
            return False
        self._alone.add(sizes)
        return True

    @property
    def repeatable(self) -> bool:
        """Whether stages can run again without knowing how their first run began.

        Then no output depends on a buffer that a run moves, and nothing is drawn at random.
        """
        parts = self._present().parts
        return not self.random and all(part.idle.issuperset(part.state) for part in parts)

    def run(self, inputs: Inputs, tensors: Mapping[str, Tensor], *, live: bool = True) -> Env:
        """The env after the last stage, each run once."""
        env, replay = self.start(inputs), Replay()
        for i in range(len(self.stages)):
            env = replay.run(i, env, tensors, live=live)
        return env

    def output(self, env: Env) -> Any:
        """What the model returns, from the env after the last stage."""
        program: Program = env[PROGRAM]
        return program.leave(env)

    def compile(self, **options: Any) -> None:
        """Run every stage through ``torch.compile`` from now on."""
        self._compile = options
        self._apply_compile()

    @contextmanager
    def eager(self) -> Iterator[None]:
        """Run the stages as they are for a while, for comparing bits and counting operations."""
        kept, self._compile = self._compile, None
        self._apply_compile()
        try:
            yield
        finally:
            self._compile = kept
            self._apply_compile()

    def _apply_compile(self) -> None:
        for cut in self._cuts:
            for part in cut.program.parts:
                part.compile(self._compile)

    def _present(self) -> Program:
        """The latest cut for the model's present mode."""
        now = self._mode.now()
        for cut in self._cuts:
            if cut.mode == now:
                return cut.program
        if self.how == "export":
            raise ValueError(
                "the model's mode (training or eval, device) has changed since it was exported: "
                "call start() with a batch first"
            )
        called = self._cuts[0].called
        self._cuts.insert(0, _Cut(now, called, (), self._recut(None, called)))
        return self._cuts[0].program

    def _cut_for(self, inputs: Inputs) -> _Cut:
        """A new cut, for this call."""
        called, leaves = signature(inputs)
        fresh = _Cut(*self._key(called, leaves), self._recut(inputs, called))
        self.cuts_made += 1
        if self.cuts_made == _MANY and self._depends:
            name = self._mode.changed(self._cuts[0].mode, fresh.mode)
            why = "for calls of many kinds"
            if name:
                why = f"lately because {name!r} changed: make it a buffer, which stages read"
            warn_user(CutWarning(f"the model has been cut {_MANY} times, each with a proof, {why}"))
        self._cuts.insert(0, fresh)
        del self._cuts[_MOST:]
        return fresh

    def _key(self, called: Signature, leaves: list[Any]) -> tuple[Any, Signature | None, Any]:
        """What a cut depends on: the mode, the kind of call, and the sizes of an export."""
        return self._mode.now(), called if self._depends else None, self._sizes(leaves)

    def _sizes(self, leaves: list[Any]) -> tuple[Any, ...]:
        return shapes(leaves) if self.how == "export" else ()

    def _find(self, inputs: Inputs) -> tuple[_Cut | None, list[Any]]:
        """The cut that serves a call, which is moved to the front, and the leaves of the call."""
        called, leaves = signature(inputs)
        now, wanted, sizes = self._key(called, leaves)
        alike = [cut for cut in self._cuts if cut.mode == now and cut.called == wanted]
        found = next((cut for cut in alike if cut.shapes == sizes), None)
        if found is None and sizes not in self._alone:
            serves = (cut for cut in alike if cut.program.fits and cut.program.fits(leaves))
            found = next(serves, None)
        if found is not None and found is not self._cuts[0]:
            self._cuts.remove(found)
            self._cuts.insert(0, found)
        return found, leaves

    def _recut(self, inputs: Inputs | None, called: Signature | None) -> Program:
        try:
            program = self._build(called, inputs)
        except Exception as error:
            raise ValueError(
                f"the model was cut with {self.how!r}, but not in its present mode or for this "
                f"kind of call: {type(error).__name__}: {error}. Give example= when cutting, in "
                "the mode used for training"
            ) from error
        if program.infos != self.stages:
            old, new = [s.name for s in self.stages], [s.name for s in program.infos]
            raise ValueError(
                "the model has other stages in its present mode or for this kind of call: "
                f"{new} instead of {old}. Give example= when cutting, in the mode used for training"
            )
        for part in program.parts:
            part.compile(self._compile)
        return program


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
        self._program: Program | None = None
        self._memory: dict[int, _Memory] = {}
        self._undoable = undoable
        self._before: list[tuple[Tensor, Tensor]] = []  # buffers that moved, and as they were

    @classmethod
    def spent(cls, env: Env) -> Replay:
        """One in which every stage has run: it moves no buffers. For `repeatable` stages."""
        replay = cls()
        replay._program = env[PROGRAM]
        for i, part in enumerate(env[PROGRAM].parts):
            replay._memory[i] = _Memory(dict.fromkeys(part.state), None, moved=True)
        return replay

    def begun_now(self, i: int) -> Replay:
        """One in which stage i began as here, but with its buffers as they stand now."""
        assert self._program is not None
        buffers = _copies(self._program.parts[i])
        replay = Replay()
        replay._program = self._program
        replay._memory[i] = _Memory(buffers, self._memory[i].rng, moved=True)
        return replay

    @torch.no_grad()
    def undo(self) -> None:
        """Put the buffers back as they were before this replay moved them."""
        if not self._undoable:
            raise ValueError("only a replay made with undoable=True can be undone")
        for buffer, value in reversed(self._before):
            buffer.copy_(value)

    def run(self, i: int, env: Env, tensors: Mapping[str, Tensor], *, live: bool = True) -> Env:
        """The env after stage ``i``, from the env before it.

        ``tensors`` maps canonical parameter names to the tensors to use; the model's own
        parameters stand in for missing ones, as constants. With ``live=False`` buffers are not
        moved. The env given is not changed.
        """
        program: Program = env[PROGRAM]
        part = program.parts[i]
        if part.quiet:
            return part.run(env, tensors, None)
        if self._program is None:
            self._program = program
        elif self._program is not program:
            raise ValueError("one Replay serves one batch: call chain.replay() for each")
        memory = self._memory.get(i)
        first = memory is None
        if memory is None:
            memory = self._memory[i] = _Memory(_copies(part), _generators(part, env))
        guard: Guard | None = None
        if part.state:
            if memory.moved or not live:
                guard = {s: None if b is None else b.clone() for s, b in memory.buffers.items()}
            elif self._undoable:
                live_buffers = [slot.get() for slot in part.state]
                self._before += [(b, b.detach().clone()) for b in live_buffers]
            memory.moved = memory.moved or live
        if first or memory.rng is None:
            return part.run(env, tensors, guard)
        with effects.repeated(memory.rng):
            return part.run(env, tensors, guard)


def _copies(part: Part) -> dict[Any, Tensor | None]:
    return {s: None if s in part.idle else s.get().detach().clone() for s in part.state}


def _generators(part: Part, env: Env) -> RngState | None:
    """The state of the generators, where a stage may draw."""
    # While a CUDA graph is captured they cannot be asked.
    capturing = torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
    settled = part.random == MAYBE and part.drew is False and capturing
    if not part.random or settled:
        return None
    values = [env[name] for name in part.reads if name in env]
    own = [slot.get() for slot in (*part.direct, *part.swapped)]
    return effects.save_rng(effects.devices_of(values, own))
