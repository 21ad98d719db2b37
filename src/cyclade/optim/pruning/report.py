"""How sparse a model's weights are: zeros, dead rows and dead columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

__all__ = ["SparsityReport", "dead_slices", "shaped", "sparsity", "table"]


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Plain text, the first column to the left and the others to the right.

    Example
    -------
    >>> print(table(["layer", "size"], [["first", 12], ["b", 3]]))
    layer  size
    -----------
    first    12
    b         3
    """
    cells = [[str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for first, *others in cells:
        right = (c.rjust(width) for c, width in zip(others, widths[1:], strict=True))
        lines.append("  ".join([first.ljust(widths[0]), *right]).rstrip())
    return "\n".join([lines[0], "-" * (sum(widths) + 2 * len(widths) - 2), *lines[1:]])


def dead_slices(weight: Tensor, dim: int) -> Tensor:
    """Which slices along ``dim`` hold nothing but zeros."""
    zero = weight.detach() == 0
    return zero.transpose(0, dim).flatten(1).all(dim=1)


def shaped(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """The model's parameters by name; an error where one has no shape yet."""
    found = list(model.named_parameters())
    for name, parameter in found:
        if is_lazy(parameter):
            raise ValueError(f"{name} has no shape yet: run the model on a batch first")
    return found


@dataclass
class SparsityReport:
    """One row per parameter with two or more dimensions; prints as a table.

    ``rows`` is a list of dicts (``pandas.DataFrame(report.rows)``) with the keys parameter, shape,
    size, zeros (the fraction of exact zeros), rows, dead_rows, columns, dead_columns. A row is a
    slice along dimension 0 (output features or channels), a column one along dimension 1 (input
    features or channels).
    """

    rows: list[dict[str, Any]]

    @property
    def size(self) -> int:
        """Entries of all these parameters."""
        return self._sum("size")

    @property
    def zeros(self) -> float:
        """The fraction of them that is exactly zero."""
        number: int = sum(round(row["zeros"] * row["size"]) for row in self.rows)
        return number / max(self.size, 1)

    @property
    def dead_rows(self) -> int:
        """Rows that hold nothing but zeros."""
        return self._sum("dead_rows")

    @property
    def dead_columns(self) -> int:
        """Columns that hold nothing but zeros."""
        return self._sum("dead_columns")

    def _sum(self, key: str) -> int:
        return sum(int(row[key]) for row in self.rows)

    def __str__(self) -> str:
        total = {key: self._sum(key) for key in ("rows", "dead_rows", "columns", "dead_columns")}
        lines = [
            [name, shape, f"{100 * row['zeros']:.1f} %"]
            + [f"{row[f'dead_{side}']} / {row[side]}" for side in ("rows", "columns")]
            for name, shape, row in [
                *((row["parameter"], "x".join(map(str, row["shape"])), row) for row in self.rows),
                ("total", self.size, {"zeros": self.zeros, **total}),
            ]
        ]
        return table(["parameter", "shape", "zeros", "dead rows", "dead columns"], lines)


@torch.no_grad()
def sparsity(model: nn.Module) -> SparsityReport:
    """Count exact zeros, dead rows and dead columns of all parameters with two or more dimensions.

    Tied parameters count once. `cyclade.optim.prune` removes what is dead.

    Example
    -------
    >>> import torch
    >>> from torch import nn
    >>> model = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1))
    >>> with torch.no_grad():
    ...     _ = model[0].weight.fill_(1.0)
    ...     _ = model[0].weight[1].zero_()
    ...     _ = model[2].weight.fill_(1.0)
    >>> print(sparsity(model))
    parameter  shape   zeros  dead rows  dead columns
    -------------------------------------------------
    0.weight     2x3  50.0 %      1 / 2         0 / 3
    2.weight     1x2   0.0 %      0 / 1         0 / 2
    total          8  37.5 %      1 / 3         0 / 5
    """
    rows: list[dict[str, Any]] = []
    for name, parameter in shaped(model):
        if parameter.dim() < 2:
            continue
        number = parameter.numel()
        row: dict[str, Any] = {"parameter": name, "shape": tuple(parameter.shape), "size": number}
        row["zeros"] = (number - int(parameter.count_nonzero())) / max(number, 1)
        for dim, side in enumerate(("rows", "columns")):
            row[side] = parameter.shape[dim]
            row[f"dead_{side}"] = int(dead_slices(parameter, dim).sum()) if number else 0
        rows.append(row)
    return SparsityReport(rows)
