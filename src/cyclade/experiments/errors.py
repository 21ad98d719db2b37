"""What a user can put right: the command line shows these in one line, without a traceback."""

from __future__ import annotations


class ExperimentError(ValueError):
    """Something asked for cannot be done as asked."""


class DataError(ExperimentError):
    """A data file is missing, cut short or damaged."""


class ConfigError(ExperimentError):
    """A config has an unknown key, a wrong type or a value that is not accepted."""


class FolderError(ExperimentError):
    """A run folder belongs to something else, or cannot be read."""


class DeviceError(ExperimentError):
    """The device asked for is not there."""
