"""How models of torchvision, timm and transformers are cut, and what a cycle on them costs.

    python benchmarks/net_routes.py            # every family that is installed
    python benchmarks/net_routes.py resnet18   # or models by name

For each model, without pretrained weights and without an example: one step on a small batch, the
route that the proof settled on, the stages, and the blocks and predicted cost (multiply-adds, in
SGD steps) by default, under max_overhead=1.5 and with one block per layer.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from cyclade.optim import SCCD
from tables import line, table

Case = tuple[Callable[[], Any], Callable[[], tuple[Any, Any]], Any]

VISION = (
    "alexnet", "vgg11", "resnet18", "resnet50", "resnext50_32x4d", "wide_resnet50_2",
    "densenet121", "squeezenet1_1", "mobilenet_v2", "mobilenet_v3_small", "shufflenet_v2_x0_5",
    "mnasnet0_5", "efficientnet_b0", "regnet_y_400mf", "convnext_tiny", "vit_b_16", "swin_t",
)  # fmt: skip
TIMM = ("resnet26", "efficientnet_lite0", "mixer_s32_224", "deit_tiny_patch16_224")
SMALL: dict[str, Any] = {"vocab_size": 60}


def images(size: int) -> Callable[[], tuple[Any, Any]]:
    """Two random images and their classes."""
    return lambda: (torch.randn(2, 3, size, size), torch.tensor([0, 1]))


def tokens(labels: bool) -> Callable[[], tuple[Any, Any]]:
    """Random tokens that are their own labels, or classes."""

    def make() -> tuple[Any, Any]:
        ids = torch.randint(1, 60, (2, 16))
        return {"input_ids": ids, "labels": ids if labels else torch.tensor([0, 1])}, None

    return make


def cases() -> dict[str, Case]:
    """Every model whose package is installed."""
    found: dict[str, Case] = {}
    if importlib.util.find_spec("torchvision"):
        from torchvision import models

        for name in VISION:
            found[name] = (lambda n=name: models.get_model(n), images(224), F.cross_entropy)  # type: ignore[misc]
    if importlib.util.find_spec("timm"):
        import timm

        for name in TIMM:
            found[f"timm {name}"] = (
                lambda n=name: timm.create_model(n),
                images(224),
                F.cross_entropy,
            )  # type: ignore[misc]
    if importlib.util.find_spec("transformers"):
        import transformers as tf

        def build(model: str, config: str, **options: Any) -> Callable[[], Any]:
            return lambda: getattr(tf, model)(getattr(tf, config)(**SMALL, **options))

        wide: dict[str, Any] = {
            "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2,
            "intermediate_size": 64,
        }  # fmt: skip
        found |= {
            "GPT-2": (
                build("GPT2LMHeadModel", "GPT2Config", n_layer=3, n_embd=32, n_head=2,
                      bos_token_id=0, eos_token_id=0),
                tokens(True), None,
            ),
            "Llama": (
                build("LlamaForCausalLM", "LlamaConfig", num_key_value_heads=2, **wide),
                tokens(True), None,
            ),
            "BERT": (
                build("BertForSequenceClassification", "BertConfig", **wide), tokens(False), None,
            ),
            "T5": (
                build("T5ForConditionalGeneration", "T5Config", num_layers=2, d_model=32, d_kv=16,
                      d_ff=64, num_heads=2, decoder_start_token_id=0, pad_token_id=0),
                tokens(True), None,
            ),
        }  # fmt: skip
    return found


def row(name: str, case: Case) -> str:
    """One line of the table."""
    make, batch, loss_fn = case
    torch.manual_seed(0)
    model, (inputs, target) = make(), batch()
    opt = SCCD(model, loss_fn, lr=1e-6)
    opt.step(inputs, target)
    cells = [name, opt.net.chain.how, str(len(opt.net.chain.stages))]
    # For the others the price is enough: a step would cost it.
    tight = SCCD(model, loss_fn, lr=1e-6, example=inputs, max_overhead=1.5)
    layers = SCCD(model, loss_fn, lr=1e-6, example=inputs, blocks="layers")
    for one in (opt, tight, layers):
        cells += [str(one.net.m), f"{one.predicted_overhead:.2f}"]
    return line(cells)


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    chosen = cases()
    for name in sys.argv[1:]:
        if name not in chosen:
            raise SystemExit(f"{name!r} is not among {', '.join(chosen)}")
    print(
        table(
            [
                "model",
                "cut by",
                "stages",
                "blocks",
                "cost",
                "blocks ≤ 1.5",
                "cost",
                "layers",
                "cost",
            ]
        )
    )
    for name in sys.argv[1:] or chosen:
        print(row(name, chosen[name]), flush=True)


if __name__ == "__main__":
    main()
