"""Steps searched on the samples: `minimize(..., L="search")`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cyclade import L1, Minibatch, Page, minimize
from cyclade.regularisers import per_block
from cyclade.steps import Searched
from cyclade.steps.searched import SLACK, rate_and_large
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


def test_eta_falls_with_the_passes_and_large_samples_are_not_searched() -> None:
    eta, large = rate_and_large(Minibatch(100, 10))
    assert callable(eta)
    assert ([eta(0), eta(30)], large) == ([1.0, 0.5], np.inf)
    assert rate_and_large(Page(100, 50, 5))[1] == 50
    assert rate_and_large(Page(100, 50, 50), 0.3) == (0.3, np.inf)
