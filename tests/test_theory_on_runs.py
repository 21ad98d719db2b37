"""What the paper proves, seen on real runs where every constant is known exactly."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import watched
from cyclade import theory


@pytest.mark.parametrize("check", watched.CHECKS, ids=lambda check: check.__name__)
def test_the_theory_holds(check: Callable[[], None]) -> None:
    check()


def test_the_constants_of_these_runs_are_tight_enough_to_mean_something() -> None:
    problem = watched.Quadratics()
    Lambda, L_hat = watched.deterministic_constants(problem)
    assert 1.0 < L_hat < 5.0  # 1 for uncoupled blocks; bounds from a huge constant prove little
    root = np.repeat(np.sqrt(Lambda), problem.sizes)
    assert np.linalg.eigvalsh(problem.mean / root / root[:, None]).max() > 1.2  # they are coupled


def test_each_term_is_indefinite_so_the_sum_is_truly_nonconvex_in_its_terms() -> None:
    problem = watched.Quadratics(rank=6)
    assert min(np.linalg.eigvalsh(A).min() for A in problem.A) < -0.1
    assert np.linalg.eigvalsh(problem.mean).min() > -1e-12


def test_lemma_1_on_the_sampler_itself() -> None:
    """The mean over many draws of the real sampler matches (n−b)/(b(n−1)) of the variance."""
    from cyclade.sampling.samplers import FiniteSum

    rng, source = np.random.default_rng(0), FiniteSum(6)
    values = rng.normal(size=(6, 3))
    variance = float(np.mean(np.sum((values - values.mean(0)) ** 2, axis=1)))
    for b in (1, 2, 4, 5):
        errors = [
            np.sum((values[source.take(b, rng)].mean(0) - values.mean(0)) ** 2) for _ in range(6000)
        ]
        spread = 4 * np.std(errors) / np.sqrt(len(errors))
        assert abs(np.mean(errors) - theory.lemma1_variance(6, b, variance)) < spread
