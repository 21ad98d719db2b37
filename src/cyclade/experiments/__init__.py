"""The paper's experiments: data, networks, and runs that can be stopped and resumed anywhere.

Training needs torch and NumPy alone; scikit-learn (digits), pooch (fetching) and rich (progress)
are loaded where they are used. Configs, run folders, reports and the checks of data need no torch,
so the names below are loaded when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cyclade._extras import needs

if TYPE_CHECKING:
    from cyclade.experiments.archive import find_runs, pack, unpack
    from cyclade.experiments.config import RunConfig
    from cyclade.experiments.data import Dataset, Split, load, network
    from cyclade.experiments.datasets import DatasetInfo
    from cyclade.experiments.errors import (
        ConfigError,
        DataError,
        DeviceError,
        ExperimentError,
        FolderError,
    )
    from cyclade.experiments.folder import Row, RunFolder, RunResult
    from cyclade.experiments.official import fetch, verify
    from cyclade.experiments.running import run, run_many

METHODS = ("SGD", "SCCD", "PAGE", "VRO-CCD", "VR-CCD")

_HOMES = {
    "archive": ("find_runs", "pack", "unpack"),
    "config": ("RunConfig",),
    "data": ("Dataset", "Split", "load", "network"),
    "datasets": ("DatasetInfo",),
    "errors": ("ConfigError", "DataError", "DeviceError", "ExperimentError", "FolderError"),
    "folder": ("Row", "RunFolder", "RunResult"),
    "official": ("fetch", "verify"),
    "running": ("run", "run_many"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "METHODS",
    "ConfigError",
    "DataError",
    "Dataset",
    "DatasetInfo",
    "DeviceError",
    "ExperimentError",
    "FolderError",
    "Row",
    "RunConfig",
    "RunFolder",
    "RunResult",
    "Split",
    "fetch",
    "find_runs",
    "load",
    "network",
    "pack",
    "run",
    "run_many",
    "unpack",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needs(__name__, "experiments"):
        found = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
