"""The house stays one that a stranger finds his way in: what `benchmarks/structure.py` prints.

The goals are 20, 20 and 50 modules, no arrow up and no cycle. What stands here is what was reached:
it may fall, and a change that makes it rise has to say why.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
REACHED = {"minimize": 20, "step": 20, "run": 50}


@pytest.fixture(scope="module")
def structure() -> Iterator[Any]:
    sys.path.insert(0, str(BENCHMARKS))
    yield importlib.import_module("structure")
    sys.path.remove(str(BENCHMARKS))


def test_tasks_visit_no_more_modules_than_they_did(structure: Any) -> None:
    found = {name: len(modules) for name, modules in structure.visited().items()}
    assert {name: n for name, n in found.items() if n > REACHED[name]} == {}


def test_no_arrow_leads_up_and_no_modules_import_one_another(structure: Any) -> None:
    direct = structure.imported(structure.modules())
    assert structure.upward(structure.arrows(direct)) == []
    assert structure.cycles(direct) == []


def test_an_arrow_up_is_seen(structure: Any) -> None:
    graph = {"files": {"cli"}, "cli": {"files"}, "optim": {"linear", "_checks"}}
    assert structure.upward(graph) == ["files -> cli"]
