"""Packed results: the same runs, the same figures, byte for byte the same files back."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from made_up_runs import fig1, make

from cyclade.cli import main
from cyclade.experiments import FolderError, RunConfig, RunResult, find_runs, pack, unpack
from cyclade.experiments.archive import HISTORIES, RUNS
from cyclade.experiments.folder import ABOUT, CONFIG, DONE, HISTORY
from cyclade.experiments.plans import PAPER, Settings
from cyclade.experiments.report import summary
from cyclade.experiments.report.board import read
from cyclade.experiments.report.tables import tuning_tables
from cyclade.experiments.reproduce import check

BASE = RunConfig(epochs=4, batch=64, lr=0.05)
RESULTS = Path(__file__).parents[2] / "docs" / "results"


def said(runs: list[RunResult], root: Path) -> dict[str, tuple[object, ...]]:
    """What the runs say, in a form in which nan equals nan."""
    return {
        run.folder.relative_to(root).as_posix(): (
            run.config, run.status, repr(run.history), run.starts,
        )
        for run in runs
    }  # fmt: skip


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    root = tmp_path / "runs"
    make(root / "a", BASE)
    make(root / "b", replace(BASE, seed=1, order=(1, 0), blocks=("x", "ü")), side_by_side=3)
    make(root / "deep" / "c", replace(BASE, seed=2), epochs=3, status="diverged")
    return root


def test_packed_runs_are_read_as_their_folders_are(runs: Path, tmp_path: Path) -> None:
    packed = pack(runs, tmp_path / "packed")
    assert sorted(file.name for file in packed.iterdir()) == [HISTORIES, RUNS]
    assert said(find_runs(packed), packed) == said(find_runs(runs), runs)
    assert summary(packed) == summary(runs)
    twice = pack(packed, tmp_path / "twice")
    for name in (RUNS, HISTORIES):
        assert (packed / name).read_bytes() == (twice / name).read_bytes()
    pack(runs, runs)  # where both forms are there, each run counts once
    assert len(find_runs(runs)) == 3
    assert read(runs).copies == 0


def test_what_is_not_packed(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(FolderError, match="nothing to pack"):
        pack(tmp_path / "empty", tmp_path / "packed")
    with pytest.raises(FolderError, match="holds no packed results"):
        unpack(tmp_path / "empty", tmp_path / "again")
    make(runs / "x\x1b[2J", replace(BASE, seed=3))  # it could not be unpacked
    with pytest.raises(FolderError, match=r"cannot be packed: 'x\\x1b\[2J' is not a name"):
        pack(runs, tmp_path / "packed")
    make(runs / "more", replace(BASE, seed=5), epochs=2, status="unfinished")
    with pytest.raises(FolderError, match=r"more has not ended"):
        pack(runs, tmp_path / "packed")
    assert not (tmp_path / "packed").exists()


def test_unpacked_files_are_the_same_to_the_byte(runs: Path, tmp_path: Path) -> None:
    again = unpack(pack(runs, tmp_path / "packed"), tmp_path / "again")
    for folder in ("a", "b", "deep/c"):
        for name in (CONFIG, ABOUT, HISTORY, DONE):
            assert (again / folder / name).read_bytes() == (runs / folder / name).read_bytes()
    with pytest.raises(FolderError, match="is there already"):
        unpack(tmp_path / "packed", again)
    alone = unpack(pack(runs / "a", tmp_path / "one"), tmp_path / "alone")
    assert (alone / HISTORY).read_bytes() == (runs / "a" / HISTORY).read_bytes()


def test_plan_times_and_search_are_kept(tmp_path: Path) -> None:
    root = fig1(tmp_path / "fig1", seeds=1, epochs=3)
    packed = pack(root, tmp_path / "packed")
    for name in ("plan.json", "timing.json", "tune/tuned.json"):
        assert (packed / name).read_bytes() == (root / name).read_bytes()
    assert tuning_tables(read(packed)) == tuning_tables(read(root))
    assert len(find_runs(packed)) == 8  # the runs of a search are not kept


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        (HISTORIES, "a,4,40,", "a,4,41,", "is not the one that was packed"),
        (HISTORIES, "a,4,40,", "z,4,40,", "is not the one that was packed"),
        (HISTORIES, "run,", "z,1\nrun,", "cut short"),
        (HISTORIES, "deep/c,3,30,", "deep/c,3\n", "cut short"),
        (RUNS, '"run": "a"', '"run": "z"', "is not the one that was packed"),
        (RUNS, '"done"', '"gone"', "line 1 cannot be read"),
        (RUNS, '{"run"', '"run"', "line 1 cannot be read"),
        (RUNS, '"lr": 0.05', '"lr": -1.0', "packed, cannot be read"),
    ],
)
def test_tables_that_were_changed_are_an_error(
    runs: Path, tmp_path: Path, name: str, old: str, new: str, message: str
) -> None:
    packed = pack(runs, tmp_path / "packed")
    text = (packed / name).read_text("utf-8")
    assert old in text
    (packed / name).write_text(text.replace(old, new, 1), "utf-8")
    with pytest.raises(FolderError, match=message):
        find_runs(packed)
    (packed / HISTORIES).unlink()
    with pytest.raises(FolderError, match="cannot be read"):
        find_runs(packed)


def test_more_seeds_take_the_place_of_fewer(tmp_path: Path) -> None:
    kept = pack(fig1(tmp_path / "three", seeds=3, epochs=2), tmp_path / "kept")
    plan = (kept / "plan.json").read_bytes()
    for seed in range(10):  # run folders alone, as they come back from another machine
        for method in ("SGD", "SCCD"):
            config = replace(BASE, method=method, seed=seed)
            make(tmp_path / "ten" / "runs" / config.slug(), config)
    pack(tmp_path / "ten", kept)
    assert (kept / "plan.json").read_bytes() == plan
    assert [len(group.runs) for group in read(kept).groups] == [10, 10]
    assert "10" in summary(kept)


def test_the_command_packs_and_unpacks(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["report", str(runs), "--pack", str(tmp_path / "packed")]) == 0
    assert (tmp_path / "packed" / "report.html").exists()
    assert not (runs / "report.html").exists()
    assert main(["report", str(tmp_path / "packed"), "--unpack", str(tmp_path / "again")]) == 0
    assert len(find_runs(tmp_path / "again")) == 3
    assert main(["report", str(tmp_path), "--unpack", str(tmp_path / "x")]) == 2
    assert "holds no packed results" in capsys.readouterr().err


def test_an_experiment_is_not_gone_on_with_in_packed_results(tmp_path: Path) -> None:
    make(tmp_path / "runs" / "a", BASE)
    pack(tmp_path / "runs", tmp_path / "out" / "fig1")
    with pytest.raises(FolderError, match="holds packed results"):
        check(PAPER["fig1"](Settings(quick=True)), tmp_path / "out")


# ------------------------------------------------------------------------------ what is committed

EXPERIMENTS = sorted(path for path in RESULTS.iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", EXPERIMENTS, ids=lambda folder: folder.name)
def test_committed_results_are_few_files_with_a_plan(folder: Path) -> None:
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert len(files) <= 10
    assert not list(folder.rglob(CONFIG))
    assert json.loads((folder / "plan.json").read_text("utf-8"))["name"] == folder.name


def test_committed_results_are_whole() -> None:
    runs = find_runs(RESULTS)
    assert len(runs) >= 193
    assert {run.status for run in runs} == {"finished", "diverged"}
    for run in runs:
        assert [row.epoch for row in run.history] == list(range(run.last.epoch + 1))
        assert run.status == "diverged" or run.last.epoch == run.config.epochs


def renamed(packed: Path, name: str) -> None:
    """The pack says that its run "a" has another name, in both tables."""
    table = packed / RUNS
    table.write_text(table.read_text().replace('"run": "a"', f'"run": {json.dumps(name)}'))
    first, *lines = (packed / HISTORIES).read_text().splitlines(keepends=True)
    cell = f'"{name}"' if "\n" in name else name
    (packed / HISTORIES).write_text(
        first + "".join(cell + li.removeprefix("a") if li.startswith("a,") else li for li in lines)
    )


@pytest.mark.parametrize(
    "name",
    [
        "../out", "x/../../out", "/absolute", "", "..", "x//y", "x/./y", "x\\y", "C:x", "con",
        "x/NUL.txt", "x\ny", "x\x1b[31my", "x\x7f", "x\x9b", "x.", "y ", ".lock", ".hidden/y",
        "z" * 300,
    ],
)  # fmt: skip
def test_a_run_whose_name_leaves_the_folder_is_refused(
    name: str, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = pack(runs, tmp_path / "packed")
    name = str(tmp_path / "out") if name == "/absolute" else name
    renamed(packed, name)
    target = tmp_path / "deep" / "target"
    assert main(["report", str(packed), "--unpack", str(target)]) == 2
    said = capsys.readouterr().err
    assert "runs.jsonl, line 1" in said
    assert "is not a name for a folder" in said
    assert not any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in said.rstrip("\n"))
    assert not target.exists()
    assert not (tmp_path / "out").exists()
    with pytest.raises(FolderError, match="is not a name for a folder"):
        find_runs(packed)


def test_a_link_in_the_target_does_not_lead_out_of_it(runs: Path, tmp_path: Path) -> None:
    packed = pack(runs, tmp_path / "packed")
    (packed / "tune").mkdir()
    (packed / "tune" / "tuned.json").write_text("{}")
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("deep", "tune"):
        target = tmp_path / f"target-{name}"
        target.mkdir()
        (target / name).symlink_to(outside)
        with pytest.raises(FolderError, match=f"{name}/.* leads out of .*target-{name}"):
            unpack(packed, target)
        assert list(outside.iterdir()) == []
        assert [entry.name for entry in target.iterdir()] == [name]
