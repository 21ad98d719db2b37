"""Run folders with made-up histories: what a report reads, without any training."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cyclade.experiments import Row, RunConfig
from cyclade.experiments.folder import RunFolder

SMALL = {"PAGE", "VRO-CCD", "VR-CCD"}


def row(config: RunConfig, epoch: int, **changes: Any) -> Row:
    """A smooth fall of the loss, a little different for each method, lr and seed."""
    shift = 0.07 * config.seed + 0.11 * len(config.method) + config.lr
    loss = 2.3 * math.exp(-epoch / (5 + shift)) + 0.05 * config.seed
    factor = 1.5 if config.method in SMALL else 1.0
    dearer = 1.7 if "CCD" in config.method else 1.0
    values: dict[str, Any] = {
        "epoch": epoch,
        "cycles": 10 * epoch,
        "samples_paper": 1000 * epoch,
        "samples": int(1000 * factor * epoch),
        "multiply_adds": 2.5e9 * factor * dearer * epoch,
        "seconds": (0.5 + 0.1 * config.seed) * dearer * epoch,
        "lr": config.lr,
        "batch_loss": None if epoch == 0 else loss,
        "train_loss": loss,
        "train_accuracy": 1 - loss / 2.6,
        "held_out_accuracy": 1 - loss / 2.5 if config.held_out else None,
        "test_accuracy": 1 - loss / 2.5,
    }
    return Row(**{**values, **changes})


def make(
    folder: Path,
    config: RunConfig,
    *,
    epochs: int | None = None,
    status: str = "finished",
    side_by_side: int = 1,
    changed: Callable[[int], dict[str, Any]] = lambda epoch: {},
) -> list[Row]:
    """A run folder; a diverged run ends in a row that is not finite.

    `changed` are values of the row after an epoch that are not the usual ones.
    """
    place = RunFolder(folder)
    place.claim(config)
    place.add_start(
        {
            "from_epoch": 0,
            "time": "2024-01-01T00:00:00+00:00",
            "device": "cpu",
            "versions": {"cyclade": "0", "torch": "0"},
            "system": "Linux",
            "hardware": {"machine": "x", "processor": "A & B <cpu>"},
            "side_by_side": side_by_side,
        }
    )
    rows = [row(config, e, **changed(e)) for e in range((epochs or config.epochs) + 1)]
    if status == "diverged":
        rows[-1] = row(config, rows[-1].epoch, train_loss=math.nan, batch_loss=math.inf)
        rows[-2] = row(config, rows[-2].epoch, train_loss=1e30)
    place.write_history(rows)
    if status != "unfinished":
        place.finish(status, rows[-1].epoch)
    return rows


def fig1(root: Path, *, seeds: int = 3, epochs: int = 8) -> Path:
    """Four methods, without and with spectral normalisation, with a plan, tuning and times."""
    tuned = []
    for spectral in (None, "step"):
        tried: list[dict[str, Any]] = []
        for method in ("SGD", "SCCD", "PAGE", "VRO-CCD"):
            for seed in range(seeds):
                config = RunConfig(
                    method=method, spectral=spectral, seed=seed, epochs=epochs, batch=64, lr=0.05
                )
                make(root / "runs" / config.slug(), config, side_by_side=4)
        for lr in (0.01, 0.05, 0.25):
            config = RunConfig(
                method="SCCD", spectral=spectral, lr=lr, epochs=3, batch=64, held_out=0.1
            )
            status = "diverged" if lr > 0.2 else "finished"
            make(root / "tune" / "runs" / config.slug(), config, status=status)
            tried.append(
                {"lr": lr, "status": status, "held_out_accuracy": None if lr > 0.2 else lr}
            )
        found = {"method": "SCCD", "spectral": spectral, "lr": 0.05, "batch": 64}
        tuned.append({"config": found, "at_edge": spectral is not None, "tried": tried})
    (root / "tune" / "tuned.json").write_text(json.dumps({"tuned": tuned}))
    plan = {
        "name": "fig1",
        "title": "Figure 1 & </script><b>more</b>",
        "question": "Which one?",
        "command": "cyclade reproduce fig1",
        "quick": True,
        "panels": {"split_by": "spectral", "x": "epoch", "y": ["train_loss", "test_accuracy"]},
        "paper": [{"claim": "SCCD beats SGD", "value": None}, {"claim": "a", "value": "0.185 s"}],
        "notes": ["a note {{js}}"],
    }
    (root / "plan.json").write_text(json.dumps(plan))
    times = {"SGD": 1.0, "SCCD": 1.5, "PAGE": 2.0, "VRO-CCD": 4.5}
    timing = {
        "rows": [
            {
                "method": method,
                "spectral": None,
                "batch": 64,
                "seconds_per_iteration": seconds / 10,
                "seconds_per_epoch": seconds,
            }
            for method, seconds in times.items()
        ],
        "device": "a device",
        "paper": {"SGD": [0.172, 16.9], "SCCD": [0.185, 18.1]},
    }
    (root / "timing.json").write_text(json.dumps(timing))
    return root
