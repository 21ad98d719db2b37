"""Every estimator on degenerate data, and every estimator refusing bad data."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from estimator_cases import CASES, data, distances
from sklearn.base import clone, is_classifier

every_case = pytest.mark.parametrize("name", CASES)


def model_for(name, p=8):
    """The estimator of a case, with what depends on the number of columns made to fit."""
    model = clone(CASES[name][0])
    if p != 8 and name in ("groups", "sparse groups"):
        model.set_params(groups=1)
    if p != 8 and name == "weighted":
        model.set_params(weights=np.ones(p))
    return model


@every_case
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_one_column(name, form):
    X, y = data(CASES[name][1])
    model = model_for(name, 1).fit(form(X[:, 1:2]), y)
    assert model.certificate_.reached
    assert model.coef_.shape[-1] == 1
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.intercept_).all()


@every_case
def test_few_rows(name):
    """One row; as many rows as classes for labels."""
    X, y = data(CASES[name][1])
    if is_classifier(CASES[name][0]):
        rows = [int(np.flatnonzero(y == label)[0]) for label in np.unique(y)]
    else:
        rows = [0]
    if CASES[name][1] == "counts":
        y = y + 1.0  # one count of zero has no best intercept
    model = model_for(name).set_params(alpha=0.5)
    model.fit(X[rows], y[rows])
    assert model.certificate_.reached
    assert np.isfinite(model.coef_).all()
    assert model.predict(X[rows]).shape == y[rows].shape


@every_case
def test_zero_and_constant_columns(name):
    X, y = data(CASES[name][1])
    X[:, 2], X[:, 5] = 1.5, 0.0
    model = model_for(name).fit(X, y)
    assert model.certificate_.reached
    assert not model.coef_[..., 5].any()
    assert distances(model, X, y) < 0.1 * model.alpha


@every_case
def test_nothing_but_zeros(name):
    X, y = data(CASES[name][1])
    for nothing in (0.0 * X, sp.csc_array(X.shape)):
        model = model_for(name).fit(nothing, y)
        assert model.certificate_.reached
        assert not model.coef_.any()


@pytest.mark.parametrize("name", ["lasso", "tasks", "multinomial"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.csc_array])
def test_numbers_that_are_not_finite_are_refused(name, bad, form):
    X, y = data(CASES[name][1])
    X[3, 2] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        model_for(name).fit(form(X), y)
    if y.dtype.kind == "f":
        y[2] = bad
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            model_for(name).fit(np.ones_like(X), y)
