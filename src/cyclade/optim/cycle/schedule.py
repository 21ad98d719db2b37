"""The schedule of a run: which blocks a step moves, and whether its batch refreshes g."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from cyclade.optim._warn import warn_user
from cyclade.sampling.orders import Backward, Custom, Forward, Greedy, Order

ONLY_LARGE = 20  # batches; where none of so many was small, a recursive method warns


class Turns:
    """The turns of each step: a whole cycle, or (`one_at_a_time`, VR-CCD) the next block of one.

    With `visit_steps` a block has that many steps in a row, each on a batch of its own. When its
    visit is over, `forget` is called with it: what moves it lies in memory during the visit alone.
    """

    def __init__(
        self, order: Order, seed: int, *, one_at_a_time: bool = False,
        visit_steps: int | None = None,
    ) -> None:  # fmt: skip
        self.order, self.visit_steps = order, visit_steps
        self.one_at_a_time = one_at_a_time or visit_steps is not None
        self.m = 0  # set once the blocks are known
        self.forget: Callable[[int], None]
        self.cycles = 0
        self.fixed = isinstance(order, Forward | Backward | Custom)
        self._rng = np.random.default_rng(seed)
        self._pending: list[int] = []  # the rest of a cycle taken one block at a time
        if self.one_at_a_time and isinstance(order, Greedy):
            raise ValueError(
                "order='greedy' compares blocks on one batch, but here every block has its own: "
                "take another order"
            )

    def next(self) -> list[int] | None:
        """The turns of the next step; None when they can only be chosen on the way (greedy)."""
        if isinstance(self.order, Greedy):
            return None
        if self._pending:
            return [self._pending[0]]
        turns = list(self.order.turns(self.m, self._rng, list))
        if not self.one_at_a_time:
            return turns
        self._pending = np.repeat(turns, self.visit_steps or 1).tolist()
        return [self._pending[0]]

    def chosen_on_the_way(self, scores: Callable[[], list[float]]) -> Iterable[int]:
        """The turns of a cycle that looks at the scores of the blocks before each turn."""
        return self.order.turns(self.m, self._rng, scores)

    def done(self) -> None:
        if self.one_at_a_time:
            j = self._pending.pop(0)
            if self.visit_steps is not None and len(self._pending) % self.visit_steps == 0:
                self.forget(j)
        if not self._pending:
            self.cycles += 1

    def memory(self) -> Any:
        """What a failed step puts back."""
        drawn = None if self.fixed else self._rng.bit_generator.state
        return drawn, list(self._pending)

    def recall(self, memory: Any) -> None:
        drawn, self._pending = memory
        if drawn is not None:
            self._rng.bit_generator.state = drawn

    def state(self) -> dict[str, Any]:
        more: dict[str, Any] = {"pending": list(self._pending)} if self.one_at_a_time else {}
        if self.visit_steps is not None:
            more["visit_steps"] = self.visit_steps
        rng = json.dumps(self._rng.bit_generator.state)
        return {"cycles": self.cycles, "order_rng": rng, **more}

    def load(self, state: dict[str, Any]) -> None:
        if state.get("visit_steps") != self.visit_steps:
            raise ValueError(
                f"the state was saved with visit_steps={state.get('visit_steps')} (None: without "
                f"resident='block'), but this optimizer has {self.visit_steps}: give the same"
            )
        self.cycles = int(state["cycles"])
        self._rng.bit_generator.state = json.loads(state["order_rng"])
        self._pending = list(state.get("pending", []))


class RefreshRule:
    """When a batch refreshes g (Algorithm 2): one of b samples does, one of b' corrects it."""

    def __init__(self, name: str, b: int | None = None, b_small: int | None = None) -> None:
        self.name, self.b, self.b_small = name, b or 0, b_small or 0
        self.recursive = b is not None
        self.formed = not self.recursive  # whether the first large batch has formed g_{−1}
        self.halfway = False  # whether the last step failed between two blocks
        self.made = {True: 0, False: 0}  # refreshes and corrections so far, in this process

    def refreshes(self, size: int, refresh: bool | None) -> bool:
        """Whether a batch of this size refreshes g."""
        if not self.recursive:
            if refresh is False:
                raise ValueError(f"{self.name} carries no estimate that refresh=False corrects")
            return True
        if refresh is None:
            if size < self.b_small:
                raise ValueError(
                    f"a batch of {size} is smaller than b_small = {self.b_small}: use drop_last, "
                    "a PageBatchSampler, or refresh="
                )
            refresh = size >= self.b
        if self.halfway and not refresh:
            raise ValueError(
                "the last step failed between two blocks, so the estimates no longer fit: the next "
                f"batch must be a large one (b = {self.b}), or give refresh=True"
            )
        if not self.formed and not refresh:
            raise ValueError(
                f"the first batch must be a large one (b = {self.b}): it forms the first estimate "
                f"of the gradient; got {size}. PageBatchSampler(len(dataset)) makes such batches"
            )
        return refresh

    def count(self, again: bool, *, asked: bool) -> None:
        """Count a refresh or a correction; warn where corrections do not come."""
        self.made[again] += 1
        never = self.made == {True: ONLY_LARGE, False: 0} and not asked
        if never and self.recursive and self.b_small < self.b:
            warn_user(
                UserWarning(
                    f"each of the first {ONLY_LARGE} batches had b = {self.b} samples or more, so "
                    f"that {self.name} refreshed its estimate in every step and reduced no "
                    "variance: give the DataLoader batch_sampler=PageBatchSampler(len(dataset)). "
                    "Where this is meant (p = 1), give step refresh=True"
                )
            )

    def state(self) -> dict[str, Any]:
        return {"formed": self.formed, "halfway": self.halfway} if self.recursive else {}

    def load(self, state: dict[str, Any]) -> None:
        if self.recursive:
            self.formed, self.halfway = bool(state["formed"]), bool(state["halfway"])
