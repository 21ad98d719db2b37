"""What a loss is, what is filled in for those who write one, and losses by name."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cyclade._arrays import array_namespace, kind
from cyclade._checks import meant

Array = NDArray[Any]

REQUIRED = ("value", "gradient")
OPTIONAL = (
    "curvature", "majoriser", "second_derivative", "conjugate", "check", "mean",
    "convex", "bound", "target", "flat",
)  # fmt: skip


class Loss:
    """A loss φ(y_i, z_i) of a target and a linear prediction, one row at a time.

    Write `value` and `gradient`, and either `bound` or `curvature`; the rest has defaults.
    z is (n,), or (n, T) with several outputs; `value` is always (n,).

    Solvers of `cyclade.linear` call losses with NumPy arrays only. The `value` of the losses here
    takes torch tensors of one output too, and torch differentiates it (`cyclade.problems`).

    Attributes
    ----------
    convex : bool
        Whether φ is convex in z.
    bound : float
        sup |∂²φ/∂z²| (of the largest eigenvalue with several outputs), inf where there is none.
    target : {"real", "signs", "classes"}
        What y holds: numbers, labels −1 and 1, or class codes 0, …, T − 1.
    flat : bool
        Whether a convex φ may be linear in parts, so that a small ∂²φ/∂z² says little about how φ
        goes on. Models then lift small weights.
    quadratic : bool
        Whether φ is ½ (z − y)²: quadratic models are then exact, with weights that never change.
    softmax : bool
        Whether ∂²φ/∂z² of a row is diag(p) − ppᵀ, with p = ``mean(z)`` over the classes.

    Notes
    -----
    A convex loss may also have `conjugate(y, u)`, φ*(y, u) = sup_z u·z − φ(y, z), one per row and
    +inf outside its domain; solvers then stop by the duality gap.

    Examples
    --------
    >>> import numpy as np
    >>> class LogCosh(Loss):
    ...     bound = 1.0
    ...
    ...     def value(self, y, z):
    ...         return np.logaddexp(z - y, y - z) - np.log(2.0)
    ...
    ...     def gradient(self, y, z):
    ...         return np.tanh(z - y)
    >>> LogCosh().curvature(np.zeros(2), np.array([0.0, 3.0]))
    array([1., 1.])
    """

    convex: bool = True
    bound: float = math.inf
    target: Literal["real", "signs", "classes"] = "real"
    flat: bool = True
    quadratic: bool = False
    softmax: bool = False

    def value(self, y: Array, z: Array) -> Array:
        """φ(y_i, z_i), one per row."""
        raise NotImplementedError(f"{type(self).__name__} must define value(y, z)")

    def gradient(self, y: Array, z: Array) -> Array:
        """∂φ/∂z, in the shape of z."""
        raise NotImplementedError(f"{type(self).__name__} must define gradient(y, z)")

    def curvature(self, y: Array, z: Array) -> Array:
        """Weights of the quadratic model at z, in the shape of z.

        φ'' where φ is convex; otherwise weights of a majoriser. Default: the bound.
        """
        return np.full_like(z, self.bound)

    def majoriser(self, y: Array, z: Array) -> Array:
        """Weights w for which φ(z) + φ'(z)·(z' − z) + ½ w·(z' − z)² ≥ φ(z') for every z'.

        Infinite where there are none. Default: the bound, and `curvature` where φ is nonconvex.
        """
        return np.full_like(z, self.bound) if self.convex else self.curvature(y, z)

    def second_derivative(self, y: Array, z: Array) -> Array:
        """∂²φ/∂z², of either sign. Default: `curvature` where φ is convex, else by differences."""
        if self.convex:
            return self.curvature(y, z)
        h = 1e-5 * (1.0 + np.abs(z))
        return np.asarray((self.gradient(y, z + h) - self.gradient(y, z - h)) / (2.0 * h))

    def check(self, y: Array) -> None:
        """Raise ValueError, saying what y must be. Default: finite numbers."""
        if not np.isfinite(y).all():
            raise ValueError(f"{type(self).__name__}: y must hold finite numbers")

    def mean(self, z: Array) -> Array:
        """The inverse link: what is predicted for y. Default: z."""
        return z

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Adapted(Loss):
    """A loss written without the base class: its own methods, and defaults for the others.

    Examples
    --------
    >>> class Half:
    ...     bound = 1.0
    ...     def value(self, y, z): return 0.5 * (z - y) ** 2
    ...     def gradient(self, y, z): return z - y
    >>> Adapted(Half()).mean(np.ones(1))
    array([1.])
    """

    def __init__(self, loss: Any) -> None:
        self.loss = loss
        for name in REQUIRED + OPTIONAL:
            if hasattr(loss, name):
                setattr(self, name, getattr(loss, name))

    def __repr__(self) -> str:
        return f"Adapted({self.loss!r})"


def namespace(z: Any) -> Any:
    """NumPy, or what stands for it where `z` is a torch tensor."""
    return np if isinstance(z, np.ndarray) or kind(z) != "torch" else array_namespace(z)


def rows(entries: Array) -> Array:
    """Sum over outputs: one number per row."""
    return entries if entries.ndim == 1 else np.asarray(entries.sum(axis=1))


BY_NAME: dict[str, type[Loss]] = {}  # every family adds its own


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
    >>> from cyclade.linear.losses import get
    >>> get("logistic")
    Logistic()
    """
    if isinstance(loss, str):
        if loss not in BY_NAME:
            names = f"the names are {', '.join(BY_NAME)}{meant(loss, BY_NAME)}"
            raise ValueError(f"loss: there is no {loss!r}; {names}")
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
