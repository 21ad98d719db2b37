"""Colours that stay apart for all eyes: as simulated for each kind of colour blindness."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cyclade.experiments.report.board import _COLOURS, Style, read, styles

RESULTS = Path(__file__).parents[2] / "docs" / "results"
Array = NDArray[np.float64]

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
EYES = {
    "normal": np.eye(3),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
         [-0.011820, 0.042940, 0.968881]]
    ),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
         [-0.003882, -0.048116, 1.051998]]
    ),
    "tritan": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
         [0.004733, 0.691367, 0.303900]]
    ),
}  # fmt: skip
APART = 20.0  # in CIELAB, where 2.3 is just noticeable
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
     [0.0193339, 0.1191920, 0.9503041]]
)  # fmt: skip


def linear(colour: str) -> Array:
    parts = np.array(list(bytes.fromhex(colour[1:]))) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(colour: str, eyes: str) -> Array:
    """CIELAB (D65) of a colour as these eyes see it."""
    seen = np.clip(EYES[eyes] @ linear(colour), 0, 1)
    parts = XYZ @ seen / XYZ.sum(axis=1)
    f = np.where(parts > 0.008856, np.cbrt(parts), 7.787 * parts + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(one: str, other: str, eyes: str) -> float:
    return float(np.linalg.norm(lab(one, eyes) - lab(other, eyes)))


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("page", [0, 1], ids=["light", "dark"])
def test_any_two_colours_stay_apart(eyes: str, page: int) -> None:
    for one, other in combinations([pair[page] for pair in _COLOURS], 2):
        assert distance(one, other, eyes) >= APART, (one, other)


def test_the_simulation_sees_what_it_should() -> None:
    green, mauve = "#00876A", "#7A6E76"  # not far for normal eyes, one colour for deutan ones
    assert distance(green, mauve, "normal") > 2 * distance(green, mauve, "deutan")
    assert distance("#000000", "#FFFFFF", "deutan") == pytest.approx(100, abs=0.1)


@pytest.mark.parametrize(("page", "paper"), [(0, "#FFFFFF"), (1, "#14161A")])
def test_every_colour_shows_on_its_page(page: int, paper: str) -> None:
    weights = np.array([0.2126, 0.7152, 0.0722])
    for pair in _COLOURS:
        low, high = sorted(float(weights @ linear(c)) for c in (pair[page], paper))
        assert (high + 0.05) / (low + 0.05) >= 3


def same(one: Style, other: Style) -> bool:
    return one.dash == other.dash and distance(one.light, other.light, "deutan") < APART


def test_no_two_lines_of_a_committed_panel_look_alike() -> None:
    for path in RESULTS.glob("*/plan.json"):
        board = read(path.parent)
        for panel in board.panels:
            lines = [board.entries[number].style for number, _ in panel.members]
            assert not any(same(a, b) for a, b in combinations(lines, 2)), path


def test_many_entries_differ_in_colour_or_dash() -> None:
    assert not any(same(a, b) for a, b in combinations(styles(["SCCD"] * 14), 2))
