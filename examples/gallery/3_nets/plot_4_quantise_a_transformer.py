"""
Two and three bits a weight: a transformer's layers on grids
============================================================

Each row of a layer's weights W is to lie on a few evenly spaced numbers, and Q X should stay close
to W X on the layer's inputs X:

    minimise ½ ‖(W − Q) X‖²  over Q with rows on their grids.

Rounding ignores X. GPTQ rounds column by column and makes up for each error in the columns to come.
Cyclic coordinate descent goes over the columns again and again: a block is a column, `Grid` is its
regulariser, and the minimiser of a block is a rounded number. It can start where GPTQ ends, and
never ends higher.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
import torch

from cyclade import Grid

torch.manual_seed(0)
torch.set_num_threads(1)
CONTEXT, WIDTH, LETTERS = 32, 48, 27


# %%
# A small transformer of one block learns to copy: the second half of a text repeats the first.


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(LETTERS, WIDTH)
        self.place = torch.nn.Parameter(0.1 * torch.randn(CONTEXT, WIDTH))
        self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        self.up = torch.nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = torch.nn.Linear(4 * WIDTH, WIDTH, bias=False)
        self.head = torch.nn.Linear(WIDTH, LETTERS, bias=False)

    def forward(self, text):
        x = self.embed(text) + self.place
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
        x = x + self.out(torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
        x = x + self.down(torch.relu(self.up(self.norm2(x))))
        return self.head(x)


def texts(size, seed):
    rng = torch.Generator().manual_seed(seed)
    half = torch.randint(0, LETTERS, (size, CONTEXT // 2), generator=rng)
    return torch.cat([half, half], 1)


def loss_of(net, text):
    guess = net(text)[:, CONTEXT // 2 - 1 : -1]
    target = text[:, CONTEXT // 2 :]
    return torch.nn.functional.cross_entropy(guess.reshape(-1, LETTERS), target.reshape(-1))


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(600):
    optimizer.zero_grad()
    loss_of(net, texts(64, step)).backward()
    optimizer.step()
test = texts(256, 10_000)
with torch.no_grad():
    print(f"loss with weights of 32 bits: {loss_of(net, test):.4f}")

# %%
# What each layer is fed, as X Xᵀ, from 64 texts.

LAYERS = ["qkv", "out", "up", "down"]
inputs = {}


def keep(name):
    return lambda layer, given, _: inputs.update({name: given[0].detach().double().numpy()})


hooks = [getattr(net, name).register_forward_hook(keep(name)) for name in LAYERS]
with torch.no_grad():
    net(texts(64, 20_000))
for hook in hooks:
    hook.remove()
rows = {name: x.reshape(-1, x.shape[-1]) for name, x in inputs.items()}
grams = {name: x.T @ x for name, x in rows.items()}

# %%
# The three ways. A grid has `2 ** bits` points between a row's extremes.


def grids(W, bits):
    return [np.linspace(row.min(), row.max(), 2**bits) for row in W]


def rounded(column, grid):
    return np.array(
        [points[np.abs(points - u).argmin()] for points, u in zip(grid, column, strict=True)]
    )


def gptq(W, H, grid):
    """Column by column, by the Cholesky factor of the inverse of H (Frantar et al., 2023)."""
    H = H + 0.01 * np.mean(np.diag(H)) * np.eye(len(H))
    upper = np.linalg.cholesky(np.linalg.inv(H)).T
    W, Q = W.copy(), np.zeros_like(W)
    for j in range(W.shape[1]):
        Q[:, j] = rounded(W[:, j], grid)
        error = (W[:, j] - Q[:, j]) / upper[j, j]
        W[:, j:] -= np.outer(error, upper[j, j:])
    return Q


def cyclic(W, H, grid, Q, cycles=20):
    """Algorithm 1 with exact steps: L_j = H_jj, and the prox of each row's `Grid`."""
    Q, gradient = Q.copy(), (Q - W) @ H
    regs = [Grid(points) for points in grid]
    for _ in range(cycles):
        before = Q.copy()
        for j in np.flatnonzero(np.diag(H) > 0):
            u = Q[:, j] - gradient[:, j] / H[j, j]
            new = np.array([reg.prox(u[i : i + 1], 1.0 / H[j, j])[0] for i, reg in enumerate(regs)])
            gradient += np.outer(new - Q[:, j], H[j])
            Q[:, j] = new
        if (before == Q).all():  # no block moves: a stationary point
            break
    return Q


def error(W, H, Q):
    return np.sum((W - Q) @ H * (W - Q)) / np.sum(W @ H * W)


weights = {name: getattr(net, name).weight.detach().double().numpy().copy() for name in LAYERS}
found = {}
for bits in (2, 3):
    began = time.process_time()
    for name in LAYERS:
        W, H = weights[name], grams[name]
        grid = grids(W, bits)
        nearest = np.stack([rounded(column, grid) for column in W.T], 1)
        by_gptq = gptq(W, H, grid)
        found[bits, name] = {
            "rounding": nearest,
            "GPTQ": by_gptq,
            "cyclic, from rounding": cyclic(W, H, grid, nearest),
            "cyclic, from GPTQ": cyclic(W, H, grid, by_gptq),
        }
    print(f"{bits} bits: {time.process_time() - began:.1f} s of the processor")

# %%
# Errors of layers, ‖(W − Q) X‖² / ‖W X‖², and the loss of the net with all four layers replaced.

for bits in (2, 3):
    for way in found[bits, "up"]:
        errors = [error(weights[name], grams[name], found[bits, name][way]) for name in LAYERS]
        for name in LAYERS:
            getattr(net, name).weight.data = torch.tensor(found[bits, name][way]).float()
        with torch.no_grad():
            loss = loss_of(net, test)
        print(f"{bits} bits, {way:22s} errors " + " ".join(f"{e:.1e}" for e in errors), end="")
        print(f"   loss {loss:.4f}")

# %%
# One descent goes on where the other ends.

ways = list(found[2, "up"])
figure, axes = plt.subplots(1, 2, figsize=(8, 3), sharey=True)
for axis, bits in zip(axes, (2, 3), strict=True):
    for shift, way in enumerate(ways):
        errors = [error(weights[name], grams[name], found[bits, name][way]) for name in LAYERS]
        axis.bar(np.arange(len(LAYERS)) + 0.2 * shift - 0.3, errors, 0.2, label=way)
    axis.set(xticks=range(len(LAYERS)), xticklabels=LAYERS, yscale="log", title=f"{bits} bits")
axes[0].set_ylabel("error of the layer")
axes[1].legend(fontsize=7)
plt.show()
