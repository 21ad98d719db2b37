"""Small models written as people write them, for all tests of the optimizers."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from small_nets import written
from torch import Tensor, nn


class LeNet(nn.Module):
    """LeNet for 3x32x32 images, with functional pooling and activations: 62,006 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = x.view(-1, 16 * 5 * 5)
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


def mlp() -> nn.Sequential:
    """A nested Sequential."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Sequential(nn.Linear(12, 8), nn.Tanh()),
        nn.Sequential(nn.Linear(8, 7), nn.ReLU(inplace=True), nn.Sequential(nn.Linear(7, 5))),
        nn.LogSoftmax(dim=1),
    )


class BasicBlock(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.shortcut = nn.Sequential()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return F.relu(out, inplace=True)


class ResNet18(nn.Module):
    """ResNet-18 for small images; ``width`` 64 is the usual one."""

    def __init__(self, width: int = 64, classes: int = 10, depth: int = 2) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        blocks = []
        inside = width
        for level in range(4):
            outside = width * 2**level
            for k in range(depth):
                blocks.append(BasicBlock(inside, outside, 2 if level and not k else 1))
                inside = outside
        self.layers = nn.Sequential(*blocks)
        self.linear = nn.Linear(inside, classes)

    def forward(self, x: Tensor) -> Tensor:
        out = self.layers(F.relu(self.bn1(self.conv1(x))))
        out = F.adaptive_avg_pool2d(out, 1)
        return self.linear(out.view(out.size(0), -1))


class ViTBlock(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, dropout=dropout, batch_first=True)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    """A small vision transformer with class token and learnt positions."""

    def __init__(
        self, width: int = 16, heads: int = 2, depth: int = 2, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.cls_token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.pos_embedding = nn.Parameter(torch.randn(1, 17, width) * 0.02)
        self.blocks = nn.ModuleList([ViTBlock(width, heads, dropout) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        cls = self.cls_token.expand(x.shape[0], -1, -1)
        x = torch.cat([cls, x], dim=1) + self.pos_embedding
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class CausalSelfAttention(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.size()
        q, k, v = self.qkv(x).split(c, dim=2)
        q, k, v = (z.view(b, t, self.heads, c // self.heads).transpose(1, 2) for z in (q, k, v))
        p = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        return self.proj(y.transpose(1, 2).contiguous().view(b, t, c))


class GPTBlock(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(width)
        self.attn = CausalSelfAttention(width, heads, dropout)
        self.ln2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln1(x))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class GPT(nn.Module):
    """A small GPT with tied embeddings; returns logits, or (logits, loss) given targets."""

    def __init__(
        self,
        vocabulary: int = 31,
        width: int = 16,
        heads: int = 2,
        depth: int = 2,
        context: int = 12,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.context = context
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(context, width)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList([GPTBlock(width, heads, dropout) for _ in range(depth)])
        self.ln = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        _, t = idx.size()
        assert t <= self.context, f"a context of {t} is too long"
        pos = torch.arange(0, t, dtype=torch.long, device=idx.device)
        x = self.drop(self.wte(idx) + self.wpe(pos))
        for block in self.blocks:
            x = block(x)
        logits = self.lm_head(self.ln(x))
        if targets is None:
            return logits
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def Reused() -> nn.Module:
    """One layer called twice, with another in between."""

    def forward(self: Any, x: Tensor) -> Tensor:
        return torch.tanh(self.a(torch.sin(self.b(torch.tanh(self.a(x))))))

    return written(forward, a=nn.Linear(6, 6), b=nn.Linear(6, 6))


def DictModel() -> nn.Module:
    """Takes a dict and keywords, returns a dict."""

    def forward(
        self: Any, batch: dict[str, Tensor], *, scale: float = 1.0, mask: Tensor | None = None
    ) -> dict[str, Tensor]:
        hidden = self.left(batch["x"])
        if "z" in batch:
            hidden = hidden + self.right(batch["z"])
        if mask is not None:
            hidden = hidden * mask
        logits = self.head(torch.tanh(hidden)) * scale
        return {"logits": logits, "loss": logits.square().mean()}

    return written(forward, left=nn.Linear(4, 5), right=nn.Linear(3, 5), head=nn.Linear(5, 2))


def ShapeSwitch() -> nn.Module:
    """Control flow on shapes: torch.export can follow it, torch.fx cannot."""

    def forward(self: Any, x: Tensor) -> Tensor:
        if x.shape[0] > 2:
            x = x * 2
        return self.last(torch.relu(self.norm(self.first(x))))

    return written(forward, first=nn.Linear(6, 8), norm=nn.BatchNorm1d(8), last=nn.Linear(8, 3))


def ValueSwitch() -> nn.Module:
    """Control flow on values: nobody can follow it."""

    def forward(self: Any, x: Tensor) -> Tensor:
        x = self.first(x)
        return self.last(torch.relu(x * 2 if x.sum() > 0 else x))

    return written(forward, first=nn.Linear(6, 8), last=nn.Linear(8, 3))


def Dropped() -> nn.Module:
    """Dropout as module and as function."""

    def forward(self: Any, x: Tensor) -> Tensor:
        x = self.drop(torch.relu(self.first(x)))
        return self.last(F.dropout(self.middle(x), 0.3, self.training))

    first, middle, last = nn.Linear(6, 32), nn.Linear(32, 32), nn.Linear(32, 3)
    return written(forward, first=first, drop=nn.Dropout(0.5), middle=middle, last=last)


class RawAttention(nn.Module):
    """Bare parameters and a mask buffer, as in hand-written attention."""

    def __init__(self, width: int = 8, context: int = 10) -> None:
        super().__init__()
        self.wq = nn.Parameter(torch.randn(width, width) / math.sqrt(width))
        self.wk = nn.Parameter(torch.randn(width, width) / math.sqrt(width))
        self.wv = nn.Parameter(torch.randn(width, width) / math.sqrt(width))
        self.gain = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.register_buffer("mask", torch.tril(torch.ones(context, context)).bool())

    def forward(self, x: Tensor) -> Tensor:
        t = x.shape[1]
        q, k = x @ self.wq, x @ self.wk.t()
        scores = q @ k.transpose(1, 2) / math.sqrt(x.shape[-1])
        scores = scores.masked_fill(~self.mask[:t, :t], float("-inf"))
        y = scores.softmax(-1) @ (x @ self.wv)
        return y * self.gain.view(1, 1, -1) + self.bias
