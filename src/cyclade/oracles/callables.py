"""Any f a user can write as a function: torch (autograd), or NumPy with its gradient.

This is the generic sweep: `set` stores, `grad` calls. Slow, always right.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from cyclade._arrays import Array, as_index, kind
from cyclade.blocks import Blocks, Layout, Point
from cyclade.samplers import ALL, Batch, Sample


class Derivatives(Protocol):
    """Value and block derivatives of f_S at a point; `args` is how f is told the sample."""

    by_blocks: bool
    """Whether one block's gradient is cheaper than all of them."""

    def value(self, x: Point, args: tuple[Any, ...]) -> float:
        """f_S(x)."""

    def grad(self, x: Point, j: int, args: tuple[Any, ...]) -> Array:
        """∇^j f_S(x)."""

    def grads(self, x: Point, args: tuple[Any, ...]) -> list[Array]:
        """∇f_S(x), by blocks."""

    def hvp(self, x: Point, j: int, v: Array, args: tuple[Any, ...]) -> Array:
        """∇²_jj f_S(x) v."""


class CallableOracle:
    """f as a function: fun(x), fun(x, idx) for n terms, or fun(x, batch) for a stream."""

    def __init__(self, layout: Layout, derivatives: Derivatives, n: float | None, like: Array):
        self.layout = layout
        self.derivatives = derivatives
        self.n = 1.0 if n is None else float(n)
        self._takes_sample = n is not None
        self._like = like
        self._everything: Any = None
        if n is not None and math.isfinite(n):
            self._everything = as_index(np.arange(int(n)), like)

    def sweep(self, x: Blocks, sample: Sample) -> CallableSweep:
        """A sweep from `x` on `sample`."""
        assert isinstance(x, Point)
        return CallableSweep(x, self.derivatives, self.arguments(sample))

    def arguments(self, sample: Sample) -> tuple[Any, ...]:
        """What f takes beside x for this sample: nothing, indices or a batch."""
        if not self._takes_sample:
            return ()
        if sample is ALL:
            return (self._everything,)
        if isinstance(sample, Batch):
            return (sample.data,)
        return (as_index(sample, self._like),)


class CallableSweep:
    """The generic sweep. What was computed at a position is remembered until a block is set."""

    def __init__(self, x: Point, derivatives: Derivatives, args: tuple[Any, ...]) -> None:
        self._x = x
        self._derivatives = derivatives
        self._args = args
        self._known: dict[int | str, Any] = {}
        self.get = x.get

    def set(self, j: int, u: Array) -> None:
        """Move block j to `u`."""
        self._x.set(j, u)
        self._known.clear()

    def grad(self, j: int) -> Array:
        """∇^j f_S here."""
        if j not in self._known:
            if self._derivatives.by_blocks:
                self._known[j] = self._derivatives.grad(self._x, j, self._args)
            else:
                self._known.update(enumerate(self._derivatives.grads(self._x, self._args)))
        return self._known[j]

    def value(self) -> float:
        """f_S here."""
        if "value" not in self._known:
            self._known["value"] = self._derivatives.value(self._x, self._args)
        return float(self._known["value"])

    def hvp(self, j: int, v: Array) -> Array:
        """∇²_jj f_S v here."""
        return self._derivatives.hvp(self._x, j, v, self._args)


class Autograd:
    """Derivatives of a torch function; only the block asked for is differentiated."""

    by_blocks = True

    def __init__(self, fun: Callable[..., Any]) -> None:
        self.fun = fun

    def value(self, x: Point, args: tuple[Any, ...]) -> float:
        """f_S(x)."""
        import torch

        with torch.no_grad():
            return float(_scalar(self.fun(x.whole(), *args)))

    def grad(self, x: Point, j: int, args: tuple[Any, ...]) -> Array:
        """∇^j f_S(x)."""
        import torch

        with torch.inference_mode(False), torch.enable_grad():
            u, loss = self._graph(x, j, args)
            if not loss.requires_grad:
                return torch.zeros_like(u)
            (gj,) = torch.autograd.grad(loss, u, allow_unused=True)
        return torch.zeros_like(u) if gj is None else gj

    def grads(self, x: Point, args: tuple[Any, ...]) -> list[Array]:
        """∇f_S(x), by blocks, in one backward pass."""
        import torch

        with torch.inference_mode(False), torch.enable_grad():
            leaves = [a.detach().requires_grad_() for a in x.leaves]
            loss = _scalar(self.fun(_assembled(x, leaves), *args))
            if not loss.requires_grad:
                raise ValueError(
                    "fun(x) is not connected to x by torch operations (detach, no_grad, a new "
                    "tensor?), so it has no gradient"
                )
            found = torch.autograd.grad(loss, leaves, allow_unused=True)
        full = [torch.zeros_like(a) if g is None else g for a, g in zip(leaves, found, strict=True)]
        return Point(x.layout, [a.detach() for a in full]).blocks()

    def hvp(self, x: Point, j: int, v: Array, args: tuple[Any, ...]) -> Array:
        """∇²_jj f_S(x) v by differentiating ⟨∇^j f_S, v⟩."""
        import torch

        with torch.inference_mode(False), torch.enable_grad():
            u, loss = self._graph(x, j, args)
            if not loss.requires_grad:
                return torch.zeros_like(u)
            (gj,) = torch.autograd.grad(loss, u, create_graph=True, allow_unused=True)
            if gj is None or not gj.requires_grad:  # f is linear (or constant) in this block
                return torch.zeros_like(u)
            (hv,) = torch.autograd.grad((gj * v).sum(), u, allow_unused=True)
        return torch.zeros_like(u) if hv is None else hv.detach()

    def _graph(self, x: Point, j: int, args: tuple[Any, ...]) -> tuple[Array, Array]:
        """Block j as a variable, and f_S as a function of it alone."""
        u = x.get(j).detach().requires_grad_()
        leaves = [
            x.layout.copy(a) if s else a for a, s in zip(x.leaves, x.layout.shared, strict=True)
        ]
        x.layout.slots[j].write(leaves, u)
        return u, _scalar(self.fun(_assembled(x, leaves), *args))


def _assembled(x: Point, leaves: list[Array]) -> Any:
    return x.layout.structured(
        [a.reshape(shape) for a, shape in zip(leaves, x.layout.shapes, strict=True)]
    )


def _scalar(loss: Any) -> Any:
    if kind(loss) != "torch":
        raise TypeError(
            f"fun must return a scalar torch tensor for torch x0, got {type(loss).__name__}"
        )
    if math.prod(loss.shape) != 1:
        raise ValueError(f"fun must return a scalar, got a tensor of shape {tuple(loss.shape)}")
    return loss.reshape(())


class Jacobian:
    """Derivatives of a NumPy function from the gradient the user gives.

    `jac` returns the whole gradient, structured like x; or `block_jac(x, j, …)` returns block j of
    it alone, which is cheaper. `fun` and `jac` get a copy of x. `block_jac`, the fast path, gets a
    read-only view that is true during the call only: a copy would cost d where it may cost d^j.
    Hessian-vector products are central differences of gradients.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        jac: Callable[..., Any] | None,
        block_jac: Callable[..., Any] | None = None,
    ) -> None:
        self.fun, self.jac, self.block_jac = fun, jac, block_jac
        self.by_blocks = block_jac is not None

    def value(self, x: Point, args: tuple[Any, ...]) -> float:
        """f_S(x)."""
        return number(self.fun(x.whole(), *args))

    def grad(self, x: Point, j: int, args: tuple[Any, ...]) -> Array:
        """∇^j f_S(x)."""
        if self.block_jac is None:
            return self.grads(x, args)[j]
        # A copy: users may hand out one buffer again and again, and g is kept.
        gj = _real(np.array(self.block_jac(x.view(), j, *args)), "block_jac", x.leaves[0])
        shape = x.layout.block_shapes[j]
        if gj.shape != shape:
            raise ValueError(f"block_jac returned shape {gj.shape} for block {j} of shape {shape}")
        return gj

    def grads(self, x: Point, args: tuple[Any, ...]) -> list[Array]:
        """∇f_S(x), by blocks."""
        if self.jac is None:
            return [self.grad(x, j, args) for j in range(x.layout.m)]
        gradient = self.jac(x.whole(), *args)
        try:
            leaves = [np.array(a) for a in x.layout.arrays(gradient)]
            fits = [a.shape for a in leaves] == x.layout.shapes
        except (AttributeError, IndexError, TypeError, ValueError, KeyError):
            fits = False
        if not fits:
            raise ValueError(
                f"jac must return the gradient structured like x0, with shapes {x.layout.shapes}, "
                f"got {_describe(gradient)}"
            )
        kept = [_real(a, "jac", like) for a, like in zip(leaves, x.leaves, strict=True)]
        return x.layout.split(x.layout.structured(kept))

    def hvp(self, x: Point, j: int, v: Array, args: tuple[Any, ...]) -> Array:
        """∇²_jj f_S(x) v ≈ (∇^j f_S(x + εv) − ∇^j f_S(x − εv)) / 2ε."""
        xj = x.get(j)
        size = float(np.linalg.norm(v)) or 1.0
        epsilon = np.cbrt(np.finfo(xj.dtype).eps) * (1.0 + float(np.linalg.norm(xj))) / size
        ahead, behind = x.copy(), x.copy()
        ahead.set(j, xj + epsilon * v)
        behind.set(j, xj - epsilon * v)
        return (self.grad(ahead, j, args) - self.grad(behind, j, args)) / (2 * epsilon)


def _real(gradient: np.ndarray[Any, Any], name: str, like: Array) -> Array:
    """A gradient in the dtype of x, or an error if it is not real."""
    if gradient.dtype.kind not in "fiu":
        raise TypeError(f"{name} must return real numbers, got dtype {gradient.dtype}")
    return gradient.astype(like.dtype, copy=False)


def number(value: Any) -> float:
    """`value` as a float, or an error that says it is not a scalar."""
    shape = np.shape(value)
    if math.prod(shape) != 1:
        raise ValueError(f"fun must return a scalar, got an array of shape {shape}")
    try:
        return float(np.reshape(value, ()))
    except (TypeError, ValueError):
        raise TypeError(f"fun must return a real number, got {type(value).__name__}") from None


def _describe(value: Any) -> str:
    if hasattr(value, "shape"):
        return f"an array of shape {tuple(value.shape)}"
    if isinstance(value, dict):
        return f"a dict of shapes { {k: np.shape(a) for k, a in value.items()} }"
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of shapes {[np.shape(a) for a in value]}"
    return type(value).__name__
