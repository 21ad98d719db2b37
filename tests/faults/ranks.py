"""Faults of training on several ranks, tried for real: python tests/faults/ranks.py --kills 20.

Ranks are forked, so that a trial takes a fraction of a second:

- one rank is killed (SIGKILL) inside a cycle, at a random block of a random step: the others stop
  and name it; started again, the run ends in the bits of one that was never killed;
- one rank is stopped (SIGSTOP): the others give up after the group's timeout and name it;
- NaN appears on one of one to three ranks, in its batch, in a gradient or in its parameters: all
  refuse the step, and from the last checkpoint the run ends in the bits of an undisturbed one;
- a checkpoint is cut short or has a bit flipped: it is skipped, with a warning, for the one before;
- torchrun --max-restarts starts killed ranks again, which go on from the checkpoint.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from trials import command_line, record, spoilt

from cyclade.optim import VROCCD, Checkpoints, CheckpointWarning, NotFiniteError, RankLostError
from cyclade.optim.cycle.sweep import StagedSweep
from cyclade.optim.net import Pieces

EXAMPLE = Path(__file__).parents[2] / "examples" / "ranks.py"
EPOCHS = 3
HUNG = 3.0  # seconds, the timeout of the group where a rank hangs
Body = Callable[[int, Path], Any]


def _example() -> Any:
    spec = importlib.util.spec_from_file_location("ranks_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


example = _example()


def forked(body: Body, ranks: int, place: Path, timeout: float = 60.0) -> list[tuple[int, Any]]:
    """Run `body(rank, place)` as so many ranks: (exit status, what it returned or raised)."""
    scratch = Path(tempfile.mkdtemp(dir=place.parent))
    children = []
    for rank in range(ranks):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                torch.set_num_threads(1)
                dist.init_process_group(
                    "gloo", init_method=f"file://{scratch / 'store'}", rank=rank, world_size=ranks,
                    timeout=timedelta(seconds=timeout),
                )  # fmt: skip
                answer = body(rank, place)
                code = 0
            except BaseException as error:
                answer = f"{type(error).__name__}: {error}"
            (scratch / f"{rank}.json").write_text(json.dumps(answer))
            os._exit(code)
        children.append(pid)
    status = {}
    while len(status) < ranks:
        pid, code = os.waitpid(-1, 0)
        if pid in children:
            status[pid] = os.waitstatus_to_exitcode(code)
            stopped = [child for child in children if child not in status]
            if timeout == HUNG and len(stopped) == 1 and len(status) == ranks - 1:
                os.kill(stopped[0], signal.SIGKILL)  # the one that hangs will not end by itself
    answers = []
    for rank, pid in enumerate(children):
        said = scratch / f"{rank}.json"
        answers.append((status[pid], json.loads(said.read_text()) if said.exists() else None))
    return answers


def _strike(number: int, at: int) -> Any:
    """Sends this process a signal in the middle of a cycle: at the given call of a gradient."""
    plain, calls = StagedSweep.grad, count(1)

    def grad(sweep: StagedSweep, j: int) -> Any:
        if next(calls) == at:
            os.kill(os.getpid(), number)
        return plain(sweep, j)

    return mock.patch.object(StagedSweep, "grad", grad)


def _spoilt(where: str, at: int) -> Any:
    """NaN in the batch, in a gradient or in the parameters of this process, at that call."""
    step, grad, calls = VROCCD.step, StagedSweep.grad, count(1)

    def spoilt_step(opt: VROCCD, x: torch.Tensor, y: torch.Tensor) -> Any:
        if next(calls) == at:
            with torch.no_grad():
                spoilt = x if where == "batch" else next(iter(opt.net.parameters.values()))
                spoilt[0] = math.nan
        return step(opt, x, y)

    def spoilt_grad(sweep: StagedSweep, j: int) -> Any:
        gj = grad(sweep, j)
        if next(calls) == at:
            (gj[0] if isinstance(gj, Pieces) else gj).view(-1)[0] = math.nan
        return gj

    if where == "gradient":
        return mock.patch.object(StagedSweep, "grad", spoilt_grad)
    return mock.patch.object(VROCCD, "step", spoilt_step)


def trained(rank: int, place: Path) -> str:
    """The example, from its last checkpoint on; a digest of where it ends."""
    model, _ = example.train(place, EPOCHS, batches=5)
    return "".join(p.detach().numpy().tobytes().hex() for p in model.parameters())[:4000]


def struck(victim: int, number: int, at: int) -> Body:
    """`trained`, with one rank struck."""

    def body(rank: int, place: Path) -> Any:
        begun = time.perf_counter()
        try:
            with _strike(number, at if rank == victim else -1):
                return trained(rank, place)
        except RankLostError as error:
            return [str(error), time.perf_counter() - begun]

    return body


def gradients_in_all(scratch: Path, ranks: int) -> int:
    """How many gradients a rank takes in a whole run."""

    def counting(rank: int, place: Path) -> int:
        with mock.patch.object(
            StagedSweep, "grad", autospec=True, side_effect=StagedSweep.grad
        ) as grad:
            trained(rank, place)
            return int(grad.call_count)

    return min(answer for _, answer in forked(counting, ranks, scratch / f"counted-{ranks}"))


class Trials:
    """Faults at random places, each judged: "" is as it should be, else what is wrong."""

    def __init__(self, scratch: Path, seed: int = 0) -> None:
        self.scratch, self.rng = scratch, random.Random(seed)
        torch.set_num_threads(1)
        example.train(scratch / "alone", 1, batches=2)  # what torch imports late, before forking
        self.wanted = {r: forked(trained, r, scratch / f"whole-{r}")[0][1] for r in (1, 2, 3)}
        self.calls = {r: gradients_in_all(scratch, r) for r in (1, 2, 3)}

    def kill(self, k: int) -> str:
        """One rank killed inside a cycle; then the run is started again."""
        ranks = 2 + k % 2
        victim, at = self.rng.randrange(ranks), self.rng.randrange(1, self.calls[ranks])
        place = self.scratch / f"kill-{k}"
        answers = forked(struck(victim, signal.SIGKILL, at), ranks, place)
        return self._stopped(answers, victim, 20.0) or self._resumed(ranks, place)

    def hang(self, k: int) -> str:
        """One rank stopped: the others wait no longer than the timeout."""
        place = self.scratch / f"hang-{k}"
        at = self.rng.randrange(self.calls[2] // 2, self.calls[2])
        answers = forked(struck(k % 2, signal.SIGSTOP, at), 2, place, HUNG)
        return self._stopped(answers, k % 2, HUNG + 25.0) or self._resumed(2, place)

    def _stopped(self, answers: list[tuple[int, Any]], victim: int, within: float) -> str:
        if answers[victim][0] != -signal.SIGKILL:
            return f"rank {victim} was not killed: {answers[victim]}"
        for rank, (code, answer) in enumerate(answers):
            if rank == victim:
                continue
            if code != 0 or not isinstance(answer, list):
                return f"rank {rank} ended with {code}, {str(answer)[:200]}"
            said, seconds = answer
            if f"rank {victim} of" not in said and f"ranks {victim}" not in said:
                return f"rank {rank} does not name rank {victim}: {said}"
            if seconds > within:
                return f"rank {rank} needed {seconds:.1f} s to notice"
        return ""

    def _resumed(self, ranks: int, place: Path) -> str:
        ends = forked(trained, ranks, place)
        same = all(answer == self.wanted[ranks] for _, answer in ends)
        return "" if same else "resumed, it ends elsewhere"

    def nan(self, k: int) -> str:
        """NaN on one rank: all ranks refuse the step; then the run goes on from its checkpoint."""
        where, ranks = ("batch", "gradient", "parameters")[k % 3], 1 + k // 3 % 3
        victim = self.rng.randrange(ranks)
        at = self.rng.randrange(1, self.calls[ranks] if where == "gradient" else 5 * EPOCHS)
        place = self.scratch / f"nan-{k}"

        def body(rank: int, place: Path) -> Any:
            try:
                with _spoilt(where, at if rank == victim else -1):
                    return trained(rank, place)
            except NotFiniteError as error:
                return [str(error)]

        answers = [answer for _, answer in forked(body, ranks, place)]
        if all(answer == self.wanted[ranks] for answer in answers):
            return ""  # it hit the proof on the first batch, which then took another route
        name = where != "gradient" and ranks > 1
        for rank, answer in enumerate(answers):
            good = isinstance(answer, list) and answer == answers[0]
            if not good or (name and f"rank {victim}:" not in answer[0]):
                return f"{where}, rank {rank}: {str(answer)[:200]}"
        return self._resumed(ranks, place)

    def damage(self, k: int) -> str:
        """The newest checkpoint cut short or with a bit flipped."""
        folder = self.scratch / f"damage-{k}"
        shutil.copytree(self.scratch / "whole-2", folder)
        newest = max(folder.iterdir())
        newest.write_bytes(spoilt(newest.read_bytes(), self.rng))
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            found = Checkpoints(folder)._newest()
        if found is None or not any(
            w.category is CheckpointWarning and newest.name in str(w.message) for w in seen
        ):
            return f"{newest.name} damaged: {[str(w.message) for w in seen]}"
        return ""

    def torchrun(self, k: int) -> str:
        """A rank killed once under torchrun, which starts all of them again."""
        place = self.scratch / f"torchrun-{k}"
        place.mkdir()
        victim, at = k % 2, self.rng.randrange(1, self.calls[2])
        done = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
             "--max-restarts=2", __file__, "--rank", str(victim), str(at), str(place)],
            text=True, timeout=300, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            # Otherwise torch keeps its store over a restart, and gloo may read the addresses of
            # ranks that are gone (pytorch/pytorch#135712).
            env={**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
        )  # fmt: skip
        if done.returncode:
            return f"torchrun ended with {done.returncode}: {done.stdout[-3000:]}"
        struck_once = (place / "struck").exists()
        ends = {(place / f"end-{rank}").read_text() for rank in range(2)}
        return "" if struck_once and ends == {self.wanted[2]} else "restarted, it ends elsewhere"


def as_rank(victim: int, at: int, place: Path) -> None:
    """One rank of torchrun's, which dies the first time it is started."""
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo")
    mark = place / "struck"
    mine = rank == victim and not mark.exists()
    if mine:
        mark.touch()
    with _strike(signal.SIGKILL, at if mine else -1):
        end = trained(rank, place / "run")
    (place / f"end-{rank}").write_text(end)


KINDS = {
    "kill": ("SIGKILL of a rank inside a cycle", "training on two and three ranks"),
    "hang": ("a rank that hangs", "training on two ranks"),
    "nan": ("NaN in a batch, a gradient, the parameters", "training on one to three ranks"),
    "damage": ("a damaged file", "checkpoints of training"),
    "torchrun": ("SIGKILL of a rank inside a cycle", "torchrun --max-restarts"),
}
"""Of every fault its title, and what it befalls."""


def main() -> int:
    if sys.argv[1:2] == ["--rank"]:
        as_rank(int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
        return 0
    parser = command_line(__doc__, kills=20, hangs=2, nans=20, damages=200, torchruns=2)
    chosen = parser.parse_args()
    failures: list[str] = []
    said: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        trials = Trials(Path(scratch), chosen.seed)
        for kind in KINDS:
            counts: Counter[bool] = Counter()
            for k in range(getattr(chosen, f"{kind}s")):
                begun = time.perf_counter()
                why = getattr(trials, kind)(k)
                counts[not why] += 1
                failures += [f"{kind} {k}: {why}"] if why else []
                if kind != "damage":
                    took = time.perf_counter() - begun
                    text = f"{kind} {k}: {why or 'as it should be'} ({took:.1f} s)"
                    print(text, file=sys.stderr, flush=True)
            tried = [(*KINDS[kind], counts.total(), counts[True])] if counts else []
            record(chosen.csv, chosen.seed, tried)
            title = ", ".join(KINDS[kind])
            said.append(f"{counts.total()} {title}: {counts[True]} as it should be")
    print(*failures, *said, sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
