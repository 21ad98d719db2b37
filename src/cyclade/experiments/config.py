"""What a run is: a small typed config, read from and written to TOML."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from cyclade._checks import meant
from cyclade.experiments import METHODS
from cyclade.experiments.datasets import find, names
from cyclade.experiments.errors import ConfigError, FolderError
from cyclade.files.disk import as_toml, read_toml
from cyclade.sampling.orders import ORDERS as _ORDERS

CURVATURE_DAMPING = 10.0
"""Λ_j = L_j + this. At its start a net is nearly flat (L_j about 0.01 on LeNets), and some tens of
cycles later L_j is in the tens: steps of η/L_j alone leave the region where L_j was measured."""
ONE_BLOCK = ("SGD", "PAGE")
RECURSIVE = ("PAGE", "VRO-CCD", "VR-CCD")
ORDERS = tuple(_ORDERS)
MOST = 1_000_000
"""Epochs or seeds."""
TIMED_BY = ("dataset", "method", "spectral", "precondition", "order", "blocks", "batch")
"""The keys that bear on time: a row of ``timing.json`` repeats them."""


# ------------------------------------------------------------------------ what each key accepts

SEEDS = 2**63 - 1
"""The largest seed: what TOML and torch can hold."""
BATCH = 2**31 - 1
THREADS = 256
"""The most CPU threads: far more make torch crash."""
_TYPES: dict[str, tuple[type, ...]] = {"text": (str,), "integer": (int,), "number": (int, float)}
_TYPES |= {"boolean": (bool,), "list": (list, tuple)}


@dataclass(frozen=True)
class Key:
    """A key of the config: its kind, what it means, what it accepts, in words and as code.

    `usual` says where the default comes from, if that is not one value; `choices` are the words
    that are accepted, if there are only these.
    """

    kind: str
    meaning: str
    accepted: str
    fits: Callable[[Any], bool] = lambda value: True
    usual: str = ""
    optional: bool = False
    choices: tuple[str, ...] = ()

    def read(self, value: Any) -> Any:
        """The value that a user meant; ValueError for what is not accepted."""
        if self.optional and str(value).lower() == "none":
            return None
        types = sum((_TYPES[one] for one in self.kind.split(" or ")), ())
        right = isinstance(value, types) and isinstance(value, bool) == (self.kind == "boolean")
        finite = not isinstance(value, float) or math.isfinite(value)
        if not right or not finite or not self.fits(value):
            raise ValueError
        if self.kind == "number":
            return float(value)
        return tuple(value) if isinstance(value, list) else value


def _key(default: Any, kind: str, meaning: str, accepted: str, *about: Any, **more: Any) -> Any:
    return field(default=default, metadata={"key": Key(kind, meaning, accepted, *about, **more)})


def _choice(default: str | None, meaning: str, *choices: str | None) -> Any:
    words = ", ".join("none" if one is None else repr(one) for one in choices)
    named = tuple(one for one in choices if one is not None)
    more = {"optional": None in choices, "choices": named}
    return _key(default, "text", meaning, f"one of {words}", choices.__contains__, **more)


def _integer(default: Any, meaning: str, least: int, most: int, **more: Any) -> Any:
    words = f"an integer from {least} to {most}" + (", or none" if "optional" in more else "")
    return _key(default, "integer", meaning, words, lambda v: least <= v <= most, **more)


def _number(
    default: Any, meaning: str, words: str, fits: Callable[[Any], bool], **more: Any
) -> Any:
    return _key(default, "number", meaning, f"a number {words}", fits, **more)


def _switch(default: bool, meaning: str) -> Any:
    return _key(default, "boolean", meaning, "true or false")


def _all_of(value: Any, kind: type) -> bool:
    return bool(value) and all(isinstance(v, kind) and not isinstance(v, bool) for v in value)


# ------------------------------------------------------------------------------------- the config


@dataclass(frozen=True)
class RunConfig:
    """One training run. Everything that its result depends on is here, and nothing else.

    `keys` says what each key means and accepts; ``cyclade config`` prints it. `lr`, `batch`
    and `b_small` default to those of the data set and the method, and are part of the config once
    it is made: to change the method or the data set of a config, make it anew.

    Example
    -------
    >>> config = RunConfig(method="VRO-CCD", lr=0.005)
    >>> print(config.to_toml().splitlines()[1])
    method = "VRO-CCD"
    >>> RunConfig.from_toml(config.to_toml()) == config
    True
    """

    dataset: str = "digits"
    method: str = _choice("SCCD", "the algorithm", *METHODS)
    lr: float = _number(
        None, "the initial learning rate", "above 0", lambda v: v > 0, usual="by dataset and method"
    )
    schedule: str = _choice(
        "cosine", "cosine takes lr to 0 over the run, step by step", "cosine", "constant"
    )
    batch: int = _integer(None, "b, the images of a step", 1, BATCH, usual="by dataset and method")
    b_small: int | None = _integer(
        None, "b' of the recursive methods", 1, BATCH, usual="by dataset, else ⌊√b⌋", optional=True
    )
    p: float | None = _number(
        None, "the chance of a large batch in the recursive methods", "in (0, 1], or none",
        lambda v: 0 < v <= 1, usual="none: b'/(b + b')", optional=True,
    )  # fmt: skip
    epochs: int = _integer(100, "passes over the training images; a small step counts b'", 1, MOST)
    weight_decay: float = _number(5e-4, "as in cyclade.optim", "of at least 0", lambda v: v >= 0)
    momentum: float = _number(0.0, "as in cyclade.optim", "in [0, 1)", lambda v: 0 <= v < 1)
    order: str | tuple[int, ...] = _key(
        "forward",
        "text or list",
        "of the blocks of the cyclic methods",
        f"one of {', '.join(map(repr, ORDERS))}, or a list of block numbers",
        lambda v: v in ORDERS if isinstance(v, str) else _all_of(v, int),
        choices=ORDERS,
    )
    blocks: int | tuple[str, ...] | None = _key(
        None,
        "integer or list",
        "of the cyclic methods; a number merges layers by cost",
        "a number of blocks, a list of layer names, or none",
        lambda v: v >= 1 if isinstance(v, int) else _all_of(v, str),
        "none: one per layer",
        optional=True,
    )
    precondition: str | None = _choice(
        None, "Λ_j, by which the steps of block j are divided", None, "curvature", "adam"
    )
    spectral: str | None = _choice(
        None,
        "divide the steps of fully connected layers by σ(W_j); those of convolutions, too; or "
        "train W/σ(W)",
        *(None, "step", "step-all", "reparam"),
    )
    seed: int = _integer(0, "of the initial weights, the batches and random orders", 0, SEEDS)
    held_out: float = _number(
        0.0,
        "the share of the training images kept back, to choose parameters on",
        "in [0, 1)",
        lambda v: 0 <= v < 1,
    )
    device: str = _key(
        "auto",
        "text",
        "where to train; auto: CUDA if it is there",
        "'auto', 'cpu', 'cuda' or 'cuda:N'",
        lambda v: v in ("auto", "cpu", "cuda") or (v[:5] == "cuda:" and v[5:].isdecimal()),
    )
    capture: bool = _switch(True, "on CUDA, a cycle is captured as one graph")
    compile: bool = _switch(
        False, "torch.compile the stages: faster steps after a wait at the start"
    )
    tf32: bool = _switch(True, "on CUDA, TF32 in matrix products (never in convolutions)")
    threads: int = _integer(1, "CPU threads; sums depend on them", 1, THREADS)

    def __post_init__(self) -> None:
        for name, key in keys().items():
            value = getattr(self, name)
            if value is None and name in ("lr", "batch", "b_small"):
                value = self._usual(name)  # dataset, method and batch are read by now
            try:
                object.__setattr__(self, name, key.read(value))
            except ValueError as error:
                hint = meant(value, key.choices) if isinstance(value, str) else ""
                raise ConfigError(f"{name} must be {key.accepted}, got {value!r}{hint}") from error
        self._check_together()

    def _usual(self, name: str) -> Any:
        info = find(self.dataset)
        if name == "b_small":
            return info.b_small_of(self.method, self.batch)
        return (info.batch_of if name == "batch" else info.learning_rate)(self.method)

    def _check_together(self) -> None:
        if self.method not in RECURSIVE:
            for key in ("b_small", "p"):
                if getattr(self, key) is not None:
                    raise ConfigError(
                        f"{key} is for {', '.join(RECURSIVE)} only, the method is {self.method}"
                    )
        if self.b_small is not None and self.b_small > self.batch:
            raise ConfigError(f"b_small must be at most batch = {self.batch}, got {self.b_small}")
        if self.method in ONE_BLOCK and (self.blocks is not None or self.order != "forward"):
            key = "order" if self.blocks is None else "blocks"
            raise ConfigError(f"{key} has no meaning for {self.method}, which moves one block")
        if self.method == "VR-CCD" and self.order == "greedy":
            raise ConfigError("order = 'greedy' does not fit VR-CCD: its blocks see other batches")
        if self.spectral in ("step", "step-all") and self.precondition is not None:
            raise ConfigError(
                f"spectral = {self.spectral!r} is itself a precondition: give one of the two, not "
                "both"
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunConfig:
        """A config from keys and values; an unknown key is an error."""
        known = [field.name for field in fields(cls)]
        for key in values:
            if key not in known:
                hint = meant(key, known)
                raise ConfigError(f"unknown key {key!r}: {', '.join(known)} are accepted{hint}")
        return cls(**values)

    @classmethod
    def from_toml(cls, text: str) -> RunConfig:
        """A config from TOML."""
        try:
            values = as_toml(text)
        except ValueError as error:
            raise ConfigError(f"not TOML: {error}") from error
        return cls.from_dict(values)

    @classmethod
    def read(cls, path: str | Path, changes: Mapping[str, Any] | None = None) -> RunConfig:
        """A config from a TOML file, with some values replaced."""
        try:
            values = read_toml(Path(path))
        except FileNotFoundError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
        except FolderError as error:
            raise ConfigError(str(error)) from error
        try:
            return cls.from_dict({**values, **(changes or {})})
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error

    def to_toml(self) -> str:
        """One line per key; a key that is None is left out, as TOML has no word for it."""
        return "".join(
            f"{key} = {json.dumps(value, ensure_ascii=False)}\n"
            for key, value in asdict(self).items()
            if value is not None
        )

    @property
    def recursive(self) -> bool:
        """Whether the method carries an estimate of the gradient from step to step."""
        return self.method in RECURSIVE

    def differences(self, other: RunConfig) -> list[str]:
        """The keys in which two runs differ; the device does not count."""
        mine, theirs = asdict(self), asdict(other)
        return [key for key in mine if key != "device" and mine[key] != theirs[key]]

    @property
    def identity(self) -> str:
        """A digest of everything but the device: the same for two configs of the same run."""
        keys = {key: value for key, value in asdict(self).items() if key != "device"}
        return hashlib.sha256(repr(sorted(keys.items())).encode()).hexdigest()

    def slug(self) -> str:
        """A name for a folder: readable, and different for different runs."""
        digest = self.identity[:8]
        spectral = f"-{self.spectral}" if self.spectral else ""
        return f"{self.dataset}-{self.method}{spectral}-lr{self.lr:g}-seed{self.seed}-{digest}"


def value_of(text: str) -> Any:
    """The value in ``key=value`` of a command line: TOML, or else the bare text."""
    try:
        return as_toml(f"value = {text}")["value"]
    except ValueError:
        return text


def keys() -> dict[str, Key]:
    """Every key of the config; the data sets are those that there are now."""
    found = {one.name: one.metadata.get("key") for one in fields(RunConfig)}
    dataset = _choice(None, "what is learnt, with the network for it", *names())
    return {**found, "dataset": dataset.metadata["key"]}
