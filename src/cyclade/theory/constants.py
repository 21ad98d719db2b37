"""The constants of the analysis: Q^j, Q̂^j, Q̃^j, Λ, L̂ and L̃."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cyclade._checks import (
    LARGEST_INDEX,
    each,
    listed,
    non_negative,
    real_array,
    require,
    shown,
    whole_number,
)
from cyclade._checks import generator as seeded

Array = npt.NDArray[np.float64]
Hvp = Callable[[Array, Array], npt.ArrayLike]


class Constants(NamedTuple):
    """The pair (L̂, L̃).

    >>> Constants(L_hat=2.0, L_tilde=0.5)
    Constants(L_hat=2.0, L_tilde=0.5)
    """

    L_hat: float
    L_tilde: float


def q_hat(Q: npt.ArrayLike, j: int, sizes: Sequence[int]) -> Array:
    """Q̂^j: the matrix Q^j with its first j−1 blocks of rows and columns set to zero.

    (Q̂^j)_{t,k} = (Q^j)_{t,k} if min{t, k} > d^1 + … + d^{j−1}, else 0 (Section 2).
    ``Q`` is the one matrix Q^j; j counts from 1, as in the paper.

    >>> q_hat([[1, 2, 3], [2, 4, 5], [3, 5, 6]], 2, sizes=[1, 2])
    array([[0., 0., 0.],
           [0., 4., 5.],
           [0., 5., 6.]])
    """
    start, matrix = _cut(Q, j, sizes)
    out = np.zeros_like(matrix)
    out[start:, start:] = matrix[start:, start:]
    return out


def q_tilde(Q: npt.ArrayLike, j: int, sizes: Sequence[int]) -> Array:
    """Q̃^j: the matrix Q^j with all but its first j−1 blocks of rows and columns set to zero.

    (Q̃^j)_{t,k} = (Q^j)_{t,k} if max{t, k} ≤ d^1 + … + d^{j−1}, else 0 (Section 2).
    ``Q`` is the one matrix Q^j; j counts from 1, so Q̃^1 = 0.

    >>> q_tilde([[1, 2, 3], [2, 4, 5], [3, 5, 6]], 2, sizes=[1, 2])
    array([[1., 0., 0.],
           [0., 0., 0.],
           [0., 0., 0.]])
    """
    start, matrix = _cut(Q, j, sizes)
    out = np.zeros_like(matrix)
    out[:start, :start] = matrix[:start, :start]
    return out


def L_hat(Q: npt.ArrayLike, Lambda: npt.ArrayLike, sizes: Sequence[int]) -> float:
    """L̂ = ‖Λ^{-1/2} (Σ_j Q̂^j) Λ^{-1/2}‖ (Section 3), from the m matrices Q^1, …, Q^m.

    ``Lambda`` is one positive number, m of them (Λ_j = L_j I), m diagonals, or the whole diagonal
    of length d.

    Always L̂ ≤ Σ_j ‖Λ^{-1/2} Q^j Λ^{-1/2}‖. For an L-smooth f with Λ = L I and Q^j = L I, the
    paper's worst case, L̂ is exactly m:

    >>> L = 3.0
    >>> L_hat([L * np.eye(4)] * 2, L, sizes=[1, 3])
    2.0

    Outside that case L̂ may exceed ‖Λ^{-1/2} (Σ_j Q^j) Λ^{-1/2}‖, although the paper writes
    ‖Σ_j Q̂^j‖ ≤ ‖Σ_j Q^j‖ there: cutting rows and columns of Q^j can remove cancellation.

    >>> Q = quadratic_Q([[1, 1], [1, -1]], Lambda=1.0, sizes=[1, 1])
    >>> float(np.linalg.norm(Q.sum(axis=0), 2))
    2.00
    >>> L_hat(Q, 1.0, sizes=[1, 1])  # (3 + √5) / 2
    2.618
    """
    return _norm_of_sum(Q, Lambda, sizes, q_hat)


def L_tilde(Q: npt.ArrayLike, Lambda: npt.ArrayLike, sizes: Sequence[int]) -> float:
    """L̃ = ‖Λ^{-1/2} (Σ_j Q̃^j) Λ^{-1/2}‖ (Section 4), from the m matrices Q^1, …, Q^m.

    Arguments as in :func:`L_hat`. With one block L̃ = 0; with Q^j = Λ = L I it is m − 1.

    >>> L_tilde([3.0 * np.eye(4)] * 2, 3.0, sizes=[1, 3])
    1.0
    >>> L_tilde([np.eye(4)], 1.0, sizes=[4])
    0.0
    """
    return _norm_of_sum(Q, Lambda, sizes, q_tilde)


def quadratic_Q(A: npt.ArrayLike, Lambda: npt.ArrayLike, sizes: Sequence[int]) -> Array:
    """The exact Q^1, …, Q^m, stacked in shape (m, d, d), of f(x) = ½ xᵀAx − bᵀx.

    Q^j = A_{j,:}ᵀ Λ_j⁻¹ A_{j,:}, with which Assumption 3 holds with equality. A symmetric A of
    shape (d, d) need not be positive. A of shape (n, d, d) holds the A_i of the finite sum
    f = (1/n) Σ_i f_i, and Q^j = (1/n) Σ_i (A_i)_{j,:}ᵀ Λ_j⁻¹ (A_i)_{j,:}, with which
    Assumption 7 holds with equality.

    >>> quadratic_Q([[2, 1], [1, 2]], Lambda=2.0, sizes=[1, 1])
    array([[[2. , 1. ],
            [1. , 0.5]],
    <BLANKLINE>
           [[0.5, 1. ],
            [1. , 2. ]]])
    """
    owner = _owner(sizes)
    components = _components(A, len(owner))
    rows = components / np.sqrt(len(components) * _diagonal(Lambda, sizes))[:, None]
    stacks = [rows[:, owner == j].reshape(-1, len(owner)) for j in range(len(sizes))]
    return np.stack([stack.T @ stack for stack in stacks])


def quadratic_Lambda(A: npt.ArrayLike, sizes: Sequence[int]) -> Array:
    """Scalars L_1, …, L_m such that Λ_j = L_j I serves f(x) = ½ xᵀAx − bᵀx.

    For A of shape (d, d), L_j = ‖A_{jj}‖, the smallest number with Assumption 2. For the finite
    sum, A of shape (n, d, d), L_j = ‖(1/n) Σ_i (A_i)_{jj}²‖^{1/2}, the smallest number with
    E_i‖∇^j f_i(x) − ∇^j f_i(y)‖² ≤ L_j² ‖x^j − y^j‖². By Jensen's inequality that gives
    Assumption 6, which has E_i‖·‖ in place of the root mean square, and hence Assumption 2.
    In both cases L̂ ≥ 1 when Q^j comes from :func:`quadratic_Q`.

    A block with A_{jj} = 0 has no smallest positive L_j and is refused: choose Λ_j yourself.

    >>> quadratic_Lambda([[2, 1, 0], [1, 0, 3], [0, 3, 0]], sizes=[1, 2])
    array([2., 3.])
    >>> quadratic_Lambda([[[3.0]], [[4.0]]], sizes=[1])  # √((3² + 4²) / 2)
    array([3.536])
    """
    owner = _owner(sizes)
    components = _components(A, len(owner))
    out = np.empty(len(sizes))
    for j in range(len(sizes)):
        block = components[:, owner == j][:, :, owner == j].reshape(-1, sizes[j])
        out[j] = np.linalg.norm(block, 2) / np.sqrt(len(components))
        require(out[j] > 0, "A", block, f"non-zero in its diagonal block j={j + 1}")
    return out


def quadratic_constants(A: npt.ArrayLike, Lambda: npt.ArrayLike, sizes: Sequence[int]) -> Constants:
    """L̂ and L̃ of f(x) = ½ xᵀAx − bᵀx, exactly, without forming any Q^j.

    With U the block upper triangle of A (diagonal blocks included) and S the strict block lower
    triangle, Σ_j Q̂^j = Uᵀ Λ⁻¹ U and Σ_j Q̃^j = Sᵀ Λ⁻¹ S, so that

        L̂ = ‖Λ^{-1/2} U Λ^{-1/2}‖²,   L̃ = ‖Λ^{-1/2} S Λ^{-1/2}‖²,

    and the mean over i of Uᵢᵀ Λ⁻¹ Uᵢ, Sᵢᵀ Λ⁻¹ Sᵢ for a finite sum, A of shape (n, d, d).

    >>> A = [[2, 1], [1, 2]]
    >>> quadratic_constants(A, 2.0, sizes=[1, 1])
    Constants(L_hat=1.640, L_tilde=0.25)
    >>> L_hat(quadratic_Q(A, 2.0, sizes=[1, 1]), 2.0, sizes=[1, 1])
    1.640
    """
    owner = _owner(sizes)
    root = np.sqrt(_diagonal(Lambda, sizes))
    scaled = _components(A, len(owner)) / (root[:, None] * root)
    upper = owner[:, None] <= owner

    def squared_norm(keep: npt.NDArray[np.bool_]) -> float:
        stack = np.where(keep, scaled, 0.0).reshape(-1, len(owner))
        return _norm(stack.T @ stack, Lambda) / len(scaled)

    return Constants(squared_norm(upper), squared_norm(~upper))


def estimate_constants(
    hvp: Hvp | Sequence[Hvp],
    x: npt.ArrayLike,
    Lambda: npt.ArrayLike,
    sizes: Sequence[int],
    *,
    points: int = 4,
    radius: float = 1.0,
    rng: np.random.Generator | int = 0,
    iterations: int = 100,
    tol: float = 1e-10,
) -> Constants:
    """Estimate L̂ and L̃ of any twice differentiable f from Hessian-vector products.

    At a point z with Hessian H, the smallest Q^j near z is H_{j,:}ᵀ Λ_j⁻¹ H_{j,:}. The norms of
    Λ^{-1/2} (Σ_j Q̂^j) Λ^{-1/2} and of its Q̃ counterpart are found by power iteration, applying
    the matrices through ``hvp`` alone (2m products each time), and the largest over all points is
    returned.

    **These are lower estimates, not bounds**, for three reasons: power iteration approaches the
    norm from below; a point not visited may have a larger one; and Assumption 3 asks for one Q^j
    that serves all pairs of points at once. For a quadratic only the first remains.

    Args:
        hvp: ``hvp(point, v)`` returns H(point) v. A sequence of n such functions, one for each
            f_i, estimates the constants of Assumption 7, which VR-CCD needs; one function
            those of Assumption 3.
        x: one point, shape (d,), or several, shape (k, d), such as the iterates of a run.
        Lambda: as in :func:`L_hat`.
        sizes: d^1, …, d^m.
        points: how many more points are drawn, each a given point plus a normal vector.
        radius: the root-mean-square length of that vector.
        rng: the generator, or its seed.
        iterations: most power iterations for each constant and point.
        tol: stop when the estimate grows by less than this fraction.

    >>> A = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> estimate_constants(lambda z, v: A @ v, np.zeros(2), 2.0, sizes=[1, 1])
    Constants(L_hat=1.640, L_tilde=0.25)
    """
    owner = _owner(sizes)
    d = len(owner)
    root = np.sqrt(_diagonal(Lambda, sizes))
    given = real_array("x", x)
    centres = np.atleast_2d(given)
    ok = centres.ndim == 2 and centres.shape[1] == d and len(centres) > 0
    require(ok, "x", given.shape, f"of shape ({d},) or (k, {d})")
    require(bool(np.isfinite(centres).all()), "x", x, "finite")
    points = whole_number("points", points, 0, LARGEST_INDEX)
    iterations = whole_number("iterations", iterations, 1)
    radius, tol = each(non_negative, radius=radius, tol=tol)
    products = _products(hvp)

    generator = seeded("rng", rng)
    chosen = generator.integers(len(centres), size=points)
    noise = generator.standard_normal((points, d)) * (radius / np.sqrt(d))
    later = [owner >= j for j in range(len(sizes))]  # what Q̂^j keeps
    earlier = [owner < j for j in range(len(sizes))]  # what Q̃^j keeps
    best = Constants(0.0, 0.0)
    for z in (*centres, *(centres[chosen] + noise)):
        found = [
            _power_iteration(
                partial(_apply_gram, products, z, root, owner, kept), d, generator, iterations, tol
            )
            for kept in (later, earlier)
        ]
        best = Constants(max(best.L_hat, found[0]), max(best.L_tilde, found[1]))
    return best


def _products(hvp: Hvp | Sequence[Hvp]) -> list[Hvp]:
    """The Hessian-vector products of all components."""
    accepted = "a function or a non-empty sequence of functions"
    products = [hvp] if callable(hvp) else listed("hvp", hvp, accepted)
    require(len(products) > 0 and all(map(callable, products)), "hvp", hvp, accepted)
    return products


def _apply_gram(
    products: Sequence[Hvp],
    z: Array,
    root: Array,
    owner: npt.NDArray[np.intp],
    kept: Sequence[npt.NDArray[np.bool_]],
    v: Array,
) -> Array:
    """Λ^{-1/2} (Σ_j Q^j cut to ``kept[j]``) Λ^{-1/2} v at z, the mean over the components."""
    out = np.zeros_like(v)
    for product in products:
        for j, keep in enumerate(kept):
            if keep.any():
                row = np.where(owner == j, _product(product, z, keep * v / root), 0.0)
                out += keep * _product(product, z, row / root**2) / root
    return out / len(products)


def _power_iteration(
    apply: Callable[[Array], Array], d: int, rng: np.random.Generator, iterations: int, tol: float
) -> float:
    """The largest eigenvalue of a positive semidefinite matrix, from below: ‖Mv‖ with ‖v‖ = 1."""
    v = rng.standard_normal(d)
    v /= np.linalg.norm(v)
    value = 0.0
    for _ in range(iterations):
        v = apply(v)
        last, value = value, float(np.linalg.norm(v))
        if value == 0 or value - last <= tol * value:
            break
        v /= value
    return value


def _product(hvp: Hvp, z: Array, v: Array) -> Array:
    """``hvp(z, v)``, checked."""
    out: Array = real_array("hvp(point, v)", hvp(z, v))
    require(out.shape == v.shape, "hvp(point, v)", out.shape, f"of shape {v.shape}")
    require(bool(np.isfinite(out).all()), "hvp(point, v)", out, "finite")
    return out


def _owner(sizes: Sequence[int]) -> npt.NDArray[np.intp]:
    """The block, counted from 0, that each of the d coordinates belongs to."""
    accepted = "a non-empty sequence of integers >= 1"
    given = listed("sizes", sizes, accepted)
    require(len(given) > 0, "sizes", sizes, accepted)
    counts = [whole_number(f"sizes[{j}]", size, 1) for j, size in enumerate(given)]
    try:
        return np.repeat(np.arange(len(counts)), counts)
    except (MemoryError, OverflowError, ValueError):
        raise ValueError(f"sizes must fit into memory, got {shown(sizes)}") from None


def _diagonal(Lambda: npt.ArrayLike, sizes: Sequence[int]) -> Array:
    """The diagonal of Λ, length d, from one number, m numbers, m diagonals or d numbers."""
    m, d = len(sizes), int(sum(sizes))
    given = list(Lambda) if np.iterable(Lambda) else [Lambda] * m
    items = [real_array("Lambda", item) for item in given]
    lengths = sizes if len(items) == m else [1] * d
    ok = len(items) == len(lengths) and all(
        item.shape in ((), (length,)) for item, length in zip(items, lengths, strict=True)
    )
    accepted = f"one number, m={m} numbers, m={m} diagonals of lengths {sizes} or d={d} numbers"
    require(ok, "Lambda", Lambda, accepted)
    out = np.concatenate([np.broadcast_to(v, size) for v, size in zip(items, lengths, strict=True)])
    require(bool(np.all((out > 0) & np.isfinite(out))), "Lambda", Lambda, "finite and > 0")
    return out


def _components(A: npt.ArrayLike, d: int) -> Array:
    """A as a stack (n, d, d) of symmetric matrices."""
    stack = real_array("A", A)
    ok = stack.ndim in (2, 3) and stack.shape[-2:] == (d, d) and len(stack) > 0
    require(ok, "A", stack.shape, f"of shape ({d}, {d}) or (n, {d}, {d})")
    return _symmetric("A", stack.reshape(-1, d, d))


def _symmetric(name: str, stack: Array) -> Array:
    require(bool(np.isfinite(stack).all()), name, stack, "finite")
    skew = np.abs(stack - np.swapaxes(stack, -1, -2)).max()
    ok = bool(skew <= 1e-8 * np.abs(stack).max())
    require(ok, name, stack, "symmetric")
    return stack


def _cut(Q: npt.ArrayLike, j: int, sizes: Sequence[int]) -> tuple[int, Array]:
    """The number of coordinates before block j, and Q^j as an array."""
    d = len(_owner(sizes))
    j = whole_number("j", j, 1, len(sizes))
    matrix = real_array("Q", Q)
    require(matrix.shape == (d, d), "Q", matrix.shape, f"of shape ({d}, {d})")
    return int(sum(sizes[: j - 1])), matrix


def _norm(M: Array, Lambda: npt.ArrayLike) -> float:
    """‖M‖ of a matrix that was divided by Λ."""
    require(bool(np.isfinite(M).all()), "Lambda", Lambda, "large enough for finite quotients")
    return float(np.linalg.norm(M, 2))


def _norm_of_sum(
    Q: npt.ArrayLike,
    Lambda: npt.ArrayLike,
    sizes: Sequence[int],
    cut: Callable[[npt.ArrayLike, int, Sequence[int]], Array],
) -> float:
    """‖Λ^{-1/2} (Σ_j cut(Q^j)) Λ^{-1/2}‖."""
    d = len(_owner(sizes))
    m = len(sizes)
    stack = real_array("Q", Q)
    require(stack.shape == (m, d, d), "Q", stack.shape, f"of shape ({m}, {d}, {d})")
    _symmetric("Q", stack)
    root = np.sqrt(_diagonal(Lambda, sizes))
    total = sum(cut(stack[j - 1], j, sizes) for j in range(1, m + 1))
    return _norm(total / (root[:, None] * root), Lambda)
