"""Ways to a starting point: a path's last solutions, easier penalties, easier losses."""

from __future__ import annotations

from typing import Any, Protocol


class Start(Protocol):
    """A way to a starting point, kept from one λ of a path to the next."""

    def advance(self, problem: Any, state: Any, max_passes: int) -> Any:
        """The state to solve `problem` from, given the last one; measured under this penalty."""
