"""Any f a user can write as a function: torch (autograd), or NumPy with its gradient.

This is the generic sweep: `set` stores, `grad` calls. Slow, always right. What a call of the
user's functions found is remembered while the point stays where it is, by later sweeps and
evaluations too, so that nothing is computed twice.

A `OneFunction` is asked at a `CallableSweep`: a point, and the sample as functions are told it.
What a call teaches beside what was asked for (a pair gives the value with the gradient) it writes
down there.
"""

from __future__ import annotations

import inspect
import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from cyclade._arrays import Array, as_index, kind, norm2, rounding_unit, same_bits
from cyclade._checks import shown, unmasked
from cyclade.blocks import Blocks, Layout, Point
from cyclade.oracles.counting import Calls
from cyclade.sampling.samplers import ALL, Sample, StreamBatch


class CallableOracle:
    """f as a function: fun(x), fun(x, idx) for n terms, or fun(x, batch) for a stream.

    A function whose `idx` has a default is called without it where all n terms are meant;
    otherwise it gets all n indices.
    """

    def __init__(self, layout: Layout, derivatives: OneFunction, n: float | None, like: Array):
        self.layout, self.derivatives = layout, derivatives
        self.calls = derivatives.calls
        self._like, self._takes_sample = like, n is not None
        # The last ones: of the current point, the lagged one, and the one evaluated.
        self._sweeps: deque[CallableSweep] = deque(maxlen=3)
        self._all_rows: tuple[Any, ...] = ()
        if n is not None and math.isfinite(n) and derivatives.needs_rows:
            self._all_rows = (as_index(np.arange(int(n)), like),)

    def sweep(self, x: Blocks, sample: Sample) -> CallableSweep:
        """A sweep from `x` on `sample`, with what is known there."""
        assert isinstance(x, Point)
        known = None
        for at in self._sweeps:
            if at.sample is sample:
                if at.x is x:
                    return at
                if at.stamp is x.stamp:
                    known = at
        rows = self._all_rows
        if sample is not ALL and self._takes_sample:
            data = sample.data if isinstance(sample, StreamBatch) else as_index(sample, self._like)
            rows = (data,)
        found = CallableSweep(self.derivatives, x, sample, rows)
        if known is not None:  # of a copy of x, which may move on by itself
            found.learn(known)
        self._sweeps.append(found)
        return found

    def evaluate(self, x: Blocks, sample: Sample) -> tuple[float, list[Array]]:
        """f_S(x), and ∇f_S(x) by blocks."""
        at, derivatives = self.sweep(x, sample), self.derivatives
        value = at.value()
        if derivatives.by_blocks and (self.layout.m == 1 or not derivatives.at_once):
            return value, [at.grad(j) for j in range(self.layout.m)]
        # Not put where the sweeps look for blocks: a gradient at once may differ from theirs by
        # rounding, and evaluations must not change a run.
        return value, [out_of_gradient(derivatives, at, j) for j in range(self.layout.m)]


class CallableSweep:
    """The generic sweep: what is known of f_S at a point; `stamp` names the value of the point."""

    def __init__(
        self, derivatives: OneFunction, x: Point, sample: Sample, rows: tuple[Any, ...] = ()
    ) -> None:
        self.derivatives, self.x, self.sample, self._rows = derivatives, x, sample, rows
        self.get, self._move = x.get, x.set
        self._trial: tuple[int, Array, CallableSweep] | None = None  # block, place, what is known
        self.forget()

    def forget(self) -> None:
        """The point has moved: nothing is known of where it is now."""
        self.stamp = self.x.stamp
        self.known_value: float | None = None
        self.known_blocks: dict[int, Array] = {}  # ∇^j f_S, of the blocks that were asked for
        self.arrays: list[Array] | None = None  # ∇f_S at once, stored as a point stores x

    def learn(self, other: CallableSweep) -> None:
        """Take over all that is known at `other`, on the same sample, where the point is now."""
        self.stamp, self.known_value = self.x.stamp, other.known_value
        self.arrays, self.known_blocks = other.arrays, dict(other.known_blocks)

    def rows(self, short: bool) -> tuple[Any, ...]:
        """What a function takes beside x; `short` if it goes without rows where all are meant."""
        return () if short and self.sample is ALL else self._rows

    def set(self, j: int, u: Array) -> None:
        """Move block j to `u`; what a trial found there is taken over."""
        if self._trial is None:
            self._move(j, u)
            return
        known, self._trial = self._known_trial(j, u), None
        self._move(j, u)
        if known is not None:
            self.learn(known)

    def grad(self, j: int) -> Array:
        """∇^j f_S here."""
        if self.stamp is not self.x.stamp:
            self.forget()
        return self._grad(j)

    def value(self) -> float:
        """f_S here."""
        if self.stamp is not self.x.stamp:
            self.forget()
        return self._value()

    def trial(self, j: int, u: Array) -> float:
        """f_S at the point with block j at `u`; the point itself stays."""
        there = self._tried(j, u)
        with self.x.moved(j, u, self._move):
            return there._value()

    def trial_grad(self, j: int, u: Array) -> Array:
        """∇^j f_S at the point with block j at `u`; the point itself stays."""
        there = self._tried(j, u)
        with self.x.moved(j, u, self._move):
            return there._grad(j)

    def hvp(self, j: int, v: Array) -> Array:
        """∇²_jj f_S v here."""
        return self.derivatives.hvp(self, j, v)

    def _value(self) -> float:
        if self.known_value is None:
            self.known_value = self.derivatives.value(self)
        return self.known_value

    def _grad(self, j: int) -> Array:
        gj = self.known_blocks.get(j)
        if gj is None:
            gj = self.known_blocks[j] = self.derivatives.grad(self, j)
        return gj

    def _tried(self, j: int, u: Array) -> CallableSweep:
        """What is known with block j at `u`; its stamp is that of the point before the trial."""
        there = self._known_trial(j, u)
        if there is None:
            there = CallableSweep(self.derivatives, self.x, self.sample, self._rows)
            self._trial = (j, self.x.layout.copy(u), there)
        return there

    def _known_trial(self, j: int, u: Array) -> CallableSweep | None:
        """What the last trial found, if it was this one."""
        if self._trial is None:
            return None
        block, place, known = self._trial
        same = block == j and known.stamp is self.x.stamp and same_bits(place, u)
        return known if same else None


def goes_without_rows(fun: Callable[..., Any] | None, before: int) -> bool:
    """Whether `fun` has a default for its rows, the argument that comes after `before` others.

    Then a call without them means all rows, and no index has to be made or data copied by it.
    """
    try:
        parameters = list(inspect.signature(fun).parameters.values())  # type: ignore[arg-type]
    except (TypeError, ValueError):  # no function, or one that does not say what it takes
        return fun is None
    if len(parameters) <= before:
        return False
    rows = parameters[before]
    positional = rows.kind in (rows.POSITIONAL_ONLY, rows.POSITIONAL_OR_KEYWORD)
    return positional and rows.default is not rows.empty


class OneFunction:
    """Value and derivatives of f_S at a sweep, by a user's `fun`; here ∇f_S comes at once."""

    by_blocks = False  # whether a block's gradient is cheaper than all: then sweeps ask for `grad`
    at_once = True  # whether there is a `gradient` that is cheaper than all blocks one by one
    power = 1 / 3  # of the rounding: the length of differences of gradients

    def __init__(self, fun: Callable[..., Any]) -> None:
        self.fun, self.calls = fun, Calls()
        self._short = goes_without_rows(fun, 1)
        self.needs_rows = not self._short  # some function must be told all rows of a finite sum

    def value(self, at: CallableSweep) -> float:
        """f_S."""
        self.calls.nfev += 1
        return number(self.fun(at.x.whole(), *at.rows(self._short)))

    def grad(self, at: CallableSweep, j: int) -> Array:
        """∇^j f_S."""
        return out_of_gradient(self, at, j)

    def gradient(self, at: CallableSweep) -> list[Array]:
        """∇f_S, stored as a point stores x."""
        raise NotImplementedError

    def hvp(self, at: CallableSweep, j: int, v: Array) -> Array:
        """∇²_jj f_S v ≈ (g(x + δv) − g(x − δv)) / 2δ, with δ the rounding unit to the `power`."""
        xj, grad = at.get(j), partial(at.trial_grad, j)
        size = math.sqrt(norm2(v)) or 1.0
        delta = rounding_unit(xj) ** self.power * (1.0 + math.sqrt(norm2(xj))) / size
        ahead = grad(xj + delta * v)
        return (ahead - grad(xj - delta * v)) / (2 * delta)


class Jacobian(OneFunction):
    """Derivatives of a NumPy function from the gradient the user gives.

    `jac` returns the whole gradient, structured like x; or `block_jac(x, j, …)` returns block j of
    it alone, which is cheaper. `fun` and `jac` get a copy of x. `block_jac`, the fast path, gets a
    read-only view that is true during the call only: a copy would cost d where it may cost d^j.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        jac: Callable[..., Any] | None,
        block_jac: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(fun)
        self.jac, self.block_jac = jac, block_jac
        self.by_blocks, self.at_once = block_jac is not None, jac is not None
        self._short_jac = goes_without_rows(jac, 1)
        self._short_block = goes_without_rows(block_jac, 2)
        self.needs_rows = not (self._short and self._short_jac and self._short_block)

    def grad(self, at: CallableSweep, j: int) -> Array:
        """∇^j f_S."""
        if self.block_jac is None:
            return out_of_gradient(self, at, j)
        self.calls.njev += 1
        gj = self.block_jac(at.x.view(), j, *at.rows(self._short_block))
        return block_like(gj, at.x, j, "block_jac")

    def gradient(self, at: CallableSweep) -> list[Array]:
        """∇f_S."""
        assert self.jac is not None
        self.calls.njev += 1
        return arrays_like(self.jac(at.x.whole(), *at.rows(self._short_jac)), at.x)


class Pair(OneFunction):
    """Derivatives from one function that returns ``(value, gradient)``: a call gives both."""

    def value(self, at: CallableSweep) -> float:
        """f_S; the gradient is kept."""
        value, at.arrays = self._both(at)
        return value

    def gradient(self, at: CallableSweep) -> list[Array]:
        """∇f_S; the value is kept."""
        at.known_value, arrays = self._both(at)
        return arrays

    def _both(self, at: CallableSweep) -> tuple[float, list[Array]]:
        self.calls.nfev += 1
        self.calls.njev += 1
        found = self.fun(at.x.whole(), *at.rows(self._short))
        try:
            value, gradient = found
        except (TypeError, ValueError):
            raise TypeError(
                f"with jac=True fun must return (value, gradient), got {type(found).__name__}"
            ) from None
        return number(value), arrays_like(gradient, at.x)


class FiniteDifferences(OneFunction):
    """Derivatives of a NumPy function from its values alone: ``jac="2-point"``.

    Entry i of block j is (f_S(x + h_i e_i) − f_S(x)) / h_i with h_i = √ε · max(1, |x_i|, s), where
    ε is the rounding of x's dtype and s the root mean square of the block; so a block costs d^j + 1
    values, and one fewer where f_S(x) is known. The error is about √ε times the size of f and of
    its curvature: tolerances far below 1e-6 (3e-3 in float32) may be out of reach.
    """

    by_blocks, at_once = True, False
    power = 1 / 6  # a longer difference, since the gradients are known to √ε only

    def grad(self, at: CallableSweep, j: int) -> Array:
        """∇^j f_S, by forward differences."""
        if at.known_value is None:
            at.known_value = self.value(at)
        xj = at.x.get(j)
        scale = max(1.0, float(np.linalg.norm(xj)) / math.sqrt(xj.size))
        step = math.sqrt(np.finfo(xj.dtype).eps) * np.maximum(scale, np.abs(xj))
        ahead = xj + np.copysign(step, xj).astype(xj.dtype)  # away from zero: bounds lie there
        gj, flat_x, flat_ahead = np.empty(xj.size), xj.reshape(-1), ahead.reshape(-1)
        for i in range(xj.size):
            u = flat_x.copy()
            u[i] = flat_ahead[i]
            with at.x.moved(j, u.reshape(xj.shape)):
                gj[i] = (self.value(at) - at.known_value) / float(flat_ahead[i] - flat_x[i])
        return gj.reshape(xj.shape).astype(xj.dtype)


def out_of_gradient(derivatives: OneFunction, at: CallableSweep, j: int) -> Array:
    """∇^j f_S, read out of ∇f_S, which is kept for the other blocks."""
    if at.arrays is None:
        at.arrays = derivatives.gradient(at)
    return at.x.layout.slots[j].read(at.arrays)


def block_like(gj: Any, x: Point, j: int, name: str) -> Array:
    """A block's gradient like the block, copied (users may reuse a buffer), or an error."""
    shape, dtype = x.layout.block_shapes[j], x.layout.dtypes[j]
    if gj.__class__ is np.ndarray and gj.dtype is dtype and gj.shape == shape:
        return gj.copy()
    if kind(x.leaves[0]) == "torch":
        if kind(gj) != "torch":
            raise TypeError(f"{name} must return a tensor for torch x0, got {type(gj).__name__}")
        gj = gj.detach().to(dtype, copy=True)
    else:
        gj = _real(np.array(unmasked(name, gj)), name, dtype)
    if gj.shape != shape:
        raise ValueError(f"{name} returned shape {tuple(gj.shape)} for block {j} of shape {shape}")
    return gj


def arrays_like(gradient: Any, x: Point) -> list[Array]:
    """A gradient structured like x, copied, stored as a point stores x, or an error."""
    layout = x.layout
    bare = gradient.__class__ is np.ndarray and layout.labels == [""]
    if bare and gradient.dtype is layout.dtypes[0] and gradient.shape == layout.shapes[0]:
        return layout.flat([gradient.copy()])
    unmasked("jac", gradient)
    try:
        arrays = [np.array(a) for a in layout.arrays(gradient)]
        if layout.shapes == [()] and arrays[0].shape == (1,):
            arrays = [arrays[0].reshape(())]  # of a scalar x
        fits = [a.shape for a in arrays] == layout.shapes
    except (AttributeError, IndexError, TypeError, ValueError, KeyError):
        fits = False
    if not fits:
        raise ValueError(
            f"jac must return the gradient structured like x0, with shapes {layout.shapes}, "
            f"got {_describe(gradient)}"
        )
    return layout.flat(
        [_real(a, "jac", like.dtype) for a, like in zip(arrays, x.leaves, strict=True)]
    )


def _real(gradient: np.ndarray[Any, Any], name: str, dtype: Any) -> Array:
    """A gradient in the dtype of x, or an error if it is not real."""
    if gradient.dtype.kind not in "fiu":
        raise TypeError(f"{name} must return real numbers, got dtype {gradient.dtype}")
    return gradient.astype(dtype, copy=False)


def number(value: Any) -> float:
    """`value` as a float, or an error that says it is not a scalar."""
    if value.__class__ is float or value.__class__ is np.float64:
        return float(value)
    shape = np.shape(unmasked("the value of fun", value))
    if math.prod(shape) != 1:
        raise ValueError(f"fun must return a scalar, got an array of shape {shape}")
    try:
        scalar = np.reshape(value, ())
        if scalar.dtype.kind in "fiubO":
            return float(scalar)
    except (TypeError, ValueError):
        pass
    raise TypeError(f"fun must return a real number, got {shown(value)}")


def _describe(value: Any) -> str:
    if hasattr(value, "shape"):
        return f"an array of shape {tuple(value.shape)}"
    if isinstance(value, dict):
        return f"a dict of {', '.join(f'{k!r}: {_describe(a)}' for k, a in value.items())}"
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of [{', '.join(map(_describe, value))}]"
    return type(value).__name__
