"""Runs that share a GPU on streams, and runs that were cut off, end as runs alone, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from cyclade.experiments import Dataset, Row, RunConfig, Split, run, run_many, running

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="streams need CUDA")

N, SHAPE = 600, (1, 16, 16)  # like digits, which need scikit-learn
CONFIGS = [
    RunConfig(method=method, lr=lr, batch=64, epochs=3, seed=seed, device="cuda")
    for method, lr in (("SCCD", 0.1), ("VRO-CCD", 0.01), ("PAGE", 0.01), ("VR-CCD", 0.01))
    for seed in (0, 1)
]


class Cut(Exception):
    pass


@pytest.fixture(autouse=True)
def made_up_data(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(N, *SHAPE, generator=generator).cuda()
    labels = torch.randint(0, 10, (N,), generator=generator).cuda()
    data = Dataset("digits", Split(images, labels), Split(images[:100], labels[:100]))

    monkeypatch.setattr(running, "prepared", lambda config, data_dir: data)


def without_seconds(history: list[Row]) -> list[Row]:
    return [replace(row, seconds=0.0) for row in history]


def test_eight_together_end_as_each_alone(tmp_path: Path) -> None:
    together = run_many(CONFIGS, tmp_path / "together", jobs=len(CONFIGS), progress=False)
    for config, result in zip(CONFIGS, together, strict=True):
        alone = run(config, tmp_path / "alone" / config.slug())
        assert without_seconds(result.history) == without_seconds(alone.history)


@pytest.mark.parametrize("config", CONFIGS[::2], ids=lambda config: config.method)
def test_a_run_that_was_cut_off_ends_the_same(config: RunConfig, tmp_path: Path) -> None:
    def watch(row: Row) -> None:
        if row.epoch == 1:
            raise Cut

    whole = run(config, tmp_path / "whole")
    with pytest.raises(Cut):
        run(config, tmp_path / "cut", watch=watch)
    resumed = run(config, tmp_path / "cut")
    assert without_seconds(resumed.history) == without_seconds(whole.history)
