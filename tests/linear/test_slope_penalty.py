"""The sorted l1 penalty: prox, subdifferential, dual norm, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import slope_twin as twin
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from cyclade.linear import penalties
from cyclade.linear.penalties import L1, Slope
from cyclade.linear.subproblem.sorted_l1 import minimise_sizes

few = st.integers(-6, 6).map(lambda k: k / 2)  # ties and zeros are likely


def sequences(p, rng):
    return np.sort(rng.random(p))[::-1].copy() * rng.choice([0.3, 1.0, 3.0])


@settings(max_examples=60, deadline=None)
@given(
    u=st.lists(few, min_size=1, max_size=4),
    lam=st.lists(st.integers(0, 6).map(lambda k: k / 3), min_size=4, max_size=4),
)
def test_the_prox_is_the_best_of_all_orders_and_clusters(u, lam):
    u, lam = np.array(u), np.sort(lam)[::-1][: len(u)].copy()
    lam[0] += 0.1
    x = Slope(1.0, lam).prox(u, 1.0)
    _, best = twin.prox_by_enumeration(u, lam)
    assert 0.5 * np.sum((x - u) ** 2) + twin.value(x, lam) <= best + 1e-12


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    p=st.integers(1, 60),
    ties=st.booleans(),
    t=st.sampled_from([0.1, 1.0, 4.0]),
)
def test_the_compiled_prox_is_the_literal_one(seed, p, ties, t):
    rng = np.random.default_rng(seed)
    u = 3 * rng.standard_normal(p)
    u = u.round(0) if ties else u
    lam = sequences(p, rng)
    penalty = Slope(0.7, lam)
    x = penalty.prox(u, t)
    np.testing.assert_allclose(x, twin.prox(u, 0.7 * t * lam), atol=1e-13)
    # x = prox(u) just where (u − x)/t lies in ∂r(x)
    assert penalty.distance(x, (x - u) / t) <= 1e-12 * (1 + np.abs(u).max() / t)
    assert penalty.value(x) == pytest.approx(twin.value(x, 0.7 * lam))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), p=st.integers(1, 30))
def test_distances_are_those_of_the_twin_and_of_no_point_of_the_subdifferential(seed, p):
    rng = np.random.default_rng(seed)
    x, g, lam = rng.integers(-2, 3, p).astype(float), rng.standard_normal(p), sequences(p, rng)
    penalty = Slope(1.0, lam)
    found = penalty.distances(x, g)
    np.testing.assert_allclose(np.sort(found**2), np.sort(twin.distances(x, g, lam) ** 2))
    assert penalty.distance(x, g) == pytest.approx(np.linalg.norm(found))
    # −g − found is in ∂r(x): r(v) ≥ r(x) + ⟨·, v − x⟩ for every v
    subgradient = -g - found
    for _ in range(20):
        v = x + rng.standard_normal(p) * rng.choice([0.01, 1.0, 10.0])
        bound = penalty.value(x) + subgradient @ (v - x)
        assert penalty.value(v) >= bound - 1e-12 * (1 + abs(bound))
    # and the nearest such point: moving from it to other subgradients leads away from −g
    for _ in range(20):
        other = subgradient_at(x, rng.standard_normal(p), lam)
        assert found @ (other - subgradient) <= 1e-10


def subgradient_at(x, direction, lam):
    """The subgradient at x that is largest along `direction`."""
    nudged = np.argsort(-(np.abs(x) + 1e-9 * np.where(x != 0, np.sign(x) * direction,
                                                      np.abs(direction))))  # fmt: skip
    out = np.empty(x.size)
    out[nudged] = lam
    return out * np.where(x != 0, np.sign(x), np.sign(direction))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), p=st.integers(1, 30))
def test_the_dual_norm_bounds_and_is_attained(seed, p):
    rng = np.random.default_rng(seed)
    v, lam = rng.standard_normal(p), sequences(p, rng)
    penalty = Slope(1.0, lam)
    norm_v = penalty.dual_norm(v)
    for _ in range(20):
        x = rng.standard_normal(p)
        assert v @ x <= norm_v * penalty.value(x) * (1 + 1e-12)
    order = np.argsort(-np.abs(v))
    tops = [np.isin(np.arange(p), order[:k]) * np.sign(v) for k in range(1, p + 1)]
    assert max(v @ x / penalty.value(x) for x in tops) == pytest.approx(norm_v)
    assert penalty.lam_max(v) == pytest.approx(norm_v)
    assert penalty.scaled(1.001 * norm_v).distance(np.zeros(p), v) == 0.0
    assert penalty.scaled(0.999 * norm_v).distance(np.zeros(p), v) > 0.0
    assert penalty.conjugate(v / (1.001 * norm_v)) == 0.0
    assert penalty.conjugate(v / (0.999 * norm_v)) == np.inf


def test_shipped_sequences():
    p, q = 50, 0.2
    k = np.arange(1, p + 1)
    quantiles = norm.ppf(1 - k * q / (2 * p))
    np.testing.assert_allclose(Slope(2.0, q=q).sequence(p), 2 * quantiles / quantiles[0])
    np.testing.assert_allclose(Slope(2.0, "oscar").sequence(4), [2.0, 1.5, 1.0, 0.5])
    assert Slope(1.0).scaled(3.0).sequence(7)[0] == 3.0
    assert penalties.get("slope", 0.5, q=0.3).q == 0.3


def test_equal_weights_are_the_l1_norm():
    rng = np.random.default_rng(0)
    x, g = rng.integers(-2, 3, 20) * rng.random(20), rng.standard_normal(20)
    slope, l1 = Slope(0.4, np.ones(20)), L1(0.4)
    assert slope.value(x) == pytest.approx(l1.total(x))
    np.testing.assert_allclose(slope.prox(x, 0.5), [l1.prox(u, 0.5, 0) for u in x], atol=1e-15)
    each = [l1.distance(u, v, 0) for u, v in zip(x, g, strict=True)]
    np.testing.assert_allclose(np.abs(slope.distances(x, g)), each, atol=1e-15)


def test_newton_steps_on_clusters_keep_the_order_and_lower_the_objective():
    rng = np.random.default_rng(0)
    for _ in range(50):
        k = int(rng.integers(1, 8))
        A, lam = rng.standard_normal((k, 12)), np.sort(rng.random(k))[::-1]
        size = np.sort(rng.integers(1, 4, k).astype(float))[::-1]
        R = rng.standard_normal(12)
        b = minimise_sizes(size, A @ A.T, A @ R, lam)

        def F(b, A=A, R=R, lam=lam, size=size):
            return 0.5 * np.sum((R - (b - size) @ A) ** 2) + lam @ b

        assert (np.diff(b) <= 0).all()
        assert (b >= 0).all()
        assert (np.diff(b)[np.diff(size) == 0] == 0).all()
        assert F(b) <= F(size) + 1e-12


REFUSED = {
    "negative lam": (lambda: Slope(-1.0), "Slope: lam"),
    "nan lam": (lambda: Slope(float("nan")), "Slope: lam"),
    "increasing": (lambda: Slope(1.0, [1.0, 2.0]), "must not increase, but entry 1 is 2 after 1"),
    "negative": (lambda: Slope(1.0, [1.0, -2.0]), "entry 1 is -2"),
    "nan": (lambda: Slope(1.0, [1.0, np.nan]), "entry 1 is nan"),
    "infinite": (lambda: Slope(1.0, [np.inf, 1.0]), "entry 0 is inf"),
    "all zero": (lambda: Slope(1.0, [0.0, 0.0]), "first of the weights must be > 0"),
    "empty": (lambda: Slope(1.0, []), "list of numbers"),
    "matrix": (lambda: Slope(1.0, np.ones((2, 2))), "list of numbers"),
    "name": (lambda: Slope(1.0, "steep"), "'bh', 'oscar' or .* got 'steep'"),
    "q": (lambda: Slope(1.0, q=0.0), "q must be strictly between 0 and 1"),
    "large q": (lambda: Slope(1.0, q=1.0), "strictly between 0 and 1"),
    "length": (lambda: Slope(1.0, [2.0, 1.0]).value(np.ones(3)), "each of the 3 .* got 2"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_arguments_are_named(case):
    make, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        make()
