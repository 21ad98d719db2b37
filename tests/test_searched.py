"""Steps searched on the samples: `minimize(..., L="search")`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cyclade import L1, Minibatch, Page, minimize
from cyclade.regularisers import per_block
from cyclade.sampling import ALL
from cyclade.steps import Searched
from cyclade.steps.scaling import PROBES, ROUNDS
from cyclade.steps.searched import SLACK, eta_of, rate_and_large, small_batch
from suite import labels, linear, logistic, logistic_slope, poisson

SAMPLING = ["VRO-CCD", "VR-CCD", "PAGE", "SCCD", "SGD"]


A = np.random.default_rng(0).normal(size=(400, 8)) * np.geomspace(0.3, 3.0, 8)
F = linear("", A, labels(A, 1), logistic, logistic_slope, reg=L1(0.01))


@pytest.mark.parametrize("method", SAMPLING)
def test_they_find_the_way_without_constants(method: str) -> None:
    best, start = minimize(F.fun, F.x0, **F.options(), tol=1e-9).fun, F.fun(F.x0)
    found = minimize(
        F.fun, F.x0, **F.options(), n=F.n, method=method, L="search", tol=None, max_cycles=None,
        max_samples=60 * F.n,
    )  # fmt: skip
    assert found.fun - best < (0.02 if method in ("SCCD", "SGD") else 1e-3) * (start - best)


@pytest.mark.parametrize("seed", range(3))
def test_far_counts_neither_explode_nor_stand_still(seed: int) -> None:
    f = poisson("", 2.0, blocks=5)
    best = minimize(f.fun, np.zeros(5), **f.options(), tol=1e-8).fun
    found = minimize(
        f.fun, f.x0, **f.options(), n=f.n, L="search", seed=seed, tol=None, max_cycles=None,
        max_samples=60 * f.n,
    )  # fmt: skip
    assert found.fun - best < 1e-2 * (f.fun(f.x0) - best)


def test_a_step_is_taken_where_the_sample_curves_no_more() -> None:
    seen = []

    class Watched(Searched):
        def at(self, j: int, now: Any, gj: Any, reg: Any) -> Any:
            direction, t = super().at(j, now, gj, reg)
            u = reg.prox(j, now.get(j) - t * direction, t)
            bend, length = now.bend(j, u)[0], float(((u - now.get(j)) ** 2).sum())
            seen.append((bend / length, self.rate / t))
            return direction, t

    steps = Watched(2, 0.7)
    minimize(F.fun, F.x0, jac=F.jac, n=F.n, blocks=2, L=steps, tol=None, max_cycles=40)
    assert len(seen) == 80
    assert all(bend <= SLACK * beta * (1 + 1e-9) for bend, beta in seen)
    assert min(beta for _, beta in seen) < 0.8 * max(beta for _, beta in seen)  # it came down


def test_noise_lowers_eta_and_full_samples_do_not() -> None:
    assert (small_batch(10_000), small_batch(4)) == (300, 4)
    assert eta_of(1000, 1000, 1000, 1.0) == pytest.approx(1.0)
    assert eta_of(10**4, 10**4, 100, 0.01) < eta_of(10**4, 10**4, 300, 0.03) < 1.0


@pytest.mark.parametrize(
    ("n", "scaled", "size"),
    [(50, 1, 50), (1000, 1, 64), (10_000, 1, 250), (10_000, 2, 125), (10**6, 1, 1024)],
)
def test_the_sample_at_the_start_costs_about_a_pass(n: int, scaled: int, size: int) -> None:
    sample = Searched(2, scaled=range(scaled)).first_sample(n, np.random.default_rng(0))
    assert (n if sample is ALL else len(sample)) == size


@pytest.mark.parametrize(("bend", "learnt"), [(1e-14, True), (1e-17, False)])
def test_a_bend_that_is_rounding_beside_its_terms_teaches_nothing(
    bend: float, learnt: bool
) -> None:
    """1e-10 of terms of size 1e-6: a shallower curvature brings Λ down, rounding does not."""
    steps = Searched(1)
    steps.begin(0)
    now = SimpleNamespace(get=lambda j: np.zeros(1), terms=1.0, bend=lambda j, u: (bend, 1e-6))
    steps.at(0, now, np.ones(1), per_block(None, 1))
    assert (steps.beta[0] < 1.0) == learnt


def test_where_all_samples_are_of_one_size_only_eta_falls() -> None:
    """There is no larger sample to search on: nothing of the sweep is asked."""
    steps = Searched(2, 0.8)
    steps.slow(SimpleNamespace(), None, None)
    steps.begin(1)
    assert (steps.rate, steps.beta) == (0.4, [1.0, 1.0])


def test_eta_falls_with_the_passes_and_large_samples_are_not_searched() -> None:
    eta, large = rate_and_large(Minibatch(100, 10))
    assert callable(eta)
    assert ([eta(0), eta(30)], large) == ([1.0, 0.5], np.inf)
    assert rate_and_large(Page(100, 50, 5))[1] == 50
    assert rate_and_large(Page(100, 50, 50), 0.3) == (0.3, np.inf)


def test_every_product_with_a_hessian_is_watched() -> None:
    at_x0 = SimpleNamespace(
        get=lambda j: np.ones(2), grad=lambda j: np.ones(2), hvp=lambda j, v: 3.0 * v,
        bend=lambda j, u: (3.0 * float(np.sum((u - 1.0) ** 2)), 1.0),
    )  # fmt: skip
    watched: list[float] = []
    steps = Searched(2, scaled=[0])
    steps.prepare(at_x0, watched.append)
    assert len(watched) == ROUNDS * PROBES + 2  # D_0, and a first guess for each block
    assert steps.beta[1] == pytest.approx(3.0)
