"""The committed results anew: their claims from the code, their pictures from their tables.

    python benchmarks/pages.py                  # all experiments under docs/results
    python benchmarks/pages.py fig1 table1

To be run whenever a report looks different or a plan claims something else. New runs come in by
``cyclade report RUNS --pack docs/results/NAME``. The pages beside the pictures are not committed:
`make docs` writes them for the site.
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

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
PLANS = {plan.name: plan for plan in (m(Settings()) for m in (*PAPER.values(), *STUDIES.values()))}


def main() -> None:
    """Rewrite plans and pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="experiments (default: all)")
    for name in parser.parse_args().names or experiments():
        path = RESULTS / name / "plan.json"
        path.write_text(refreshed(json.loads(path.read_text("utf-8"))), "utf-8")
        print(report(RESULTS / name))


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
