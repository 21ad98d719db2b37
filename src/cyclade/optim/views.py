"""An optimizer as text, and as notebooks show it: its blocks and what they cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from statistics import median
from typing import TYPE_CHECKING

from cyclade.optim.proof.routes import in_words

if TYPE_CHECKING:
    from cyclade.optim.optimizer import CyclicOptimizer

HEAD = ("block", "name", "parameters", "cost", "lr")


def _rows(opt: CyclicOptimizer) -> list[tuple[str, ...]]:
    """The cells of each block; its cost is the share of an SGD step's multiply-adds."""
    net, costs = opt.net, opt.partitioning.block_costs(opt.net.blocks)
    out: list[tuple[str, ...]] = []
    for j, block in enumerate(net.blocks):
        size = sum(p.numel() for p in net.block_parameters(j))
        rates = {float(opt.param_groups[i]["lr"]) for i in block.groups}
        lr = f"{rates.pop():.3g}" if len(rates) == 1 else "several"
        share = costs[j] / max(sum(costs), 1e-300)
        cost = "?" if math.isnan(share) else f"{share:.1%}"
        out.append((str(j), block.name, f"{size:,}", cost, lr))
    return out


def _head(opt: CyclicOptimizer) -> str:
    blocks, stages = _counted(opt.net.m, "block"), _counted(len(opt.net.chain.stages), "stage")
    order = type(getattr(opt.order, "order", opt.order)).__name__.lower()  # not the check's name
    return f"{type(opt).__name__}: {blocks}, {stages} ({in_words(opt.route)}), order {order}"


def _counted(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _steps(opt: CyclicOptimizer) -> str:
    """The kind of the steps, with what goes into them."""
    kinds = {group["precondition"] or "plain" for group in opt.param_groups}
    words = [kinds.pop() if len(kinds) == 1 else "of several kinds"]
    for name in ("lr", "weight_decay", "momentum"):
        found = {float(group[name]) for group in opt.param_groups}
        if name != "momentum" or found != {0.0}:
            words.append(f"{name} {found.pop():.3g}" if len(found) == 1 else f"{name} by group")
    if any(group["nesterov"] for group in opt.param_groups):
        words.append("nesterov")
    return f"steps: {', '.join(words)}"


def _notes(opt: CyclicOptimizer) -> list[str]:
    """How steps are bounded, and what a cycle will cost, in words."""
    notes = [_steps(opt)]
    if opt.recursive:
        made = opt.rule.made
        batches = f"large batches b = {opt.b}, small ones b' = {opt.b_small}"
        notes.append(f"{batches}; refreshes so far {made[True]}, corrections {made[False]}")
    if opt.blocks_to_come:
        notes.append(f"layers so far; on the first batch they are merged into {opt.blocks_to_come}")
    for name, words in (
        ("clip_norm", "the gradient of a block is clipped at norm {}"),
        ("adagrad_norm", "the lr of a block is divided by √(1 + Σ‖g‖²/c²) over its cycles, c = {}"),
    ):
        found = {group[name] for group in opt.param_groups} - {None}
        if found:
            notes.append(words.format(" or ".join(f"{one:g}" for one in sorted(found))))
    turn = "cycle" if opt.visit_steps is None else "step"
    if opt.visit_steps is not None:
        notes.append(f"one block a step, {_counted(opt.visit_steps, 'step')} in a row")
    times = opt.predicted_overhead
    known = "known after the first step" if math.isnan(times) else f"{times:.2f}x an SGD step"
    on_cuda = next(iter(opt.net.parameters.values())).is_cuda  # whose clock this one is not
    if len(opt.seconds) == opt.seconds.maxlen and not on_cuda:
        known += f"; measured {1e3 * median(opt.seconds):.3g} ms (median of the last ten steps)"
    return [*notes, f"multiply-adds of a {turn}: {known}"]


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
    return "\n".join([_head(opt), table(HEAD, _rows(opt), 2), *_notes(opt)])


def html(opt: CyclicOptimizer) -> str:
    """The same table in HTML; it takes its colours from the page around it."""
    top = "".join(f'<th scope="col">{name}</th>' for name in HEAD)
    rows = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in _rows(opt)]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    words = "<br>".join(map(escape, _notes(opt)))
    return (
        f"<div><table><caption><b>{escape(_head(opt))}</b></caption><thead><tr>{top}</tr></thead>"
        f"<tbody>{body}</tbody></table><p>{words}</p></div>"
    )
