"""The real loop against the literal one: every iterate, not the end point."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cyclade import L1, GroupL2, NonNegative
from small import METHODS, ORDERS, Logistic, both, largest_difference

ROUNDING = 1e-13


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_in_every_order(method: str, order: str) -> None:
    iterates, reference = both(Logistic(), method, order, reg=L1(0.01), b=16, b_small=4, p=0.3)
    assert largest_difference(iterates, reference) < ROUNDING
    assert np.linalg.norm(iterates[-1] - iterates[0]) > 0.1  # it did go somewhere


@pytest.mark.parametrize("m", [1, 2, 5, 12])
@pytest.mark.parametrize("method", ["P-CCD", "VR-CCD", "VRO-CCD"])
def test_any_number_of_blocks(method: str, m: int) -> None:
    iterates, reference = both(Logistic(), method, m=m, reg=L1(0.01), b=20, b_small=5, p=0.25)
    assert largest_difference(iterates, reference) < ROUNDING


@pytest.mark.parametrize("order", ["forward", "shuffled", "random"])
@pytest.mark.parametrize("method", METHODS)
def test_torch_autograd_follows_the_same_path(method: str, order: str) -> None:
    iterates, reference = both(
        Logistic(), method, order, reg=L1(0.01), b=16, b_small=4, p=0.3, backend="torch"
    )
    assert largest_difference(iterates, reference) < 1e-12


@pytest.mark.parametrize(
    ("b", "b_small", "p"), [(30, 5, 0.2), (30, 30, 0.5), (8, 1, 0.05), (8, 3, 1.0)]
)
@pytest.mark.parametrize("method", ["VR-CCD", "VRO-CCD", "PAGE"])
def test_batch_sizes_and_coins(method: str, b: int, b_small: int, p: float) -> None:
    iterates, reference = both(Logistic(), method, b=b, b_small=b_small, p=p, K=25, eta=0.2)
    assert largest_difference(iterates, reference) < ROUNDING
    coins = [coin for cycle in reference.refreshed for coin in cycle]
    assert all(coins) if p == 1.0 else not all(coins)


@pytest.mark.parametrize("order", ["forward", "shuffled", "random"])
def test_scattered_blocks_diagonal_steps_and_a_regulariser_per_block(order: str) -> None:
    index = [np.array([7, 0, 3]), np.array([1]), np.array([11, 2, 4, 10]), np.array([5, 6, 8, 9])]
    problem = Logistic()
    rng = np.random.default_rng(3)
    Lambda = [
        L * (1 + rng.random(len(j))) for L, j in zip(problem.lipschitz(index), index, strict=True)
    ]
    iterates, reference = both(
        problem, "VRO-CCD", order, index=index, Lambda=Lambda,
        reg=[L1(0.02), NonNegative(), GroupL2(0.05), None], b=12, b_small=3, p=0.2, K=20,
    )  # fmt: skip
    assert largest_difference(iterates, reference) < ROUNDING


def test_same_seed_same_trajectory_other_seed_another() -> None:
    problem = Logistic()
    options = {"b": 8, "b_small": 3, "p": 0.3, "order": "shuffled"}
    first, _ = both(problem, "VR-CCD", seed=5, **options)
    again, _ = both(problem, "VR-CCD", seed=5, **options)
    other, _ = both(problem, "VR-CCD", seed=6, **options)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[-1], other[-1])


def test_the_estimates_are_those_of_line_6() -> None:
    """The reference itself: with full batches g^j is the exact gradient at x_{k−1,j}."""
    problem = Logistic()
    _, reference = both(problem, "VRO-CCD", m=3, b=30, b_small=30, p=0.5, K=6)
    index = np.array_split(np.arange(problem.d), 3)
    for k in range(1, 7):
        for j in range(3):
            exact = problem.jac(reference.partial[k - 1][j], np.arange(problem.n))[index[j]]
            np.testing.assert_allclose(reference.g[k][j], exact, atol=1e-13)


def test_partial_points_change_one_block_at_a_time() -> None:
    _, reference = both(Logistic(), "P-CCD", m=3, K=2)
    index = np.array_split(np.arange(12), 3)
    for partial, turns in zip(reference.partial, reference.turns, strict=True):
        assert turns == [0, 1, 2]
        for before, after, j in zip(partial[:-1], partial[1:], turns, strict=True):
            changed = np.flatnonzero(before != after)
            assert set(changed) <= set(index[j])


# ------------------------------------------------------- special cases that must coincide


def test_one_block_pccd_is_proximal_gradient() -> None:
    problem = Logistic()
    iterates, _ = both(problem, "P-CCD", m=1, reg=L1(0.03), eta=1.0, K=30)
    (L,) = problem.lipschitz([np.arange(problem.d)])
    x = np.linspace(-1, 1, problem.d)
    for found in iterates[1:]:
        y = x - problem.jac(x, np.arange(problem.n)) / L
        x = np.sign(y) * np.maximum(np.abs(y) - 0.03 / L, 0)
        np.testing.assert_allclose(found, x, atol=1e-14)


@pytest.mark.parametrize(
    ("one", "other", "options"),
    [
        *((("VRO-CCD", order), ("SCCD", order), {"p": 1.0}) for order in ORDERS[:4]),
        (("VRO-CCD", "forward"), ("PAGE", "forward"), {"m": 1}),
        (("VR-CCD", "forward"), ("PAGE", "forward"), {"m": 1}),
        (("SCCD", "forward"), ("SGD", "forward"), {"m": 1}),
    ],
    ids=str,
)
def test_methods_that_are_another_one_bit_for_bit(one: Any, other: Any, options: Any) -> None:
    few = {"b": 10, "b_small": 3, "p": 0.3, "K": 20, "reg": L1(0.01)}
    options = few | options
    first, second = (both(Logistic(), *method, **options)[0] for method in (one, other))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("method", ["VR-CCD", "VRO-CCD"])
def test_full_batches_are_pccd(method: str) -> None:
    problem = Logistic()
    full = {"b": problem.n, "b_small": problem.n, "p": 0.3}
    variance_reduced, _ = both(problem, method, K=20, reg=L1(0.01), **full)
    deterministic, _ = both(problem, "P-CCD", K=20, reg=L1(0.01))
    for a, b in zip(variance_reduced, deterministic, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-13)


def test_sgd_is_the_textbook_loop() -> None:
    problem = Logistic()
    iterates, _ = both(problem, "SGD", b=5, K=10, eta=0.3, seed=4)
    (L,) = problem.lipschitz([np.arange(problem.d)])
    _, sample_rng, _ = np.random.default_rng(4).spawn(3)
    x = np.linspace(-1, 1, problem.d)
    for found in iterates[1:]:
        batch = sample_rng.choice(problem.n, size=5, replace=False, shuffle=False)
        x = x - 0.3 / L * problem.jac(x, batch)
        np.testing.assert_allclose(found, x, atol=1e-14)
