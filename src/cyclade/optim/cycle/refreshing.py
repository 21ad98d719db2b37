"""Which batches refresh the estimates g of a recursive method, and which correct them."""

from __future__ import annotations

from typing import Any


class EveryBatch:
    """SCCD and SGD carry no estimate: every batch gives the gradient itself."""

    recursive = False

    def __init__(self, name: str) -> None:
        self._name = name
        self.formed = True  # there is no g_{−1} to form
        self.halfway = False

    def refreshes(self, size: int, refresh: bool | None) -> bool:
        """Always."""
        if refresh is False:
            raise ValueError(f"{self._name} carries no estimate that refresh=False corrects")
        return True

    def state(self) -> dict[str, Any]:
        """Nothing to remember."""
        return {}

    def load(self, state: dict[str, Any]) -> None:
        """Nothing to remember."""


class LargeBatches:
    """A batch of at least b samples refreshes g; one of at least b' corrects it (Algorithm 2)."""

    recursive = True

    def __init__(self, b: int, b_small: int) -> None:
        self.b, self.b_small = b, b_small
        self.formed = False  # whether the first large batch has formed g_{−1}
        self.halfway = False  # whether the last step failed between two blocks

    def refreshes(self, size: int, refresh: bool | None) -> bool:
        """Whether a batch of this size refreshes g."""
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
                f"of the gradient; got {size}"
            )
        return refresh

    def state(self) -> dict[str, Any]:
        """Plain values to resume from."""
        return {"formed": self.formed, "halfway": self.halfway}

    def load(self, state: dict[str, Any]) -> None:
        """Stand where `state` was taken."""
        self.formed, self.halfway = bool(state["formed"]), bool(state["halfway"])
