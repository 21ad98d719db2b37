"""Runs: one, from its config to its folder; and many side by side, on a GPU or in processes.

A run that was interrupted goes on after its last whole epoch, to a bit-identical end.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import (
    FIRST_COMPLETED,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import asdict
from functools import lru_cache, partial
from multiprocessing import get_context, parent_process
from pathlib import Path

import torch

from cyclade.experiments.config import RunConfig
from cyclade.experiments.data import Dataset, load
from cyclade.experiments.device import about, before_cuda_starts, cores, on, repeatable, resolve
from cyclade.experiments.display import Display
from cyclade.experiments.errors import ConfigError, ExperimentError, FolderError
from cyclade.experiments.folder import (
    DONE,
    HISTORY,
    Row,
    RunFolder,
    RunResult,
    row_of,
    warnings_shown,
)
from cyclade.experiments.training import Training
from cyclade.files.disk import sweep
from cyclade.files.lock import locked
from cyclade.optim.capture.graphs import alone
from cyclade.optim.stages.preserve import in_turn

_log = logging.getLogger("cyclade.experiments")
_POLL = 0.5  # seconds between looks at the histories of runs in other processes
STREAMS = 8  # runs that share a GPU: more gain nothing on an H200
JOBS = 1024  # the most that may be asked for
TOGETHER = 16384  # images in the batches of runs that share a GPU: more of them fill it, and memory

Watch = Callable[[Row], None]
"""Called after every epoch (and at the start, and with the last epoch when a run is resumed)."""


def run(
    config: RunConfig,
    folder: str | Path,
    *,
    data_dir: str | Path | None = None,
    watch: Watch | None = None,
    side_by_side: int = 1,
) -> RunResult:
    """Train as `config` says and keep everything in `folder`.

    If the folder holds a part of this very run, training goes on after its last whole epoch, and
    ends bit for bit as if it had never stopped (on the same hardware; seconds excepted). If the run
    is done, its result is read, and files that do not fit each other are made again from the last
    good checkpoint, with a warning that names them (logger ``cyclade.experiments``). A folder of
    another config, or one that another process works in, is an error, and nothing is touched. A
    loss that is not finite ends the run with the status "diverged". `side_by_side`, the number of
    runs that share the machine, is noted in ``about.json``: it bears on the seconds.
    """
    before_cuda_starts()
    place = RunFolder(folder)
    device = resolve(config.device)
    place.check(config)
    if not place.problem():
        return place.result()
    with repeatable(config.threads, config.tf32), on(device):
        with in_turn(alone=True):  # initial weights come from torch's one generator
            training = Training(config, prepared(config, data_dir), device)
        with locked(place.path):
            return _trained(training, place, watch, side_by_side)


def _trained(
    training: Training, place: RunFolder, watch: Watch | None, side_by_side: int
) -> RunResult:
    """The run from where its folder stands to its end."""
    config = training.config
    place.claim(config)
    problem = place.problem()
    if not problem:  # another process has just ended it
        return place.result()
    sweep(place.path)
    if (place.path / DONE).exists():
        _log.warning("%s: made again from the last good checkpoint", problem)
        (place.path / DONE).unlink()
    rows = _resumed(training, place)
    place.add_start({**about(training.device, training.epoch), "side_by_side": side_by_side})
    place.write_history(rows)
    if watch is not None:
        watch(rows[-1])
    while training.epoch < config.epochs and not training.diverged:
        rows.append(training.train_epoch())
        place.save({**training.state(), "history": [asdict(row) for row in rows]})
        place.write_history(rows)
        if watch is not None:
            watch(rows[-1])
    status = "diverged" if training.diverged else "finished"
    place.finish(status, training.epoch)
    return RunResult(config, place.path, status, rows)


def prepared(config: RunConfig, data_dir: str | Path | None) -> Dataset:
    """The data of a run on its device, read once for many runs."""
    folder = None if data_dir is None else Path(data_dir)
    return _prepared(config.dataset, folder, resolve(config.device), config.held_out)


@lru_cache(maxsize=4)
def _prepared(name: str, folder: Path | None, device: torch.device, held_out: float) -> Dataset:
    if held_out == 0:
        return load(name, folder, device)
    try:
        return _prepared(name, folder, device, 0.0).held_out(held_out)
    except ValueError as error:
        raise ConfigError(f"held_out = {held_out}: {error}") from error


def _resumed(training: Training, place: RunFolder) -> list[Row]:
    """The history in the last good checkpoint, with the training standing at its end."""
    refused = ""
    for name, state in place.checkpoints(training.device):
        device = state.get("device")
        if device in ("cpu", "cuda") and device != training.device.type:
            raise FolderError(
                f"{place.path} was begun on {device}, and here the device is "
                f"{training.device.type}: give device = {device!r}, or another folder"
            )
        try:
            rows = [row_of(row) for row in state["history"]]
            training.resume(state)
            if [row.epoch for row in rows] != list(range(training.epoch + 1)):
                raise ValueError("its history does not lead to its epoch")
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, IndexError) as error:
            reason = (str(error) or repr(error)).splitlines()[0]
            reason = f"it has no {error}" if isinstance(error, KeyError) else reason
            refused = f"{place.path / name} does not fit this version of cyclade ({reason})"
            _log.warning("%s", refused)
            continue
        _compare(place, len(rows))
        place.use(name)
        return rows
    if refused:
        raise FolderError(f"{refused}: delete it to start this run again")
    _compare(place, 1)
    return [training.start()]


def _compare(place: RunFolder, rows: int) -> None:
    """``history.csv`` follows the checkpoint; say so where it loses epochs by that."""
    try:
        there = len(place.history())
    except FolderError as error:
        _log.warning("%s: written again", error)
        return
    if there > rows:
        _log.warning(
            "%s goes to epoch %d, the last good checkpoint to epoch %d: training goes on there",
            place.path / HISTORY, there - 1, rows - 1,
        )  # fmt: skip


# ------------------------------------------------------------------------------------- many runs


def run_many(
    configs: Iterable[RunConfig],
    root: str | Path,
    *,
    data_dir: str | Path | None = None,
    jobs: int | None = None,
    progress: bool = True,
) -> list[RunResult]:
    """Every config in its own folder ``root/config.slug()``; results in the order given.

    Runs that are done are read, others start or go on where they stopped, so the same call resumes
    everything. `jobs` of them work side by side: on the CPU in processes, as many as there are
    cores; on a GPU on streams of one process, by default up to 8, since small nets leave most of
    it idle. Their results are those of runs alone, bit for bit, but their seconds are of a shared
    device (``about.json`` says how many shared it): time with ``jobs=1``. A run that fails does not
    stop the others: its error is raised when they are done. Scripts must call this under
    ``if __name__ == "__main__":``, as always with processes.
    """
    before_cuda_starts()
    root, configs = Path(root), list(configs)
    check_jobs(jobs)
    chosen = list({config.slug(): config for config in configs}.values())
    # By what a process has one of, and by how many may share the device.
    waiting: dict[tuple[str, int, bool, int], list[RunConfig]] = {}
    for config in chosen:  # before any work: folders of other configs, devices that are not there
        device = resolve(config.device)
        place = RunFolder(root / config.slug())
        place.check(config)
        if place.problem():  # not done, or to be mended
            fitting = cores() // config.threads
            if device.type == "cuda":
                fitting = min(STREAMS, TOGETHER // config.batch)
            key = (device.type, config.threads, config.tf32, max(1, fitting))
            waiting.setdefault(key, []).append(config)
    failures: dict[RunConfig, Exception] = {}
    with Display(progress) as display:
        for (kind, _, _, fitting), group in waiting.items():
            together = min(jobs or fitting, len(group))
            if kind == "cuda":
                failures |= _on_streams(group, root, data_dir, together, display)
            elif together == 1:
                failures |= _one_by_one(group, root, data_dir, display)
            else:
                failures |= _in_processes(group, root, data_dir, together, display)
    if failures:
        raise _one_error(failures)
    return [RunFolder(root / config.slug()).result() for config in configs]


def check_jobs(jobs: int | None) -> None:
    """Refuse numbers of jobs that make no sense."""
    if jobs is not None and not 1 <= jobs <= JOBS:
        raise ConfigError(f"jobs must be from 1 to {JOBS}, got {jobs}")


def _one_by_one(
    configs: list[RunConfig], root: Path, data_dir: str | Path | None, display: Display
) -> dict[RunConfig, Exception]:
    failures: dict[RunConfig, Exception] = {}
    for config in configs:
        try:
            watch = partial(display.show, config)
            run(config, root / config.slug(), data_dir=data_dir, watch=watch)
        except Exception as error:
            failures[config] = error
        display.end(config)
    return failures


def _on_streams(
    configs: list[RunConfig], root: Path, data_dir: str | Path | None, jobs: int, display: Display
) -> dict[RunConfig, Exception]:
    """Each run in a thread with a stream of its own; the host only launches."""
    failures: dict[RunConfig, Exception] = {}
    stopping = threading.Event()
    lock = threading.Lock()

    def work(config: RunConfig) -> None:
        def watch(row: Row) -> None:
            with lock:
                display.show(config, row)
            if stopping.is_set():
                raise _Stopped

        device = resolve(config.device)
        try:
            with on(device), torch.cuda.stream(torch.cuda.Stream(device)):  # type: ignore[no-untyped-call]
                run(config, root / config.slug(), data_dir=data_dir, watch=watch, side_by_side=jobs)
        except _Stopped:
            return
        except Exception as error:
            failures[config] = error
        with alone:  # nothing may be freed while another run records
            gc.collect()
            torch.cuda.empty_cache()  # its graphs held on to their memory
        with lock:
            display.end(config)

    for config in configs:  # read once, before the threads need it
        prepared(config, data_dir)
    torch.cuda.synchronize()
    pool = ThreadPoolExecutor(jobs)
    try:
        for future in [pool.submit(work, config) for config in configs]:
            future.result()
    except BaseException:  # an interrupt: each run ends its epoch
        stopping.set()
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()
    return failures


class _Stopped(Exception):
    """Raised in a run that is to end early."""


def _in_processes(
    configs: list[RunConfig], root: Path, data_dir: str | Path | None, jobs: int, display: Display
) -> dict[RunConfig, Exception]:
    failures: dict[RunConfig, Exception] = {}
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_end_with_parent)
    try:
        running: dict[Future[None], RunConfig] = {
            pool.submit(_work, config, root / config.slug(), data_dir, jobs): config
            for config in configs
        }
        while running:
            ended = wait(running, timeout=_POLL, return_when=FIRST_COMPLETED).done
            for config in running.values() if display.shown else ():
                with suppress(FolderError):  # the run itself will say what is wrong
                    rows = RunFolder(root / config.slug()).history()
                    display.show(config, rows[-1] if rows else None)
            for future in ended:
                config = running.pop(future)
                error = future.exception()
                if isinstance(error, BrokenProcessPool):
                    error = ExperimentError(
                        "a worker process was killed, by lack of memory perhaps: the same command "
                        "goes on; give fewer --jobs"
                    )
                if isinstance(error, Exception):
                    failures[config] = error
                display.end(config)
    except BaseException:  # an interrupt: what is on disk is whole, so the workers may just end
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
    return failures


def _work(config: RunConfig, folder: Path, data_dir: str | Path | None, jobs: int) -> None:
    """In a process of its own; the result is read from the folder."""
    with warnings_shown():
        run(config, folder, data_dir=data_dir, side_by_side=jobs)


def _end_with_parent() -> None:
    """A worker lives as long as its parent. An interrupt is the parent's affair: it ends us."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:

        def end_with_parent() -> None:
            parent.join()
            os._exit(1)  # it was killed; what is on disk is whole

        threading.Thread(target=end_with_parent, daemon=True).start()


def _one_error(failures: dict[RunConfig, Exception]) -> Exception:
    """One error for all; a single one is passed on as it is."""
    if len(failures) == 1:
        return next(iter(failures.values()))
    lines = "; ".join(f"{config.slug()}: {error}" for config, error in failures.items())
    named = all(isinstance(error, ExperimentError) for error in failures.values())
    kind = ExperimentError if named else RuntimeError
    return kind(f"{len(failures)} runs failed: {lines}")
