"""The same problem solved by a peer: one formula, ours, measures both solutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from estimator_cases import data, dense

from cyclade.linear import Solution, solve

SAME = 1e-8  # by how much objectives may differ, relative to their size


def problem(kind: str, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """X and targets as losses take them: labels are −1 and 1, or codes of classes."""
    X, y = data(kind, **options)
    return (X, np.where(y == "yes", 1.0, -1.0)) if kind == "two" else (X, y)


def value(
    X: Any, y: Any, loss: Any, penalty: Any, coef: Any, intercept: Any = 0.0,
    sample_weight: Any = None, offset: Any = 0.0,
) -> float:  # fmt: skip
    """F(coef, intercept), from its definition."""
    s = np.ones(len(y)) if sample_weight is None else sample_weight
    return float(
        s @ loss.value(y, dense(X) @ coef + intercept + offset) / s.sum() + penalty.total(coef)
    )


def agree(
    X: Any, y: Any, loss: Any, penalty: Any, coef: Any, intercept: Any = None, *,
    sample_weight: Any = None, offset: Any = None, atol: float | None = None, tol: float = 1e-12,
) -> Solution:  # fmt: skip
    """Solve it; F at our solution is no worse than at theirs, and the same to `SAME`.

    `atol` also compares coefficients, where the minimum is known to be unique and sharp.
    """
    ours = solve(
        X, y, loss, penalty, sample_weight=sample_weight, offset=offset,
        fit_intercept=intercept is not None, tol=tol,
    )  # fmt: skip
    assert ours.certificate.reached, ours.certificate
    rest = (sample_weight, 0.0 if offset is None else offset)
    coef = np.asarray(coef, float).reshape(ours.coef.shape)
    theirs = 0.0 if intercept is None else np.reshape(intercept, np.shape(ours.intercept))
    mine = value(X, y, loss, penalty, ours.coef, ours.intercept, *rest)
    other = value(X, y, loss, penalty, coef, theirs, *rest)
    assert ours.objective == pytest.approx(mine, rel=1e-12)
    assert mine <= other + 1e-12 * (1.0 + abs(other))
    assert abs(mine - other) <= SAME * abs(other)
    if atol is not None:
        np.testing.assert_allclose(ours.coef, coef, atol=atol)
        np.testing.assert_allclose(ours.intercept, theirs, atol=atol)
    return ours
