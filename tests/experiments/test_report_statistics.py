"""What a report says: groups, means and spreads, names, tables."""

from __future__ import annotations

import math
import re
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from made_up_runs import fig1, make

from cyclade.experiments import RunConfig, RunResult, find_runs
from cyclade.experiments.report import summary
from cyclade.experiments.report.board import ALONE, bounds, limits, read, styles, value
from cyclade.experiments.report.files import Timing
from cyclade.experiments.report.groups import by_epoch, gather, names, panels, spread
from cyclade.experiments.report.payload import payload
from cyclade.experiments.report.tables import full_table, plus_minus, timing_table, tuning_tables

BASE = RunConfig(epochs=6, batch=64, lr=0.05)


def runs_of(root: Path, *configs: RunConfig) -> list[RunResult]:
    for config in configs:
        make(root / config.slug(), config)
    return find_runs(root)


def test_runs_that_differ_in_the_seed_alone_are_one_group(tmp_path: Path) -> None:
    other = replace(BASE, lr=0.1)
    found = runs_of(
        tmp_path, *(replace(BASE, seed=seed) for seed in (2, 0, 1)), other, replace(BASE, batch=32)
    )
    groups = gather(found)
    assert sorted(len(group.runs) for group in groups) == [1, 1, 3]
    (three,) = (group for group in groups if len(group.runs) == 3)
    assert [run.config.seed for run in three.runs] == [0, 1, 2]


def test_of_copies_the_most_complete_one_counts(tmp_path: Path) -> None:
    make(tmp_path / "a", BASE, epochs=2, status="unfinished")
    make(tmp_path / "b", BASE)
    make(tmp_path / "c", BASE, epochs=4, status="unfinished")
    (group,) = gather(find_runs(tmp_path))
    assert [run.folder.name for run in group.runs] == ["b"]
    assert read(tmp_path).copies == 2


def test_a_curve_is_the_mean_over_those_that_have_got_there(tmp_path: Path) -> None:
    seeds = [replace(BASE, seed=seed) for seed in range(3)]
    lengths = (6, 3, 6)
    rows = [
        make(tmp_path / str(c.seed), c, epochs=n, status="finished" if n == 6 else "unfinished")
        for c, n in zip(seeds, lengths, strict=True)
    ]
    (group,) = gather(find_runs(tmp_path))
    spreads = by_epoch(group.averaged, value("train_loss"))
    seconds = by_epoch(group.averaged, value("seconds"))
    assert list(spreads) == list(range(7))
    for epoch, found in spreads.items():
        there = [run[epoch] for run in rows if len(run) > epoch]
        losses = [one.train_loss for one in there]
        assert found.n == len(there)
        assert seconds[epoch].mean == pytest.approx(statistics.fmean(one.seconds for one in there))
        assert found.mean == pytest.approx(statistics.fmean(losses))
        assert found.sd == pytest.approx(statistics.stdev(losses))
        assert (found.low, found.high) == (min(losses), max(losses))


def test_what_is_not_finite_enters_no_statistic() -> None:
    assert spread([math.nan, math.inf, None]).n == 0
    assert plus_minus(spread([math.nan])) == "–"
    one = spread([3.0, -math.inf])
    assert (one.n, one.mean, one.sd) == (1, 3.0, None)


def test_diverged_runs_are_left_out_of_means_and_named(tmp_path: Path) -> None:
    good = make(tmp_path / "good", BASE)
    make(tmp_path / "bad", replace(BASE, seed=7), epochs=3, status="diverged")
    board = read(tmp_path)
    (group,) = board.groups
    spreads = by_epoch(group.averaged, value("train_loss"))
    assert [one.mean for one in spreads.values()] == [one.train_loss for one in good]
    assert full_table(board).head[:2] == ("method", "runs")
    (line,) = full_table(board).lines
    assert line[1] == "1 of 2 finished; diverged: seed 7 in epoch 3"
    assert "1 of 2 finished; diverged: seed 7 in epoch 3" in summary(tmp_path).splitlines()[1]
    assert "nan" not in summary(tmp_path)


def test_a_group_that_only_diverged_has_no_numbers(tmp_path: Path) -> None:
    make(tmp_path / "bad", BASE, epochs=3, status="diverged")
    (series,) = payload(read(tmp_path))["panels"][0]["series"]
    assert series["seeds"] == 0
    assert series["mean"]["epochs"] == []
    assert series["runs"][0]["y"]["train_loss"][-1] is None
    assert "–" in summary(tmp_path)


def test_the_summary_is_mean_and_deviation_over_finished_seeds(tmp_path: Path) -> None:
    ends = [make(tmp_path / str(s), replace(BASE, seed=s))[-1] for s in range(3)]
    make(tmp_path / "more", replace(BASE, seed=3), epochs=2, status="unfinished")
    head, line = summary(tmp_path).splitlines()
    assert re.split("  +", head) == [
        "method", "runs", "lr", "train loss", "test accuracy", "seconds",
    ]  # fmt: skip
    losses = [end.train_loss for end in ends]
    expected = f"{statistics.fmean(losses):.4f} ± {statistics.stdev(losses):.4f}"
    assert expected in line
    assert line[head.index("runs") :].startswith("3 of 4 finished; unfinished: seed 3 at epoch 2")


def test_the_best_of_a_panel_is_marked_and_ties_are_no_victory(tmp_path: Path) -> None:
    runs_of(tmp_path, BASE, replace(BASE, method="SGD"), replace(BASE, method="PAGE"))
    table = full_table(read(tmp_path))
    column = table.head.index("train loss")
    losses = [float(line[column]) for line in table.lines]
    marked = [line for line, place in table.best if place == column]
    assert marked == [i for i, loss in enumerate(losses) if loss == min(losses)]
    assert len(marked) < 3
    make(tmp_path / "tie" / "a", BASE)
    make(tmp_path / "tie" / "b", replace(BASE, momentum=0.5))
    assert full_table(read(tmp_path / "tie")).best == set()


def test_the_survivor_of_several_seeds_is_not_the_best(tmp_path: Path) -> None:
    make(tmp_path / "a", replace(BASE, lr=0.001))  # the lowest loss
    make(tmp_path / "b", replace(BASE, lr=0.001, seed=1), epochs=3, status="diverged")
    runs_of(tmp_path, replace(BASE, method="SGD"), replace(BASE, method="PAGE"))
    table = full_table(read(tmp_path))
    column = table.head.index("train loss")
    alone = next(i for i, line in enumerate(table.lines) if line[0] == "SCCD")
    assert float(table.lines[alone][column]) > 0
    assert {line for line, place in table.best if place == column} == {
        min((i for i in range(3) if i != alone), key=lambda i: float(table.lines[i][column]))
    }


def test_a_spike_does_not_set_the_axis(tmp_path: Path) -> None:
    calm = make(tmp_path / "calm", replace(BASE, epochs=40))

    def spike(epoch: int) -> dict[str, float]:
        return {"train_loss": 20.0} if epoch == 20 else {}

    make(tmp_path / "spike", replace(BASE, epochs=40, seed=1), changed=spike)
    board = read(tmp_path)
    found = limits(board, board.panels[0], "train_loss")
    assert found is not None
    assert found[0] < min(one.train_loss for one in calm)
    assert max(one.train_loss for one in calm) <= found[1] < 6


def test_limits_hold_all_of_curves_without_spikes(tmp_path: Path) -> None:
    board = read(fig1(tmp_path, epochs=30))
    for panel in board.panels:
        for y in board.columns:
            found = limits(board, panel, y)
            assert found is not None
            for _, group in panel.members:
                for one in by_epoch(group.averaged, value(y)).values():
                    assert found[0] <= (one.low or 0) <= (one.high or 0) <= found[1]
    assert bounds([0.1] * 50 + [0.9]) is None  # flat, then a rise: all of it is drawn


def test_ends_are_gathered_by_the_number_that_was_varied(tmp_path: Path) -> None:
    for size in (256, 32, 64):
        for seed in range(2):
            make(tmp_path / f"{size}-{seed}", replace(BASE, batch=size, seed=seed))
    (tmp_path / "plan.json").write_text('{"panels": {"split_by": "batch"}}')
    found = payload(read(tmp_path))["overview"]
    assert found["axis"]["ticks"] == [[5.0, "32"], [6.0, "64"], [8.0, "256"]]
    (series,) = found["series"]
    assert series["mean"]["x"]["batch"] == [5.0, 6.0, 8.0]
    assert series["mean"]["y"]["test_accuracy"]["n"] == [2, 2, 2]
    (tmp_path / "plan.json").write_text('{"panels": {"split_by": "method"}}')
    assert payload(read(tmp_path))["overview"] is None


def test_names_say_what_differs_within_a_panel_and_no_more(tmp_path: Path) -> None:
    found = runs_of(
        tmp_path,
        replace(BASE, method="SGD", lr=0.1),
        replace(BASE, lr=0.2),
        replace(BASE, spectral="step", lr=0.4),
        replace(BASE, method="SGD", lr=0.3, batch=32),
        replace(BASE, lr=0.4, batch=32),
        replace(BASE, spectral="step", lr=0.5, batch=32),
    )
    groups = gather(found)
    by_batch = names(groups, ["batch"])
    assert set(by_batch.values()) == {"SGD", "SCCD", "SCCD, with spectral normalisation"}
    by_spectral = names(groups, ["spectral"])
    assert "SCCD, b = 32" in by_spectral.values()
    assert list(panels(groups, ["spectral"])) == [(None,), ("step",)]
    assert list(panels(groups, ["batch"])) == [(32,), (64,)]


def test_lr_is_named_where_nothing_else_differs(tmp_path: Path) -> None:
    groups = gather(runs_of(tmp_path, replace(BASE, lr=0.2), replace(BASE, lr=0.1)))
    assert list(names(groups, []).values()) == ["SCCD, lr 0.1", "SCCD, lr 0.2"]


def test_names_are_different_for_different_groups_of_a_panel(tmp_path: Path) -> None:
    found = runs_of(
        tmp_path,
        *(replace(BASE, order=order, blocks=5) for order in ("forward", "greedy", (1, 0))),
        *(replace(BASE, blocks=m) for m in (1, 2, None)),
        replace(BASE, blocks=("conv1", "fc1")),
        replace(BASE, momentum=0.9),
        replace(BASE, tf32=False),
    )
    given = list(names(gather(found), []).values())
    assert len(set(given)) == len(given) == 9


def test_styles_are_all_different_and_the_methods_keep_theirs() -> None:
    many = styles(["SGD", *["SCCD"] * 12, "VRO-CCD"])
    assert len(set(many)) == 14
    assert many[0] == styles(["SGD"])[0]
    assert many[1] == styles(["SCCD"])[0]
    assert many[-1] == styles(["PAGE", "VRO-CCD"])[1]


def test_a_plan_lays_out_the_board(tmp_path: Path) -> None:
    board = read(fig1(tmp_path))
    assert [panel.title for panel in board.panels] == [
        "without spectral normalisation", "with spectral normalisation",
    ]  # fmt: skip
    assert [entry.label for entry in board.entries] == ["SGD", "SCCD", "PAGE", "VRO-CCD"]
    assert board.columns == ("train_loss", "test_accuracy")
    assert len(board.runs) == 24
    assert "held_out_accuracy" not in board.y_keys


def test_seconds_of_a_run_alone_are_epochs_times_what_was_timed(tmp_path: Path) -> None:
    board = read(fig1(tmp_path))
    assert ALONE in board.x_keys
    plain, spectral = payload(board)["panels"]
    sccd = plain["series"][1]["mean"]
    assert sccd["x"][ALONE] == [1.5 * epoch for epoch in sccd["epochs"]]
    assert set(spectral["series"][1]["mean"]["x"][ALONE]) == {None}  # was not timed


def test_times_stand_beside_the_papers(tmp_path: Path) -> None:
    timing = read(fig1(tmp_path)).timing
    assert timing is not None
    table = timing_table(timing)
    sccd, page = table.lines[1], table.lines[2]
    assert dict(zip(table.head, sccd, strict=True))["× SGD by epoch"] == "1.50"
    assert sccd[-3:] == ("0.185", "18.1", "1.07")
    assert page[-3:] == ("–", "–", "–")


def test_the_papers_times_stand_beside_its_batch_alone() -> None:
    rows = [
        {"method": "SGD", "batch": b, "seconds_per_epoch": 1.0, "seconds_per_iteration": 0.1}
        for b in (512, 1024)
    ]
    table = timing_table(Timing(tuple(rows), "a device", {"SGD": (0.172, 16.9)}))
    assert [line[-1] for line in table.lines] == ["1.00", "–"]


def test_tuning_shows_every_lr_and_the_one_taken(tmp_path: Path) -> None:
    tables = tuning_tables(read(fig1(tmp_path)))
    assert [name for name, _ in tables] == [
        "SCCD", "SCCD, with spectral normalisation (at the edge of the grid)",
    ]  # fmt: skip
    table = tables[0][1]
    assert table.lines == [
        ("0.01", "0.0100", "finished"), ("0.05", "0.0500", "finished"), ("0.25", "–", "diverged"),
    ]  # fmt: skip
    assert table.taken == {1}


def test_tuning_runs_alone_are_shown_as_runs(tmp_path: Path) -> None:
    config = replace(BASE, held_out=0.1)
    make(tmp_path / "tune" / "runs" / "a", config)
    board = read(tmp_path)
    assert len(board.runs) == 1
    assert "held_out_accuracy" in board.y_keys
