"""`cyclade.linear` as a namespace: light to import, and showing what users need."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest
from sklearn.base import clone

from cyclade import linear
from cyclade.linear import estimators

ESTIMATORS = [
    getattr(linear, name)
    for name in estimators.__all__
    if inspect.isclass(getattr(linear, name))
    and issubclass(getattr(linear, name), linear.LinearModel)
    and name not in ("LinearModel", "CrossValidated")
]


def test_dir_shows_what_users_need_and_no_more():
    shown = dir(linear)
    assert {"Lasso", "LassoCV", "plot_path", "solve", "path", "losses", "penalties"} <= set(shown)
    assert not {"Any", "annotations", "import_module", "working_sets", "gram"} & set(shown)
    assert all(hasattr(linear, name) for name in shown)


def test_the_import_is_light():
    heavy = ("numba", "sklearn", "scipy", "matplotlib", "pandas", "joblib", "torch")
    code = (
        f"import sys, cyclade.linear; print([m for m in {heavy} if m in sys.modules]); "
        "cyclade.linear.Lasso; print('matplotlib' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split("\n")[:2] == ["[]", "False"]


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_docstrings_name_every_parameter_with_its_default(kind):
    text = inspect.getdoc(kind)
    for name, parameter in inspect.signature(kind).parameters.items():
        shown = str(parameter.default) if isinstance(parameter.default, str) else None
        default = f'"{shown}"' if shown is not None else repr(parameter.default)
        assert any(
            line.startswith(f"{name} : ") and line.endswith(f"default={default}")
            for line in text.splitlines()
        ), name
    assert "coef_ : " in text
    assert "certificate_ : " in text
    assert "\nExamples\n" in text


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_twins_have_the_parameters_of_their_estimator(kind):
    parameters = set(clone(kind()).get_params())
    if kind.__name__.endswith("CV"):
        single = getattr(linear, kind.__name__[:-2])
        of_alpha = {"alphas", "n_alphas", "alpha_ratio", "checkpoint"}
        chosen = {"size", "criterion"} | of_alpha if single is linear.BestSubset else {"alpha"}
        choosing = of_alpha | {"cv", "scoring", "rule", "n_jobs"}
        assert parameters == (set(single().get_params()) | choosing) - chosen
        assert "alpha : " not in inspect.getdoc(kind)
        with pytest.raises(TypeError, match="alpha"):
            kind(alpha=0.1)
