"""The study: which settings, their learning rates and seeds, and a file that it resumes from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from cyclade.experiments.device import about
from cyclade.experiments.errors import FolderError
from cyclade.files.disk import read_json, sweep, write_json
from cyclade.files.lock import locked
from studies.deep.record import TOGETHER, Setting, run
from studies.deep.report import final
from studies.deep.tasks import Images, Sources, Task, small_sources

TASKS = ("gpt", "resnet")
RECORDS = "records.json"
MAIN = 6  # settings of a task that come first, with all their seeds
FACTOR = 3.0  # from one learning rate to the next
BELOW = (30.0, 100.0)  # how far below the middle the steps are that should not oscillate

RATES: dict[tuple[str, str], float] = {
    ("gpt", "sgd"): 0.3, ("gpt", "momentum"): 0.1, ("gpt", "adam"): 3e-4,
    ("resnet", "sgd"): 0.3, ("resnet", "momentum"): 0.1, ("resnet", "adam"): 1e-3,
}  # fmt: skip
"""Where the search of the learning rate begins."""


def settings(task: str) -> list[Setting]:
    """What is compared on a task, the most telling first."""
    main = "adam 0" if task == "gpt" else "momentum"

    def of(optimizer: str, *ways: tuple[int, str]) -> list[Setting]:
        return [Setting(task, optimizer, m, order) for m, order in ways]

    few = ((1, TOGETHER), (4, "forward"), (4, "shuffled"))
    rest = ((2, "forward"), (2, "shuffled"), (5, "forward"), (4, "rotated"), (4, "reflected"))
    others = ["adam 0.9", "adam 0.5"] if task == "gpt" else ["sgd", "adam 0.9"]
    last = ["momentum"] if task == "gpt" else ["adam 0"]
    return [
        *of(main, *few), *of(others[0], *few), *of(main, *rest),
        Setting(task, main, 4, "forward", fresh=True),
        *(one for optimizer in (*others[1:], *last) for one in of(optimizer, *few)),
    ]  # fmt: skip


def study(
    out: str | Path,
    *,
    tasks: Sequence[str] = TASKS,
    seeds: Sequence[int] = (0, 1, 2),
    quick: bool = False,
    data_dir: str | Path | None = None,
    device: torch.device | str = "cpu",
    command: str = "",
    say: Callable[[str], None] = lambda line: None,
) -> list[dict[str, Any]]:
    """Run what is missing in ``out/records.json``; all records. The same call goes on."""
    device, folder = torch.device(device), Path(out)
    torch.backends.cudnn.benchmark = True  # for every setting
    with locked(folder):
        sweep(folder)
        shelf = _Shelf(folder / RECORDS, quick=quick, device=device, command=command)
        for name in tasks:
            task = load_task(name, quick, data_dir, device)
            wanted = settings(name)[:3] if quick else settings(name)
            first, rest = wanted[:MAIN], wanted[MAIN:]  # what is cut short has the most telling
            below = () if quick else wanted[:3]
            plans = (_search, first), (_repeat, first), (_below, below)
            for plan, some in (*plans, (_search, rest), (_repeat, rest)):
                for setting in some:
                    for lr, seed in plan(setting, shelf, seeds):
                        if _has(shelf, setting, lr, seed):
                            continue
                        shelf.add(run(setting, task, lr, seed, device))
                        say(line_of(shelf.records[-1]))
    return shelf.records


def load_task(name: str, quick: bool, data_dir: str | Path | None, device: torch.device) -> Task:
    """The task by its name."""
    if name == "gpt":
        return small_sources(device) if quick else Sources.load(device)
    return Images.load(data_dir, device)


class _Shelf:
    """The records so far, in a file that is replaced as a whole after each run."""

    def __init__(self, path: Path, *, quick: bool, device: torch.device, command: str) -> None:
        self._path = path
        self._about = {"quick": quick, "command": command, "about": about(device, 0)}
        self.records: list[dict[str, Any]] = []
        try:
            found = read_json(path)
        except FileNotFoundError:
            return
        if found.get("quick") != quick:
            raise FolderError(f"{path} is of a study {'in full' if quick else 'in small'}")
        self.records = found["records"]
        self._about = {key: found[key] for key in self._about}

    def add(self, record: dict[str, Any]) -> None:
        """Keep one more."""
        self.records.append(record)
        write_json(self._path, {**self._about, "records": self.records})

    def of(self, setting: Setting) -> list[dict[str, Any]]:
        """The records of a setting."""
        wanted = asdict(setting)
        return [r for r in self.records if all(r[key] == value for key, value in wanted.items())]


Runs = Iterator[tuple[float, int]]
"""Learning rates and seeds; runs that are there already are left out."""


def _search(setting: Setting, shelf: _Shelf, seeds: Sequence[int]) -> Runs:
    """Four learning rates with the first seed, and up to two beyond where an end is best."""
    middle = RATES[setting.task, setting.optimizer.split()[0]]
    # Small ones belong to it: cyclic steps may have one minimum there and a worse one above.
    for lr in (middle, middle / FACTOR, middle * FACTOR, middle / FACTOR**2):
        yield lr, seeds[0]
    for _ in range(2):
        searched = sorted({r["lr"] for r in shelf.of(setting) if r["seed"] == seeds[0]})
        chosen = best_rate(shelf.of(setting), seeds[0])
        if chosen not in (searched[0], searched[-1]) or len(searched) > 5:
            return
        yield chosen / FACTOR if chosen == searched[0] else chosen * FACTOR, seeds[0]


def _repeat(setting: Setting, shelf: _Shelf, seeds: Sequence[int]) -> Runs:
    """The other seeds at the best of them."""
    chosen = best_rate(shelf.of(setting), seeds[0])
    for seed in seeds[1:]:
        yield chosen, seed


def _below(setting: Setting, shelf: _Shelf, seeds: Sequence[int]) -> Runs:
    """Steps far below those that train best: does the lock vanish under the edge of stability?"""
    middle = RATES[setting.task, setting.optimizer.split()[0]]
    for factor in BELOW:
        yield middle / factor, seeds[0]


def _has(shelf: _Shelf, setting: Setting, lr: float, seed: int) -> bool:
    return any(
        math.isclose(r["lr"], lr, rel_tol=1e-6) and r["seed"] == seed for r in shelf.of(setting)
    )


def best_rate(records: list[dict[str, Any]], seed: int) -> float:
    """The learning rate with the least validation loss in the search."""
    searched = [r for r in records if r["seed"] == seed]
    return float(min(searched, key=final)["lr"])


def line_of(record: dict[str, Any]) -> str:
    """A record in a line."""
    order = record["order"] + (" fresh" if record["fresh"] else "")
    cosines = record["cosines"]
    cosine = f"{sum(cosines[-3:]) / len(cosines[-3:]):+.2f}" if cosines else "-"
    moved = "-" if record["moved"] is None else f"{record['moved']:.1f}"
    return (
        f"{record['task']:<6} {record['optimizer']:<8} m={record['blocks']} {order:<13} "
        f"lr={record['lr']:<8.2g} seed={record['seed']} val={final(record):.3f} "
        f"cosine={cosine} moved={moved} {record['ms'] or math.nan:.2f} ms"
    )
