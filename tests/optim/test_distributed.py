"""Two ranks under torchrun give the trajectory of one process.

`ranks_worker.py` has the checks, `sharded_checks.py` those of models of torch's fully_shard.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ranks_worker import every_check

WORKER = Path(__file__).with_name("ranks_worker.py")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """What every check said on both ranks; one pair of processes runs them all."""
    folder = tmp_path_factory.mktemp("ranks")
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
         str(WORKER), str(folder)],
        text=True, timeout=300, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.parametrize("name", every_check({}))
def test_on_two_ranks(name: str, outcomes: list[dict[str, str]]) -> None:
    for rank, outcome in enumerate(outcomes):
        assert not outcome[name], f"rank {rank}: {outcome[name]}"
