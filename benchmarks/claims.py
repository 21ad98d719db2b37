"""The paper's claims against the runs: cyclic against plain, seed by seed.

    python benchmarks/claims.py docs/results/fig1

For SCCD against SGD and VRO-CCD against PAGE, without and with spectral normalisation: test
accuracy and train loss at the end, their difference over the seeds with its 95 % interval and the
verdict by the rule of the report, the seeds on which the cyclic method is ahead, and the first
epoch at which it has the other's final accuracy for good. ``cyclade report`` answers all claims.
"""

from __future__ import annotations

import argparse
from statistics import fmean, median, stdev

from cyclade.experiments import RunResult
from cyclade.experiments.archive import final_runs
from cyclade.experiments.report.claims import interval
from cyclade.experiments.report.verdicts import paired

PAIRS = (("SCCD", "SGD"), ("VRO-CCD", "PAGE"))
HEAD = (
    "| | seeds | lr | test accuracy | train loss | accuracy ahead by | loss ahead by "
    "| seeds ahead (accuracy, loss) | epoch with the other's final accuracy "
    "| accuracy: interval, verdict | loss: interval, verdict |"
)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="a folder with the runs of fig1")
    runs = [run for run in final_runs(parser.parse_args().folder) if run.status == "finished"]
    print(HEAD)
    print("|" + "---|" * (HEAD.count("|") - 1))
    for spectral in (None, "step", "step-all"):
        for cyclic, plain in PAIRS:
            mine = by_seed(runs, cyclic, spectral)
            other = by_seed(runs, plain, spectral)
            if mine and other:
                print(line(mine, other, f"{cyclic} / {plain}{', SN' if spectral else ''}"))


def by_seed(runs: list[RunResult], method: str, spectral: str | None) -> dict[int, RunResult]:
    """The runs of one curve."""
    return {
        run.config.seed: run
        for run in runs
        if (run.config.method, run.config.spectral) == (method, spectral)
    }


def line(mine: dict[int, RunResult], other: dict[int, RunResult], name: str) -> str:
    """One row of the table."""
    seeds = sorted(mine.keys() & other.keys())
    accuracy = [mine[s].last.test_accuracy - other[s].last.test_accuracy for s in seeds]
    loss = [other[s].last.train_loss - mine[s].last.train_loss for s in seeds]
    goal = fmean(other[s].last.test_accuracy for s in seeds)
    reached = [_for_good(mine[s], goal) for s in seeds]
    when = "not all" if None in reached else f"{median(r for r in reached if r is not None):g}"
    cells = [
        name,
        str(len(seeds)),
        f"{mine[seeds[0]].config.lr:g} / {other[seeds[0]].config.lr:g}",
        f"{_spread([mine[s].last.test_accuracy for s in seeds])} / "
        f"{_spread([other[s].last.test_accuracy for s in seeds])}",
        f"{_spread([mine[s].last.train_loss for s in seeds])} / "
        f"{_spread([other[s].last.train_loss for s in seeds])}",
        _spread(accuracy, sign=True),
        _spread(loss, sign=True),
        f"{sum(d > 0 for d in accuracy)}, {sum(d > 0 for d in loss)} of {len(seeds)}",
        f"{when} of {mine[seeds[0]].config.epochs}",
        *(f"{interval(found)}, {found.verdict()}" for found in (paired(accuracy), paired(loss))),
    ]
    return f"| {' | '.join(cells)} |"


def _for_good(run: RunResult, goal: float) -> int | None:
    """The epoch after which the test accuracy never falls below the goal."""
    epoch = None
    for row in reversed(run.history):
        if row.test_accuracy < goal:
            break
        epoch = row.epoch
    return epoch


def _spread(values: list[float], sign: bool = False) -> str:
    form = "+.3f" if sign else ".3f"
    sd = f" ± {stdev(values):.3f}" if len(values) > 1 else ""
    return f"{fmean(values):{form}}{sd}"


if __name__ == "__main__":
    main()
