"""Accelerate and Lightning with two ranks (where they are installed), against one process.

torchrun is what `test_distributed.py` runs under.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from test_trainers import lightning_module
from torch import Tensor, nn

from cyclade.optim import SCCD

LR, EPOCHS = 0.1, 2


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def batches() -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(24, 6, generator=generator, dtype=torch.float64)
    y = torch.randint(0, 3, (24,), generator=generator)
    return [(x[i : i + 8], y[i : i + 8]) for i in range(0, 24, 8)]


class MyPart(torch.utils.data.Dataset[Any]):
    """This rank's half of every batch."""

    def __init__(self, rank: int) -> None:
        self.half = slice(4 * rank, 4 * rank + 4)

    def __len__(self) -> int:
        return len(batches())

    def __getitem__(self, k: int) -> Any:
        x, y = batches()[k]
        return x[self.half], y[self.half]


def one_process() -> nn.Module:
    model = net()
    opt = SCCD(model, F.cross_entropy, lr=LR, blocks="layers")
    for x, y in batches() * EPOCHS:
        opt.step(x, y)
    return model


# ----------------------------------------------------------------- what a rank does, by launcher


def with_accelerate() -> nn.Module:
    import accelerate

    accelerator = accelerate.Accelerator(cpu=True)
    model = accelerator.prepare(net())  # in DDP's wrapper, which SCCD takes off again
    opt = SCCD(model, F.cross_entropy, lr=LR, blocks="layers")
    for x, y in torch.utils.data.DataLoader(MyPart(accelerator.process_index), batch_size=None):
        opt.step(x, y)
    for x, y in torch.utils.data.DataLoader(MyPart(accelerator.process_index), batch_size=None):

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
        strategy="ddp", devices=2, accelerator="cpu", max_epochs=EPOCHS, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        use_distributed_sampler=False,
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
    expected = [p.detach() for p in one_process().parameters()]
    for rank in range(2):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        for p, q in zip(expected, found, strict=True):
            torch.testing.assert_close(p, torch.tensor(q, dtype=p.dtype), rtol=0, atol=1e-10)


if __name__ == "__main__":
    trained = RANKS[sys.argv[1]]()
    place = Path(sys.argv[2]) / f"{os.environ['RANK']}.json"
    place.write_text(json.dumps([p.detach().tolist() for p in trained.parameters()]))
