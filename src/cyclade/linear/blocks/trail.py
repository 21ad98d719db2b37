"""Along a path: the start at the next λ, foretold from the last two solutions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from cyclade.linear.blocks.certificate import judge
from cyclade.linear.blocks.engine import State
from cyclade.linear.blocks.problem import BlockProblem

Array = NDArray[Any]


@dataclass
class Solved:
    """A solution on the path, with its gradient."""

    lam: float
    x: Array
    z: Array
    c: Array
    g: Array


class Trail:
    """The last two solutions.

    Solutions are nearly linear in λ while the same blocks are in, and z, c and (for the squared
    loss) the gradient go along, so the line through the last two foretells the next without a look
    at X. It is used where it has the lower objective at the new λ.
    """

    def __init__(self) -> None:
        self.solved: list[Solved] = []
        self.panel: Any = None
        self.objective = 0.0  # at the last

    def add(self, lam: float, state: State) -> None:
        """A further solution."""
        assert state.measured is not None
        self.solved = [*self.solved[-1:], Solved(lam, state.x, state.z, state.c, state.measured.g)]
        self.panel, self.objective = state.panel, state.measured.objective

    def start(self, problem: BlockProblem, lam: float) -> State:
        """Where to begin at `lam`."""
        last = self.solved[-1]
        start = last
        if len(self.solved) == 2 and problem.quadratic and self.solved[0].lam > last.lam:
            ahead = self.ahead(lam)
            if value(problem, ahead) < value(problem, last):
                start = ahead
        state = State(start.x.copy(), start.c.copy(), start.z.copy(), panel=self.panel, near=True)
        state.measured = judge(problem, state.x, state.z, problem.gradient(state.z), start.g)
        return state

    def ahead(self, lam: float) -> Solved:
        """The point on the line through the last two."""
        a, b = self.solved
        t = (b.lam - lam) / (a.lam - b.lam)
        parts = [(getattr(a, name), getattr(b, name)) for name in ("x", "z", "c", "g")]
        x, z, c, g = (now + t * (now - old) for old, now in parts)
        return Solved(lam, x, z, c, g)


def value(problem: BlockProblem, at: Solved) -> float:
    """F at the λ of the problem."""
    return problem.smooth(at.z) + float(problem.reg.total(at.x))
