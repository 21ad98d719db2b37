"""An optimizer as text, and as notebooks show it: its blocks and what they cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cyclade.optim.optimizer import CyclicOptimizer

HEAD = ("block", "name", "parameters", "cost", "lr")


class Row(NamedTuple):
    """A block: its name, parameters, share of an SGD step's multiply-adds (or NaN), and lr."""

    name: str
    size: int
    share: float
    lr: str

    def cells(self, j: int) -> tuple[str, str, str, str, str]:
        """As shown in a table."""
        cost = "?" if math.isnan(self.share) else f"{self.share:.1%}"
        return str(j), self.name, f"{self.size:,}", cost, self.lr


def rows(opt: CyclicOptimizer) -> list[Row]:
    """One row a block."""
    net, costs = opt.net, opt.partitioning.block_costs(opt.net.blocks)
    out = []
    for j, block in enumerate(net.blocks):
        size = sum(p.numel() for p in net.block_parameters(j))
        rates = {float(opt.param_groups[i]["lr"]) for i in block.groups}
        lr = f"{rates.pop():.3g}" if len(rates) == 1 else "several"
        out.append(Row(block.name, size, costs[j] / max(sum(costs), 1e-300), lr))
    return out


def head(opt: CyclicOptimizer) -> str:
    """Method, blocks, stages, order."""
    return (
        f"{type(opt).__name__}: {counted(opt.net.m, 'block')}, "
        f"{counted(len(opt.net.chain.stages), 'stage')} (cut by {opt.route}), "
        f"order {type(opt.order).__name__.lower()}"
    )


def counted(n: int, what: str) -> str:
    """The number and what it counts, in the plural but for one."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def cost(opt: CyclicOptimizer) -> list[str]:
    """What a cycle will cost, in words."""
    times, words = opt.predicted_overhead, []
    if opt.blocks_to_come:
        words.append(f"layers so far; on the first batch they are merged into {opt.blocks_to_come}")
    clips = {group["clip_norm"] for group in opt.param_groups} - {None}
    if clips:
        norms = " or ".join(f"{clip:g}" for clip in sorted(clips))
        words.append(f"the gradient of a block is clipped at norm {norms}")
    sums = {group["adagrad_norm"] for group in opt.param_groups} - {None}
    if sums:
        c = " or ".join(f"{one:g}" for one in sorted(sums))
        words.append(f"the lr of a block is divided by √(1 + Σ‖g‖²/c²) over its cycles, c = {c}")
    if opt.for_short_runs:
        words.append(
            "default lr, for the first epochs; on longer runs momentum=0.9, precondition='adam' or "
            "an lr that falls get further"
        )
    known = "known after the first step" if math.isnan(times) else f"{times:.2f}x an SGD step"
    if opt.visit_steps is not None:
        words.append(f"one block a step, {counted(opt.visit_steps, 'step')} in a row")
    turn = "cycle" if opt.visit_steps is None else "step"
    if (
        len(opt.seconds) == opt.seconds.maxlen
        and not next(iter(opt.net.parameters.values())).is_cuda
    ):
        known += f"; measured {1e3 * median(opt.seconds):.3g} ms (median of the last ten steps)"
    return [*words, f"multiply-adds of a {turn}: {known}"]


def table(head: Sequence[str], rows: Iterable[Sequence[object]], left: int = 1) -> str:
    """Plain text, the first `left` columns to the left and the others to the right."""
    cells = [[str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        pairs = enumerate(zip(row, widths, strict=True))
        line = [c.ljust(width) if k < left else c.rjust(width) for k, (c, width) in pairs]
        lines.append("  ".join(line).rstrip())
    return "\n".join([lines[0], "-" * (sum(widths) + 2 * len(widths) - 2), *lines[1:]])


def text(opt: CyclicOptimizer) -> str:
    """A table in plain text."""
    cells = (row.cells(j) for j, row in enumerate(rows(opt)))
    return "\n".join([head(opt), table(HEAD, cells, 2), *cost(opt)])


def html(opt: CyclicOptimizer) -> str:
    """The same table in HTML; it takes its colours from the page around it."""
    top = "".join(f'<th scope="col">{name}</th>' for name in HEAD)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row.cells(j)) + "</tr>"
        for j, row in enumerate(rows(opt))
    )
    words = "<br>".join(escape(line) for line in cost(opt))
    return (
        f"<div><table><caption><b>{escape(head(opt))}</b></caption><thead><tr>{top}</tr></thead>"
        f"<tbody>{body}</tbody></table><p>{words}</p></div>"
    )
