"""A result as a picture, and as notebooks show it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from cyclade._checks import choice

if TYPE_CHECKING:
    from cyclade.result import Result

LABELS = {"cycle": "cycle", "samples": "component gradients", "seconds": "seconds in cycles"}
_WIDTH, _HEIGHT = 220, 48  # of the small curve, in pixels


def plot(result: Result, against: str, axes: Any) -> Any:
    """F − best F and dist(∂F, 0) along a run; see `Result.plot`."""
    choice("against", against, list(LABELS))
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Result.plot needs matplotlib: pip install matplotlib") from error
    if axes is None:
        _, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    try:
        left, right = axes
    except (TypeError, ValueError):
        raise ValueError("axes must be two matplotlib axes, as plt.subplots(1, 2)[1] is") from None
    history = result.history
    best = min(history["fun"])
    above = [value - best if value > best else math.nan for value in history["fun"]]
    left.plot(history[against], above, marker=".")
    right.plot(history[against], [d if d > 0 else math.nan for d in history["dist"]], marker=".")
    left.set(ylabel="F − best F", title=result.method)
    right.set(ylabel="dist(∂F, 0)", title=_outcome(result))
    for axis in (left, right):
        axis.set(xlabel=LABELS[against], yscale="log")
        axis.grid(alpha=0.25)
    return left, right


def html(result: Result) -> str:
    """A table, and the course of dist(∂F, 0); it takes its colours from the page around it."""
    rows = "".join(
        f'<tr><th scope="row" style="text-align:right">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in result._rows()
    )
    mark = "✓" if result.success else "✗"
    return (
        f"<div><table><caption><b>{mark} {escape(result.method)}</b>: {_outcome(result)}</caption>"
        f"<tbody>{rows}</tbody></table>{_curve(result.history['dist'])}</div>"
    )


def _outcome(result: Result) -> str:
    return "a tolerance was reached" if result.success else "no tolerance was reached"


def _curve(values: Sequence[float]) -> str:
    """The logarithm of what is positive, as a small picture."""
    known = [(i, math.log10(v)) for i, v in enumerate(values) if 0 < v < math.inf]
    if len(known) < 2:
        return ""
    lowest, highest = min(v for _, v in known), max(v for _, v in known)
    across, up = _WIDTH / max(known[-1][0], 1), _HEIGHT / ((highest - lowest) or 1.0)
    points = " ".join(f"{i * across:.1f},{(highest - v) * up:.1f}" for i, v in known)
    words = f"dist(∂F, 0) from 1e{known[0][1]:.1f} to 1e{known[-1][1]:.1f}"
    return (
        f'<svg role="img" aria-label="{words}" width="{_WIDTH}" height="{_HEIGHT + 4}" '
        f'viewBox="0 -2 {_WIDTH} {_HEIGHT + 4}"><title>{words}</title><polyline fill="none" '
        f'stroke="currentColor" stroke-width="1.5" points="{points}"/></svg>'
    )
