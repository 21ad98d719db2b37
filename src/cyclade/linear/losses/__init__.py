"""Losses φ(y, z) of linear predictions z, by name or as objects.

To add a loss, touch one file:

1. In the file of its family (`residual`, `robust`, `labels` or `positive`) write a class with
   `value` and `gradient`, and with `curvature` or `bound`; `Loss` says what else it may have.
   `value` uses operators and `namespace(z)` alone, so that torch can differentiate it.
2. Add it to `__all__` and, under its name, to `BY_NAME` in that file.

It is then found by `get`, exported here, and held to its definition by `tests/linear/test_losses`:
derivatives, majoriser, bound, conjugate, both array libraries. A new family is a new file and its
line below. A loss of your own needs none of this: give the object to `solve` or an estimator.

>>> get("huber", delta=2.0)
Huber(delta=2.0)
"""

from __future__ import annotations

from cyclade.linear.losses import residual

# isort: split
from cyclade.linear.losses import labels, positive, robust  # names are listed in this order
from cyclade.linear.losses.base import BY_NAME, Loss, get
from cyclade.linear.losses.labels import *  # noqa: F403
from cyclade.linear.losses.positive import *  # noqa: F403
from cyclade.linear.losses.residual import *  # noqa: F403
from cyclade.linear.losses.robust import *  # noqa: F403

__all__ = ["BY_NAME", "Loss", "get"]
__all__ += labels.__all__ + positive.__all__ + residual.__all__ + robust.__all__
