"""docs/moving.md: their call and our call, as the page has them, end in the same coefficients."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cyclade.linear
from cyclade.linear import losses, penalties

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "moving.md").read_text("utf-8")
ROWS = re.findall(r"^\| (scikit-learn|skglm|celer) \| `([^`]+\))` \| `([^`]+)`", PAGE, re.M)
THEIRS = {
    "scikit-learn": ["sklearn.linear_model"],
    "skglm": ["skglm", "skglm.datafits", "skglm.penalties", "skglm.solvers"],
    "celer": ["celer"],
}
SLOW = {"skglm"}  # it compiles in every process


def data(n: int = 120, p: int = 30) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    y = X[:, :5] @ np.array([3.0, -2.0, 2.0, 1.5, -1.0]) + 0.5 * rng.standard_normal(n)
    return {"X": X, "y": y, "n": n, "p": p, "C": 0.5, "np": np, "alphas": np.linspace(0.2, 0.1, p)}


def test_the_rows_are_found() -> None:
    assert {library for library, *_ in ROWS} == set(THEIRS)
    assert len(ROWS) >= 10


@pytest.mark.filterwarnings("ignore")  # theirs
@pytest.mark.parametrize(
    ("library", "there", "here"),
    [pytest.param(*r, marks=pytest.mark.slow if r[0] in SLOW else ()) for r in ROWS],
    ids=[f"{library} {there.partition('(')[0]}" for library, there, _ in ROWS],
)
def test_both_calls_end_in_the_same_coefficients(library: str, there: str, here: str) -> None:
    given = data()
    theirs = dict(given)
    for name in THEIRS[library]:
        theirs |= vars(pytest.importorskip(name))
    ours = given | vars(losses) | vars(penalties)
    ours |= {name: getattr(cyclade.linear, name) for name in dir(cyclade.linear)}
    X, y = given["X"], given["y"]
    if "Logistic" in here:
        y = np.sign(y)
    if "MultiTask" in here:
        y = np.stack([y, X[:, 6] - y], axis=1)
    if there == "SLOPE(alphas)":  # a penalty of theirs, without an intercept; the columns have none
        X, y = X - X.mean(axis=0), y - y.mean()
        there = (
            "GeneralizedLinearEstimator(Quadratic(), SLOPE(alphas), FISTA(opt_strategy='fixpoint'))"
        )
    model = eval(there, theirs)
    tight = {"tol": 1e-10, "solver__tol": 1e-10, "max_iter": 20_000}
    if not there.startswith("LassoCV"):
        model.set_params(**{k: v for k, v in tight.items() if k in model.get_params()})
    if hasattr(model, "solver") and hasattr(model.solver, "tol"):
        model.solver.tol, model.solver.max_iter = 1e-10, 20_000
    expected = model.fit(X, y)
    found = eval(here, ours)
    if not there.startswith("LassoCV"):
        found.set_params(tol=1e-10)
    found.fit(X, y)
    assert np.abs(expected.coef_).max() > 0.1
    atol = 2e-4 if there.startswith("LassoCV") else 1e-6  # at the tolerances of both by default
    np.testing.assert_allclose(np.ravel(found.coef_), np.ravel(expected.coef_), atol=atol)


def glmnet(X: Any, y: Any, rho: float, lam: float) -> np.ndarray:
    """glmnet's Gaussian family: cycles over standardised columns, y and lambda divided by sd(y)."""
    n, spread, height = len(y), X.std(axis=0), y.std()
    Z, r = (X - X.mean(axis=0)) / spread, (y - y.mean()) / height
    b, lam = np.zeros(X.shape[1]), lam / height
    for _ in range(500):
        for j, z in enumerate(Z.T):
            u = z @ r / n + b[j]
            new = np.sign(u) * max(abs(u) - lam * rho, 0.0) / (1.0 + lam * (1.0 - rho))
            r += (b[j] - new) * z
            b[j] = new
    return b * height / spread


@pytest.mark.parametrize("rho", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("page", ["moving.md", "how-do-i.md"])
def test_elastic_nets_of_glmnet(page: str, rho: float) -> None:
    """The call of either page, where the scale of y is not one."""
    text = (DOCS / page).read_text("utf-8")
    made = re.search(r"`?k = (ρ \+ [^`\n]+)", text)
    call = re.search(r"ElasticNet\(alpha=λ \* k,[^)]+\)", text)
    assert made is not None
    assert call is not None
    given = data()
    X, y = given["X"] * np.linspace(0.5, 3.0, 30), 7.0 * given["y"] + 20.0
    names = {"np": np, "y": y, "λ": 3.0, "ρ": rho, "ElasticNet": cyclade.linear.ElasticNet}
    names["k"] = eval(made[1], names)
    model = eval(call[0], names).set_params(tol=1e-14).fit(X, y)
    expected = glmnet(X, y, rho, 3.0)
    assert np.abs(expected).max() > 1.0
    np.testing.assert_allclose(model.coef_, expected, atol=1e-7)
