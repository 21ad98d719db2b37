"""What a user can put right: the command line shows these in one line, without a traceback."""

from __future__ import annotations

from cyclade.files.errors import FolderError
from cyclade.files.errors import UserError as ExperimentError

__all__ = ["ConfigError", "DataError", "DeviceError", "ExperimentError", "FolderError"]


class DataError(ExperimentError):
    """A data file is missing, cut short or damaged."""


class ConfigError(ExperimentError):
    """A config has an unknown key, a wrong type or a value that is not accepted."""


class DeviceError(ExperimentError):
    """The device asked for is not there."""
