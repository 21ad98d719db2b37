"""Models that others wrote are cut without being asked, and a cycle on them is affordable.

They need torchvision, timm or transformers; docs/benchmarks/nets.md has the table of more.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from cyclade.optim import SCCD

WIDE: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
    "vocab_size": 60,
}  # fmt: skip
MODELS: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "GPT-2": ("GPT2LMHeadModel", "GPT2Config", {
        "n_layer": 2, "n_embd": 32, "n_head": 2, "vocab_size": 60, "bos_token_id": 0,
        "eos_token_id": 0}, "tokens"),
    "Llama": ("LlamaForCausalLM", "LlamaConfig", {"num_key_value_heads": 2, **WIDE}, "tokens"),
    "BERT": ("BertForSequenceClassification", "BertConfig", WIDE, "classes"),
    "T5": ("T5ForConditionalGeneration", "T5Config", {
        "num_layers": 1, "d_model": 32, "d_kv": 16, "d_ff": 64, "num_heads": 2, "vocab_size": 60,
        "decoder_start_token_id": 0, "pad_token_id": 0}, "tokens"),
}  # fmt: skip


def check(opt: Any, inputs: Any, target: Any, how: str) -> None:
    before = {n: p.detach().clone() for n, p in opt.net.parameters.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # nothing falls to a dearer route
        opt.step(inputs, target)
    assert opt.net.chain.how == how
    assert opt.net.m > 1
    assert opt.predicted_overhead <= 2.0
    moved = [n for n, p in opt.net.parameters.items() if not torch.equal(before[n], p)]
    assert len(moved) > 0.8 * len(before)  # dead units may leave a few where they are


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("name", MODELS)
def test_language_models(name: str) -> None:
    """Their outputs hold caches, and only torch.export follows them, on the first batch."""
    transformers = pytest.importorskip("transformers")
    model, config, options, kind = MODELS[name]
    torch.manual_seed(0)
    net = getattr(transformers, model)(getattr(transformers, config)(**options))
    ids = torch.arange(1, 33).reshape(2, 16) + 20
    labels = ids if kind == "tokens" else torch.tensor([0, 1])
    check(SCCD(net, lr=0.5), {"input_ids": ids, "labels": labels}, None, "export")


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "squeezenet1_1"])
def test_vision_models(name: str) -> None:
    models = pytest.importorskip("torchvision").models
    torch.manual_seed(0)
    opt = SCCD(models.get_model(name, num_classes=5), F.cross_entropy, lr=0.1)
    check(opt, torch.randn(4, 3, 64, 64), torch.tensor([0, 1, 2, 3]), "fx")
