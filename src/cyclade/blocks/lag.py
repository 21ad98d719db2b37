"""The lagged point: where each block's gradient estimate was formed.

Line 6 of Algorithm 2 subtracts ∇^j f_i(x_{k−2,j}): the gradient at the very point where g^j_{k−2}
was formed. Otherwise the error of g^j would no longer shrink with the steps (the Lemma on the
estimator's variance uses exactly this). In a fixed order that point trails the current one by one
cycle, so two points are enough. When the order changes between cycles it does not: blocks that came
before j last time may come after it now.

`Lag` covers every order with one mechanism: a tape of the updates made so far, back to the oldest
estimate in use, and a cursor on it. To form ∇^j f at the right place the cursor moves there,
undoing or redoing updates. In a fixed order that is one step forward per block, nothing more.

An order may leave a block alone for long (greedy ones do), and then updates pile up. The cursor
only ever stops where some estimate in use was formed, at one of at most m places, so updates of one
block between two such places are as good as one: from where it stood to where it went.
"""

from __future__ import annotations

from typing import Any

from cyclade._arrays import Array
from cyclade.files.objects import stored


@stored
class Lag:
    """A point that can stand wherever some g^j was formed."""

    def __init__(self, x0: Any, point: Any = None) -> None:
        """`x0` is a Point, or what can be read and copied like one; `point` a copy of it."""
        self.point: Any = x0.copy() if point is None else point
        self.tape: list[tuple[int, Array, Array]] = []  # updates (j, old, new), oldest first
        self.first = 0  # how many updates have been dropped from the front of the tape
        self.cursor = 0  # `point` is x after this many updates in all
        self.formed = [0] * x0.layout.m  # g^j was formed at x after this many updates
        self._at: Any = self.point  # what moves with the cursor: a sweep while one is boarded
        self._long = 4 * x0.layout.m  # the length at which it pays to merge updates

    def board(self, sweep: Any) -> None:
        """Take gradients from this sweep over `point`."""
        self._at = sweep

    def grad(self, j: int) -> Array:
        """∇^j f_S at the point where g^j was last formed."""
        self._seek(self.formed[j])
        return self._at.grad(j)

    def follow(self, j: int, old: Array, new: Array) -> None:
        """Note that g^j was formed here, and that block j now moves from `old` to `new`."""
        self.formed[j] = self.first + len(self.tape)
        self.tape.append((j, old, new))

    def trim(self) -> None:
        """Forget updates older than every estimate, merge others; let go of the sample."""
        oldest = min(self.formed)
        self._seek(max(self.cursor, oldest))
        self._at = self.point
        del self.tape[: oldest - self.first]
        self.first = oldest
        if len(self.tape) > self._long:
            self._merge()
            self._long = len(self.tape) + 4 * len(self.formed)  # so not at every trim

    def _merge(self) -> None:
        """Between two places where estimates were formed, one update a block; the same places."""
        stops = dict.fromkeys([*self.formed, self.cursor, self.first + len(self.tape)], -1)
        merged: list[tuple[int, Array, Array]] = []
        moved: dict[int, int] = {}  # where on `merged` the updates since the last stop are
        for time, (j, old, new) in enumerate(self.tape, self.first):
            if time in stops:
                stops[time] = self.first + len(merged)
                moved.clear()
            if j in moved:
                merged[moved[j]] = (j, merged[moved[j]][1], new)
            else:
                moved[j] = len(merged)
                merged.append((j, old, new))
        stops[self.first + len(self.tape)] = self.first + len(merged)
        self.formed = [stops[time] for time in self.formed]
        self.cursor = stops[self.cursor]
        self.tape = merged

    def _seek(self, time: int) -> None:
        while self.cursor < time:
            j, _, new = self.tape[self.cursor - self.first]
            self._at.set(j, new)
            self.cursor += 1
        while self.cursor > time:
            self.cursor -= 1
            j, old, _ = self.tape[self.cursor - self.first]
            self._at.set(j, old)
