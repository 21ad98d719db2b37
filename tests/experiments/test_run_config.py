"""Configs: TOML there and back, and errors that name the key and what is accepted."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from cyclade.experiments import ConfigError, RunConfig
from cyclade.experiments.config import keys, value_of

CONFIGS = [
    RunConfig(),
    RunConfig(dataset="cifar10", method="VRO-CCD", lr=0.005, b_small=30, p=0.125, device="cuda:1"),
    RunConfig(method="SCCD", order=(2, 0, 1), blocks=("conv1", "fc1"), capture=False),
    RunConfig(method="SGD", spectral="reparam", precondition="adam", held_out=0.1, blocks=None),
    RunConfig(method="VR-CCD", order="shuffled", blocks=3, spectral="step", lr=1e-30),
]


@pytest.mark.parametrize("config", CONFIGS)
def test_toml_there_and_back(config: RunConfig, tmp_path: Path) -> None:
    assert RunConfig.from_toml(config.to_toml()) == config
    (tmp_path / "c.toml").write_text(config.to_toml())
    assert RunConfig.read(tmp_path / "c.toml") == config
    assert hash(config) == hash(RunConfig.from_toml(config.to_toml()))


def test_every_key_is_checked() -> None:
    assert list(keys()) == [field.name for field in fields(RunConfig)]


@pytest.mark.parametrize(
    ("key", "value", "accepted"),
    [
        ("dataset", "imagenet", "one of 'cifar10', 'digits', 'fashion-mnist', 'mnist'"),
        ("method", "ADAM", "one of 'SGD', 'SCCD', 'PAGE', 'VRO-CCD', 'VR-CCD'"),
        ("lr", "fast", "a number above 0"),
        ("lr", 0, "a number above 0"),
        ("lr", True, "a number above 0"),
        ("lr", float("nan"), "a number above 0"),
        ("schedule", "linear", "one of 'cosine', 'constant'"),
        ("batch", 0, "an integer from 1 to"),
        ("batch", 64.0, "an integer from 1 to"),
        ("epochs", -1, "an integer from 1 to"),
        ("b_small", 0, "an integer from 1 to 2147483647, or none"),
        ("p", 0, "a number in (0, 1], or none"),
        ("p", 1.5, "a number in (0, 1], or none"),
        ("weight_decay", -1e-9, "a number of at least 0"),
        ("momentum", 1, "a number in [0, 1)"),
        ("order", "upward", "or a list of block numbers"),
        ("order", ["conv1"], "or a list of block numbers"),
        ("blocks", 0, "a number of blocks, a list of layer names, or none"),
        ("blocks", "conv1", "a number of blocks, a list of layer names, or none"),
        ("precondition", "spectral", "one of none, 'curvature', 'adam'"),
        ("spectral", "both", "one of none, 'step', 'step-all', 'reparam'"),
        ("seed", -1, "an integer from 0 to 9223372036854775807"),
        ("held_out", 1, "a number in [0, 1)"),
        ("device", "tpu", "'auto', 'cpu', 'cuda' or 'cuda:N'"),
        ("device", "cuda:x", "'auto', 'cpu', 'cuda' or 'cuda:N'"),
        ("capture", 1, "true or false"),
        ("threads", 0, "an integer from 1 to 256"),
        ("threads", 100_000, "an integer from 1 to 256"),
        ("epochs", 10**9, "an integer from 1 to 1000000"),
    ],
)
def test_wrong_values(key: str, value: Any, accepted: str) -> None:
    with pytest.raises(ConfigError, match=f"^{key} must be .*{re.escape(accepted)}"):
        RunConfig.from_dict({"method": "VRO-CCD", key: value})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"method": "SGD", "p": 0.5}, "p is for PAGE, VRO-CCD, VR-CCD only, the method is SGD"),
        ({"method": "SCCD", "b_small": 3}, "b_small is for PAGE"),
        ({"method": "PAGE", "batch": 4, "b_small": 5}, "b_small must be at most batch = 4, got 5"),
        ({"method": "PAGE", "order": "backward"}, "order has no meaning for PAGE"),
        ({"method": "SGD", "blocks": 2}, "blocks has no meaning for SGD"),
        ({"method": "VR-CCD", "order": "greedy"}, "'greedy' does not fit VR-CCD"),
        ({"spectral": "step", "precondition": "adam"}, "give one of the two, not both"),
        ({"learning_rate": 0.1}, "unknown key 'learning_rate': dataset, method, lr, "),
    ],
)
def test_values_that_do_not_go_together(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        RunConfig.from_dict(values)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    with pytest.raises(ConfigError, match=r"c.toml cannot be read: No such file"):
        RunConfig.read(file)
    file.write_text("lr = = 1")
    with pytest.raises(ConfigError, match=r"c.toml is not TOML"):
        RunConfig.read(file)
    file.write_text("rate = 1")
    with pytest.raises(ConfigError, match=r"c.toml: unknown key 'rate'"):
        RunConfig.read(file)
    with pytest.raises(ConfigError, match="not TOML"):
        RunConfig.from_toml("[")


def test_values_on_the_command_line() -> None:
    texts = ["0.1", "3", "SCCD", '"SCCD"', "true", "[1, 0]", "none", "VRO-CCD", ""]
    values = [0.1, 3, "SCCD", "SCCD", True, [1, 0], "none", "VRO-CCD", ""]
    assert [value_of(text) for text in texts] == values
    assert RunConfig.from_dict({"spectral": "none", "blocks": "none"}) == RunConfig()


def test_names_tell_runs_apart() -> None:
    slugs = {config.slug() for config in CONFIGS}
    assert len(slugs) == len(CONFIGS)
    assert replace(CONFIGS[0], device="cpu").slug() == CONFIGS[0].slug()
    assert replace(CONFIGS[0], weight_decay=0.0).slug() != CONFIGS[0].slug()
    assert CONFIGS[0].differences(replace(CONFIGS[0], lr=0.3, seed=3)) == ["lr", "seed"]


def test_the_defaults_are_those_of_the_data_set() -> None:
    for values, wanted in (
        ({"method": "PAGE"}, (32, 16, 0.06)),
        ({"method": "PAGE", "dataset": "cifar10"}, (512, None, 0.005)),
        ({"method": "VR-CCD"}, (16, 8, 0.1)),
        ({"method": "PAGE", "batch": 8, "lr": 0.3}, (8, 4, 0.3)),
    ):
        config = RunConfig.from_dict(values)
        assert (config.batch, config.b_small, config.lr) == wanted
