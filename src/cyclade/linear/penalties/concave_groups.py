"""Group MCP and group SCAD: whole groups are kept or dropped, and large ones are not shrunk."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar

from cyclade._checks import above
from cyclade.linear.penalties import formulas
from cyclade.linear.penalties.joined import GroupL2
from cyclade.linear.penalties.scalar import BY_NAME, Array

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["GroupMCP", "GroupSCAD"]


class ConcaveGroups(GroupL2):
    """Σ_k h(‖x_{G_k}‖_2; λ w_k, γ) with h concave; `groups`, `weights` and `positive` as there."""

    convex: ClassVar[bool] = False
    least: ClassVar[float]  # γ is above it

    def __init__(
        self, lam: float = 1.0, gamma: float = 3.0, groups: Any = 1,
        weights: Sequence[float] | Array | None = None, positive: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(lam, groups, weights, positive)
        self.gamma = above(f"{type(self).__name__}: gamma", gamma, self.least)

    def straighter(self, times: float) -> Self:
        """The same with γ so many times as large: less nonconvex."""
        other = copy(self)
        other.gamma = times * self.gamma
        return other

    def _shown(self) -> list[str]:
        return [f"gamma={self.gamma:g}", *super()._shown()]


class GroupMCP(ConcaveGroups):
    """The minimax concave penalty of the norms of groups.

    r(x) = Σ_k h(‖x_{G_k}‖_2), where h(u) = λ_k u − u²/(2γ) up to u = γ λ_k and constant beyond,
    with λ_k = λ w_k. γ > 1; large values approach the group lasso.

    Examples
    --------
    >>> penalty = GroupMCP(1.0, gamma=2.0, groups=2, weights=[1.0])
    >>> penalty.prox([0.9, 1.2], 1.0, 0)  # of norm 1.5
    array([0.6, 0.8])
    >>> penalty.prox([6.0, 8.0], 1.0, 0)
    array([6., 8.])
    """

    norm_kind = formulas.MCP
    least = 1.0


class GroupSCAD(ConcaveGroups):
    """The smoothly clipped absolute deviation of the norms of groups.

    r(x) = Σ_k h(‖x_{G_k}‖_2), where h has the slope λ_k up to λ_k, 0 beyond γ λ_k, and falls on a
    line in between, with λ_k = λ w_k. γ > 2; large values approach the group lasso.

    Examples
    --------
    >>> GroupSCAD(1.0, groups=2, weights=[1.0]).prox([6.0, 8.0], 1.0, 0)
    array([6., 8.])
    """

    norm_kind = formulas.SCAD
    least = 2.0

    def __init__(
        self, lam: float = 1.0, gamma: float = 3.7, groups: Any = 1,
        weights: Sequence[float] | Array | None = None, positive: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(lam, gamma, groups, weights, positive)


BY_NAME.update({"group_mcp": GroupMCP, "group_scad": GroupSCAD})
