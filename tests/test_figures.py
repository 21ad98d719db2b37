"""The numbers of the docs are those of the committed result files."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture(scope="module")
def figures() -> Iterator[Any]:
    sys.path.insert(0, str(BENCHMARKS))
    yield importlib.import_module("figures")
    sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def linear(figures: Any) -> Any:
    return importlib.import_module("linear_peers.report")


def test_every_number_is_that_of_the_files(figures: Any) -> None:
    spots = 0
    for path in figures.documents():
        text = path.read_text("utf-8")
        spots += len(figures.SPOT.findall(text))
        assert list(figures.differences(text)) == [], f"{path}: run python benchmarks/figures.py"
    assert spots >= 50


def test_a_number_that_differs_is_seen_and_filled(figures: Any) -> None:
    text = "it is <!-- fig:timing table1 SCCD seconds_per_iteration SGD -->1.075<!-- /fig -->."
    ((words, there, here),) = figures.differences(text)
    assert (there, here) == ("1.075", figures.figure(words))
    filled = figures.filled(text)
    assert filled == text.replace("1.075", here)
    assert list(figures.differences(filled)) == []


def test_words_that_mean_nothing_are_refused(figures: Any) -> None:
    with pytest.raises(SystemExit, match="'joy' is none of run, "):
        figures.figure("joy fig1")
    with pytest.raises(SystemExit, match="fig1 has 2 curves with"):
        figures.figure("run fig1 test_accuracy method=SCCD")


def test_no_spot_is_left_open(figures: Any) -> None:
    for path in figures.documents():
        text = path.read_text("utf-8")
        assert (
            text.count("<!-- fig:")
            == text.count("<!-- /fig -->")
            == len(figures.SPOT.findall(text))
        ), path


def test_no_line_of_text_begins_with_a_spot(figures: Any) -> None:
    """Markdown would read the rest of the line as HTML, links and all; tables stand apart."""
    for path in figures.documents():
        lines = path.read_text("utf-8").splitlines()
        begins = [line for line in lines if line.startswith("<!-- fig:")]
        assert [line for line in begins if not line.endswith("-->") or "<!-- /fig" in line] == []


# --------------------------------------------------------------------------------- linear models


def record(line: str, solver: str, seconds: float | None) -> dict[str, Any]:
    found: dict[str, Any] = {"line": line, "solver": solver, "fun": 1.0}
    return {**found, "status": "over" if seconds is None else "ok", "cpu_s": seconds or math.inf}


def test_lines_that_no_peer_finished_are_no_victories(linear: Any) -> None:
    records = [
        record("lasso a /10", "cyclade", 1.0), record("lasso a /10", "celer", 3.0),
        record("lasso b /10", "cyclade", 1.0), record("lasso b /10", "celer", 0.5),
        record("mcp c path", "cyclade", 1.0), record("mcp c path", "skglm", None),
    ]  # fmt: skip
    notes = {"lasso a /10": {"engine": "earlier", "least": "0.9", "most": "3.1"}}
    found = linear.measured(records, notes)
    assert (found["lines"], found["beside"], found["alone"]) == (3, 2, 1)
    assert (found["ahead"], found["well"], found["median"]) == (1, 1, 1.75)
    assert (found["earlier"], found["repeat"]) == (1, 0.9)
    text = linear.summary(records, notes)
    assert "1 lines that no peer finished within its limit are counted apart" in text
    assert "down to 0.90" in text
    table = linear.markdown_table(records, 30.0, notes)
    assert "| lasso a /10 † |" in table
    assert "| mcp c path | 1 | none | – |" in table


def test_notes_are_of_lines_that_are_there(linear: Any) -> None:
    folder = ROOT / "docs" / "benchmarks"
    records = linear.read_records(folder / "linear.csv")
    assert set(linear.read_notes(folder / "linear-notes.csv")) <= set(linear.lines_of(records))


def test_the_picture_of_the_linear_models_fits_a_screen() -> None:
    head = (ROOT / "docs" / "benchmarks" / "linear.png").read_bytes()[:24]
    width, height = (int.from_bytes(head[i : i + 4], "big") for i in (16, 20))
    assert 800 <= width <= 1600
    assert height <= 1200
