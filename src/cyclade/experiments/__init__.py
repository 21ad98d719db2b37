"""The paper's experiments: data, networks, and runs that can be stopped and resumed anywhere.

Training needs torch and NumPy alone; scikit-learn (digits), pooch (fetching) and rich (progress)
are loaded where they are used.
"""

from cyclade.experiments.archive import find_runs, pack, unpack
from cyclade.experiments.config import METHODS, RunConfig
from cyclade.experiments.data import DATASETS, Dataset, Split, load, verify
from cyclade.experiments.errors import (
    ConfigError,
    DataError,
    DeviceError,
    ExperimentError,
    FolderError,
)
from cyclade.experiments.fetching import fetch
from cyclade.experiments.folder import Row, RunFolder, RunResult
from cyclade.experiments.many import run_many
from cyclade.experiments.networks import network
from cyclade.experiments.run import run

__all__ = [
    "DATASETS",
    "METHODS",
    "ConfigError",
    "DataError",
    "Dataset",
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
