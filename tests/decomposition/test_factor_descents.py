"""Descents beside literal ones over ten cycles, F that never rises, and certificates."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from literal_factors import (
    atoms,
    ball_distance,
    components,
    distance,
    equal_norms,
    khatri_rao,
    least_squares,
    same_product,
    tensor_factor,
    unfolded,
)
from scipy import sparse

from cyclade.decomposition.blocks import Entries, Products, Separable, UnitBall, norm
from cyclade.decomposition.completion import Balanced
from cyclade.decomposition.cp import Alternating, outer

CYCLES = 10


def draw(n, p, k, seed=0, positive=True):
    rng = np.random.default_rng(seed)
    make = rng.random if positive else rng.standard_normal
    X = make((n, k)) @ make((k, p)) + 0.1 * make((n, p))
    return X, make((n, k)), make((k, p))


def weighted(X, share=0.6, seed=1):
    """Random weights, zero for the rest; no row or column without any."""
    rng = np.random.default_rng(seed)
    S = rng.random(X.shape) * (rng.random(X.shape) < share)
    S[np.arange(max(X.shape)) % len(X), np.arange(max(X.shape)) % X.shape[1]] = 0.5
    return S


def entries(X, S, W, H, w, h, kind=Entries):
    where = sparse.csr_matrix(S)
    rows = np.repeat(np.arange(len(X)), np.diff(where.indptr))
    known = sparse.csr_matrix((X[rows, where.indices], where.indices, where.indptr), X.shape)
    return kind(known, where, W.copy(), H.T.copy(), w, h)


def products(X, W, H, w, h, make=np.asarray):
    return Products(make(X), W.T.copy(), H.copy(), w, h)


def rises(values):
    return np.max(np.diff(values) / (1e-300 + abs(np.array(values[:-1]))))


W_PENALTY, H_PENALTY = Separable(0.1, 0.2, True), Separable(0.3, 0.05, True)


@pytest.mark.parametrize("penalties", [(Separable(positive=True),) * 2, (W_PENALTY, H_PENALTY)])
@pytest.mark.parametrize(("n", "p", "k"), [(30, 20, 4), (700, 9, 5), (9, 300, 3), (20, 12, 1)])
@pytest.mark.parametrize("kind", ["dense", "sparse", "entries"])
def test_nmf_is_literal_descent(n, p, k, kind, penalties):
    X, W, H = draw(n, p, k)
    X[np.median(X) > X] *= kind != "sparse"
    S = weighted(X) if kind == "entries" else np.ones(X.shape)
    w, h = penalties
    if kind == "entries":
        ours, passes = entries(X, S, W, H, w, h), (1, 1)
    else:
        make = sparse.csr_matrix if kind == "sparse" else np.asarray
        ours = products(X, W, H, w, h, make)
        passes = tuple(1 + min(size // (2 * k), 7) for size in (p, n))
    F = []
    for _ in range(CYCLES):
        ours.cycle()
        components(X, S, W, H, w.l1, w.l2, True, passes[0])
        components(X.T, S.T, H.T, W.T, h.l1, h.l2, True, passes[1])
        A, B = (ours.A, ours.B.T) if kind == "entries" else (ours.A.T, ours.B)
        np.testing.assert_allclose(A, W, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(B, H, rtol=1e-7, atol=1e-9)
        F.append(0.5 * np.sum(S * (X - A @ B) ** 2) + w.value(A) + h.value(B))
        assert sum(ours.values()) == pytest.approx(F[-1], rel=1e-9)
        R = S * (A @ B - X)
        there = distance(R @ B.T + w.l2 * A, A, w.l1, True)
        there += distance(A.T @ R + h.l2 * B, B, h.l1, True)
        found, size = ours.measure()
        assert found == pytest.approx(np.sqrt(there), rel=1e-6, abs=1e-9)
        scale = np.hypot(np.linalg.norm((S * X) @ B.T), np.linalg.norm(A.T @ (S * X)))
        assert size == pytest.approx(scale)
    assert rises(F) <= 1e-12


@pytest.mark.parametrize("l2", [0.5, 0.01])
def test_completion_is_literal_alternation(l2):
    X, U, V = draw(25, 15, 3, positive=False)
    S, r = weighted(X), Separable(l2=l2)
    ours, F = entries(X, S, U, V, r, r, Balanced), []
    for _ in range(CYCLES):
        ours.cycle()
        least_squares(X, S, U, V, l2)
        least_squares(X.T, S.T, V.T, U.T, l2)
        same_product(U, V)
        signs = np.sign(np.sum(ours.A * U, axis=0))  # singular vectors are free in these
        np.testing.assert_allclose(ours.A * signs, U, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(ours.B * signs, V.T, rtol=1e-6, atol=1e-8)
        F.append(0.5 * np.sum(S * (X - U @ V) ** 2) + r.value(U) + r.value(V))
        R = S * (U @ V - X)
        there = np.hypot(norm(R @ V.T + l2 * U), norm(U.T @ R + l2 * V))
        assert ours.measure()[0] == pytest.approx(there, rel=1e-5, abs=1e-8)
    assert sum(ours.values()) == pytest.approx(F[-1])
    assert rises(F) <= 1e-12


def test_rows_with_too_few_entries_are_minimised_over_by_coordinates():
    X, U, V = draw(12, 6, 3, positive=False)
    S, r = np.ones(X.shape), Separable()
    S[6:, 2:] = 0.0  # two entries for three unknowns
    ours, F = entries(X, S, U, V, r, r), []
    for _ in range(CYCLES):
        ours.cycle()
        F.append(0.5 * np.sum(S * (X - ours.A @ ours.B.T) ** 2))
    assert np.isfinite(F).all()
    assert rises(F) <= 1e-9
    assert abs(ours.A).max() < 100 * abs(U).max()


@pytest.mark.parametrize(
    ("n", "p", "k", "l1"), [(60, 10, 4, 0.3), (20, 30, 6, 1.0), (40, 5, 9, 0.1)]
)
def test_dictionary_learning_is_literal_descent(n, p, k, l1):
    X, W, H = draw(n, p, k, positive=False)
    H /= np.linalg.norm(H, axis=1, keepdims=True) * 1.3
    w = Separable(l1)
    ours, F, S = products(X, W, H, w, UnitBall()), [], np.ones(X.shape)
    for _ in range(CYCLES):
        ours.cycle()
        components(X, S, W, H, l1, 0.0, False, 1 + min(p // (2 * k), 7))
        atoms(X, W, H, 1 + min(n // (2 * k), 7))
        np.testing.assert_allclose(ours.A.T, W, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(ours.B, H, rtol=1e-6, atol=1e-8)
        F.append(0.5 * np.sum((X - W @ H) ** 2) + l1 * abs(W).sum())
        there = distance((W @ H - X) @ H.T, W, l1) + ball_distance(W.T @ (W @ H - X), H)
        assert ours.measure()[0] == pytest.approx(np.sqrt(there), rel=1e-6, abs=1e-8)
        assert np.linalg.norm(ours.B, axis=1).max() <= 1 + 1e-12
    assert sum(ours.values()) == pytest.approx(F[-1])
    assert rises(F) <= 1e-12


@pytest.mark.parametrize("shape", [(7, 6, 5), (5, 4, 3, 6), (3, 2, 4, 2, 3)])
@pytest.mark.parametrize(
    ("positive", "l2"), [(False, 0.0), (False, 0.02), (True, 0.0), (True, 0.02)]
)
def test_cp_is_literal_descent(shape, positive, l2):
    rng, k = np.random.default_rng(3), 2
    make = rng.random if positive else rng.standard_normal
    X = outer([make((size, k)) for size in shape]) + 0.1 * make(shape)
    factors, r = [make((size, k)) for size in shape], Separable(l2=l2, positive=positive)
    ours, F = Alternating(X, [A.copy() for A in factors], r), []
    for _ in range(CYCLES):
        ours.cycle()
        for mode in range(len(shape)):
            tensor_factor(X, factors, mode, l2, positive, 8)
        equal_norms(factors)
        for A, B in zip(ours.factors, factors, strict=True):
            np.testing.assert_allclose(A, B, rtol=1e-5, atol=1e-7)
        F.append(0.5 * np.sum((X - outer(ours.factors)) ** 2) + sum(map(r.value, ours.factors)))
        there = square = 0.0
        for mode, A in enumerate(ours.factors):
            K, U = khatri_rao(ours.factors[:mode] + ours.factors[mode + 1 :]), unfolded(X, mode)
            there += distance((A @ K.T - U) @ K + l2 * A, A, 0.0, positive)
            square += norm(U @ K) ** 2
        found, size = ours.measure()
        assert found == pytest.approx(np.sqrt(there), rel=1e-5, abs=1e-8)
        assert size == pytest.approx(np.sqrt(square))
    assert sum(ours.values()) == pytest.approx(F[-1])
    assert rises(F) <= 1e-12


def test_cp_of_too_high_a_rank_does_not_rise():
    X = outer([np.random.default_rng(0).standard_normal((size, 2)) for size in (4, 3, 5)])
    start = [np.random.default_rng(1).standard_normal((size, 8)) for size in X.shape]
    ours, F = Alternating(X, start, Separable()), [0.5 * norm(X) ** 2 * 1e9]
    for _ in range(CYCLES):
        ours.cycle()
        F.append(ours.values()[0])
    assert F[-1] < 1e-20
    assert all(b <= a + 1e-20 for a, b in pairwise(F))


@pytest.mark.parametrize("l1", [0.0, 0.2])
def test_components_without_a_partner_stay_unless_the_penalty_wants_them_at_zero(l1):
    X, W, H = draw(6, 5, 2)
    H[1] = 0.0
    kept = W[:, 1].copy()
    ours = Products(X, W.T.copy(), H.copy(), Separable(l1, positive=True), None)
    ours.cycle()
    np.testing.assert_array_equal(ours.A[1], kept if l1 == 0.0 else 0.0)
    assert ours.measure()[0] < 1e-9 * ours.measure()[1]
