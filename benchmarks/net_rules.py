"""Rules for the step η/Λ_j where no lr is given, and how one is chosen: what the defaults are from.

With g^j the gradient of block j on the batch and G_j the sum of ‖g^j‖² over the cycles so far, this
one included, the rules are

    clip     Λ_j = max(1, ‖g^j‖ / c)       (clip_norm=c)
    adagrad  Λ_j = √(1 + G_j / c²)         (adagrad_norm=c: AdaGrad-Norm by blocks)
    both     the second, of gradients that are clipped at c/2

and with "spectral" before the name Λ_j is multiplied by the spectral norm of the layer's weight.
Each trains by itself with SCCD; torch's Adam with its default trains beside them.

    python benchmarks/net_rules.py --mnist FILE.npz --cifar10 FOLDER --device cuda \\
        --tasks mnist cifar10 cifar10-512 --processes 6 --csv net-rules.csv
    python benchmarks/net_rules.py --pick net-rules.csv

writes one line for each run, and then prints, for every kind of rule, the setting whose worst line
(accuracy, mean of the seeds, less that of Adam; over tasks and numbers of epochs) is the best.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import statistics
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch

import net_defaults
from cyclade.optim import SCCD

GRIDS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "clip": ((0.3,), (0.25,)),
    "adagrad": ((0.1, 0.2, 0.4, 0.8, 1.6), (0.5, 1.0, 2.0, 4.0)),
    "both": ((0.8,), (1.0,)),
    "spectral clip": ((0.2,), (0.5,)),
    "spectral adagrad": ((0.1, 0.2, 0.4, 0.8), (0.5, 1.0, 2.0, 4.0)),
    "spectral both": ((0.8,), (1.0,)),
}
"""By rule: η and c. Of clipping, what the default was before."""
EPOCHS = {"mnist": (4, 10), "cifar10": (4, 10, 20), "cifar10-512": (10, 20), "digits": (15, 60)}
FIELDS = ("task", "epochs", "rule", "lr", "c", "seed", "test accuracy")
ADAM = "torch Adam"

Rule = tuple[str, float, float]


def method(rule: Rule) -> net_defaults.Method:
    """How to build the optimizer of a rule."""
    kind, _, c = rule
    if kind == ADAM:
        return net_defaults.METHODS[ADAM]
    options: dict[str, Any] = {"precondition": "spectral"} if kind.startswith("spectral") else {}
    options["clip_norm"] = {"clip": c, "both": c / 2}.get(kind.split()[-1], math.inf)
    options["adagrad_norm"] = math.inf if kind.endswith("clip") else c
    return net_defaults.Method(partial(SCCD, **options), ())


def one(given: argparse.Namespace, asked: tuple[str, Rule, int]) -> list[dict[str, Any]]:
    """The lines of one run, in a process of its own where several run at a time."""
    torch.set_num_threads(1)
    name, rule, seed = asked
    given.epochs = EPOCHS.get(name)
    task, data = net_defaults._task(name, given), net_defaults._on_device(name, given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lr = None if rule[0] == ADAM else rule[1]
        found = net_defaults.accuracies(task, data, method(rule), lr, seed)
    label = f"{task.label}, batches of {task.batch}"
    return [
        dict(zip(FIELDS, (label, epochs, rule[0], rule[1], rule[2], seed, f"{a:.4f}"), strict=True))
        for epochs, a in zip(task.epochs, found, strict=True)
    ]


def pick(path: Path) -> None:
    """Print the best setting of every kind of rule."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    runs: dict[tuple[str, str], dict[Rule, list[float]]] = {}
    for row in rows:
        rule = row["rule"], float(row["lr"]), float(row["c"])
        a = float(row["test accuracy"])
        line = runs.setdefault((row["task"], row["epochs"]), {})
        line.setdefault(rule, []).append(0.1 if math.isnan(a) else a)  # 0.1: it guesses
    means = {
        line: {r: statistics.mean(a) for r, a in found.items()} for line, found in runs.items()
    }
    gaps: dict[Rule, list[float]] = {}
    for found in means.values():
        adam = next(a for rule, a in found.items() if rule[0] == ADAM)
        for rule, a in found.items():
            gaps.setdefault(rule, []).append(a - adam)
    print("lines:", *(f"{task}, {epochs} epochs" for task, epochs in means), sep="\n  ")
    for kind in dict.fromkeys(rule[0] for rule in gaps):
        every = sorted((r for r in gaps if r[0] == kind), key=lambda r: -min(gaps[r]))
        for rule in every[:5]:
            shown = "  ".join(f"{100 * gap:+.1f}" for gap in gaps[rule])
            print(f"{kind:<18} lr {rule[1]:<5g} c {rule[2]:<5g} {shown}")


def main() -> None:
    """Run the grid, or choose from one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mnist", metavar="FILE.npz")
    parser.add_argument("--cifar10", type=Path, metavar="FOLDER")
    parser.add_argument("--tasks", nargs="+", default=["digits"], choices=list(net_defaults.TASKS))
    parser.add_argument("--rules", nargs="+", default=list(GRIDS), choices=list(GRIDS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--processes", type=int, default=1, help="runs at a time")
    parser.add_argument("--csv", type=Path, help="write (or go on writing) the lines")
    parser.add_argument("--pick", type=Path, metavar="CSV", help="choose from these lines")
    given = parser.parse_args()
    if given.pick:
        pick(given.pick)
        return
    rules: list[Rule] = [(ADAM, 0.001, 0.0)]
    for kind in given.rules:
        rules += [(kind, lr, c) for lr, c in itertools.product(*GRIDS[kind])]
    asked = list(itertools.product(given.tasks, rules, given.seeds))
    spawn = torch.multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(given.processes, spawn) as pool:
        for lines in pool.map(partial(one, given), asked):
            for line in lines:
                print(*line.values(), sep="  ", flush=True)
            if given.csv:
                _append(given.csv, lines)


def _append(path: Path, lines: list[dict[str, Any]]) -> None:
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(lines)


if __name__ == "__main__":
    main()
