"""
Two and three bits a weight: a transformer's layers on grids
============================================================

Rows of Q lie on few numbers, and ‖(W − Q) X‖² is to be small on a layer's inputs X. GPTQ goes over
the columns once, and makes up for errors in those to come. Cyclic descent goes on from there.
"""

import time

import numpy as np
import torch

from cyclade import Grid

torch.manual_seed(0)
encoder = torch.nn.TransformerEncoderLayer(48, 4, 192, dropout=0.0, batch_first=True)
net = torch.nn.Sequential(torch.nn.Embedding(10, 48), encoder, torch.nn.Linear(48, 6))


def loss(seed, size=64):
    """How often does each letter of a text occur in it (five: or more)?"""
    text = torch.randint(0, 10, (size, 24), generator=torch.Generator().manual_seed(seed))
    counts = (text[:, :, None] == text[:, None, :]).sum(-1).clamp(max=5)
    return torch.nn.functional.cross_entropy(net(text).flatten(0, 1), counts.flatten())


optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(400):
    optimizer.zero_grad()
    loss(step).backward()
    optimizer.step()
layers, inputs = [encoder.linear1, encoder.linear2, net[2]], {}
for layer in layers:
    layer.register_forward_hook(
        lambda layer, x, _: inputs.update({layer: x[0].detach().double().flatten(0, -2).numpy()})
    )
print(f"loss with 32 bits {loss(10_000, 256).item():.4f}")
grams = {layer: X.T @ X for layer, X in inputs.items()}
weights = {layer: layer.weight.detach().double().numpy().copy() for layer in layers}

# %%
# A block is a column, `Grid` its regulariser. With H = X Xᵀ its step is exact: L_j = H_jj.


def rounded(u, regs):
    return np.array([reg.prox(u[i : i + 1], 1.0)[0] for i, reg in enumerate(regs)])


def gptq(W, H, regs):
    upper = np.linalg.cholesky(np.linalg.inv(H + 0.01 * np.trace(H) / len(H) * np.eye(len(H)))).T
    Q = W.copy()
    for j in range(len(H)):
        error, Q[:, j] = Q[:, j].copy(), rounded(Q[:, j], regs)
        Q[:, j + 1 :] -= np.outer((error - Q[:, j]) / upper[j, j], upper[j, j + 1 :])
    return Q


def cyclic(W, H, regs, cycles=8):
    Q = gptq(W, H, regs)
    for j in list(np.flatnonzero(np.diag(H) > 0)) * cycles:
        Q[:, j] = rounded(Q[:, j] - (Q - W) @ H[:, j] / H[j, j], regs)
    return Q


ways = {"rounding": lambda W, H, regs: np.stack([rounded(w, regs) for w in W.T], 1)}
for bits in (2, 3):
    for name, way in (ways | {"GPTQ": gptq, "cyclic": cyclic}).items():
        errors, began = [], time.process_time()
        for layer, W in weights.items():
            H, regs = grams[layer], [Grid(np.linspace(w.min(), w.max(), 2**bits)) for w in W]
            Q = way(W, H, regs)
            errors.append(np.sum((W - Q) @ H * (W - Q)) / np.sum(W @ H * W))
            layer.weight.data = torch.tensor(Q).float()
        shown = " ".join(f"{error:.1e}" for error in errors)
        seconds = time.process_time() - began
        print(
            f"{bits} bits {name:9s}{seconds:4.1f} s  {shown}  loss {loss(10_000, 256).item():.4f}"
        )
