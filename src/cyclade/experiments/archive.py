"""Results to keep: the run folders of an experiment as two tables that git and people can read.

``runs.jsonl``
    One line per run: its folder, its config, how it ended, and the versions and the hardware of
    every start.
``histories.csv``
    Every line of every ``history.csv``, with the folder of its run in front; of a search run
    (below ``tune``) the last line, by which it was judged.

`find_runs` reads both forms, so whatever reads run folders reads packed results. Each line of
``runs.jsonl`` says how many rows its run has and their digest: tables that were cut short or
changed are an error. Checkpoints are not kept, so only runs that have ended can be packed.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cyclade.experiments import folder as run_folders
from cyclade.experiments.config import RunConfig
from cyclade.experiments.errors import ConfigError, FolderError
from cyclade.experiments.folder import ABOUT, CONFIG, DONE, HISTORY, RunResult
from cyclade.files.disk import as_json, digest, read, read_text, write
from cyclade.files.names import inside, is_plain

RUNS, HISTORIES = "runs.jsonl", "histories.csv"
TUNE = "tune"
Cells = tuple[str, ...]
BESIDE = ("plan.json", "timing.json", f"{TUNE}/tuned.json")
"""What is kept as it is."""


@dataclass(frozen=True)
class PackedRun(RunResult):
    """A run that is read from the tables; its folder is where it was, and is there no more."""

    starts: tuple[Mapping[str, Any], ...] = field(default=())


@dataclass(frozen=True)
class _Record:
    """All that is kept of one run; `cells` are the rows of its history as they were written."""

    folder: str
    config: Mapping[str, Any]
    done: Mapping[str, Any]
    about: Mapping[str, Any]
    columns: Cells
    cells: tuple[Cells, ...]

    def line(self) -> str:
        """The line of ``runs.jsonl``."""
        kept: dict[str, Any] = {"run": self.folder, "config": self.config, "done": self.done}
        kept |= {"rows": len(self.cells), "digest": self.digest(), "about": self.about}
        return json.dumps(kept, ensure_ascii=False)

    def history(self) -> str:
        """The text of ``history.csv``."""
        return _table([self.columns, *self.cells])

    def digest(self) -> str:
        """Of the history."""
        return digest(self.history().encode())[:16]


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


def of_search(run: RunResult, root: Path) -> bool:
    """Whether a run only served to choose a learning rate."""
    return TUNE in run.folder.relative_to(root).parts[:-1]


def starts(run: RunResult) -> list[Mapping[str, Any]]:
    """What a run noted at its starts; nothing if that cannot be read: it bears on no result."""
    if isinstance(run, PackedRun):
        return list(run.starts)
    try:
        return _starts(as_json(read(run.folder / ABOUT)))
    except (OSError, ValueError):
        return []


def pack(source: str | Path, target: str | Path) -> Path:
    """Write the runs at or below `source` into `target` as two tables, with plan and times.

    `source` is a folder with runs, as `reproduce` makes it, or packed results. Nothing in it is
    touched. Tables that `target` has already are replaced. Returns the target.
    """
    source, target = Path(source), Path(target)
    records = list(_records(source))
    timed = (source / "timing.json").exists()
    if not records and not timed:
        raise FolderError(f"there is nothing to pack: {source} holds no runs")
    if records:
        write(target / RUNS, "".join(f"{record.line()}\n" for record in records).encode())
        write(target / HISTORIES, _histories(records).encode())
    for name in BESIDE:
        if (source / name).exists() and source.resolve() != target.resolve():
            write(target / name, read(source / name))
    return target


def unpack(source: str | Path, target: str | Path) -> Path:
    """The run folders again, file by file as they were, but for checkpoints and search runs."""
    source, target = Path(source), Path(target)
    if not (source / RUNS).exists():
        raise FolderError(f"{source} holds no packed results ({RUNS})")
    runs = [run for run in _read(source) if TUNE not in Path(run.folder).parts[:-1]]
    beside = [name for name in BESIDE if (source / name).exists()]
    places = {name: _inside(target, name) for name in (*(run.folder for run in runs), *beside)}
    for record in runs:
        place = places[record.folder]
        if place.exists():
            raise FolderError(f"{place} is there already: give another folder")
        config = RunConfig.from_dict(record.config)
        for name, text in (
            (CONFIG, config.to_toml()),
            (HISTORY, record.history()),
            (DONE, _json(record.done)),
            (ABOUT, _json(record.about)),  # with this it counts as a run
        ):
            write(place / name, text.encode())
    for name in beside:
        write(places[name], read(source / name))
    return target


def _check(name: str, where: str) -> None:
    """A run has a name that is safe to use as a path on any system; "." if it is the only one."""
    if name != "." and not is_plain(name):
        raise FolderError(f"{where}: {name!r} is not a name for a folder below another one")


def _inside(target: Path, name: str) -> Path:
    try:
        return inside(target, name)
    except (ValueError, OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise FolderError(str(error)) from error


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


# ------------------------------------------------------------------------------ from run folders


def _records(root: Path) -> Iterator[_Record]:
    """What is to be kept of the runs at or below a folder, whichever form they have."""
    found: dict[str, _Record] = {}
    for run in run_folders.find_runs(root):
        if run.status == "unfinished":
            raise FolderError(f"{run.folder} has not ended: go on with it, or delete it")
        name = run.folder.relative_to(root).as_posix()
        found[name] = _recorded(run, name)
    for table in sorted(root.rglob(RUNS)):
        prefix = table.parent.relative_to(root)
        for record in _read(table.parent):
            found.setdefault((prefix / record.folder).as_posix(), record)
    yield from (found[name] for name in sorted(found))


def _recorded(run: RunResult, name: str) -> _Record:
    path = run.folder
    config = {k: v for k, v in asdict(run.config).items() if v is not None}
    try:
        done, about = as_json(read(path / DONE)), as_json(read(path / ABOUT))
        columns, *cells = map(tuple, _csv(path / HISTORY))
    except (OSError, ValueError, csv.Error) as error:
        raise FolderError(f"{path} cannot be packed: {error}") from error
    _check(name, f"{path} cannot be packed")
    if TUNE in Path(name).parts[:-1]:
        cells = cells[-1:]
    return _Record(name, config, done, about, columns, tuple(cells))


def _histories(records: Sequence[_Record]) -> str:
    """``histories.csv``."""
    columns = records[0].columns
    for record in records:
        if record.columns != columns:
            raise FolderError(
                f"{record.folder} has other columns than {records[0].folder}: pack them apart"
            )
    rows = ((record.folder, *row) for record in records for row in record.cells)
    return _table([("run", *columns), *rows])


def _table(rows: Iterable[Cells]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


# ----------------------------------------------------------------------------------- from tables


def _read(folder: Path) -> list[_Record]:
    """The runs in the tables of a folder, each checked against its count of rows and digest."""
    rows: dict[str, list[Cells]] = {}
    path, runs = folder / HISTORIES, folder / RUNS
    try:
        (_, *columns), *lines = _csv(path)
    except (OSError, ValueError, csv.Error) as error:
        raise FolderError(f"{path} cannot be read: {error}") from error
    for line in lines:
        if len(line) != len(columns) + 1:
            raise FolderError(f"{path}: a row of {line[0] if line else '?'} is cut short")
        rows.setdefault(line[0], []).append(tuple(line[1:]))
    records = [
        _parsed(text, f"{runs}, line {number}", tuple(columns), rows)
        for number, text in enumerate(read_text(runs).splitlines(), 1)
    ]
    if rows:
        raise FolderError(f"{path} has rows of {next(iter(rows))}, which {RUNS} does not name")
    return records


def _csv(path: Path) -> Iterator[list[str]]:
    return csv.reader(io.StringIO(read_text(path), newline=""))


def _parsed(text: str, where: str, columns: Cells, rows: dict[str, list[Cells]]) -> _Record:
    """A line of ``runs.jsonl``, with its rows, which are taken out of `rows`."""
    try:
        found = as_json(text)
        name, count, packed = str(found["run"]), int(found["rows"]), str(found["digest"])
        cells = tuple(rows.pop(name, ()))
        record = _Record(name, found["config"], found["done"], found["about"], columns, cells)
        str(record.done["status"])
    except (ValueError, KeyError, TypeError) as error:
        raise FolderError(f"{where} cannot be read: {error!r}") from error
    _check(name, f"{where} cannot be read")
    if len(cells) != count or record.digest() != packed:
        raise FolderError(
            f"{where}: the history of {name} in {HISTORIES} is not the one that was packed "
            f"({len(cells)} rows, {count} then)"
        )
    return record


def _result(record: _Record, place: Path) -> PackedRun:
    try:
        config = RunConfig.from_dict(record.config)
        history = run_folders.rows_of(record.history())
    except (ConfigError, ValueError, KeyError, TypeError) as error:
        raise FolderError(f"{place}, packed, cannot be read: {error!r}") from error
    status = str(record.done["status"])
    return PackedRun(config, place, status, history, tuple(_starts(record.about)))


def _starts(about: Any) -> list[Mapping[str, Any]]:
    found = about.get("starts") if isinstance(about, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
