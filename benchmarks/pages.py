"""The committed results anew: their claims from the code, their pictures from their tables.

    python benchmarks/pages.py                  # all experiments under docs/results
    python benchmarks/pages.py fig1 table1

To be run whenever a report looks different or a plan claims something else. New runs come in by
``cyclade report RUNS --pack docs/results/NAME``. The pages beside the pictures are not committed:
`make docs` writes them for the site. What the results say to every claim goes into the package, so
that a page of small runs can show it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cyclade.experiments.plans import PAPER, STUDIES, Settings
from cyclade.experiments.report import report
from cyclade.experiments.report.board import read
from cyclade.experiments.report.claims import UNTESTED, answers
from cyclade.experiments.report.page import count

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
WHOLE = ROOT / "src" / "cyclade" / "experiments" / "plans" / "whole.json"
PLANS = {plan.name: plan for plan in (m(Settings()) for m in (*PAPER.values(), *STUDIES.values()))}


def main() -> None:
    """Rewrite plans, pages, and what pages of small runs show beside them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="experiments (default: all)")
    for name in parser.parse_args().names or experiments():
        path = RESULTS / name / "plan.json"
        path.write_text(refreshed(json.loads(path.read_text("utf-8"))), "utf-8")
        print(report(RESULTS / name))
    WHOLE.write_text(whole(), "utf-8")


def whole() -> str:
    """What the committed results say to every claim, for pages of the same plans in small."""
    found = {}
    for name in experiments():
        board = read(RESULTS / name)
        device = board.timing.device if board.timing else ""
        seeds = max((len(group.runs) for group in board.groups), default=0)
        setting = [board.panels[0].subtitle, count(seeds, "seed")] if board.panels else [device]
        said = [one for claim in board.plan.paper for one in answers(board, claim.checks)]
        found[name] = {
            "setting": ", ".join(setting),
            "answers": [asdict(one) for one in said if one.verdict != UNTESTED],
        }
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def experiments() -> Iterable[str]:
    """What is committed."""
    return sorted(path.parent.name for path in RESULTS.glob("*/plan.json"))


def refreshed(plan: dict[str, Any]) -> str:
    """A plan with the title, question and claims that the code has for it now."""
    plan.pop("sha256", None)  # the digest of what it was
    if plan["name"] in PLANS:
        now = PLANS[plan["name"]]
        plan |= {"title": now.title, "question": now.question}
        plan |= {"paper": [asdict(claim) for claim in now.paper]}
    return json.dumps(plan, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
