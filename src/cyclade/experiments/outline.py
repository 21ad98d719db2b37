"""A plan in a few sentences: what will happen, before it begins; what was seen, at its end."""

from __future__ import annotations

from pathlib import Path

from cyclade.experiments.plans import Plan


def outline(plan: Plan, out: str | Path) -> str:
    """What a plan will do, where its results go, and that it may be stopped."""
    parts = [f"{other.name} first, whose runs it shows" for other in plan.shows]
    grids = {plan.tuning(curve): curve.lrs for curve in plan.curves if curve.lrs}
    if grids:
        count = sum(len(lrs or ()) for lrs in grids.values())
        curves = f"{len(grids)} curve{'s' if len(grids) > 1 else ''}"
        parts.append(f"{count} runs to find the learning rates of {curves}")
    finals = sum(len(plan.runs(curve)) for curve in plan.curves)
    if finals:
        parts.append(f"{finals} runs with them" if grids else f"{finals} runs")
    if plan.timed:
        parts.append(f"{len(plan.timed)} runs that are timed alone")
    parts.append("a page with every curve, table and claim")
    small = ", in small" if plan.quick else ""
    return (
        f"{plan.title}{small}\n{plan.question}\n"
        f"What will be done: {'; '.join(parts)}.\n"
        f"It goes to {Path(out) / plan.name}; Ctrl-C loses nothing, the same command goes on."
    )


def findings(root: str | Path) -> str:
    """The verdict on every claim of a plan; empty where it claims nothing."""
    from cyclade.experiments.report.board import read
    from cyclade.experiments.report.claims import answers

    board = read(root)
    lines = []
    for claim in board.plan.paper:
        lines.append(claim.claim)
        lines += [
            f"  {one.verdict}: {one.compared}{f': {one.seen}' if one.seen else ''}"
            for one in answers(board, claim.checks)
        ]
    return "\n".join(["What was seen, claim by claim:", *lines]) if lines else ""
