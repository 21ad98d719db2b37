"""Checking on a real batch that replaying the stages is the same as calling the model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from cyclade.optim._trees import pytree
from cyclade.optim.stages import effects
from cyclade.optim.stages.chain import CUT, Chain, Cut, Replay
from cyclade.optim.stages.inputs import Inputs, map_leaves, without_objects
from cyclade.optim.stages.preserve import Keep, preserved
from cyclade.optim.stages.stage import Env

_DIFFERENT = "the stages do not compute what the model computes"
_ADVICE = "Give stages=, or step with a closure"
_SAME_KERNELS = 1e2  # how far apart, in units of rounding, two runs of one kernel may be
OTHER_KERNELS = 1e4  # and runs of different ones


def same(a: Any, b: Any, *, loose: float = 0, scale: float = 0.0) -> bool:
    """Whether (nested) values are equal, or up to `loose` roundings of the largest or `scale`."""
    left, left_spec = pytree.tree_flatten(a)
    right, right_spec = pytree.tree_flatten(b)
    if len(left) != len(right) or left_spec != right_spec:
        return False
    return all(_same_leaf(x, y, loose, scale) for x, y in zip(left, right, strict=True))


def _same_leaf(x: Any, y: Any, loose: float, scale: float = 0.0) -> bool:
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        if x.shape != y.shape or x.dtype != y.dtype:
            return False
        if loose and (x.is_floating_point() or x.is_complex()):
            tolerance = min(loose * torch.finfo(x.dtype).eps, 0.05)
            size = max(float(x.abs().max()), scale) if x.numel() else 0.0
            return torch.allclose(x, y, rtol=tolerance, atol=tolerance * size, equal_nan=True)
        return bool(((x == y) | ((x != x) & (y != y))).all())
    if x is y or isinstance(x, Cut):
        return x is y
    if getattr(type(x), "__eq__", None) is object.__eq__:
        # Nothing to compare by: objects made anew in each run.
        return type(x) is type(y)
    return bool(x == y)


def _copy(value: Any) -> Any:
    """Fresh tensors, because a model may write to its inputs."""

    def copied(v: Any) -> Any:
        return v.detach().clone().requires_grad_(v.requires_grad) if isinstance(v, Tensor) else v

    return map_leaves(copied, value)


def _copied(inputs: Inputs) -> Inputs:
    return Inputs(_copy(tuple(inputs.args)), _copy(dict(inputs.kwargs)))


def _called(chain: Chain, inputs: Inputs) -> Any:
    """What the model returns; where it was exported, without what an export cannot describe."""
    fresh = _copied(inputs)
    output = chain.model(*fresh.args, **fresh.kwargs)
    return without_objects(output) if chain.how == "export" else output


def _buffers(model: nn.Module) -> dict[str, Tensor]:
    return {name: b.detach().clone() for name, b in model.named_buffers()}


def verify(chain: Chain, inputs: Inputs, *, briefly: bool = False) -> None:
    """Compare the stages with the model and with themselves on a real batch, bit for bit.

    With `briefly` they run once each, and only what they return is compared. Raises a ValueError
    that names the first stage that differs. Model and random generators are left as they were.
    """
    model = chain.model
    differentiates = chain.how == "whole"  # its forward may do so itself
    with chain.eager(), preserved(model) as keep, torch.set_grad_enabled(differentiates):
        expected = _copy(_called(chain, inputs))
        if briefly and chain.random:
            return
        if briefly:
            keep.everything()
            env = chain.run(_copied(inputs), dict(model.named_parameters()))
            if not same(chain.output(env), expected, loose=OTHER_KERNELS):
                raise ValueError(f"{_DIFFERENT} for a batch of this size. {_ADVICE}")
            return
        moved = _buffers(model)
        loose = _check_repeatable(chain, inputs, keep, expected)
        keep.everything()
        env = _run(chain, inputs, loose)
        if chain.how == "export":
            # Models choose other kernels while exported (transformers: other attention masks).
            loose = OTHER_KERNELS
        if not same(chain.output(env), expected, loose=loose):
            keep.everything()
            if chain.how == "export" and chain.random:
                # Other kernels draw other masks, too; without any, the stages must agree.
                model.eval()  # for now
                expected = _called(chain, inputs)
                if not same(chain.output(_run(chain, inputs, 0)), expected, loose=OTHER_KERNELS):
                    raise ValueError(f"{_DIFFERENT}, not even in eval mode. {_ADVICE}")
                return
            raise ValueError(f"{_DIFFERENT}. {_ADVICE}")
        now = _buffers(model)
        for name, value in moved.items():
            if not same(value, now[name], loose=loose):
                raise ValueError(
                    f"the stages leave the buffer {name!r} other than the model does: its module "
                    "keeps a state that cannot be repeated"
                )


def _check_repeatable(chain: Chain, inputs: Inputs, keep: Keep, expected: Any) -> float:
    """Refuse a model that depends on stored Python state; how loose comparisons must be."""
    changed = keep.changed()
    keep.tensors()
    again = _called(chain, inputs)
    if same(again, expected):
        return 0
    if not changed and same(again, expected, loose=_SAME_KERNELS):
        return _SAME_KERNELS
    what = f" (forward changes {', '.join(changed)})" if changed else ""
    raise ValueError(
        f"two calls of {type(chain.model).__name__} on the same batch differ, with the same "
        f"buffers and random state{what}: it keeps Python state that no replay can repeat"
    )


def _run(chain: Chain, inputs: Inputs, loose: float) -> Env:
    """Run every stage twice in one replay, comparing."""
    env = chain.start(_copied(inputs))
    replay = Replay()
    # torch may take another kernel for a detached weight, even without gradients.
    own = dict(chain.model.named_parameters())
    for i, stage in enumerate(env[CUT].stages):
        before = effects.save_rng(list(env.values()))
        given = _copy(env)
        after = replay.run(i, env, own)
        stage.drew = not effects.same_rng(before, effects.save_rng(list(before)))
        live = [slot.get().detach().clone() for slot in stage.state]
        name = f"stage {i} ({stage.name!r})"
        feeding = [slot for slot in stage.state if slot not in stage.idle]
        with effects.repeated(before):  # with the buffers as they stand now
            begun_now = Replay().run(i, env, own, live=False) if feeding else after
        if not same(begun_now, after, loose=loose):
            raise ValueError(
                f"{name} changes a buffer that its own output depends on (one of "
                f"{', '.join(repr(slot.name) for slot in feeding)}), so its replays would differ: "
                "put that module in eval mode, or step with a closure"
            )
        again = replay.run(i, env, own)
        if not same(env, given):
            raise ValueError(f"{name} writes to the values it is given, which no replay survives")
        if not same(after, again, loose=loose):
            raise ValueError(
                f"{name} differs when it is run again on the same batch: it keeps a state that "
                "cannot be repeated. Put it in eval mode, or step with a closure"
            )
        if not same(live, [slot.get() for slot in stage.state]):
            raise ValueError(f"{name} moves its buffers again when it is replayed")
        env = after
    return env
