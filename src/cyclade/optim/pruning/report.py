"""How sparse a model's weights are: zeros, dead rows and dead columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

__all__ = ["SparsityReport", "dead_slices", "sparsity", "table"]


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
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    return "\n".join([lines[0], "-" * (sum(widths) + 2 * len(widths) - 2), *lines[1:]])


def dead_slices(weight: Tensor, dim: int) -> Tensor:
    """Which slices along ``dim`` hold nothing but zeros."""
    zero = weight.detach() == 0
    return zero.transpose(0, dim).flatten(1).all(dim=1)


@dataclass
class SparsityReport:
    """One row per parameter with two or more dimensions; prints as a table.

    ``rows`` is a list of dicts (``pandas.DataFrame(report.rows)``) with the keys parameter, shape,
    size, zeros (the fraction of exact zeros), rows, dead_rows, columns, dead_columns. A row is a
    slice along dimension 0 (output features or channels), a column one along dimension 1 (input
    features or channels).
    """

    rows: list[dict[str, Any]]
    size: int
    """Entries of all these parameters."""
    zeros: float
    """The fraction of them that is exactly zero."""
    dead_rows: int
    dead_columns: int

    def __str__(self) -> str:
        lines = [
            [
                row["parameter"],
                "x".join(map(str, row["shape"])),
                f"{100 * row['zeros']:.1f} %",
                f"{row['dead_rows']} / {row['rows']}",
                f"{row['dead_columns']} / {row['columns']}",
            ]
            for row in self.rows
        ]
        rows, columns = (sum(row[key] for row in self.rows) for key in ("rows", "columns"))
        total = [
            "total",
            self.size,
            f"{100 * self.zeros:.1f} %",
            f"{self.dead_rows} / {rows}",
            f"{self.dead_columns} / {columns}",
        ]
        return table(["parameter", "shape", "zeros", "dead rows", "dead columns"], [*lines, total])


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
    size = zeros = 0
    for name, parameter in model.named_parameters():
        if is_lazy(parameter):
            raise ValueError(f"{name} has no shape yet: run the model on a batch first")
        if parameter.dim() < 2:
            continue
        number = parameter.numel()
        nothing = number - int(parameter.count_nonzero())
        dead = [int(dead_slices(parameter, dim).sum()) if number else 0 for dim in (0, 1)]
        size += number
        zeros += nothing
        rows.append(
            {
                "parameter": name,
                "shape": tuple(parameter.shape),
                "size": number,
                "zeros": nothing / number if number else 0.0,
                "rows": parameter.shape[0],
                "dead_rows": dead[0],
                "columns": parameter.shape[1],
                "dead_columns": dead[1],
            }
        )
    return SparsityReport(
        rows,
        size,
        zeros / size if size else 0.0,
        sum(row["dead_rows"] for row in rows),
        sum(row["dead_columns"] for row in rows),
    )
