"""Losses φ(y, z) of linear predictions z, by name or as objects.

To add a loss, touch one file:

1. In the file of its family (`residual`, `robust`, `labels` or `positive`) write a class with
   `value` and `gradient`, and with `curvature` or `bound`; `Loss` says what else it may have.
   `value` uses operators and `namespace(z)` alone, so that torch can differentiate it.
2. Add it, under its name, to `LOSSES` and to `__all__` of that file.

It is then found by `get`, exported here, and held to its definition by `tests/linear/test_losses`:
derivatives, majoriser, bound, conjugate, both array libraries. A new family is a new file and its
line below. A loss of your own needs none of this: give the object to `solve` or an estimator.

>>> get("huber", delta=2.0)
Huber(delta=2.0)
"""

from __future__ import annotations

import math
from typing import Any

from cyclade.linear.losses import labels, positive, residual, robust
from cyclade.linear.losses.base import REQUIRED, Adapted, Loss
from cyclade.linear.losses.labels import *  # noqa: F403
from cyclade.linear.losses.positive import *  # noqa: F403
from cyclade.linear.losses.residual import *  # noqa: F403
from cyclade.linear.losses.robust import *  # noqa: F403

BY_NAME: dict[str, type[Loss]] = {
    **residual.LOSSES, **labels.LOSSES, **positive.LOSSES, **robust.LOSSES,
}  # fmt: skip


def get(loss: str | Loss | Any, **parameters: Any) -> Loss:
    """The loss of that name, or the object itself once it is seen to have what a loss needs.

    Parameters
    ----------
    loss : str or Loss
        A name, or an object with the methods of `Loss`; a class without that base gets the
        defaults of what it leaves out.
    **parameters
        Of a loss given by name, such as `delta` for "huber".

    Raises
    ------
    ValueError
        If the name is unknown, or a method or the curvature is missing.

    Examples
    --------
    >>> get("logistic")
    Logistic()
    """
    if isinstance(loss, str):
        if loss not in BY_NAME:
            raise ValueError(f"loss: there is no {loss!r}; the names are {', '.join(BY_NAME)}")
        return BY_NAME[loss](**parameters)
    if parameters:
        raise ValueError(f"loss: {', '.join(parameters)} can only be given with a loss by name")
    if isinstance(loss, type):
        raise ValueError(f"loss: give an object, {loss.__name__}(...), not the class")
    if isinstance(loss, Adapted):
        return loss
    missing = [method for method in REQUIRED if not _has_own(loss, method)]
    if missing:
        raise ValueError(f"loss: {type(loss).__name__} lacks {' and '.join(missing)}(y, z)")
    known = loss if isinstance(loss, Loss) else Adapted(loss)
    if not _has_own(loss, "curvature") and not 0 < known.bound < math.inf:
        raise ValueError(
            f"loss: {known!r} lacks curvature(y, z), or a finite bound on its second derivative"
        )
    return known


def _has_own(loss: Any, method: str) -> bool:
    """Whether the method is there, and not the one of the base class."""
    inherited = getattr(type(loss), method, None) is getattr(Loss, method)
    return callable(getattr(loss, method, None)) and not inherited


__all__ = ["BY_NAME", "Loss", "get"]
__all__ += labels.__all__ + positive.__all__ + residual.__all__ + robust.__all__
