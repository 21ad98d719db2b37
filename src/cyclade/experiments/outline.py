"""A plan in a few sentences: what will happen and how long it takes; what was seen, at its end.

For the time an epoch on a few made-up images is timed, and scaled to the whole.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch

from cyclade.experiments.config import RunConfig
from cyclade.experiments.data import Dataset, Split
from cyclade.experiments.datasets import DatasetInfo, find
from cyclade.experiments.device import cores, repeatable, resolve
from cyclade.experiments.display import duration
from cyclade.experiments.plans import Make, Plan, Settings
from cyclade.experiments.report.board import read
from cyclade.experiments.report.claims import answers
from cyclade.experiments.report.page import count
from cyclade.experiments.training import Training

_BATCH = 512  # an image costs the same in larger batches


def outline(plan: Plan, out: str | Path) -> str:
    """What a plan will do, where its results go, and that it may be stopped."""
    parts = [f"{other.name} first, whose runs it shows" for other in plan.shows]
    grids = {plan.tuning(curve): curve.lrs for curve in plan.curves if curve.lrs}
    if grids:
        runs = sum(len(lrs or ()) for lrs in grids.values())
        curves = count(len(grids), "curve")
        parts.append(f"{runs} runs to find the learning rates of {curves}")
    finals = sum(len(plan.runs(curve)) for curve in plan.curves)
    if finals:
        parts.append(f"{finals} runs with them" if grids else f"{finals} runs")
    if plan.timed:
        parts.append(f"{len(plan.timed)} runs that are timed alone")
    parts.append("a page with every curve, table and claim")
    small = ", in small" if plan.quick else ""
    return (
        f"{plan.title}{small}\n{plan.question}\n"
        f"What will be done: {'; '.join(parts)}.\n"
        f"It goes to {Path(out) / plan.name}; Ctrl-C loses nothing, the same command goes on."
    )


def findings(root: str | Path) -> str:
    """The verdict on every claim of a plan; empty where it claims nothing."""
    board = read(root)
    lines = []
    for claim in board.plan.paper:
        lines.append(claim.claim)
        for one in answers(board, claim.checks):
            lines.append(f"  {one.verdict}: {one.compared}{f': {one.seen}' if one.seen else ''}")
    return "\n".join(["What was seen, claim by claim:", *lines]) if lines else ""


# -------------------------------------------------------------------------------- how long it takes


def announced(plan: Plan, make: Make, settings: Settings, jobs: int | None = None) -> str:
    """A sentence about a plan before it begins: how long on this CPU, and how long in small.

    On a GPU nothing is said: plans take minutes there, and a probe would start CUDA too early.
    """
    if resolve(settings.device).type == "cuda":
        return ""
    name = f"{plan.name}{' --quick' if settings.quick else ''}"
    sentence = f"{name} on this CPU: about {duration(seconds(plan, jobs))}"
    if settings.quick:
        return sentence
    small = make(Settings(quick=True, device=settings.device))
    return f"{sentence}; --quick: about {duration(seconds(small, jobs))}"


def seconds(plan: Plan, jobs: int | None = None) -> float:
    """All runs of a plan, `jobs` side by side; grids that grow come on top."""
    searches = [
        replace(plan.tuning(curve), lr=lr, held_out=0.1)
        for curve in plan.curves
        for lr in curve.lrs or ()
    ]
    finals = [run for curve in plan.curves for run in plan.runs(curve)]
    alone = sum(_run(config) for config in plan.timed)
    others = sum(seconds(other, jobs) for other in plan.shows)
    return _together(searches, jobs) + _together(finals, jobs) + alone + others


def _together(configs: Sequence[RunConfig], jobs: int | None) -> float:
    """Runs side by side, as many as have cores of their own."""
    if not configs:
        return 0.0
    fitting = max(1, cores() // configs[0].threads)
    return sum(map(_run, configs)) / min(jobs or fitting, fitting, len(configs))


def _run(config: RunConfig) -> float:
    built, epoch = _probe(replace(config, lr=1e-3, seed=0, epochs=2, held_out=0.0))
    return built + config.epochs * epoch * (1 - config.held_out)


@cache
def _probe(config: RunConfig) -> tuple[float, float]:
    """Seconds to build a run of this kind, and of one of its epochs with all images."""
    device, info = torch.device("cpu"), find(config.dataset)
    config = replace(config, batch=min(config.batch, _BATCH), b_small=None)
    n = min(2 * config.batch, info.images[0])
    began = time.perf_counter()
    with repeatable(config.threads, config.tf32):
        share = n / info.images[0]
        tests = max(1, round(share * info.images[1]))
        data = Dataset(config.dataset, _made_up(n, info), _made_up(tests, info))
        training = Training(config, data, device)
        training.start()
        training.train_epoch()
        built = time.perf_counter() - began
        began = time.perf_counter()
        training.train_epoch()
        return built, (time.perf_counter() - began) / share


def _made_up(n: int, info: DatasetInfo) -> Split:
    images = torch.randn(n, *info.shape, generator=torch.Generator().manual_seed(0))
    return Split(images, torch.arange(n) % info.classes)
