"""Damages and kills: every outcome is recovered, bit for bit, or one line and exit code 2.

    python tests/faults/faults.py --damages 200 --kills 200 --interrupts 50     (`make faults`)

Folders of `cyclade run`, `tune` and `reproduce`, finished and half-finished, on digits with tiny
configs, are damaged one file at a time: a flipped bit, a file cut short, a file of another run, of
another version, missing, text, without a key, with a newer column. Then the command that made the
folder is given again. It must end as the undamaged one (same tables but for seconds, same weights,
same choices), or refuse with one line. Kills are SIGKILL at random moments, interrupts are Ctrl-C,
which must be answered by one line; after any number of them the same command must end as if nothing
had happened. Every attempt is a fork, so that torch is imported once. The last lines are the
counts; the exit code is 1 if anything was accepted that is not the undamaged result, or raised a
traceback.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: forks must not inherit its threads

import torch
from trials import INTERRUPTED, command_line, forked, record

from cyclade.cli import main as cyclade
from cyclade.experiments import FolderError, RunConfig, plans
from cyclade.experiments.folder import RunFolder
from cyclade.experiments.plans import Curve, Plan
from cyclade.files.disk import DIGEST, read_json, write_json
from cyclade.files.sealed import Label, sealed

BASE = RunConfig(batch=700, epochs=3, lr=0.02, device="cpu")
SHORT = replace(BASE, epochs=1)
TINY = Plan(
    name="fig1",
    title="A tiny plan",
    question="Does it survive?",
    curves=(Curve(replace(SHORT, method="SGD"), (0.2, 0.4)), Curve(replace(BASE, lr=0.3))),
    seeds=1,
)
MISSED = 77  # an exit code
RECOVERED, REFUSED, SILENT, TRACEBACK = "recovered", "refused", "SILENT", "TRACEBACK"

Attempt = Callable[[list[str]], tuple[int, str]]
"""From the arguments of a command to its exit code and what it wrote to the error stream."""


# ----------------------------------------------------------------------------------- commands


SET = "--set batch=700 --set seed={seed}"
COMMANDS = {
    "run": f"run {SET} --epochs 3 --lr 0.02",
    "tune": f"tune {SET} --epochs 1 --methods SGD --lrs 0.2 0.4 --jobs 1",
    "reproduce": "reproduce fig1 --seed-list {seed} --jobs 1",
}


def command(name: str, seed: int, folder: Path) -> list[str]:
    """The tiny version of a command, for a folder; another seed makes another one."""
    words = COMMANDS[name].format(seed=seed).split()
    return [*words, "--device", "cpu", "--quiet", "--out", str(folder)]


def small_plan(settings: plans.Settings) -> Plan:
    assert settings.seeds is not None
    return replace(TINY, seeds=settings.seeds)


def prepare() -> None:
    """What all forks share: the tiny plan, no pictures, and all that is imported on the way."""
    sys.modules["matplotlib"] = None  # type: ignore[assignment]
    plans.PAPER["fig1"] = small_plan
    with tempfile.TemporaryDirectory() as scratch:
        for name in COMMANDS:
            in_this_process(command(name, 0, Path(scratch) / name))


def in_this_process(arguments: list[str]) -> tuple[int, str]:
    """The exit code and the error stream of a command; 1 with a traceback."""
    errors = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
        try:
            code = cyclade(arguments)
        except SystemExit as stop:
            code = int(stop.code or 0)
        except KeyboardInterrupt as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                raise  # before the command had begun
            traceback.print_exc()
            code = 1
        except BaseException:
            traceback.print_exc()
            code = 1
    return code, errors.getvalue()


def in_a_fork(
    arguments: list[str], after: float | None = None, by: int = signal.SIGKILL
) -> tuple[int, str]:
    """The same in a fork, which may be struck."""
    code, said = forked(partial(in_this_process, arguments), after, by)
    if said is not None:
        return said[0], said[1]
    return MISSED if code == INTERRUPTED else code, ""  # else it hit this script, not the command


# ------------------------------------------------------------------------------------ results


def result(folder: Path) -> dict[str, Any]:
    """All that a command leaves, but for seconds and for where it ran."""
    found: dict[str, Any] = {}
    for config in sorted(folder.rglob("config.toml")):
        place = RunFolder(config.parent)
        name = str(config.parent.relative_to(folder))
        found[name] = place.problem() or [
            place.config(),
            place.result().status,
            [replace(row, seconds=0.0) for row in place.history()],
        ]
        if (place.path / "checkpoint.pt").exists():  # it may be deleted once the run is done
            state: Any = place.load(torch.device("cpu"))
            found[f"{name}/weights"] = [v.numpy().tobytes() for v in state["model"].values()]
    for file in sorted(folder.rglob("*.json")):
        if file.name in ("plan.json", "tuned.json"):
            content = read_json(file)
            content.pop("command", None)
            found[str(file.relative_to(folder))] = content
    return found


def judged(code: int, errors: str, folder: Path, wanted: dict[str, Any]) -> tuple[str, str]:
    """What became of a damage, and why that is wrong."""
    lines = [line for line in errors.splitlines() if not line.startswith("cyclade: warning: ")]
    if code == 2 and len(lines) == 1 and lines[0].startswith("cyclade: "):
        return REFUSED, ""
    if code != 0 or lines:
        return TRACEBACK, f"exit code {code}: {errors[-2000:]}"
    try:
        found = result(folder)
    except FolderError as error:
        return SILENT, f"exit code 0, but {error}"
    different = [
        key
        for key in {**wanted, **found}
        if wanted.get(key) != found.get(key) and not (key.endswith("/weights") and key not in found)
    ]
    if different:
        return SILENT, f"exit code 0, but other {', '.join(different)}"
    return RECOVERED, ""


# ------------------------------------------------------------------------------------ damages

Damage = Callable[[Path, Path, random.Random], bool]
"""Damage a file, with the folder of another run at hand; False if that makes no sense for it."""


def resealed(file: Path, change: Callable[[Any], Any], version: int = 2) -> None:
    """A checkpoint whose digest fits, with another content or of another version."""
    state, buffer = torch.load(file, weights_only=True), io.BytesIO()
    label = Label(version, RunFolder(file.parent).config().identity, state["epoch"])
    change(state)
    torch.save(state, buffer)
    file.write_bytes(sealed(buffer.getvalue(), label))


def flip(file: Path, other: Path, rng: random.Random) -> bool:
    content = bytearray(file.read_bytes())
    if not content:
        return False
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    file.write_bytes(content)
    return True


def truncate(file: Path, other: Path, rng: random.Random) -> bool:
    os.truncate(file, rng.randrange(file.stat().st_size + 1))
    return True


def swap(file: Path, other: Path, rng: random.Random) -> bool:
    others = sorted(other.rglob(file.name))
    if not others:
        return False
    shutil.copy(rng.choice(others), file)
    return True


def other_version(file: Path, other: Path, rng: random.Random) -> bool:
    if file.suffix == ".pt":
        resealed(file, lambda state: None, version=7)
    elif file.suffix == ".toml":
        file.write_text(file.read_text() + 'flavour = "sweet"\n')
    elif file.suffix == ".json" or file.name == "done":
        content = json.loads(file.read_text())
        file.write_text(json.dumps({**content, "version": 99}))
    else:
        return False
    return True


def missing(file: Path, other: Path, rng: random.Random) -> bool:
    file.unlink()
    return True


def text(file: Path, other: Path, rng: random.Random) -> bool:
    file.write_text(rng.choice(["", "\n", "some text\n", "{}", "[]", "null", "\0\n", "1e999"]))
    return True


def missing_key(file: Path, other: Path, rng: random.Random) -> bool:
    if file.suffix == ".pt":
        resealed(file, lambda state: state.pop(rng.choice(list(state))))
    elif file.suffix == ".json" or file.name == "done":
        content = json.loads(file.read_text())
        content.pop(DIGEST, None)
        content.pop(rng.choice(list(content)))
        write_json(file, content)  # with a digest that fits
    elif file.suffix in (".toml", ".csv"):
        lines = file.read_text().splitlines(True)
        if not lines:
            return False
        lines.pop(rng.randrange(len(lines)))
        file.write_text("".join(lines))
    else:
        return False
    return True


def newer_column(file: Path, other: Path, rng: random.Random) -> bool:
    if file.suffix == ".pt":

        def change(state: Any) -> None:
            for row in state["history"]:
                row["energy"] = 1.0

        resealed(file, change)
    elif file.suffix == ".csv":
        head, *rows = file.read_text().splitlines()
        file.write_text("\n".join([f"{head},energy", *(f"{row},1.0" for row in rows)]) + "\n")
    else:
        return False
    return True


DAMAGES: dict[str, Damage] = {
    "bit flip": flip,
    "truncation": truncate,
    "swap between runs": swap,
    "other version": other_version,
    "missing file": missing,
    "text instead": text,
    "missing key": missing_key,
    "newer column": newer_column,
}


def damaged(folder: Path, other: Path, rng: random.Random, kind: str) -> str:
    """Damage one file of a folder; returns which, and how."""
    files = sorted(
        file
        for file in folder.rglob("*")
        if file.is_file() and file.suffix not in (".html", ".lock", ".tmp")
    )
    rng.shuffle(files)
    for file in files:
        if DAMAGES[kind](file, other, rng):
            return f"{kind} of {file.relative_to(folder)}"
    raise RuntimeError(f"no file for {kind}")


# ---------------------------------------------------------------------------------- the script


class Stage:
    """Folders that were made without any fault, finished and half-finished, to be copied."""

    def __init__(self, root: Path, attempt: Attempt, names: Iterable[str] = COMMANDS) -> None:
        self.root, self.attempt, self.names = root, attempt, list(names)
        for name in self.names:
            for seed in (0, 1):
                code, errors = attempt(command(name, seed, self.whole(name, seed)))
                if code or errors:
                    raise RuntimeError(f"{name} fails without any fault: {errors}")
            self._halve(name)
        self.wanted = {name: result(self.whole(name, 0)) for name in self.names}

    def whole(self, name: str, seed: int) -> Path:
        return self.root / f"{name}-{seed}"

    def half(self, name: str) -> Path:
        return self.root / f"{name}-half"

    def _halve(self, name: str) -> None:
        """As after a kill: the last runs stand where their checkpoint before the last was taken."""
        half = Path(shutil.copytree(self.whole(name, 0), self.half(name)))
        done = sorted(half.rglob("done"))
        for mark in done[len(done) // 2 :]:
            mark.unlink()
            place = RunFolder(mark.parent)
            if (place.path / "checkpoint.previous.pt").exists():
                os.replace(place.path / "checkpoint.previous.pt", place.path / "checkpoint.pt")
                place.write_history(place.history()[:-1])
        for name in ("tuned.json", "report.html"):
            for file in half.rglob(name):
                file.unlink()

    def damage(self, number: int, seed: int) -> tuple[str, str, str]:
        """One damage: its kind, its outcome, and what is wrong with that."""
        rng = random.Random(f"{seed}-{number}")
        name = self.names[number % len(self.names)]
        kind = rng.choice(list(DAMAGES))
        source = rng.choice([self.whole(name, 0), self.half(name)])
        with tempfile.TemporaryDirectory(dir=self.root) as scratch:
            folder = Path(shutil.copytree(source, Path(scratch) / "folder"))
            what = damaged(folder, self.whole(name, 1), rng, kind)
            code, errors = self.attempt(command(name, 0, folder))
            outcome, why = judged(code, errors, folder, self.wanted[name])
        return f"{name}, {kind}", outcome, f"damage {number}: {name}, {what}: {why}" if why else ""

    def strike(
        self, name: str, number: int, seed: int, seconds: float, by: int
    ) -> tuple[int, str, str]:
        """One command, struck once or more: how often, its outcome, what is wrong."""
        rng = random.Random(f"{signal.Signals(by).name}-{seed}-{number}")
        hits = 0
        with tempfile.TemporaryDirectory(dir=self.root) as scratch:
            folder = Path(scratch) / "folder"
            line = command(name, 0, folder)
            while hits < 8:
                code, errors = in_a_fork(line, rng.random() * seconds, by)
                if code == MISSED:
                    continue
                if code == 0:
                    break  # it was faster
                hits += 1
                quiet = code == INTERRUPTED and len(errors.splitlines()) == 1
                if by == signal.SIGINT and not quiet:
                    return hits, TRACEBACK, f"{name}: exit code {code}: {errors[-2000:]}"
                if rng.random() < 0.2:
                    break
            code, errors = in_a_fork(line)
            outcome, why = judged(code, errors, folder, self.wanted[name])
            left = [str(p) for p in folder.rglob(".*.tmp")] if outcome == RECOVERED else []
            if left:
                outcome, why = SILENT, f"left behind: {left}"
        if outcome == REFUSED:  # a strike damages nothing
            outcome, why = SILENT, errors
        return hits, outcome, f"{signal.Signals(by).name} {number}: {name}: {why}" if why else ""


DAMAGED = ("a damaged file", "folders of cyclade run, tune, reproduce")
STRIKES = {"SIGKILL": signal.SIGKILL, "Ctrl-C": signal.SIGINT}


def main() -> int:
    parser = command_line(__doc__, damages=200, kills=200, interrupts=50)
    chosen = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    prepare()
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        stage = Stage(Path(scratch), in_a_fork)
        counts = partial(record, chosen.csv, chosen.seed)
        total: Counter[str] = Counter()
        for number in range(chosen.damages):
            key, outcome, why = stage.damage(number, chosen.seed)
            total[outcome] += 1
            failures += [why] if why else []
            print(f"damage {number}: {key}: {outcome}", file=sys.stderr, flush=True)
        counts([(*DAMAGED, total.total(), total[RECOVERED] + total[REFUSED])])
        said = [
            f"{total.total()} damages: {total[RECOVERED]} recovered bit for bit, "
            f"{total[REFUSED]} refused in one line, {total[SILENT]} accepted silently, "
            f"{total[TRACEBACK]} tracebacks"
        ]
        for name in COMMANDS:
            began = time.perf_counter()
            in_a_fork(command(name, 0, Path(scratch) / f"timed-{name}"))
            seconds = time.perf_counter() - began
            for fault, times in (("SIGKILL", chosen.kills), ("Ctrl-C", chosen.interrupts)):
                hits, commands, good = 0, Counter[str](), 0
                while hits < times:
                    struck, outcome, why = stage.strike(
                        name, commands.total(), chosen.seed, seconds, STRIKES[fault]
                    )
                    hits, good = hits + struck, good + (0 if why else struck)
                    commands[outcome] += 1
                    failures += [why] if why else []
                    print(f"{fault}, {name}, {hits}: {outcome}", file=sys.stderr, flush=True)
                counts([(f"{fault} at a random moment", f"cyclade {name}", hits, good)])
                said.append(
                    f"{hits} {fault} of {commands.total()} {name}: {commands[RECOVERED]} ended as "
                    f"if nothing had happened, {commands.total() - commands[RECOVERED]} did not"
                )
    print(*failures, *said, sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
