"""Accelerate and Lightning with two ranks (where they are installed), against one process.

torchrun is what `test_distributed.py` runs under.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small_nets import close
from small_nets import net as small_net
from test_trainers import QUIET, data, lightning_module
from torch import Tensor, nn

from cyclade.optim import SCCD

LR, EPOCHS = 0.1, 2
net = partial(small_net, 6, 5, 3)


class MyPart(torch.utils.data.Dataset[Any]):
    """This rank's half of every batch."""

    def __init__(self, rank: int) -> None:
        self.half = slice(4 * rank, 4 * rank + 4)

    def __len__(self) -> int:
        return len(data())

    def __getitem__(self, k: int) -> Any:
        x, y = data()[k]
        return x[self.half], y[self.half]


# ----------------------------------------------------------------- what a rank does, by launcher


def with_accelerate() -> nn.Module:
    import accelerate

    accelerator = accelerate.Accelerator(cpu=True)
    model = accelerator.prepare(net())  # in DDP's wrapper, which SCCD takes off again
    opt = SCCD(model, F.cross_entropy, lr=LR, blocks="layers")
    loader = torch.utils.data.DataLoader(MyPart(accelerator.process_index), batch_size=None)
    for x, y in loader:
        opt.step(x, y)
    for x, y in loader:

        def closure(x: Tensor = x, y: Tensor = y) -> Tensor:
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y)
            accelerator.backward(loss)
            return loss

        opt.step(closure)
    inner: nn.Module = accelerator.unwrap_model(model)
    return inner


def with_lightning(automatic: bool) -> nn.Module:
    import lightning

    module = lightning_module(lightning, automatic, net())
    module.train_dataloader = lambda: torch.utils.data.DataLoader(
        MyPart(module.global_rank), batch_size=None
    )
    trainer = lightning.Trainer(
        strategy="ddp", devices=2, accelerator="cpu", max_epochs=EPOCHS,
        use_distributed_sampler=False, **QUIET,
    )  # fmt: skip
    trainer.fit(module)
    return module.net


RANKS = {
    "accelerate": with_accelerate,
    "lightning, automatic": lambda: with_lightning(automatic=True),
    "lightning, manual": lambda: with_lightning(automatic=False),
}


@pytest.mark.parametrize("name", RANKS)
def test_two_ranks(name: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(name.partition(",")[0]) is None:
        pytest.skip(f"{name} is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
         __file__, name, str(tmp_path)],
        text=True, timeout=300, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    model = net()
    opt = SCCD(model, F.cross_entropy, lr=LR, blocks="layers")
    for x, y in data() * EPOCHS:
        opt.step(x, y)
    for rank in range(2):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        close(model, [torch.tensor(p, dtype=torch.float64) for p in found], 1e-10)


if __name__ == "__main__":
    trained = RANKS[sys.argv[1]]()
    place = Path(sys.argv[2]) / f"{os.environ['RANK']}.json"
    place.write_text(json.dumps([p.detach().tolist() for p in trained.parameters()]))
