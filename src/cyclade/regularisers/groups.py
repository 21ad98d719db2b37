"""The group lasso: an l2 norm, not squared, for every group of coordinates of a block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from cyclade._arrays import Array, Parameter, as_double, as_index
from cyclade._checks import non_negative
from cyclade.regularisers._index_lists import index_lists, require_cover
from cyclade.regularisers._roots import row_norms, secular_root
from cyclade.regularisers.base import Regulariser


def shrink_rows(u: Array, t: float | Array, threshold: float | Array) -> Array:
    """Return the prox of threshold ‖·‖_2 for every row of the matrix u.

    Scalar t: z = max(1 - threshold t / ‖u‖, 0) u. Diagonal t: z = 0 where ‖u/t‖ <= threshold;
    elsewhere z_i = ρ u_i / (ρ + threshold t_i), where ρ = ‖z‖ solves a secular equation.
    `threshold` is a number or a column with one entry per row.
    """
    xp = array_namespace(u)
    if isinstance(t, float):
        norms = row_norms(u)
        safe_norms = xp.where(norms > 0, norms, xp.ones_like(norms))
        return u * (1.0 - threshold * t / safe_norms).clip(0.0, None)
    steps, rows = as_double(t), as_double(u)
    vanishing = row_norms(rows / steps) <= threshold
    scaled_steps = steps * threshold
    # Rows that vanish have no root; ones keep their arithmetic finite, and they are dropped below.
    solvable = xp.where(vanishing, xp.ones_like(rows), rows)
    rho = secular_root(solvable, scaled_steps, xp.ones_like(rows))
    z = rho * solvable / (rho + scaled_steps)
    return xp.astype(xp.where(vanishing, xp.zeros_like(z), z), u.dtype)


class GroupL2(Regulariser):
    """The group lasso, r(u) = lam sum_g weight_g ‖u_g‖_2.

    `groups` is None (the whole block is one group), an integer axis k (the slices along axis k:
    k = 0 gives the rows of a matrix or the output channels of a convolution), or a list of lists
    of indices that partition the flattened block. `weights` holds one number >= 0 per group.

    The prox shrinks every group towards zero, with exact zeros; for diagonal t, the norm of each
    shrunk group is found by Newton on a secular equation, all groups at once.

    Examples
    --------
    >>> import numpy as np
    >>> GroupL2(5.0, groups=0).prox(np.array([[6.0, 8.0], [3.0, 4.0]]), 1.0)
    array([[3., 4.],
           [0., 0.]])
    >>> GroupL2(1.0, groups=[[0, 2], [1]]).value(np.array([3.0, -1.0, 4.0]))
    6.0
    """

    def __init__(
        self,
        lam: float,
        groups: int | Sequence[Sequence[int]] | None = None,
        weights: Sequence[float] | Array | None = None,
    ) -> None:
        self.lam = non_negative("GroupL2: lam", lam)
        self._axis: int | None = None
        self._order: Any = None  # the entries of the flat block, groups of one size side by side
        if isinstance(groups, (int, np.integer)) and not isinstance(groups, bool):
            self._axis = int(groups)
        elif groups is not None:
            accepted = "None, an integer axis or a list of index lists"
            members = index_lists("GroupL2", groups, accepted)
            sizes = np.array([len(indices) for indices in members])
            by_size = np.argsort(sizes, kind="stable")
            self._order = np.concatenate([members[g] for g in by_size])
            self._inverse, self._least = np.argsort(self._order), int(self._order.max()) + 1
            self._counts = np.unique(sizes, return_counts=True)
        self._weights = None if weights is None else Parameter("GroupL2: weights", weights)
        if self._weights is not None:
            array = self._weights.array
            if array.ndim != 1 or not (np.isfinite(array).all() and (array >= 0).all()):
                raise ValueError("GroupL2: weights must be a list of finite numbers >= 0")
            if self._order is not None:
                self._check_weights(len(members), "GroupL2")
                self._weights = Parameter("GroupL2: weights", array[by_size])

    def value(self, u: Array) -> float:
        """Return lam sum_g weight_g ‖u_g‖_2."""
        u = self._block(u)
        pieces = self._split(u)
        pairs = zip(pieces, self._thresholds(u, pieces), strict=True)
        return float(sum((row_norms(piece) * threshold).sum() for piece, threshold in pairs))

    def _prox(self, u: Array, t: float | Array) -> Array:
        self.check(tuple(u.shape), "u")
        pieces = self._split(u)
        rows = zip(pieces, self._diagonal(t, pieces), self._thresholds(u, pieces), strict=True)
        return self._join([shrink_rows(*row) for row in rows], u)

    def _distance(self, u: Array, v: Array, w: float | Array) -> float:
        xp = array_namespace(u)
        pieces = self._split(u)
        gradients, weights = self._split(v), self._diagonal(w, pieces)
        thresholds = self._thresholds(u, pieces)
        total = 0.0
        for rows, g, weight, threshold in zip(pieces, gradients, weights, thresholds, strict=True):
            norms = row_norms(rows)
            nonzero = norms > 0
            smooth = g + threshold * rows / xp.where(nonzero, norms, xp.ones_like(norms))
            # At zero ∂r is a ball, and by Moreau's identity the prox at -w v, with steps w, is
            # -w (v + s) for the nearest s in it.
            at_zero = shrink_rows(-weight * g, weight, threshold) / weight
            residual = xp.where(nonzero, smooth, at_zero)
            total += float((weight * residual * residual).sum())
        return math.sqrt(total)

    def check(self, shape: tuple[int, ...], where: str = "reg") -> None:
        """Raise ValueError if the groups or the weights do not fit a block of this shape."""
        if self._order is not None:
            if not self._order.size == math.prod(shape) == self._least:
                require_cover(f"{where}: GroupL2", self._order, math.prod(shape))
            return
        if self._axis is not None and not -len(shape) <= self._axis < len(shape):
            raise ValueError(
                f"{where}: GroupL2: axis {self._axis} is out of range for a block of shape "
                f"{tuple(shape)}"
            )
        self._check_weights(1 if self._axis is None else shape[self._axis], f"{where}: GroupL2")

    def _check_weights(self, count: int, owner: str) -> None:
        if self._weights is not None and self._weights.array.shape[0] != count:
            raise ValueError(
                f"{owner}: weights must have one entry for each of the {count} groups, "
                f"got {self._weights.array.shape[0]}"
            )

    def _split(self, u: Array) -> list[Array]:
        """Return matrices whose rows are the groups, one matrix per size of group."""
        if self._order is None:
            rows = u[None] if self._axis is None else array_namespace(u).moveaxis(u, self._axis, 0)
            return [rows.reshape(rows.shape[0], -1)]
        flat, pieces, start = u.reshape(-1)[as_index(self._order, u)], [], 0
        for size, count in zip(*map(np.ndarray.tolist, self._counts), strict=True):
            pieces.append(flat[start : start + count * size].reshape(count, size))
            start += count * size
        return pieces

    def _join(self, pieces: list[Array], u: Array) -> Array:
        """Undo `_split`."""
        xp = array_namespace(u)
        if self._order is not None:
            flat = xp.concat([piece.reshape(-1) for piece in pieces])
            return flat[as_index(self._inverse, u)].reshape(u.shape)
        if self._axis is None:
            return pieces[0].reshape(u.shape)
        moved_shape = xp.moveaxis(u, self._axis, 0).shape
        return xp.moveaxis(pieces[0].reshape(moved_shape), 0, self._axis)

    def _diagonal(self, t: float | Array, pieces: list[Array]) -> list[Any]:
        return [t] * len(pieces) if isinstance(t, float) else self._split(t)

    def _thresholds(self, u: Array, pieces: list[Array]) -> list[Any]:
        """Return lam times the weights: a number or a column for every matrix of `_split`."""
        if self._weights is None:
            return [self.lam] * len(pieces)
        column, thresholds, start = self.lam * self._weights.like(u).reshape(-1, 1), [], 0
        for piece in pieces:
            thresholds.append(column[start : start + piece.shape[0]])
            start += piece.shape[0]
        return thresholds

    def __repr__(self) -> str:
        parts = [f"{self.lam:g}"]
        if self._order is not None:
            parts.append(f"groups=<{self._counts[1].sum()} lists>")
        elif self._axis is not None:
            parts.append(f"groups={self._axis}")
        if self._weights is not None:
            parts.append(f"weights={self._weights!r}")
        return f"GroupL2({', '.join(parts)})"
