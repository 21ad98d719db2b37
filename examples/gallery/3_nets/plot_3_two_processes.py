"""
Two processes under torchrun, one trajectory
============================================

Under ``torchrun`` every process (rank) gives ``step`` its own part of each batch; the optimizer
adds the gradients up, block by block. The weights then go the way that one process goes with whole
batches, up to the rounding of sums taken in another order. This script is run three times: as you
start it, and by torchrun as each of two ranks (the CPU's backend, gloo; on GPUs it is nccl).
"""

import os
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from cyclade.optim import VROCCD, CrossEntropy, PageBatchSampler


def train(cycles=300):
    """Train on digits; the weights after every cycle, and the loss."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    images, labels = load_digits(return_X_y=True)
    data = TensorDataset(torch.tensor(images / 16), torch.tensor(labels))  # float64
    model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10)).double()
    opt = VROCCD(model, CrossEntropy(), lr=0.2, b=256, blocks="layers")
    sampler = PageBatchSampler(len(data), b=256, seed=0, batches=cycles)  # this rank's rows
    weights, losses, rows = [], [], 0
    for x, y in DataLoader(data, batch_sampler=sampler):
        losses.append(opt.step(x, y).item())
        weights.append(nn.utils.parameters_to_vector(model.parameters()).detach().clone())
        rows += len(x)
    return {"weights": torch.stack(weights), "losses": losses, "rows": rows}


if "RANK" in os.environ:  # started by torchrun
    dist.init_process_group("gloo")
    torch.save(train(), os.path.join(sys.argv[1], f"rank{dist.get_rank()}.pt"))
    dist.destroy_process_group()
    sys.exit()

# %%
# One process by itself, and then ``torchrun --standalone --nproc-per-node 2`` of this file:

alone = train()
with tempfile.TemporaryDirectory() as folder:
    torchrun = [sys.executable, "-m", "torch.distributed.run"]
    chosen = ["--standalone", "--nproc-per-node=2"]
    subprocess.run([*torchrun, *chosen, sys.argv[0], folder], check=True)  # this file
    ranks = [torch.load(os.path.join(folder, f"rank{r}.pt")) for r in range(2)]

apart = (ranks[0]["weights"] - alone["weights"]).abs().amax(dim=1)
moved = (alone["weights"] - alone["weights"][0]).abs().amax(dim=1)
print(f"rows read: {alone['rows']:,} alone, {ranks[0]['rows']:,} and {ranks[1]['rows']:,} as ranks")
print(f"the ranks have equal bits: {torch.equal(ranks[0]['weights'], ranks[1]['weights'])}")
print(f"largest difference from one process: {apart.max():.1e}; weights moved by {moved.max():.2f}")
assert apart.max() < 1e-10

# %%
import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2)
left.plot(alone["losses"], lw=4, alpha=0.4, label="one process")
left.plot(ranks[0]["losses"], lw=1, label="two ranks")
left.set(xlabel="cycle", ylabel="loss on the batch")
left.legend()
right.semilogy(moved[1:], label="moved since the start")
right.semilogy(apart[1:].clamp_min(1e-17), label="between one process and two")
right.set(xlabel="cycle", ylabel="largest difference of a weight")
right.legend()
plt.show()
