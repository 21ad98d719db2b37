"""Special cases that must coincide."""

from __future__ import annotations

import numpy as np
import pytest

from cyclade import L1
from small import Logistic, both


def test_one_block_pccd_is_proximal_gradient() -> None:
    problem = Logistic()
    iterates, _ = both(problem, "P-CCD", m=1, reg=L1(0.03), eta=1.0, K=30)
    (L,) = problem.lipschitz([np.arange(problem.d)])
    x = np.linspace(-1, 1, problem.d)
    for found in iterates[1:]:
        y = x - problem.jac(x, np.arange(problem.n)) / L
        x = np.sign(y) * np.maximum(np.abs(y) - 0.03 / L, 0)
        np.testing.assert_allclose(found, x, atol=1e-14)


@pytest.mark.parametrize("order", ["forward", "shuffled", "random"])
def test_vroccd_with_p_1_is_sccd(order: str) -> None:
    problem = Logistic()
    vro, _ = both(problem, "VRO-CCD", order, b=7, b_small=2, p=1.0, K=20, reg=L1(0.01))
    sccd, _ = both(problem, "SCCD", order, b=7, K=20, reg=L1(0.01))
    assert all(np.array_equal(a, b) for a, b in zip(vro, sccd, strict=True))


@pytest.mark.parametrize("method", ["VR-CCD", "VRO-CCD"])
def test_full_batches_are_pccd(method: str) -> None:
    problem = Logistic()
    full = {"b": problem.n, "b_small": problem.n, "p": 0.3}
    variance_reduced, _ = both(problem, method, K=20, reg=L1(0.01), **full)
    deterministic, _ = both(problem, "P-CCD", K=20, reg=L1(0.01))
    for a, b in zip(variance_reduced, deterministic, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-13)


def test_one_block_vroccd_is_page() -> None:
    problem = Logistic()
    options = {"b": 10, "b_small": 3, "p": 0.3, "K": 20, "reg": L1(0.01)}
    vro, _ = both(problem, "VRO-CCD", m=1, **options)
    page, _ = both(problem, "PAGE", **options)
    vr, _ = both(problem, "VR-CCD", m=1, **options)  # one block: a fresh draw per block is one
    assert all(np.array_equal(a, b) for a, b in zip(vro, page, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(vr, page, strict=True))


def test_one_block_sccd_is_sgd() -> None:
    sccd, _ = both(Logistic(), "SCCD", m=1, b=5)
    sgd, _ = both(Logistic(), "SGD", b=5)
    assert all(np.array_equal(a, b) for a, b in zip(sccd, sgd, strict=True))


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
