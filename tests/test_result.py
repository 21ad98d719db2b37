"""What a result shows: words, a picture, and a table in notebooks."""

from __future__ import annotations

import sys
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from cyclade import Result, minimize
from cyclade.run.result import LABELS

mpl.use("Agg")
H = np.diag([1.0, 4.0, 9.0])


@pytest.fixture(scope="module")
def result() -> Result:
    return minimize(
        lambda x: 0.5 * float(x @ H @ x), np.ones(3), jac=lambda x: H @ x, blocks=1, L=9.0, every=1
    )


@pytest.mark.parametrize("against", ["cycle", "samples", "seconds"])
def test_the_picture_shows_the_history(result: Result, against: str) -> None:
    left, right = result.plot(against)  # type: ignore[arg-type]
    x, y = right.lines[0].get_data()
    assert list(x) == result.history[against]
    np.testing.assert_array_equal(y, result.history["dist"])
    above = left.lines[0].get_ydata()
    assert np.nanmin(above) > 0  # what a logarithm can show
    assert [axis.get_ylabel() for axis in (left, right)] == ["F − best F", "dist(∂F, 0)"]
    assert [axis.get_title() for axis in (left, right)] == ["P-CCD", "a tolerance was reached"]
    assert {axis.get_xlabel() for axis in (left, right)} == {LABELS[against]}
    plt.close("all")


@pytest.mark.parametrize(
    ("x", "shown"),
    [
        (np.arange(6.0), "x: [0. 1. 2. 3. 4. 5.]"),
        (np.zeros(7), "x: array of shape (7,)"),
        (np.zeros((2, 1)), "x: array of shape (2, 1)"),
        ({"W": np.zeros((2, 3)), "b": [np.zeros(1)]}, "x: dict of W array of shape (2, 3), b list"),
    ],
)
def test_short_points_are_shown_and_long_ones_by_their_shape(
    result: Result, x: object, shown: str
) -> None:
    assert shown in str(replace(result, x=x))


def test_it_draws_where_it_is_told(result: Result) -> None:
    figure, axes = plt.subplots(1, 2)
    left, right = result.plot(ax=axes)
    assert left is axes[0]
    assert right is axes[1]
    plt.close(figure)


def test_bad_arguments_are_named(result: Result) -> None:
    with pytest.raises(ValueError, match="against"):
        result.plot("epochs")  # type: ignore[arg-type]
    figure, axis = plt.subplots()
    with pytest.raises(ValueError, match="ax must be two"):
        result.plot(ax=axis)
    plt.close(figure)


def test_without_matplotlib_the_fix_is_named(
    result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        result.plot()


def test_notebooks_show_every_row_with_what_users_wrote_escaped(result: Result) -> None:
    for one in (result, replace(result, message="<b>&", success=False)):
        page = ElementTree.fromstring(one._repr_html_())  # every tag is closed
        assert len(page.findall(".//tr")) == len(str(one).splitlines()) - 1
        assert one.message in "".join(page.itertext())
    assert "no tolerance was reached" in "".join(page.itertext())
