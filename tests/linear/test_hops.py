"""Hops of single fits with nonconvex penalties: to other λ and back, to the lowest F."""

from __future__ import annotations

import numpy as np
import pytest
from test_path_companion import crowded

from cyclade.linear import solve, starts
from cyclade.linear.penalties import L1, MCP, SCAD
from cyclade.linear.tuning import Tuning


@pytest.mark.parametrize("penalty", [MCP(1.0, 3.0), SCAD(1.0, 3.7)], ids=["MCP", "SCAD"])
def test_objectives_are_often_lower_and_hardly_ever_higher(penalty, monkeypatch):
    ratios = []
    for seed in range(12):
        X, y = crowded(seed)
        at = penalty.scaled(float(np.abs(X.T @ y).max()) / len(y) / 100)
        fits = [solve(X, y, "squared", at, tol=1e-7)]
        with monkeypatch.context() as without:
            without.setattr(starts, "hop", lambda problem, state, *more: state)
            fits.append(solve(X, y, "squared", at, tol=1e-7))
        assert all(found.certificate.reached for found in fits)
        ratios.append(fits[0].objective / fits[1].objective)
    assert sum(ratio < 0.99 for ratio in ratios) >= 5
    assert max(ratios) < 1.02  # points are compared roughly


def test_lowest_point_is_gone_on_with(monkeypatch):
    seen = []
    literal = starts.near

    def watched(problem, state, *rest):
        literal(problem, state, *rest)
        seen.append(state.measured.objective)

    monkeypatch.setattr(starts, "near", watched)
    for seed in range(4):
        seen.clear()
        X, y = crowded(seed)
        at = MCP(float(np.abs(X.T @ y).max()) / len(y) / 100, 3.0)
        found = solve(X, y, "squared", at, tol=1e-7)
        assert len(seen) >= 2
        assert found.objective <= min(seen) * (1 + 1e-12)


def test_hops_go_on_where_they_pay_and_X_is_small(monkeypatch):
    """Never higher than one round; a large X, or a round that gains nothing, has no other."""
    counted, literal = [], starts.hop
    monkeypatch.setattr(starts, "hop", lambda *args: counted.append(1) or literal(*args))
    lower = 0
    for seed in range(6):
        X, y = crowded(seed)
        at = MCP(float(np.abs(X.T @ y).max()) / len(y) / 100, 3.0)
        ends, numbers = [], []
        for tuning in (None, Tuning(cache=1), Tuning(close=1.0)):
            counted.clear()
            ends.append(solve(X, y, "squared", at, tol=1e-7, tuning=tuning).objective)
            numbers.append(len(counted))
        assert numbers[1:] == [2, 2]
        assert ends[0] <= ends[1] * (1 + 1e-3)  # points are compared roughly
        lower += numbers[0] > 2 and ends[0] < 0.999 * ends[1]
    assert lower >= 2


@pytest.mark.parametrize("case", ["convex", "start given", "all zero"])
def test_other_fits_do_not_hop(case, monkeypatch):
    X, y = crowded(0)
    away = []
    monkeypatch.setattr(starts, "hop", lambda *args: away.append(args[1].x.any()) or args[1])
    penalty = L1(0.3) if case == "convex" else MCP(1e3 if case == "all zero" else 0.3, 3.0)
    start = np.ones(X.shape[1]) if case == "start given" else None
    solve(X, y, "squared", penalty, coef=start)
    assert not any(away)
