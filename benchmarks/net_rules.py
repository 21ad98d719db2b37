"""Rules for the step η/Λ_j of plain cyclic steps, side by side: what a default rate is chosen from.

All rules of a grid train at once, each its own copy of a net, on the same batches: the products of
a layer are one batched product over the copies. A block is a layer, in forward order, as SCCD does
by default on these nets. With G the sum of ‖g^j‖² over the cycles so far (this one included) and D
the farthest that the block has been from its start, the rules are

    clip     Λ_j = max(1, ‖g^j‖ / c)
    adagrad  Λ_j = (1 + G / c²)^p            (AdaGrad-Norm by blocks, p = 1/2)
    dog      η/Λ_j = c · max(D, η ‖x_0^j‖) / √G    (DoG by blocks)

and with "spectral" before the name η is divided by the spectral norm of the layer's weight too.

    python benchmarks/net_rules.py --mnist FILE.npz --cifar10 FOLDER --device cuda --csv grid.csv
    python benchmarks/net_rules.py --tasks digits --rules clip adagrad

Prints test accuracies (means of the seeds) after the epochs of each task, the best rules first.
torch's Adam with its default trains beside them, in the same batches.
"""

from __future__ import annotations

import argparse
import itertools
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import net_defaults
from net_defaults import Data

# ------------------------------------------------------------------------------------------- rules


@dataclass(frozen=True)
class Rule:
    """How the step of a block is found; see above."""

    kind: str
    lr: float
    c: float
    p: float = 0.5

    @property
    def name(self) -> str:
        """As the table shows it."""
        return self.kind if self.p == 0.5 else f"{self.kind} {self.p:.2f}"


GRIDS: dict[str, tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]] = {
    "clip": ((0.1, 0.2, 0.3), (0.125, 0.25, 0.5, 1.0), (0.5,)),
    "adagrad": ((0.1, 0.2, 0.4, 0.8, 1.6), (0.25, 0.5, 1.0, 2.0, 4.0), (0.5,)),
    "adagrad 0.33": ((0.2, 0.4, 0.8), (0.25, 0.5, 1.0, 2.0), (1 / 3,)),
    "dog": ((1e-3, 1e-2, 3e-2), (0.1, 0.3, 1.0), (0.5,)),
}
"""By rule: η, c and p (for dog η is the first reach, relative to the norm of the start)."""


def grid(kinds: list[str]) -> list[Rule]:
    """Every rule that is tried."""
    found = []
    for kind in kinds:
        sets = itertools.product(*GRIDS[kind.removeprefix("spectral ")])
        found += [Rule(kind.removesuffix(" 0.33"), *one) for one in sets]
    return found


class Steps:
    """The steps of all copies: one number each."""

    def __init__(self, rules: list[Rule], blocks: list[list[Tensor]]) -> None:
        like = blocks[0][0]
        column = lambda values: like.new_tensor(list(values))  # noqa: E731
        self._lr, self._c = column(r.lr for r in rules), column(r.c for r in rules)
        self._p = column(r.p for r in rules)
        kinds = [r.kind.removeprefix("spectral ") for r in rules]
        self._is = {k: like.new_tensor([a == k for a in kinds]).bool() for k in set(kinds)}
        spectral = [r.kind.startswith("spectral") for r in rules]
        self._spectral, self._any_spectral = like.new_tensor(spectral).bool(), any(spectral)
        self._sums = [like.new_zeros(len(rules)) for _ in blocks]
        self._x0 = [[p.clone() for p in block] for block in blocks]
        self._far = [like.new_zeros(len(rules)) for _ in blocks]
        self._norm0 = [_square(block).sqrt() for block in blocks]
        self._u = [_unit(block[0].flatten(2)) for block in blocks]

    def at(self, j: int, block: list[Tensor], grads: tuple[Tensor, ...]) -> Tensor:
        """η/Λ_j of every copy."""
        g2 = _square(grads)
        self._sums[j] += g2
        t, total = self._lr.clone(), self._sums[j]
        if "clip" in self._is:
            t = torch.where(self._is["clip"], t / (g2.sqrt() / self._c).clamp(min=1.0), t)
        if "adagrad" in self._is:
            scaled = t / (1 + total / self._c.square()).pow(self._p)
            t = torch.where(self._is["adagrad"], scaled, t)
        if "dog" in self._is:
            far = _square([a - b for a, b in zip(block, self._x0[j], strict=True)]).sqrt()
            torch.maximum(self._far[j], far, out=self._far[j])
            reach = torch.maximum(self._far[j], self._lr * self._norm0[j])
            t = torch.where(self._is["dog"], self._c * reach / (total.sqrt() + 1e-8), t)
        if self._any_spectral:
            W = block[0].flatten(2)
            v = _unit(torch.bmm(W.mT, self._u[j][..., None]).squeeze(-1))
            w = torch.bmm(W, v[..., None]).squeeze(-1)
            self._u[j].copy_(_unit(w))
            t = torch.where(self._spectral, t / w.norm(dim=1).clamp(min=1e-3), t)
        return t


def _square(tensors: Any) -> Tensor:
    return sum(t.flatten(1).square().sum(1) for t in tensors)  # type: ignore[return-value]


def _unit(a: Tensor) -> Tensor:
    if a.dim() == 3:
        a = a.sum(2) + a.flatten(1).norm(dim=1)[:, None] / a.shape[1]
    return a / a.norm(dim=1, keepdim=True).clamp(min=1e-12)


# ---------------------------------------------------------------------------------- copies of a net


class Copies:
    """Many copies of a Sequential of convolutions, linear layers, ReLU, max pooling and Flatten."""

    def __init__(self, model: nn.Sequential, copies: int) -> None:
        self._layers = list(model)
        owned = [i for i, layer in enumerate(self._layers) if list(layer.parameters())]
        self.starts = owned
        self.blocks = [
            [p.detach().expand(copies, *p.shape).clone() for p in self._layers[i].parameters()]
            for i in owned
        ]
        self._ends = [*owned[1:], len(self._layers)]
        self.copies = copies

    def stage(self, j: int, x: Tensor, block: list[Tensor]) -> Tensor:
        """Layer j and what follows it up to the next, on (copies, batch, …)."""
        for i in range(self.starts[j], self._ends[j]):
            layer = self._layers[i]
            if isinstance(layer, nn.Conv2d):
                x = self._convolved(x, block, layer)
            elif isinstance(layer, nn.Linear):
                x = torch.baddbmm(
                    block[1][:, None], x.expand(self.copies, *x.shape[1:]), block[0].mT
                )
            elif isinstance(layer, nn.Flatten):
                x = x.flatten(2)
            elif isinstance(layer, nn.ReLU):
                x = F.relu(x)
            else:
                assert isinstance(layer, nn.MaxPool2d)
                x = F.max_pool2d(x.flatten(0, 1), layer.kernel_size).unflatten(0, x.shape[:2])
        return x

    def begun(self, x: Tensor) -> Tensor:
        """What comes before the first layer with weights; one for all copies."""
        for layer in self._layers[: self.starts[0]]:
            assert isinstance(layer, nn.Flatten)
            x = x.flatten(1)
        return x[None]

    def _convolved(self, x: Tensor, block: list[Tensor], layer: nn.Conv2d) -> Tensor:
        k = layer.kernel_size[0]
        pad = layer.padding[0]
        patches = F.unfold(x.flatten(0, 1), k, padding=pad).unflatten(0, x.shape[:2])
        W = block[0].flatten(2)  # (copies, out, in k k)
        if x.shape[0] == 1:  # (batch, in k k, places), the same for all copies
            out = torch.einsum("eoi,bip->ebop", W, patches[0])
        else:
            out = torch.matmul(W[:, None], patches)
        size = x.shape[-1] + 2 * pad - k + 1
        return (out + block[1][:, None, :, None]).unflatten(-1, (size, size))

    def output(self, x: Tensor) -> Tensor:
        """The logits."""
        x = self.begun(x)
        for j, block in enumerate(self.blocks):
            x = self.stage(j, x, block)
        return x

    def cycle(self, x: Tensor, y: Tensor, steps: Steps) -> Tensor:
        """Every block once; the sum of the losses before the last."""
        before = self.begun(x)
        target, total = y.expand(self.copies, -1), x.new_zeros(())
        for j, block in enumerate(self.blocks):
            leaves = [p.detach().requires_grad_() for p in block]
            with torch.enable_grad():
                z = self.stage(j, before, leaves)
                for later in range(j + 1, len(self.blocks)):
                    z = self.stage(later, z, self.blocks[later])
                loss = F.cross_entropy(z.flatten(0, 1), target.flatten(), reduction="none")
                total = loss.view(self.copies, -1).mean(1).sum()
            grads = torch.autograd.grad(total, leaves)
            t = steps.at(j, block, grads)
            for p, g in zip(block, grads, strict=True):
                p.sub_(t.view(-1, *[1] * (p.dim() - 1)) * g)
            before = self.stage(j, before, block)
        return total.detach()


# -------------------------------------------------------------------------------------------- runs


@torch.no_grad()
def accuracies(task: Any, data: Data, rules: list[Rule], seed: int) -> Tensor:
    """Test accuracies: (epochs of the task, rules and Adam)."""
    x, y, x_test, y_test = data
    torch.manual_seed(seed)
    model: Any = task.model().to(x.device)
    copies = Copies(model, len(rules))
    steps = Steps(rules, copies.blocks)
    adam = net_defaults._step(net_defaults.METHODS["torch Adam"], model, None, x.is_cuda)
    cycle: Any = partial(copies.cycle, steps=steps)
    if x.is_cuda:
        cycle = net_defaults._Captured(cycle)
    found = []
    for epoch in range(1, task.epochs[-1] + 1):
        for i in net_defaults._batches(len(x), task.batch, False, 1000 * seed + epoch, x.device):
            cycle(x[i], y[i])
            with torch.enable_grad():
                adam(x[i], y[i])
        if epoch in task.epochs:
            right = x.new_zeros(len(rules))
            for a, b in zip(torch.split(x_test, 250), torch.split(y_test, 250), strict=True):
                right += (copies.output(a).argmax(2) == b).float().sum(1)
            base = net_defaults._accuracy(model, x_test, y_test)
            found.append(torch.cat([right / len(x_test), x.new_tensor([base])]).cpu())
            print(f"  seed {seed}, {epoch} epochs: Adam {base:.3f}", flush=True)
    return torch.stack(found)


def main() -> None:
    """Print the table, and write it if asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mnist", metavar="FILE.npz")
    parser.add_argument("--cifar10", type=Path, metavar="FOLDER")
    parser.add_argument("--tasks", nargs="+", choices=list(net_defaults.TASKS))
    parser.add_argument("--epochs", type=int, nargs="+", help="look after these instead")
    parser.add_argument("--rules", nargs="+", default=[*GRIDS, "spectral clip", "spectral adagrad"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--csv", type=Path, help="write the table")
    given = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    rules = grid(given.rules)
    rows: list[dict[str, Any]] = []
    for name in given.tasks or ["digits", "mnist", "cifar10"]:
        task, begun = net_defaults._task(name, given), time.perf_counter()
        data = net_defaults._on_device(name, given)
        means = torch.stack([accuracies(task, data, rules, s) for s in given.seeds]).mean(0)
        took = time.perf_counter() - begun
        for k, epochs in enumerate(task.epochs):
            label = f"{task.label}, batches of {task.batch}, {epochs} epochs"
            print(f"{label}: torch Adam {means[k, -1]:.3f}  ({took:.0f} s)", flush=True)
            every = [(float(means[k, i]), rule) for i, rule in enumerate(rules)]
            for kind in dict.fromkeys(rule.name for rule in rules):
                best = sorted((e for e in every if e[1].name == kind), key=lambda e: -e[0])[:4]
                shown = [f"{a:.3f} ({r.lr:g}, {r.c:g})" for a, r in best]
                print(f"  {kind:<22}", *shown, flush=True)
            for accuracy, rule in every:
                rows.append({
                    "task": label, "seeds": len(given.seeds), "torch Adam": f"{means[k, -1]:.4f}",
                    "rule": rule.name, "lr": f"{rule.lr:g}", "c": f"{rule.c:g}",
                    "test accuracy": f"{accuracy:.4f}",
                })  # fmt: skip
        if given.csv:
            net_defaults._write(given.csv, rows)


if __name__ == "__main__":
    main()
