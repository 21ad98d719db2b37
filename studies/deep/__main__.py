"""`python -m studies.deep`: run the study, or what is missing of it, and print its table."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from functools import partial

from cyclade.experiments.device import resolve
from studies.deep.report import table
from studies.deep.runs import RECORDS, TASKS, study


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study from a command line."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(prog="python -m studies.deep", description=__doc__)
    parser.add_argument("--task", choices=TASKS, action="append", help="this one alone")
    parser.add_argument("--quick", action="store_true", help="a small GPT, minutes on two cores")
    parser.add_argument("--seeds", type=int, metavar="N", help="0 to N-1 (default: 3; quick: 1)")
    parser.add_argument(
        "--out", default="out/study-deep", metavar="DIR", help="default: %(default)s"
    )
    parser.add_argument("--data-dir", metavar="DIR", help="where CIFAR-10 lies")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    chosen = parser.parse_args(given)
    records = study(
        chosen.out,
        tasks=chosen.task or (("gpt",) if chosen.quick else TASKS),
        seeds=range(chosen.seeds or (1 if chosen.quick else 3)),
        quick=chosen.quick,
        data_dir=chosen.data_dir,
        device=resolve(chosen.device),
        command=shlex.join(["python -m studies.deep", *given]),
        say=partial(print, flush=True),
    )
    print(f"{table(records)}\n\nRecords: {chosen.out}/{RECORDS}")


if __name__ == "__main__":
    main()
