"""Quadratic models of the loss, and the safeguarded steps they give.

At z the loss is replaced by  Σ s_i [φ'_i (z'_i − z_i) + ½ w_i (z'_i − z_i)²].  Kernels then see a
least-squares problem with weights and never the loss. For the squared loss the model is exact; for
convex losses w = φ'' (Newton); for nonconvex ones φ'' where it is large enough, and a fraction of
the half-quadratic weight where it is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.losses import Loss, Squared

Array = NDArray[Any]

LEAST = 1e-10  # weights below this fraction of the largest are lifted to it


def is_quadratic(loss: Loss) -> bool:
    """Whether the model equals the loss."""
    return type(loss) is Squared


def second_derivative(loss: Loss, y: Array, z: Array) -> Array:
    """φ'' at z by central differences of φ' (elementwise, so it costs two gradients)."""
    h = 1e-5 * (1.0 + np.abs(z - y))
    return (loss.gradient(y, z + h) - loss.gradient(y, z - h)) / (2.0 * h)


def weights(loss: Loss, y: Array, z: Array, floor: float, damping: float) -> Array:
    """Curvatures of the model at z, between `floor` times those of a majoriser and those."""
    upper = loss.majoriser(y, z)
    if loss.convex:
        w = loss.curvature(y, z)
    else:
        w = second_derivative(loss, y, z)
    finite = np.isfinite(upper)
    w = np.maximum(w, np.where(finite, floor * upper, 0.0))
    if damping > 1.0:
        w = np.where(finite, np.minimum(damping * w, np.where(finite, upper, 1.0)), damping * w)
    return np.maximum(w, LEAST * float(np.max(w, initial=1e-300)))
