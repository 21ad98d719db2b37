"""A plan says what it will do before it begins, and what was seen at its end."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_runs import fig1

from cyclade.experiments.outline import findings, outline
from cyclade.experiments.plans import PAPER, STUDIES, Settings


@pytest.mark.parametrize("name", [*PAPER, *STUDIES])
@pytest.mark.parametrize("quick", [False, True])
def test_every_plan_says_what_it_will_do(name: str, quick: bool) -> None:
    plan = (PAPER | STUDIES)[name](Settings(quick=quick))
    lines = outline(plan, "out").splitlines()
    assert lines[0].startswith(plan.title)
    assert lines[0].endswith(", in small") == quick
    assert lines[1] == plan.question
    assert lines[2].startswith("What will be done: ")
    assert str(Path("out") / plan.name) in lines[3]


def test_the_runs_are_counted() -> None:
    plan = PAPER["fig1"](Settings(quick=True, seeds=3))
    count = sum(len(curve.lrs or ()) for curve in plan.curves)
    words = outline(plan, "out")
    assert f"{count} runs to find the learning rates of 8 curves; 24 runs with them" in words


def test_the_end_has_a_verdict_on_every_claim(tmp_path: Path) -> None:
    root = fig1(tmp_path, epochs=3)
    lines = findings(root).splitlines()
    assert lines[0] == "What was seen, claim by claim:"
    verdicts = [line for line in lines[1:] if line.startswith("  ")]
    assert verdicts
    assert all(
        v.split(":")[0].strip() in ("yes", "no", "not decided", "not tested") for v in verdicts
    )
