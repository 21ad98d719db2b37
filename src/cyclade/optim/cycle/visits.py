"""One block at a time, for several steps: what moves it lies in memory during its visit alone."""

from __future__ import annotations

from typing import Any

from cyclade.optim.cycle.schedule import Turns
from cyclade.sampling.orders import Order


class Visits(Turns):
    """Every block for `steps` steps in a row, each on a batch of its own; then the next block.

    `forget` is called with a block when its visit is over. Both moments of Adam, the count of its
    updates and the float32 copy of the block go then, and begin anew at the next visit.
    """

    def __init__(self, order: Order, seed: int, steps: int) -> None:
        super().__init__(order, seed, one_at_a_time=True)
        self.visit_steps: int = steps

    def whole(self) -> list[int]:
        """The blocks of all steps of one pass over the blocks."""
        return [j for j in super().whole() for _ in range(self.visit_steps)]

    def done(self) -> None:
        """A step was made; after the last one of a visit its block has nothing left."""
        j = self._pending[0]
        super().done()
        if len(self._pending) % self.visit_steps == 0:
            self.forget(j)

    def state(self) -> dict[str, Any]:
        """Plain values to resume from, inside a visit too."""
        return {**super().state(), "visit_steps": self.visit_steps}
