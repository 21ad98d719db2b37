"""A ResNet-18 for small images and a GPT, written as people write them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class BasicBlock(nn.Module):
    """Two convolutions around a skip connection."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.short: nn.Module = nn.Identity()
        if stride != 1 or inside != outside:
            skip = nn.Conv2d(inside, outside, 1, stride, bias=False)
            self.short = nn.Sequential(skip, nn.BatchNorm2d(outside))

    def forward(self, x: Tensor) -> Tensor:
        """x plus what the convolutions make of it."""
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.short(x))


class ResNet18(nn.Module):
    """ResNet-18 for 32x32 images."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64)
        blocks, inside = [], 64
        for outside, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks += [BasicBlock(inside, outside, stride), BasicBlock(outside, outside, 1)]
            inside = outside
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(512, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores."""
        x = self.blocks(F.relu(self.bn(self.conv(x))))
        scores: Tensor = self.head(x.mean((2, 3)))
        return scores


class Layer(nn.Module):
    """A transformer layer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Attention, then two linear maps, each around a skip connection."""
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, c // self.heads).unbind(2)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.ln2(x))))  # type: ignore[no-any-return]


class GPT(nn.Module):
    """Predicts the token after each of a sequence: scores of shape (sequences x tokens, words)."""

    def __init__(
        self, vocabulary: int = 256, width: int = 384, depth: int = 6, length: int = 256
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(0.02 * torch.randn(1, length, width))
        self.layers = nn.Sequential(*(Layer(width, 6) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, idx: Tensor) -> Tensor:
        """Scores of the next token, at every place."""
        x = self.layers(self.tokens(idx) + self.positions)
        scores: Tensor = self.head(self.norm(x)).flatten(0, 1)
        return scores
