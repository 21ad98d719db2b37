"""The separable r of a net: weight decay as the prox it is, and regularisers on chosen weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

from cyclade.optim.cycle.adam import AdamStep
from cyclade.optim.cycle.steps import NetSteps
from cyclade.optim.net import Net
from cyclade.optim.options import GroupOptions
from cyclade.regularisers import Regulariser, Zero
from cyclade.regularisers.joined import Joined


class NetProx:
    """r^j(u) = (wd_j / 2) ‖u‖² + Σ r_i over the block's regularised parameters.

    Both at once is exact: the prox of the sum with step t is the prox of the second with step
    t / (1 + t·wd), at u / (1 + t·wd).
    """

    def __init__(self, regs: list[Regulariser], options: GroupOptions, steps: NetSteps) -> None:
        self.regs, self._options, self._steps = regs, options, steps
        self._plain = [isinstance(reg, Zero) for reg in regs]
        self.plain = all(self._plain)  # weight decay alone

    def prox(self, j: int, u: Any, t: Any) -> Any:
        """The prox of r^j; AdamW's step has the decay in it."""
        if isinstance(t, AdamStep):
            if self._plain[j]:
                return u
            t = t.diagonal()
        else:
            shrink = self._options.shrink(j, t, self._steps.used.get(j))
            if shrink is not None:
                u = u / shrink
                t = t if self._plain[j] else t / shrink
        if self._plain[j] or (isinstance(t, float) and t == 0.0):  # a step of zero moves nothing
            return u
        z: Tensor = self.regs[j].prox(u, t)
        return z


def net_regularisers(
    reg: Regulariser | Mapping[str, Regulariser] | None, net: Net
) -> list[Regulariser]:
    """One regulariser a block.

    A single `reg` acts on every parameter with at least two dimensions (weights, not biases or
    normalisation scales); a mapping names parameters, or modules whose weights are meant.
    """
    chosen: dict[str, Regulariser] = {}
    if isinstance(reg, Mapping):
        for key, one in reg.items():
            _require(one, f"reg[{key!r}]")
            found = _named(net, key)
            inside = [name for name in found if name == key or _is_weight(net, name)]
            if not inside:
                raise ValueError(
                    f"reg names {key!r}, which has no trained weight (a parameter with two or more "
                    "dimensions): name parameters, or modules with weights"
                )
            chosen.update(dict.fromkeys(inside, one))
    elif reg is not None:
        _require(reg, "reg")
        chosen = dict.fromkeys([name for name in _trained(net) if _is_weight(net, name)], reg)
    return [_of_block(net, j, chosen) for j in range(net.m)]


def no_decay_names(no_decay: str | Iterable[str], net: Net) -> set[str]:
    """The trained parameters that never decay: "biases" are all that are not weights."""
    if no_decay == "biases":
        return {name for name in _trained(net) if not _is_weight(net, name)}
    if isinstance(no_decay, str):
        raise ValueError(
            f"no_decay={no_decay!r}: 'biases' (all parameters with fewer than two dimensions), or "
            "a list of parameter or module names"
        )
    found: set[str] = set()
    for key in no_decay:
        inside = _named(net, key)
        if not inside:
            raise ValueError(f"no_decay names {key!r}, which has no trained parameter")
        found.update(inside)
    return found


def _trained(net: Net) -> list[str]:
    return [name for block in net.blocks for name in block.params]


def _named(net: Net, key: str) -> list[str]:
    """The trained parameters of this name, or of the module of this name."""
    modules = dict(net.model.named_modules())
    owned = {id(p) for p in modules[key].parameters()} if key in modules else set()
    return [name for name in _trained(net) if name == key or id(net.parameters[name]) in owned]


def _of_block(net: Net, j: int, chosen: Mapping[str, Regulariser]) -> Regulariser:
    parts, start = [], 0
    for name in net.blocks[j].params:
        shape = tuple(net.parameters[name].shape)
        size = net.parameters[name].numel()
        if name in chosen:
            chosen[name].check(shape, f"reg (for {name})")
            parts.append((slice(start, start + size), shape, chosen[name]))
        start += size
    return Joined(parts) if parts else Zero()


def _is_weight(net: Net, name: str) -> bool:
    return net.parameters[name].dim() >= 2


def _require(reg: Any, label: str) -> None:
    if not isinstance(reg, Regulariser):
        raise TypeError(f"{label} must be a Regulariser, got {type(reg).__name__}")
