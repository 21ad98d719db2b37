"""How sparse a model's weights are, and what is dead taken out with its outputs unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parameter import is_lazy

from cyclade.optim.pruning.links import Graph, Link, find_links
from cyclade.optim.views import table


def dead_slices(weight: Tensor, dim: int) -> Tensor:
    """Which slices along ``dim`` hold nothing but zeros."""
    zero = weight.detach() == 0
    return zero.transpose(0, dim).flatten(1).all(dim=1)


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def shaped(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """The model's parameters by name; an error where one has no shape yet."""
    found = list(model.named_parameters())
    for name, parameter in found:
        if is_lazy(parameter):
            raise ValueError(f"{name} has no shape yet: run the model on a batch first")
    return found


@dataclass
class SparsityReport:
    """One row per parameter with two or more dimensions; prints as a table.

    ``rows`` is a list of dicts (``pandas.DataFrame(report.rows)``) with the keys parameter, shape,
    size, zeros (the fraction of exact zeros), rows, dead_rows, columns, dead_columns. A row is a
    slice along dimension 0 (output features or channels), a column one along dimension 1 (input
    features or channels). ``size``, ``zeros``, ``dead_rows`` and ``dead_columns`` are those of all.
    """

    rows: list[dict[str, Any]]

    def __post_init__(self) -> None:
        keys = ("size", "rows", "dead_rows", "columns", "dead_columns")
        self._total = {key: sum(row[key] for row in self.rows) for key in keys}
        self.size, _, self.dead_rows, _, self.dead_columns = self._total.values()
        zeros = sum(round(row["zeros"] * row["size"]) for row in self.rows)
        self.zeros = zeros / max(self.size, 1)

    def __str__(self) -> str:
        total = {"parameter": "total", "shape": (self.size,), "zeros": self.zeros, **self._total}
        lines = [
            [row["parameter"], _shape(row["shape"]), f"{100 * row['zeros']:.1f} %"]
            + [f"{row[f'dead_{side}']} / {row[side]}" for side in ("rows", "columns")]
            for row in [*self.rows, total]
        ]
        return table(["parameter", "shape", "zeros", "dead rows", "dead columns"], lines)


@torch.no_grad()
def sparsity(model: nn.Module) -> SparsityReport:
    """Count exact zeros, dead rows and dead columns of all parameters with two or more dimensions.

    Tied parameters count once. `cyclade.optim.prune` removes what is dead.

    Example
    -------
    >>> import torch
    >>> from torch import nn
    >>> model = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1))
    >>> _ = model[0].weight.data[1].zero_()
    >>> print(sparsity(model))
    parameter  shape   zeros  dead rows  dead columns
    -------------------------------------------------
    0.weight     2x3  50.0 %      1 / 2         0 / 3
    2.weight     1x2   0.0 %      0 / 1         0 / 2
    total          8  37.5 %      1 / 3         0 / 5
    """
    rows: list[dict[str, Any]] = []
    for name, weight in shaped(model):
        if weight.dim() >= 2:
            n, shape = weight.numel(), tuple(weight.shape)
            dead = [int(dead_slices(weight, dim).sum()) if n else 0 for dim in (0, 1)]
            rows.append({
                "parameter": name, "shape": shape, "size": n,
                "zeros": (n - int(weight.count_nonzero())) / max(n, 1),
                "rows": shape[0], "dead_rows": dead[0],
                "columns": shape[1], "dead_columns": dead[1],
            })  # fmt: skip
    return SparsityReport(rows)


_ONE = "one channel is kept so that the layer is not empty"
_PADDED = "its constant output is not 0 and what follows pads with zeros, or is not finite"
_PARTLY = "other columns that read the same channels are not zero"


@dataclass
class PruneReport:
    """What `prune` removed and what it left; prints as a table.

    ``rows`` has one dict per layer with parameters: layer, kind, shape_before, shape_after (of the
    weight), parameters_before, parameters_after. ``left`` has one dict per layer that still holds
    dead rows or columns: layer, side ("outputs" or "inputs"), dead (how many), reason.
    """

    rows: list[dict[str, Any]]
    left: list[dict[str, Any]]
    parameters_before: int
    parameters_after: int

    @property
    def changed(self) -> bool:
        """Whether anything was removed."""
        return any(row["shape_before"] != row["shape_after"] for row in self.rows)

    def __str__(self) -> str:
        lines: list[list[Any]] = [
            [layer or "(model)", kind, _shape(before), _shape(after), *counts]
            for layer, kind, before, after, *counts in (row.values() for row in self.rows)
        ]
        lines.append(["total", "", "", "", self.parameters_before, self.parameters_after])
        text = table(["layer", "kind", "weight", "now", "parameters", "now"], lines)
        for left in self.left:
            text += "\nleft: {dead} dead {side} of {layer} ({reason})".format(**left)
        if self.changed:
            text += "\nThe parameters are new: build the optimizer again."
        return text


@torch.no_grad()
def prune(model: nn.Module) -> PruneReport:
    """Remove dead rows and channels of Linear/Conv2d chains, in place; outputs do not change.

    A channel goes if the next layer's weights for it are all zero, or if it is constant: its own
    weights (or the scale of a batch normalisation behind it) are zero. Its constant is then added
    to the next layer's bias. This is repeated; every layer keeps at least one channel.

    Layers are found by tracing ``model.forward``, with its required arguments only, by torch.fx: a
    ValueError says why it cannot be. Between two of them may stand pointwise activations, dropout,
    2d pooling, batch normalisation and `flatten(1)`. All else is left, with the reason in the
    report. Outputs are those in eval mode, up to rounding; inputs of convolutions are taken
    to have a batch dimension, and BatchNorm1d behind a Linear to act on its features.

    **Build the optimizer again afterwards**: changed parameters are new tensors, without gradient.

    Example
    -------
    >>> import torch
    >>> from torch import nn
    >>> _ = torch.manual_seed(0)
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).double()
    >>> with torch.no_grad():
    ...     _ = model[0].weight[3:].zero_()
    >>> x = torch.randn(5, 4, dtype=torch.float64)
    >>> before = model(x)
    >>> print(prune(model))
    layer  kind    weight  now  parameters  now
    -------------------------------------------
    0      Linear     8x4  3x4          40   15
    2      Linear     2x8  2x3          18    8
    total                               58   23
    The parameters are new: build the optimizer again.
    >>> torch.allclose(model(x), before, rtol=0, atol=1e-14)
    True
    """
    total = sum(p.numel() for _, p in shaped(model))
    found = find_links(model)
    before = _sizes(model)
    while any(_shorten(link) for link in found.links.values()):
        pass
    rows = [
        {
            "layer": name, "kind": type(model.get_submodule(name)).__name__,
            "shape_before": before[name][0], "shape_after": shape,
            "parameters_before": before[name][1], "parameters_after": count,
        }
        for name, (shape, count) in _sizes(model).items()
    ]  # fmt: skip
    left = _left(model, found)
    return PruneReport(rows, left, total, sum(p.numel() for p in model.parameters()))


def _sizes(model: nn.Module) -> dict[str, tuple[tuple[int, ...], int]]:
    """The shape of each layer's weight, and the number of its parameters."""
    layers = ((name, list(m.parameters(recurse=False))) for name, m in model.named_modules())
    return {n: (tuple(own[0].shape), sum(p.numel() for p in own)) for n, own in layers if own}


def _shorten(link: Link) -> bool:
    """Remove what can go between two layers; whether anything did."""
    first, second, k = link.first, link.second, link.k
    channels = first.weight.shape[0]
    unread = dead_slices(second.weight, 1).view(channels, k).all(dim=1)
    value, constant = _constants(link)
    gone = unread | constant.view(channels, k).all(dim=1)
    if bool(gone.all()):
        gone[0] = False
    if not bool(gone.any()):
        return False
    fold = (gone & ~unread).repeat_interleave(k)
    if bool((value[fold] != 0).any()):
        _fold(second, fold, value)
    keep = (~gone).nonzero().flatten()
    columns = (~gone).repeat_interleave(k).nonzero().flatten()
    _slice(first, 0, keep, "weight", "bias", count="out")
    _slice(second, 1, columns, "weight", count="in")
    chosen = keep
    for op in link.ops:
        chosen = columns if op.kind == "flatten" else chosen
        if op.module is not None:
            tensors = ("weight", "bias", "running_mean", "running_var")
            _slice(op.module, 0, chosen, *tensors, count="num")
    return True


def _constants(link: Link) -> tuple[Tensor, Tensor]:
    """What each input of the second layer is if it is constant, and whether it may be folded."""
    first, second = link.first, link.second
    constant = dead_slices(first.weight, 0)
    value = first.weight.new_zeros(len(first.weight))
    if first.bias is not None:
        value += first.bias
    for op in link.ops:
        if op.kind == "flatten":
            value, constant = (t.repeat_interleave(link.k) for t in (value, constant))
        elif op.kind == "point":
            value = op.run(value.clone())
        elif op.kind == "norm":
            norm = op.module
            constant = constant if norm.weight is None else constant | (norm.weight == 0)
            held = (norm.running_mean, norm.running_var, norm.weight, norm.bias)
            value = F.batch_norm(value[None], *held, eps=norm.eps)[0]
        elif op.kind == "pool" and not op.keeps_constants():
            constant = constant & (value == 0)
    if isinstance(second, nn.Conv2d) and _pads_with_zeros(second):
        constant = constant & (value == 0)
    return value, constant & value.isfinite()


def _pads_with_zeros(layer: nn.Conv2d) -> bool:
    if layer.padding_mode != "zeros" or layer.padding == "valid":
        return False
    if layer.padding == "same":
        return any(size > 1 for size in layer.kernel_size)
    return any(p != 0 for p in layer.padding)


def _fold(layer: nn.Linear | nn.Conv2d, inputs: Tensor, value: Tensor) -> None:
    """Add what constant inputs contribute to the bias."""
    weight = layer.weight[:, inputs].to(value.dtype)
    added = weight.reshape(*weight.shape[:2], -1).sum(-1) @ value[inputs]
    held = layer.weight if layer.bias is None else layer.bias
    new = added if layer.bias is None else layer.bias + added
    layer.bias = nn.Parameter(new.to(layer.weight.dtype), requires_grad=held.requires_grad)


def _slice(module: nn.Module, dim: int, keep: Tensor, *names: str, count: str) -> None:
    """Keep some channels of a module's tensors; the number of them is renewed."""
    for name in names:
        old = getattr(module, name)
        if old is not None:
            new = old.detach().index_select(dim, keep)
            if isinstance(old, nn.Parameter):
                new = nn.Parameter(new, requires_grad=old.requires_grad)
            setattr(module, name, new)
    unit = "channels" if isinstance(module, nn.Conv2d) else "features"
    setattr(module, f"{count}_{unit}", len(keep))


def _left(model: nn.Module, found: Graph) -> list[dict[str, Any]]:
    """The dead rows and columns that are still there, and why."""
    fed = {link.second_name: link.first for link in found.links.values()}
    left = []
    for name, module in model.named_modules():
        if not isinstance(module, (nn.Linear, nn.Conv2d)) or not module.weight.numel():
            continue
        why = found.stay.get(name, "forward does not call it as a plain layer")
        if name in found.links:
            why = _ONE if len(module.weight) == 1 else _PADDED
        reasons = {"outputs": why, "inputs": "no layer alone gives its inputs"}
        if name in fed:
            reasons["inputs"] = _ONE if len(fed[name].weight) == 1 else _PARTLY
        elif layer := found.read_by.get(name):
            stays = found.stay.get(layer, "it is linked elsewhere")
            reasons["inputs"] = f"{layer} stays: {stays}"
        for dim, (side, reason) in enumerate(reasons.items()):
            dead = int(dead_slices(module.weight, dim).sum())
            # With groups dimension 1 is not the input channels.
            if dead and (side == "outputs" or getattr(module, "groups", 1) == 1):
                left.append({"layer": name, "side": side, "dead": dead, "reason": reason})
    return left
