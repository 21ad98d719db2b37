"""Small layers in few kernels, as functions that autograd can differentiate.

    pooled(x, w, b, pad)        max-pooling of relu(conv(x, w) + b) over windows of 2 x 2
    linear(x, w, b, relu)       x wᵀ + b, and its ReLU

Each runs as one Triton kernel forward, and one for each gradient that is asked for (two for the
weights of a convolution), where torch needs three to five: on small nets a captured cycle is as
long as its kernels are many. `plain_pooled` and `plain_linear` are the same by torch's operations,
and what the kernels are held against.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

_MULTIPROCESSORS = 132
_PARTS = 256  # of the sum over pixels in the gradient of a convolution's weights

# Tiles, warps and stages of the kernels, the best of those tried on an H200.
TILES: dict[str, dict[str, int]] = {
    "conv_forward": {"BP": 32, "BK": 16, "num_warps": 2, "num_stages": 1},
    "conv_weight": {"BP": 16, "BK": 32, "num_warps": 2, "num_stages": 1},
    "linear_forward": {"BN": 32, "BO": 32, "BK": 64, "num_warps": 4, "num_stages": 3},
    "linear_input": {"BN": 32, "BO": 32, "BK": 32, "num_warps": 4, "num_stages": 3},
    "linear_weight": {"BN": 32, "BO": 16, "BK": 32, "num_warps": 4, "num_stages": 3},
}


def plain_pooled(x: Tensor, w: Tensor, b: Tensor | None, pad: int) -> Tensor:
    """`pooled` by torch's operations."""
    return F.max_pool2d(F.relu(F.conv2d(x, w, b, padding=pad)), 2)


def plain_linear(x: Tensor, w: Tensor, b: Tensor | None, relu: bool) -> Tensor:
    """`linear` by torch's operations."""
    y = F.linear(x, w, b)
    return F.relu(y) if relu else y


@cache
def kernels() -> Any:
    """The Triton kernels; None where Triton is not installed."""
    try:
        from cyclade.optim.layers import kernels as found
    except ImportError:
        return None
    return found


def precision(conv: bool) -> str:
    """How products are rounded: to TF32 where torch may, else as sums of three, which is float32's.

    Such sums of products are as near to the exact ones as torch's own, and quicker on tensor cores.
    """
    if conv:
        return "tf32" if torch.backends.cudnn.allow_tf32 else "tf32x3"
    return "tf32" if torch.get_float32_matmul_precision() != "highest" else "tf32x3"


def _power(n: int, least: int = 16) -> int:
    """The least power of two that is n or more, and at least `least`."""
    return max(least, 1 << (n - 1).bit_length())


def _tiled(kernel: str, name: str, count: int, others: int = 1) -> dict[str, int]:
    """The tiles of a kernel, smaller in `name` where multiprocessors would have nothing to do."""
    tiles = dict(TILES[kernel])
    while tiles[name] > 16 and -(-count // tiles[name]) * others < _MULTIPROCESSORS:
        tiles[name] //= 2
    return tiles


def _over(count: int, tile: int) -> int:
    """How many tiles cover `count`."""
    return -(-count // tile)


def _sizes(x: Tensor, w: Tensor, pad: int) -> dict[str, int]:
    _, C, H, W = x.shape
    D, _, R, S = w.shape
    PH, PW = (H + 2 * pad - R + 1) // 2, (W + 2 * pad - S + 1) // 2
    return {"C": C, "H": H, "W": W, "D": D, "PH": PH, "PW": PW, "R": R, "S": S, "PAD": pad}


class Pooled(torch.autograd.Function):
    """`pooled` by the kernels."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor, pad: int) -> Tensor:
        """One kernel."""
        sizes = _sizes(x, w, pad)
        shape = len(x), sizes["D"], sizes["PH"], sizes["PW"]
        y, place = x.new_empty(shape), x.new_empty(shape, dtype=torch.uint8)
        pixels = len(x) * sizes["PH"] * sizes["PW"]
        tiles = _tiled("conv_forward", "BP", pixels)
        if tiles["BP"] == 16 and w[0].numel() > 100:  # few programs: each in fewer rounds
            tiles["BK"] *= 2
        kernels().conv_forward[(_over(pixels, tiles["BP"]),)](
            x, w, b, y, place, pixels, **sizes, **tiles, BO=_power(sizes["D"]),
            PRECISION=precision(conv=True),
        )  # fmt: skip
        ctx.save_for_backward(x, w, place)
        ctx.sizes = sizes
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:
        """One kernel for the input, two for weights and bias."""
        x, w, place = ctx.saved_tensors
        g, sizes, how = grads[0].contiguous(), ctx.sizes, precision(conv=True)
        dx = dw = db = None
        if ctx.needs_input_grad[0]:
            dx = _conv_input(x, w, g, place, sizes)
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
            dw, db = torch.empty_like(w), w.new_empty(len(w))
            pixels = len(x) * sizes["PH"] * sizes["PW"]
            tiles = TILES["conv_weight"]
            share = max(tiles["BP"], _over(pixels, _PARTS))
            count, width = _over(pixels, share), dw.numel() + db.numel()
            parts = w.new_empty(count, width)
            kernels().conv_weight[(count, _over(w[0].numel(), tiles["BK"]))](
                x, g, place, parts, pixels, share, **sizes, **tiles, BO=_power(sizes["D"]),
                PRECISION=how,
            )  # fmt: skip
            kernels().sum_parts[(_over(width, 32),)](
                parts, dw, db, dw.numel(), count, len(db), LANES=32, ROWS=64, num_warps=4
            )
        return dx, dw, db, None


def _conv_input(x: Tensor, w: Tensor, g: Tensor, place: Tensor, sizes: dict[str, int]) -> Tensor:
    """The gradient of the input: the pooling undone, then cuDNN, which is ahead here."""
    pad = sizes["PAD"]
    OH, OW = (sizes[a] + 2 * pad - sizes[b] + 1 for a, b in (("H", "R"), ("W", "S")))
    before = g.new_empty(len(x), len(w), OH, OW)
    kernels().unpool[(_over(before.numel(), 1024),)](
        g, place, before, before.numel(), OH=OH, OW=OW, PH=sizes["PH"], PW=sizes["PW"], LANES=1024
    )
    found = torch.ops.aten.convolution_backward(
        before, x, w, None, (1, 1), (pad, pad), (1, 1), False, (0, 0), 1, (True, False, False)
    )
    return found[0]  # type: ignore[no-any-return]


class Linear(torch.autograd.Function):
    """`linear` by the kernels."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor, relu: bool) -> Tensor:
        """One kernel."""
        y = x.new_empty(len(x), len(w))
        sizes = {"K": w.shape[1], "D": w.shape[0], "RELU": relu}
        tiles = _tiled("linear_forward", "BN", len(x), _over(len(w), 16))
        if tiles["BN"] == 16:
            tiles["BO"] = 16
        kernels().linear_forward[(_over(len(x), tiles["BN"]), _over(len(w), tiles["BO"]))](
            x, w, b, y, len(x), **sizes, **tiles, PRECISION=precision(conv=False)
        )
        ctx.save_for_backward(x, w, y if relu else b)  # b stands for a y that is not read
        ctx.sizes = sizes
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:
        """One kernel for the input, one for weights and bias."""
        x, w, y = ctx.saved_tensors
        g, sizes, how = grads[0].contiguous(), ctx.sizes, precision(conv=False)
        dx = dw = db = None
        if ctx.needs_input_grad[0]:
            dx = torch.empty_like(x)
            tiles = _tiled("linear_input", "BN", len(x), _over(x.shape[1], 16))
            if tiles["BN"] == 16:
                tiles["BK"] = 16
            kernels().linear_input[(_over(len(x), tiles["BN"]), _over(x.shape[1], tiles["BK"]))](
                g, y, w, dx, len(x), **sizes, **tiles, PRECISION=how
            )
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
            dw, db = torch.empty_like(w), w.new_empty(len(w))
            tiles = TILES["linear_weight"]
            kernels().linear_weight[(_over(len(w), tiles["BO"]), _over(w.shape[1], tiles["BK"]))](
                g, y, x, dw, db, len(x), **sizes, **tiles, PRECISION=how
            )
        return dx, dw, db, None


def pooled(x: Tensor, w: Tensor, b: Tensor | None, pad: int) -> Tensor:
    """Max-pooling of relu(conv(x, w) + b) over windows of 2 x 2, by the kernels where they fit."""
    small = w.shape[0] <= _CHANNELS and w[0].numel() <= _PATCH
    if b is None or x.dim() != 4 or not small or not _fits(x, w, b):
        return plain_pooled(x, w, b, pad)
    sizes = _sizes(x, w, pad)
    images = len(w) * 4 * (sizes["PH"] + 1) * (sizes["PW"] + 1)  # entries before the pooling
    if min(sizes["PH"], sizes["PW"]) < 1 or x.shape[1] != w.shape[1] or len(x) * images > _ENTRIES:
        return plain_pooled(x, w, b, pad)
    return Pooled.apply(x, w, b, pad)  # type: ignore[no-any-return,no-untyped-call]


def linear(x: Tensor, w: Tensor, b: Tensor | None, relu: bool) -> Tensor:
    """X wᵀ + b and its ReLU, by the kernels where they fit."""
    fits = b is not None and x.dim() == 2 and x.shape[1] == w.shape[1] and _fits(x, w, b)
    if not fits or len(x) * w.numel() > _PRODUCTS:
        return plain_linear(x, w, b, relu)
    return Linear.apply(x, w, b, relu)  # type: ignore[no-any-return,no-untyped-call]


# Beyond these, cuDNN's and cuBLAS's own kernels are ahead.
_CHANNELS, _PATCH, _PRODUCTS = 64, 512, 2**26
_ENTRIES = 2**31 - 1  # the kernels count in 32 bits


def _fits(*tensors: Tensor) -> bool:
    """Whether the kernels take these: float32 on CUDA, lying in order, without autocast."""
    plain = all(t.is_cuda and t.dtype == torch.float32 and t.is_contiguous() for t in tensors)
    plain = plain and all(0 < t.numel() <= _ENTRIES for t in tensors)
    return plain and kernels() is not None and not torch.is_autocast_enabled("cuda")
