"""What a user may get wrong, and what must then be said."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import cyclade.linear
from cyclade.linear import Lasso, LassoCV, SparseLogisticRegression
from cyclade.linear.cv import Choice

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 5))
y = X[:, 0] - X[:, 1] + 0.3 * rng.standard_normal(40)


def test_dir_shows_what_users_need_and_no_more():
    shown = dir(cyclade.linear)
    assert {"Lasso", "LassoCV", "plot_path", "solve", "path", "losses", "penalties"} <= set(shown)
    assert not {"Any", "annotations", "import_module", "working_sets", "gram"} & set(shown)
    assert all(hasattr(cyclade.linear, name) for name in shown)


def test_import_is_light():
    heavy = ("sklearn", "scipy", "numba", "matplotlib", "pandas", "torch")
    code = f"import sys, cyclade.linear; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("shape", [(3,), (40, 2)])
def test_offsets_of_classifiers_are_named(shape):
    model = SparseLogisticRegression(0.05).fit(X, y > 0)
    with pytest.raises(ValueError, match=r"offset must have the shape \(40,\)"):
        model.predict(X, offset=np.ones(shape))


def test_offsets_of_classifiers_may_be_columns_or_shared_by_classes():
    two = SparseLogisticRegression(0.05).fit(X, y > 0)
    offset = np.linspace(-1, 1, 40)
    np.testing.assert_array_equal(
        two.decision_function(X, offset=offset[:, None]), two.decision_function(X, offset=offset)
    )
    three = SparseLogisticRegression(0.05).fit(X, np.digitize(y, [-0.5, 0.5]))
    np.testing.assert_allclose(  # the same for all classes: no probability changes
        three.predict_proba(X, offset=offset), three.predict_proba(X), atol=1e-12
    )


@pytest.mark.parametrize("name", ["fit_intercept", "warm_start", "verbose"])
def test_text_is_no_flag(name):
    with pytest.raises(ValueError, match=f"{name} must be True or False, got 'no'"):
        Lasso(0.1, **{name: "no"}).fit(X, y)


def test_alphas_are_one_list():
    with pytest.raises(ValueError, match="> 0 in one list"):
        LassoCV(alphas=[[1.0, 0.5], [0.2, 0.1]]).fit(X, y)
    with pytest.raises(ValueError, match="> 0 in one list"):
        Lasso().path(X, y, alphas=[[1.0, 0.5]])


def test_alphas_without_a_score_are_not_chosen():
    scores = np.array([[np.nan, 1.0], [0.5, 0.5], [0.7, 0.8]])
    choice = Choice(np.array([3.0, 2.0, 1.0]), scores, np.ones(2))
    assert choice.index("min") == 2
    assert choice.index("1se") == 2
    with pytest.raises(ValueError, match="scoring: every alpha"):
        Choice(np.array([3.0]), np.array([[np.nan, 1.0]]), np.ones(2)).index("min")
