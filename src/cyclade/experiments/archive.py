"""Results to keep: the run folders of an experiment as two tables that git and people can read.

``runs.jsonl``
    One line per run: its folder, its config, how it ended, and the versions and the hardware of
    every start.
``histories.csv``
    Every line of every ``history.csv``, with the folder of its run in front.

`find_runs` reads both forms, so whatever reads run folders reads packed results. Each line of
``runs.jsonl`` says how many rows its run has and their digest: tables that were cut short or
changed are an error. Checkpoints are not kept, so only runs that have ended can be packed. Of a
search (below ``tune``) its outcome is kept, and not its runs.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cyclade.experiments import folder as run_folders
from cyclade.experiments.config import RunConfig
from cyclade.experiments.errors import ConfigError, FolderError
from cyclade.experiments.folder import ABOUT, CONFIG, DONE, HISTORY, RunResult, starts_in
from cyclade.files.disk import as_json, digest, inside, is_plain, read, read_text, write

RUNS, HISTORIES = "runs.jsonl", "histories.csv"
TUNE = "tune"
Cells = tuple[str, ...]
BESIDE = ("plan.json", "timing.json", f"{TUNE}/tuned.json")
"""What is kept as it is."""


@dataclass(frozen=True)
class _Record:
    """All that is kept of one run; the first line of `table` is the head of its history."""

    folder: str
    config: Mapping[str, Any]
    done: Mapping[str, Any]
    about: Any
    table: tuple[Cells, ...]

    @property
    def history(self) -> str:
        """The text of ``history.csv``."""
        return _text(self.table)

    @property
    def mark(self) -> dict[str, Any]:
        """How ``runs.jsonl`` knows the rows again."""
        return {"rows": len(self.table) - 1, "digest": digest(self.history.encode())[:16]}


def find_runs(root: str | Path) -> list[RunResult]:
    """Every run at or below a folder, in order of their paths; packed ones, too.

    Where a run is there in both forms, its folder counts.
    """
    root = Path(root)
    found = {run.folder: run for run in run_folders.find_runs(root)}
    for table in sorted(root.rglob(RUNS)):
        for record in _read(table.parent):
            place = table.parent / record.folder
            if not (place / CONFIG).exists():
                found.setdefault(place, _result(record, place))
    return [found[place] for place in sorted(found)]


def of_search(folder: Path) -> bool:
    """Whether the run in a folder, as seen from its experiment, only served to choose a rate."""
    return TUNE in folder.parts[:-1]


def pack(source: str | Path, target: str | Path) -> Path:
    """Write the runs at or below `source` into `target` as two tables, with plan and times.

    `source` is a folder with runs, as `reproduce` makes it, or packed results. Nothing in it is
    touched. Tables that `target` has already are replaced. Returns the target.
    """
    source, target = Path(source), Path(target)
    records = _records(source)
    if not records and not (source / "timing.json").exists():
        raise FolderError(f"there is nothing to pack: {source} holds no runs")
    if records:
        lines = (
            json.dumps(
                {"run": one.folder, "config": one.config, "done": one.done}
                | one.mark
                | {"about": one.about},
                ensure_ascii=False,
            )
            for one in records
        )
        write(target / RUNS, "".join(f"{line}\n" for line in lines).encode())
        head = records[0].table[0]
        for one in records:
            if one.table[0] != head:
                names = f"{one.folder} has other columns than {records[0].folder}"
                raise FolderError(f"{names}: pack them apart")
        rows = ((one.folder, *row) for one in records for row in one.table[1:])
        write(target / HISTORIES, _text([("run", *head), *rows]).encode())
    for name in BESIDE:
        if (source / name).exists() and source.resolve() != target.resolve():
            write(target / name, read(source / name))
    return target


def unpack(source: str | Path, target: str | Path) -> Path:
    """The run folders again, file by file as they were, but for checkpoints."""
    source, target = Path(source), Path(target)
    if not (source / RUNS).exists():
        raise FolderError(f"{source} holds no packed results ({RUNS})")
    records = _read(source)
    beside = [name for name in BESIDE if (source / name).exists()]
    try:
        places = {name: inside(target, name) for name in (*(r.folder for r in records), *beside)}
    except (ValueError, OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise FolderError(str(error)) from error
    for record in records:
        place = places[record.folder]
        if place.exists():
            raise FolderError(f"{place} is there already: give another folder")
        written = {CONFIG: RunConfig.from_dict(record.config).to_toml(), HISTORY: record.history}
        for name, content in ((DONE, record.done), (ABOUT, record.about)):
            written[name] = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        for name, text in written.items():  # with about.json, the last one, it counts as a run
            write(place / name, text.encode())
    for name in beside:
        write(places[name], read(source / name))
    return target


def _records(root: Path) -> list[_Record]:
    """What is to be kept of the runs at or below a folder, whichever form they have."""
    found: dict[str, _Record] = {}
    for run in run_folders.find_runs(root):
        if of_search(run.folder.relative_to(root)):
            continue
        if run.status == "unfinished":
            raise FolderError(f"{run.folder} has not ended: go on with it, or delete it")
        record = _recorded(run, run.folder.relative_to(root).as_posix())
        found[record.folder] = record
    for table in sorted(root.rglob(RUNS)):
        prefix = table.parent.relative_to(root)
        for record in _read(table.parent):
            found.setdefault((prefix / record.folder).as_posix(), record)
    return [found[name] for name in sorted(found)]


def _recorded(run: RunResult, name: str) -> _Record:
    """A run that has ended, from its folder."""
    path = run.folder
    try:
        done, about = as_json(read(path / DONE)), as_json(read(path / ABOUT))
        head, *rows = _csv(path / HISTORY)
    except (OSError, ValueError, csv.Error) as error:
        raise FolderError(f"{path} cannot be packed: {error}") from error
    _check(name, f"{path} cannot be packed")
    config = {k: v for k, v in asdict(run.config).items() if v is not None}
    return _Record(name, config, done, about, (head, *rows))


def _read(folder: Path) -> list[_Record]:
    """The runs in the tables of a folder, each checked against its count of rows and digest."""
    rows: dict[str, list[Cells]] = {}
    path, runs = folder / HISTORIES, folder / RUNS
    try:
        (_, *head), *lines = _csv(path)
    except (OSError, ValueError, csv.Error) as error:
        raise FolderError(f"{path} cannot be read: {error}") from error
    for line in lines:
        if len(line) != len(head) + 1:
            raise FolderError(f"{path}: a row of {line[0] if line else '?'} is cut short")
        rows.setdefault(line[0], [tuple(head)]).append(line[1:])
    records = []
    for number, text in enumerate(read_text(runs).splitlines(), 1):
        where = f"{runs}, line {number}"
        try:
            found = as_json(text)
            name = str(found["run"])
            table = tuple(rows.pop(name, [tuple(head)]))
            record = _Record(name, found["config"], found["done"], found["about"], table)
            str(record.done["status"])
            mark = {"rows": int(found["rows"]), "digest": str(found["digest"])}
        except (ValueError, KeyError, TypeError) as error:
            raise FolderError(f"{where} cannot be read: {error!r}") from error
        _check(name, f"{where} cannot be read")
        if record.mark != mark:
            raise FolderError(
                f"{where}: the history of {name} in {HISTORIES} is not the one that was packed "
                f"({record.mark['rows']} rows, {mark['rows']} then)"
            )
        records.append(record)
    if rows:
        raise FolderError(f"{path} has rows of {next(iter(rows))}, which {RUNS} does not name")
    return records


def _result(record: _Record, place: Path) -> RunResult:
    try:
        config = RunConfig.from_dict(record.config)
        history = run_folders.rows_of(record.history)
    except (ConfigError, ValueError, KeyError, TypeError) as error:
        raise FolderError(f"{place}, packed, cannot be read: {error!r}") from error
    return RunResult(config, place, str(record.done["status"]), history, starts_in(record.about))


def _check(name: str, where: str) -> None:
    """A run has a name that is safe to use as a path on any system; "." if it is the only one."""
    if name != "." and not is_plain(name):
        raise FolderError(f"{where}: {name!r} is not a name for a folder below another one")


def _csv(path: Path) -> Iterator[Cells]:
    return map(tuple, csv.reader(io.StringIO(read_text(path), newline="")))


def _text(rows: Iterable[Cells]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
