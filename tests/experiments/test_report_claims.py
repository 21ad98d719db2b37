"""Beside each claim what was seen: paired differences, their interval, and the rule."""

from __future__ import annotations

import importlib
import json
import math
import re
import statistics
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from made_up_runs import fig1, make

from cyclade.experiments import ExperimentError, RunConfig
from cyclade.experiments.plans import PAPER, STUDIES, Check, Claim, Settings
from cyclade.experiments.report import report
from cyclade.experiments.report.board import read
from cyclade.experiments.report.claims import (
    NO,
    OPEN,
    RULE,
    YES,
    answers,
    claims_table,
    interval,
    paired,
)
from cyclade.experiments.report.page import _templates, page
from cyclade.experiments.report.payload import payload
from cyclade.experiments.report.tables import full_table
from cyclade.experiments.reproduce import findings

BASE = RunConfig(epochs=3, batch=64, lr=0.05)
RESULTS = Path(__file__).parents[2] / "docs" / "results"
SCCD, SGD = {"method": "SCCD"}, {"method": "SGD"}


def ends(root: Path, method: str, accuracies: list[float | None], **changes: Any) -> None:
    """A run for each seed that ends at this test accuracy; None diverges."""
    for seed, accuracy in enumerate(accuracies):
        config = replace(BASE, method=method, seed=seed, **changes)
        folder = root / "runs" / config.slug()
        if accuracy is None:
            make(folder, config, status="diverged")
        else:
            make(folder, config, changed=lambda _, end=accuracy: {"test_accuracy": end})


def answer(root: Path, check: Check) -> Any:
    (found,) = answers(read(root), [check])
    return found


# ------------------------------------------------------------------------------------- the rule


def test_the_interval_is_students_over_paired_differences() -> None:
    stats = pytest.importorskip("scipy.stats")
    differences = [0.01, 0.03, -0.002, 0.015]
    found = paired(differences)
    low, high = stats.t.interval(
        0.95, 3, statistics.fmean(differences), statistics.stdev(differences) / math.sqrt(4)
    )
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert (found.n, found.ahead) == (4, 3)


@pytest.mark.parametrize(
    ("differences", "lost", "others_lost", "verdict"),
    [
        ([0.02, 0.021, 0.019], 0, 0, YES),
        ([-0.02, -0.021, -0.019], 0, 0, NO),
        ([0.001, 0.03, 0.008], 0, 0, OPEN),  # ahead on 3 of 3, and yet not decided
        ([0.02], 0, 0, OPEN),
        ([], 0, 0, OPEN),
        ([0.02, 0.021], 1, 0, OPEN),  # it diverged once: no verdict in its favour
        ([-0.02, -0.021], 1, 0, NO),
        ([-0.02, -0.021], 0, 1, OPEN),
        ([], 3, 0, NO),  # it diverged wherever the other did not
        ([], 0, 3, YES),
        ([], 3, 3, OPEN),
        ([0.0, 0.0, 0.0], 0, 0, OPEN),
    ],
)
def test_the_rule(differences: list[float], lost: int, others_lost: int, verdict: str) -> None:
    assert paired(differences).verdict(lost, others_lost) == verdict


# ----------------------------------------------------------------------------- what is compared


def test_runs_are_compared_seed_by_seed(tmp_path: Path) -> None:
    ends(tmp_path, "SCCD", [0.61, 0.72, 0.83])
    ends(tmp_path, "SGD", [0.60, 0.70, 0.82])
    found = answer(tmp_path, Check(SCCD, SGD, "test_accuracy"))
    assert found.compared == "SCCD / SGD; test accuracy"
    assert found.seen == "0.720 ± 0.110 against 0.707 ± 0.110"
    assert found.difference == interval(paired([0.01, 0.02, 0.01]))
    assert (found.seeds, found.verdict) == ("3 of 3", OPEN)
    back = answer(tmp_path, Check(SGD, SCCD, "test_accuracy"))
    assert (back.seeds, back.difference[:1]) == ("0 of 3", "−")
    ends(tmp_path, "PAGE", [0.6], lr=0.005)
    found = answer(tmp_path, Check(SCCD, {"method": "PAGE"}, "lr"))
    assert (found.seen, found.verdict) == ("lr 0.05 against 0.005", YES)
    board = read(tmp_path)  # a smaller loss is ahead
    losses = {g.config.method: [run.last.train_loss for run in g.runs] for g in board.groups}
    ahead = losses["SGD"][0] > losses["SCCD"][0]
    (found,) = answers(board, [Check(SCCD, SGD, "train_loss")])
    assert found.verdict == (YES if ahead else NO)


def test_seeds_that_diverged_are_counted_and_named(tmp_path: Path) -> None:
    ends(tmp_path, "SCCD", [None, None, 0.9])
    ends(tmp_path, "SGD", [0.5, 0.5, 0.5])
    found = answer(tmp_path, Check(SCCD, SGD, "test_accuracy"))
    assert found.verdict == OPEN
    assert found.seen.endswith("; SCCD diverged on 2 of 3")
    assert found.seeds == "1 of 1"


def test_that_two_are_alike_is_refuted_or_open(tmp_path: Path) -> None:
    ends(tmp_path, "SCCD", [0.61, 0.71, 0.81])
    ends(tmp_path, "SGD", [0.60, 0.7001, 0.7999])
    check = Check(SCCD, SGD, "test_accuracy", alike=True)
    assert answer(tmp_path, check).verdict == NO
    assert answer(tmp_path, replace(check, by="train_loss")).verdict in (NO, OPEN)
    assert answer(tmp_path, replace(check, mine=SGD, other=SGD)).verdict == OPEN


def test_at_equal_seconds_the_dearer_one_is_read_earlier(tmp_path: Path) -> None:
    board = read(fig1(tmp_path, epochs=9))  # alone SGD takes 1 s an epoch, SCCD 1.5 s
    plain = {"spectral": None}
    check = Check({**SCCD, **plain}, {**SGD, **plain}, "train_loss", at="seconds")
    (found,) = answers(board, [check])
    assert " at 9.0 s" in found.seen
    sccd = next(g for g in board.groups if g.config.method == "SCCD" and not g.config.spectral)
    mean = statistics.fmean(run.history[6].train_loss for run in sccd.runs)
    assert found.seen.startswith(f"{mean:.3f} ± ")
    (other,) = answers(board, [replace(check, mine={**SCCD, "spectral": "step"})])
    assert other.seen == "runs alone were not timed"


def test_times_are_a_ratio_held_against_the_papers(tmp_path: Path) -> None:
    board = read(fig1(tmp_path))
    check = Check(SCCD, SGD, "seconds_per_iteration", expected=1.5)
    near, far = answers(board, [check, replace(check, expected=1.08)])
    assert near.seen == "150.000 ms against 100.000 ms: 1.50 times, 1.50 claimed"
    assert (near.verdict, far.verdict) == (YES, NO)


def test_what_was_not_run_is_not_tested(tmp_path: Path) -> None:
    ends(tmp_path, "SCCD", [0.6])
    assert answer(tmp_path, Check(SCCD, SGD, "test_accuracy")).verdict == "not tested"
    assert [one.verdict for one in answers(read(tmp_path), ())] == ["not tested"]
    ends(tmp_path, "SGD", [0.6])
    ends(tmp_path, "SGD", [0.6], lr=0.5)
    found = answer(tmp_path, Check(SCCD, SGD, "test_accuracy"))
    assert (found.verdict, found.seen) == ("not tested", "several curves are meant")


# -------------------------------------------------------------------------------------- the page


def planned(root: Path, *claims: Claim) -> Path:
    text = json.dumps({"name": "p", "paper": [asdict(claim) for claim in claims]})
    (root / "plan.json").write_text(text)
    return root


def test_the_page_sets_what_was_seen_beside_each_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ends(tmp_path, "SCCD", [0.61, 0.72, 0.83])
    ends(tmp_path, "SGD", [0.60, 0.70, 0.82])
    check = Check(SCCD, SGD, "test_accuracy")
    planned(tmp_path, Claim("it is <better>", "0.7", (check,)), Claim("another"))
    table = claims_table(read(tmp_path))
    assert table.titles == {0: "it is <better> (the paper: 0.7)", 1: "another"}
    assert [line[1] for line in table.lines] == ["not decided", "not tested"]
    text = report(tmp_path).read_text("utf-8")
    for part in ("it is &lt;better&gt;", '<td class="word">not decided</td>', RULE):
        assert part in text
    assert "This rule can reject that two methods are equal; it cannot show that they are." in text


def test_the_end_of_a_plan_has_a_verdict_on_every_claim(tmp_path: Path) -> None:
    planned(tmp_path, Claim("it is better", "0.7", (Check(SCCD, SGD, "lr"),)), Claim("another"))
    ends(tmp_path, "SCCD", [0.6], lr=0.1)
    ends(tmp_path, "SGD", [0.6])
    assert [re.split("  +", line) for line in findings(tmp_path).splitlines()] == [
        ["What was seen, claim by claim:"],
        ["compared", "verdict", "seen"],
        ["it is better (the paper: 0.7)"],
        ["SCCD / SGD; learning rate", "yes", "lr 0.1 against 0.05"],
        ["another"],
        ["no run of these bears on it", "not tested"],
    ]


def written(root: Path) -> str:
    """The page, without pictures beside it."""
    board = read(root)
    return page(board, payload(board), None)


def test_a_headline_answers_in_a_sentence(tmp_path: Path) -> None:
    ends(tmp_path, "SCCD", [0.61, 0.71, 0.82])
    ends(tmp_path, "SGD", [0.50, 0.60, 0.71])
    check = Check(SCCD, SGD, "test_accuracy")
    planned(tmp_path, Claim("nobody looked"), Claim("it is <better>", None, (check,)))
    begin = '<p class="headline"><strong>Yes</strong>: it is &lt;better&gt; (test accuracy '
    assert begin in written(tmp_path)
    planned(tmp_path, Claim("nobody looked"))
    assert 'class="headline"' not in written(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"by": "joy"}, "by must be of test_accuracy, .* got 'joy'"),
        ({"at": "noon"}, "at must be of end, seconds, got 'noon'"),
        ({"mine": {"colour": 1}}, "mine and other must be of dataset, .* got 'colour'"),
        ({"mine": 1}, "is not a plan"),
        ({"more": 1}, "is not a plan"),
    ],
)
def test_checks_that_cannot_be_read_are_named(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    make(tmp_path / "run", BASE)
    check = {**asdict(Check(SCCD, SGD, "test_accuracy")), **change}
    plan = {"paper": [{"claim": "c", "checks": [check]}]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(ExperimentError, match=message):
        read(tmp_path)


# ------------------------------------------------------------------------------ what is committed


@pytest.mark.parametrize("make_plan", [*PAPER.values(), *STUDIES.values()])
@pytest.mark.parametrize("quick", [False, True])
def test_every_check_of_every_plan_names_curves_of_it(make_plan: Any, quick: bool) -> None:
    plan = make_plan(Settings(quick=quick))
    configs = [c.config for p in (plan, *plan.shows) for c in p.curves] + list(plan.timed)
    for check in (check for claim in plan.paper for check in claim.checks):
        for wanted in (check.mine, check.other):
            wanted = {k: v for k, v in wanted.items() if k != "lr"}
            assert any(all(getattr(c, k) == v for k, v in wanted.items()) for c in configs), check


def test_committed_plans_claim_what_the_code_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(RESULTS.parents[1] / "benchmarks")
    pages = importlib.import_module("pages")
    for path in RESULTS.glob("*/plan.json"):
        assert path.read_text("utf-8") == pages.refreshed(json.loads(path.read_text("utf-8")))


EXPERIMENTS = sorted(path.parent for path in RESULTS.glob("*/plan.json"))


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.name)
def test_pages_of_committed_results_say_what_their_tables_say(path: Path) -> None:
    board, rendered = read(path), _templates().get_template("macros.html").module.table
    text = page(board, payload(board), None)
    assert rendered(claims_table(board), "Claims", "claims") in text
    if board.panels:
        assert rendered(full_table(board), "Where the runs ended", "ends") in text
        assert "<svg" in text
    else:  # it is about times alone
        assert 'class="best"' not in text
        assert "<svg" not in text
