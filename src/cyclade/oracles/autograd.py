"""Derivatives of a torch function, by autograd."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cyclade._arrays import Array, kind
from cyclade.blocks import Point
from cyclade.oracles.callables import CallableSweep, OneFunction

NO_GRAPH = (
    "fun(x) is not connected to x by torch operations (detach, no_grad, a new tensor?), so it has "
    "no gradient"
)


class Autograd(OneFunction):
    """Derivatives of a torch function; only the block asked for is differentiated.

    The value is always computed without a graph, never taken from a differentiated call: torch may
    choose other kernels there, and a run must not depend on what was asked for before.
    """

    by_blocks, at_once = True, True

    def value(self, at: CallableSweep) -> float:
        """f_S."""
        import torch

        self.calls.nfev += 1
        with torch.no_grad():
            return float(_scalar(self.fun(at.x.whole(), *at.rows(self._short))))

    def grad(self, at: CallableSweep, j: int) -> Array:
        """∇^j f_S."""
        with _differentiable():
            u, loss = self._graph(at, j)
            if not loss.requires_grad and at.x.layout.m == 1:  # else f does not see this block
                raise ValueError(NO_GRAPH)
            return _derivative(loss, u)

    def gradient(self, at: CallableSweep) -> list[Array]:
        """∇f_S, in one backward pass."""
        import torch

        with _differentiable():
            self.calls.nfev += 1
            self.calls.njev += 1
            leaves = [a.detach().requires_grad_() for a in at.x.leaves]
            loss = _scalar(self.fun(_assembled(at.x, leaves), *at.rows(self._short)))
            if not loss.requires_grad:
                raise ValueError(NO_GRAPH)
            found = torch.autograd.grad(loss, leaves, allow_unused=True)
        full = [torch.zeros_like(a) if g is None else g for a, g in zip(leaves, found, strict=True)]
        return [a.detach() for a in full]

    def hvp(self, at: CallableSweep, j: int, v: Array) -> Array:
        """∇²_jj f_S v by differentiating ⟨∇^j f_S, v⟩."""
        with _differentiable():
            u, loss = self._graph(at, j)
            return _derivative((_derivative(loss, u, create_graph=True) * v).sum(), u).detach()

    def _graph(self, at: CallableSweep, j: int) -> tuple[Array, Array]:
        """Block j as a variable, and f_S as a function of it alone."""
        x, layout = at.x, at.x.layout
        self.calls.nfev += 1
        self.calls.njev += 1
        u = x.get(j).detach().requires_grad_()
        leaves = [layout.copy(a) if s else a for a, s in zip(x.leaves, layout.shared, strict=True)]
        layout.slots[j].write(leaves, u)
        return u, _scalar(self.fun(_assembled(x, leaves), *at.rows(self._short)))


@contextmanager
def _differentiable() -> Iterator[None]:
    import torch

    with torch.inference_mode(False), torch.enable_grad():
        yield


def _derivative(y: Array, u: Array, create_graph: bool = False) -> Array:
    """dy/du, zero where y does not see u."""
    import torch

    found = None
    if y.requires_grad:
        (found,) = torch.autograd.grad(y, u, create_graph=create_graph, allow_unused=True)
    return torch.zeros_like(u) if found is None else found


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
