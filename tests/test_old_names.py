"""Old names of arguments and attributes still work for one release, with a warning."""

import inspect

import numpy as np
import pytest

from cyclade.linear import path, penalties, solve

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 5))
Y = X[:, 0] + 0.1 * RNG.standard_normal(40)
TABLE = {  # function: its arguments, then old name, new name and a value
    "solve lam": (solve, (X, Y), "lam", "alpha", 0.1),
    "solve max_passes": (solve, (X, Y, "squared", penalties.L1(0.1)), "max_passes", "max_iter", 9),
    "path lams": (path, (X, Y), "lams", "alphas", [0.5, 0.1]),
    "path n_lams": (path, (X, Y), "n_lams", "n_alphas", 4),
    "path lam_ratio": (path, (X, Y), "lam_ratio", "alpha_ratio", 0.5),
    "path max_passes": (path, (X, Y), "max_passes", "max_iter", 1_000),
}


def numbers(found):
    """What a call gave, as an array."""
    for name in ("coefs", "coef", "penalty"):
        if hasattr(found, name):
            return np.asarray(repr(found.penalty) if name == "penalty" else getattr(found, name))
    return np.asarray(repr(found))


@pytest.mark.parametrize("name", TABLE)
def test_an_old_argument_warns_and_gives_the_same(name):
    call, given, old, new, value = TABLE[name]
    with pytest.warns(DeprecationWarning, match=rf"\b{old} is now called {new};") as seen:
        before = call(*given, **{old: value})
    assert seen[0].filename == __file__
    np.testing.assert_array_equal(numbers(before), numbers(call(*given, **{new: value})))
    with pytest.raises(TypeError, match=f"{new}: also given by its old name, {old}"):
        call(*given, **{old: value, new: value})
    assert old not in inspect.signature(call).parameters


@pytest.mark.parametrize(
    ("owner", "old", "new"),
    [(path(X, Y, n_alphas=3), "lams", "alphas")],
)
def test_an_old_attribute_warns_and_gives_the_same(owner, old, new):
    with pytest.warns(DeprecationWarning, match=rf"{old} is now called {new};"):
        before = getattr(owner, old)
    assert before is getattr(owner, new)
