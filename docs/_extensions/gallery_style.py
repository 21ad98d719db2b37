"""How the pictures of the gallery look; set before each example."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def reset(conf: dict[str, Any], where: str | Path) -> None:
    """Quiet axes, colours that differ in grey too."""
    import matplotlib.pyplot as plt
    from cycler import cycler

    plt.rcParams.update(
        {
            "figure.figsize": (7.5, 3.6),
            "figure.dpi": 100,
            "figure.constrained_layout.use": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.alpha": 0.25,
            "legend.frameon": False,
            "image.cmap": "gray",
            "axes.prop_cycle": cycler(
                color=["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"]
            ),
        }
    )
