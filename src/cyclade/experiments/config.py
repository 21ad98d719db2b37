"""What a run is: a small typed config, read from and written to TOML."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from cyclade.experiments.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

METHODS = ("SGD", "SCCD", "PAGE", "VRO-CCD", "VR-CCD")
ONE_BLOCK = ("SGD", "PAGE")
RECURSIVE = ("PAGE", "VRO-CCD", "VR-CCD")
ORDERS = ("forward", "backward", "shuffled", "random", "greedy")


@dataclass(frozen=True)
class RunConfig:
    """One training run. Everything that its result depends on is here, and nothing else.

    Parameters
    ----------
    dataset:
        "digits", "mnist" or "cifar10", each with its LeNet.
    method:
        "SGD", "SCCD", "PAGE", "VRO-CCD" or "VR-CCD".
    lr, schedule:
        The initial learning rate; "cosine" takes it to 0 over the whole run, step by step.
    batch, b_small, p:
        b; and for the recursive methods b' (default ⌊√b⌋) and p (default b'/(b + b')).
    epochs:
        Passes over the training images as the paper counts them: a small step is b' samples.
    weight_decay, momentum:
        As in `cyclade.optim`.
    order, blocks:
        Of the cyclic methods; None is one block per layer, a number merges layers by cost.
    precondition, spectral:
        Λ_j: None, "curvature" or "adam"; spectral="step" divides the steps of fully connected
        layers by σ(W_j), as the paper has it, "step-all" those of convolutions too, and "reparam"
        trains W/σ(W) in the fully connected layers instead.
    seed:
        Of the initial weights, the batches and random orders.
    held_out:
        The share of the training images kept back, to choose parameters on.
    device, capture:
        "auto", "cpu", "cuda" or "cuda:0"; on CUDA a cycle is captured as one graph.
    compile:
        torch.compile the stages and the loss: faster steps after a wait at the start.
    tf32:
        On CUDA, TF32 in matrix products, which rounds their factors to 10 bits; false is plain
        float32, which convolutions always are.
    threads:
        CPU threads. They are part of the config because sums depend on them.

    Example
    -------
    >>> config = RunConfig(method="VRO-CCD", lr=0.005)
    >>> print(config.to_toml().splitlines()[1])
    method = "VRO-CCD"
    >>> RunConfig.from_toml(config.to_toml()) == config
    True
    """

    dataset: str = "digits"
    method: str = "SCCD"
    lr: float = 0.05
    schedule: str = "cosine"
    batch: int = 512
    b_small: int | None = None
    p: float | None = None
    epochs: int = 100
    weight_decay: float = 5e-4
    momentum: float = 0.0
    order: str | tuple[int, ...] = "forward"
    blocks: int | tuple[str, ...] | None = None
    precondition: str | None = None
    spectral: str | None = None
    seed: int = 0
    held_out: float = 0.0
    device: str = "auto"
    capture: bool = True
    compile: bool = False
    tf32: bool = True
    threads: int = 1

    def __post_init__(self) -> None:
        for key, (accepted, read) in _ACCEPTED.items():
            try:
                object.__setattr__(self, key, read(getattr(self, key)))
            except (TypeError, ValueError) as error:
                raise ConfigError(
                    f"{key} must be {accepted}, got {getattr(self, key)!r}"
                ) from error
        self._check_together()

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
                raise ConfigError(f"unknown key {key!r}: {', '.join(known)} are accepted")
        return cls(**values)

    @classmethod
    def from_toml(cls, text: str) -> RunConfig:
        """A config from TOML."""
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"not TOML: {error}") from error
        return cls.from_dict(values)

    @classmethod
    def read(cls, path: str | Path, changes: Mapping[str, Any] | None = None) -> RunConfig:
        """A config from a TOML file, with some values replaced."""
        try:
            values = tomllib.loads(Path(path).read_text("utf-8"))
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} is not TOML: {error}") from error
        try:
            return cls.from_dict({**values, **(changes or {})})
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error

    def to_toml(self) -> str:
        """One line per key; a key that is None is left out, as TOML has no word for it."""
        return "".join(
            f"{key} = {_toml(value)}\n" for key, value in asdict(self).items() if value is not None
        )

    @property
    def recursive(self) -> bool:
        """Whether the method carries an estimate of the gradient from step to step."""
        return self.method in RECURSIVE

    def differences(self, other: RunConfig) -> list[str]:
        """The keys in which two runs differ; the device does not count."""
        mine, theirs = asdict(self), asdict(other)
        return [key for key in mine if key != "device" and mine[key] != theirs[key]]

    def slug(self) -> str:
        """A name for a folder: readable, and different for different runs."""
        keys = {key: value for key, value in asdict(self).items() if key != "device"}
        digest = hashlib.sha256(repr(sorted(keys.items())).encode()).hexdigest()[:8]
        spectral = f"-{self.spectral}" if self.spectral else ""
        return f"{self.dataset}-{self.method}{spectral}-lr{self.lr:g}-seed{self.seed}-{digest}"


def value_of(text: str) -> Any:
    """The value in ``key=value`` of a command line: TOML, or else the bare text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, tuple):
        return f"[{', '.join(_toml(one) for one in value)}]"
    return repr(value)


# ------------------------------------------------------------------------ what each key accepts


def _choice(*names: str | None) -> tuple[str, Callable[[Any], Any]]:
    def read(value: Any) -> Any:
        value = _none(value) if None in names else value
        if not (value is None or isinstance(value, str)) or value not in names:
            raise ValueError
        return value

    return "one of " + ", ".join("none" if n is None else repr(n) for n in names), read


def _integer(least: int, optional: bool = False) -> tuple[str, Callable[[Any], Any]]:
    def read(value: Any) -> Any:
        value = _none(value) if optional else value
        if value is None and optional:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError
        return value

    return f"an integer of at least {least}{', or none' if optional else ''}", read


def _number(
    accepted: str, fits: Callable[[float], bool], optional: bool = False
) -> tuple[str, Callable[[Any], Any]]:
    def read(value: Any) -> Any:
        value = _none(value) if optional else value
        if value is None and optional:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError
        if not math.isfinite(value) or not fits(value):
            raise ValueError
        return float(value)

    return f"a number {accepted}{', or none' if optional else ''}", read


def _order(value: Any) -> Any:
    if isinstance(value, str) and value in ORDERS:
        return value
    return _listed(value, int)


def _blocks(value: Any) -> Any:
    value = _none(value)
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    return _listed(value, str)


def _listed(value: Any, kind: type) -> Any:
    if not isinstance(value, list | tuple) or not value:
        raise TypeError
    if any(isinstance(one, bool) or not isinstance(one, kind) for one in value):
        raise TypeError
    return tuple(value)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _device(value: Any) -> str:
    if isinstance(value, str):
        kind, _, number = value.partition(":")
        if value in ("auto", "cpu", "cuda") or (kind == "cuda" and number.isdecimal()):
            return value
    raise ValueError


def _none(value: Any) -> Any:
    return None if isinstance(value, str) and value.lower() == "none" else value


_ACCEPTED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "dataset": _choice("digits", "mnist", "cifar10"),
    "method": _choice(*METHODS),
    "lr": _number("above 0", lambda v: v > 0),
    "schedule": _choice("cosine", "constant"),
    "batch": _integer(1),
    "b_small": _integer(1, optional=True),
    "p": _number("in (0, 1]", lambda v: 0 < v <= 1, optional=True),
    "epochs": _integer(1),
    "weight_decay": _number("of at least 0", lambda v: v >= 0),
    "momentum": _number("in [0, 1)", lambda v: 0 <= v < 1),
    "order": (f"one of {', '.join(map(repr, ORDERS))}, or a list of block numbers", _order),
    "blocks": ("a number of blocks, a list of layer names, or none", _blocks),
    "precondition": _choice(None, "curvature", "adam"),
    "spectral": _choice(None, "step", "step-all", "reparam"),
    "seed": _integer(0),
    "held_out": _number("in [0, 1)", lambda v: 0 <= v < 1),
    "device": ("'auto', 'cpu', 'cuda' or 'cuda:N'", _device),
    "capture": ("true or false", _boolean),
    "compile": ("true or false", _boolean),
    "tf32": ("true or false", _boolean),
    "threads": _integer(1),
}
