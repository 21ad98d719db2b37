"""What a study came to: every curve at its own learning rate, and its price.

    python benchmarks/studies.py docs/results/study-batch
    python benchmarks/studies.py docs/results/study-batch --epoch 5
    python benchmarks/studies.py docs/results/fig-vr --epoch 40

Test accuracy and train loss at the end, or at an epoch (mean ± standard deviation over the seeds;
runs that diverged are counted, not averaged), what they took until then, and seconds alone on the
device from ``timing.json``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import fmean, stdev

from cyclade.experiments import RunConfig, RunResult
from cyclade.experiments.archive import final_runs

HEAD = (
    "| curve | lr | seeds | test accuracy | train loss | cycles | multiply-adds | ms / epoch "
    "| ms / cycle |"
)
NAMED = ("dataset", "method", "spectral", "precondition", "order", "blocks", "batch")


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the folder of a study")
    parser.add_argument("--epoch", type=int, help="the epoch to look at (default: the last)")
    options = parser.parse_args()
    folder = options.folder
    timing = folder / "timing.json"
    times = json.loads(timing.read_text("utf-8"))["rows"] if timing.exists() else []
    curves: dict[tuple[object, ...], list[RunResult]] = {}
    for run in final_runs(folder):
        curves.setdefault(key(run.config), []).append(run)
    print(HEAD)
    print("|" + "---|" * (HEAD.count("|") - 1))
    for name, runs in sorted(curves.items(), key=lambda item: order(item[0])):
        time = next((row for row in times if tuple(row[k] for k in NAMED) == name[1:]), None)
        print(line(runs, options.epoch, time))


def key(config: RunConfig) -> tuple[object, ...]:
    """What tells one curve from another."""
    return (config.lr, *(getattr(config, name) for name in NAMED))


def order(name: tuple[object, ...]) -> tuple[object, ...]:
    """By batch, then by method, plain before adorned."""
    lr, data, method, spectral, precondition, turns, blocks, batch = name
    adorned = bool(spectral), bool(precondition)
    return (data, batch, method != "SGD", method, *adorned, blocks, turns, lr)


def line(runs: list[RunResult], epoch: int | None, time: dict[str, float] | None) -> str:
    """One row of the table."""
    config = runs[0].config
    parts = [config.dataset, config.method, f"b = {config.batch}"]
    parts += [f"m = {config.blocks}, {config.order}"] if config.blocks is not None else []
    parts += ["η/σ(W_j)"] if config.spectral else []
    parts += ["η/L_j"] if config.precondition else []
    at = -1 if epoch is None else epoch
    alive = [run.history[at] for run in runs if run.status == "finished"]
    lost = len(runs) - len(alive)
    cells = [
        ", ".join(parts),
        f"{config.lr:g}",
        f"{len(alive)}" + (f" ({lost} diverged)" if lost else ""),
        spread([row.test_accuracy for row in alive]),
        spread([row.train_loss for row in alive]),
        f"{fmean(row.cycles for row in alive):.0f}" if alive else "",
        f"{fmean(row.multiply_adds for row in alive):.3g}" if alive else "",
        "" if time is None else f"{1e3 * time['seconds_per_epoch']:.0f}",
        "" if time is None else f"{1e3 * time['seconds_per_iteration']:.2f}",
    ]
    return f"| {' | '.join(cells)} |"


def spread(values: list[float]) -> str:
    """Mean and standard deviation."""
    if not values:
        return "–"
    sd = f" ± {stdev(values):.3f}" if len(values) > 1 else ""
    return f"{fmean(values):.3f}{sd}"


if __name__ == "__main__":
    main()
