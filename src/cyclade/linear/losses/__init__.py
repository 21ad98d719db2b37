"""Losses φ(y, z) of linear predictions z, by name or as objects.

>>> get("huber", delta=2.0)
Huber(delta=2.0)
"""

from __future__ import annotations

import math
from typing import Any

from cyclade.linear.losses.base import OPTIONAL, REQUIRED, Adapted, Loss
from cyclade.linear.losses.labels import Logistic, Multinomial, SquaredHinge
from cyclade.linear.losses.positive import Gamma, Poisson
from cyclade.linear.losses.residual import Huber, Quantile, Squared
from cyclade.linear.losses.robust import Cauchy, GemanMcClure, Tukey, Welsch

BY_NAME: dict[str, type[Loss]] = {
    "squared": Squared,
    "logistic": Logistic,
    "multinomial": Multinomial,
    "poisson": Poisson,
    "gamma": Gamma,
    "huber": Huber,
    "quantile": Quantile,
    "squared_hinge": SquaredHinge,
    "cauchy": Cauchy,
    "welsch": Welsch,
    "geman_mcclure": GemanMcClure,
    "tukey": Tukey,
}


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
    missing = [m for m in REQUIRED if getattr(loss, m, None) is None or _inherited(loss, m)]
    if missing:
        raise ValueError(f"loss: {type(loss).__name__} lacks {' and '.join(missing)}(y, z)")
    if not isinstance(loss, Loss):
        loss = Adapted(loss)
        own_curvature = hasattr(loss.loss, "curvature")
    else:
        own_curvature = not _inherited(loss, "curvature")
    if not own_curvature and not 0 < loss.bound < math.inf:
        raise ValueError(
            f"loss: {loss!r} lacks curvature(y, z), or a finite bound on its second derivative"
        )
    return loss


def _inherited(loss: Any, method: str) -> bool:
    """Whether the method is the placeholder or default of the base class."""
    return not isinstance(loss, Adapted) and getattr(type(loss), method, None) is getattr(
        Loss, method
    )


__all__ = [
    "BY_NAME",
    "OPTIONAL",
    "REQUIRED",
    "Cauchy",
    "Gamma",
    "GemanMcClure",
    "Huber",
    "Logistic",
    "Loss",
    "Multinomial",
    "Poisson",
    "Quantile",
    "Squared",
    "SquaredHinge",
    "Tukey",
    "Welsch",
    "get",
]
