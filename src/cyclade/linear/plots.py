"""Pictures of paths and of cross-validation, by one call; Matplotlib is loaded late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cyclade._extras import needs
from cyclade.linear.losses import Array


def _begin(display: Any, ax: Any, alphas: Array, of: str) -> Any:
    """The axes that a display draws on, alpha falling from left to right, or sizes from 0 on."""
    if ax is None:
        with needs("plot"):
            import matplotlib.pyplot as plt
        ax = plt.subplots(layout="constrained")[1]
    display.ax_, display.figure_ = ax, ax.figure
    ax.set_ylabel(of)
    if np.min(alphas) == 0.0:  # sizes of the best subset
        ax.set_xlabel("features")
    else:
        ax.set(xscale="log", xlabel="alpha")
        ax.invert_xaxis()
    return ax


@dataclass(repr=False)
class PathDisplay:
    """Coefficients along alpha.

    Attributes
    ----------
    path : CoefficientPath
        What is drawn.
    ax_, figure_ : Matplotlib's Axes and Figure
        Where; set by `plot`.
    lines_ : list of Line2D
        One per coefficient that is ever nonzero.
    """

    path: Any
    ax_: Any = None
    figure_: Any = None
    lines_: Any = None

    def __repr__(self) -> str:
        return f"<PathDisplay: {len(self.path.alphas)} alphas; figure_.savefig(name) saves it>"

    def plot(
        self, ax: Any = None, *, alpha: float | None = None, label: int = 10, **style: Any
    ) -> PathDisplay:
        """Draw on `ax`, or on a new figure.

        Parameters
        ----------
        ax : Axes, default=None
            Where to draw.
        alpha : float, default=None
            Mark this alpha.
        label : int, default=10
            How many of the largest coefficients are named in the legend; the others are grey.
        **style
            For Matplotlib's `plot`.
        """
        ax = _begin(self, ax, self.path.alphas, "coefficient")
        path, coefs = self.path, np.asarray(self.path.coefs)
        outputs = coefs if coefs.ndim == 3 else coefs[None]
        self.lines_ = []
        size = abs(outputs).max(axis=(0, 2), initial=0.0)
        ranks = {int(j): rank for rank, j in enumerate(np.argsort(-size, kind="stable")[:label])}
        others = "0.75" if ranks else None  # grey behind those that are named
        for j in np.flatnonzero(size):
            for k, curves in enumerate(outputs):
                name = str(j) if path.feature_names is None else str(path.feature_names[j])
                rank = ranks.get(int(j))
                text = name if rank is not None and k == 0 else None
                color = (others or f"C{j % 10}") if rank is None else f"C{rank % 10}"
                options = {"color": color, "label": text, "zorder": 2 + (text is not None), **style}
                self.lines_ += ax.plot(path.alphas, curves[j], **options)
        ax.axhline(0.0, color="black", linewidth=0.5)
        if alpha is not None:
            ax.axvline(alpha, color="black", linestyle="--", linewidth=1.0)
        if any(size[list(ranks)]):
            ax.legend(fontsize="small", title="feature", loc="best")
        return self


@dataclass(repr=False)
class CVDisplay:
    """Held-out scores along alpha, with one standard error and both choices.

    Attributes
    ----------
    alphas, mean, std : arrays
        What is drawn.
    alpha_min, alpha_1se : float
        The choices, as vertical lines.
    name : str
        Of the score.
    ax_, figure_ : Matplotlib's Axes and Figure
        Where; set by `plot`.
    """

    alphas: Array
    mean: Array
    std: Array
    alpha_min: float
    alpha_1se: float
    name: str = "score"
    ax_: Any = None
    figure_: Any = None
    line_: Any = None

    def __repr__(self) -> str:
        return f"<CVDisplay: {len(self.alphas)} alphas; figure_.savefig(name) saves it>"

    def plot(self, ax: Any = None, **style: Any) -> CVDisplay:
        """Draw on `ax`, or on a new figure; `style` is for Matplotlib's `plot`."""
        ax = _begin(self, ax, self.alphas, self.name)
        (self.line_,) = ax.plot(self.alphas, self.mean, **{"label": "mean", **style})
        low, high = self.mean - self.std, self.mean + self.std
        shade = {"alpha": 0.25, "color": self.line_.get_color(), "label": "one standard error"}
        ax.fill_between(self.alphas, low, high, **shade)
        choices = {"best": self.alpha_min, "within one standard error": self.alpha_1se}
        for (text, value), line in zip(choices.items(), ("--", ":"), strict=True):
            label = f"{text}: {value:.3g}"
            ax.axvline(value, color="black", linestyle=line, linewidth=1.0, label=label)
        clear = {"frameon": True, "framealpha": 0.9, "edgecolor": "none"}  # lines may lie below
        ax.legend(fontsize="small", **clear)
        return self


def plot_path(path: Any, X: Any = None, y: Any = None, *, ax: Any = None, **options: Any) -> Any:
    """Draw coefficients along alpha, of a path or of an estimator together with data.

    `options` are those of `PathDisplay.plot`; what comes back is the display.

    Examples
    --------
    >>> from cyclade.linear import Lasso, plot_path
    >>> display = plot_path(Lasso(), X, y)  # doctest: +SKIP
    """
    if hasattr(path, "path"):
        if X is None or y is None:
            raise ValueError("plot_path: an estimator needs X and y; or give estimator.path(X, y)")
        path = path.path(X, y)
    return PathDisplay(path).plot(ax, **options)


def plot_cv(model: Any, *, ax: Any = None, **style: Any) -> CVDisplay:
    """Draw the held-out scores of a fitted `…CV` estimator along alpha.

    For the squared loss these are mean squared errors, for other losses mean losses (lower is
    better); with `scoring`, scores (higher is better). `ax` and `style` are those of
    `CVDisplay.plot`; what comes back is the display.

    Examples
    --------
    >>> from cyclade.linear import LassoCV, plot_cv
    >>> display = plot_cv(LassoCV().fit(X, y))  # doctest: +SKIP
    """
    from sklearn.utils.validation import check_is_fitted

    if not hasattr(model, "rule"):
        raise TypeError(
            f"plot_cv: model must be a …CV estimator, got {type(model).__name__}; "
            "plot_path draws a path"
        )
    check_is_fitted(model, "score_path_")
    sign, name = (1.0, str(model.scoring)) if model.scoring is not None else (-1.0, "held-out loss")
    if hasattr(model, "mse_path_"):
        name = "held-out mean squared error"
    display = CVDisplay(
        model.alphas_, sign * model.mean_score_, model.std_score_, model.alpha_min_,
        model.alpha_1se_, name,
    )  # fmt: skip
    return display.plot(ax, **style)
