"""The study of orders on deep nets: its runs, its resuming, its table."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from cyclade.experiments.errors import FolderError
from studies.deep import Setting, record, study
from studies.deep.__main__ import main
from studies.deep.report import at_seconds, rows, table
from studies.deep.runs import RATES
from studies.deep.tasks import Sources

CPU = torch.device("cpu")


def tiny(steps: int = 6) -> Sources:
    return Sources.load(CPU, size=2, length=16, width=12, depth=1, steps=steps)


def made(setting: Setting, lr: float, seed: int, **changes: Any) -> dict[str, Any]:
    """The record of a run."""
    found = {**vars(setting), "lr": lr, "seed": seed, "steps": 4, "val": [[4, 1.0]]}
    return found | {"cosines": [0.5], "moved": 2.0, "ms": 1.0, "cost": 1.0} | changes


@pytest.mark.parametrize("setting", [
    Setting("gpt", "adam 0"), Setting("gpt", "momentum", 2, "rotated"),
    Setting("gpt", "adam 0.9", 3, "forward", fresh=True),
], ids=str)  # fmt: skip
def test_a_run_trains_and_is_recorded(setting: Setting) -> None:
    found = record.run(setting, tiny(), 0.01, 0, CPU)
    assert [step for step, _ in found["val"]] == [1, 2, 3, 4, 5, 6]
    assert found["val"][-1][1] < found["val"][0][1]
    assert found["moved"] > 0
    assert found["ms"] > 0
    assert json.loads(json.dumps(found))["blocks"] == setting.blocks


def test_runs_repeat_and_share_their_batches() -> None:
    one, other = (
        record.run(Setting("gpt", "sgd", 2, "shuffled"), tiny(), 0.1, 3, CPU)["val"]
        for _ in range(2)
    )
    assert one == other
    task = tiny()
    assert torch.equal(task.batch(0, 5)[0], task.batch(0, 5)[0])
    assert not torch.equal(task.batch(0, 5)[0], task.batch(1, 5)[0])


def test_a_study_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Any] = []

    def run(setting: Setting, task: Any, lr: float, seed: int, device: Any) -> dict[str, Any]:
        if len(ran) == 4:
            raise KeyboardInterrupt
        ran.append((setting, lr, seed))
        return made(setting, lr, seed, val=[[6, lr]], cosines=[])

    monkeypatch.setattr("studies.deep.runs.run", run)
    options: dict[str, Any] = {"tasks": ["gpt"], "seeds": (0, 1), "quick": True}
    with pytest.raises(KeyboardInterrupt):
        study(tmp_path, **options)
    first = list(ran)
    ran.append(None)  # from now on it is not stopped
    records = study(tmp_path, **options)
    assert ran[:4] == first
    keys = [(r["blocks"], r["order"], r["lr"], r["seed"]) for r in records]
    assert len(set(keys)) == len(keys) == len(ran) - 1
    # Four rates, two beyond the end that is best, and the other seed there: 7 runs each.
    assert len(records) == 21
    assert min(r["lr"] for r in records) == pytest.approx(RATES["gpt", "adam"] / 81)
    assert study(tmp_path, **options) == records
    with pytest.raises(FolderError, match="in small"):
        study(tmp_path, tasks=[], seeds=(0,))


def test_the_best_rate_is_that_of_all_seeds() -> None:
    losses = {(0.1, 0): 1.0, (0.1, 1): 3.0, (0.3, 0): 1.5, (0.3, 1): 1.5}
    losses[0.9, 0] = 0.5  # one seed alone is not believed
    setting = Setting("gpt", "sgd")
    records = [made(setting, *key, val=[[4, loss]]) for key, loss in losses.items()]
    (row,) = rows(records, "gpt", "sgd")
    assert row[2:5] == ["0.3", "2", "1.500 ± 0.000"]


def test_the_table_compares_by_steps_and_by_seconds() -> None:
    records = [
        made(Setting("gpt", "sgd", blocks, order), 0.1, 0, ms=ms, val=[[2, first], [4, last]])
        for order, blocks, ms, first, last in (
            ("together", 1, 10.0, 3.0, 2.0), ("shuffled", 4, 40 / 3, 2.6, 1.8),
        )
    ]  # fmt: skip
    assert at_seconds(records[1], 0.04) == pytest.approx(2.2)
    assert math.isnan(at_seconds(records[1], 0.01))
    found = rows(records, "gpt", "sgd")
    assert [row[4:6] for row in found] == [["2.000", "2.000"], ["1.800", "2.200"]]
    assert "shuffled" in table(records)


def test_the_study_runs_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("studies.deep.__main__.study", lambda out, **options: [{"out": out}])
    monkeypatch.setattr("studies.deep.__main__.table", str)
    main(["--quick", "--seeds", "2", "--out", str(tmp_path)])
    assert capsys.readouterr().out.startswith(f"[{{'out': '{tmp_path}'}}]")
