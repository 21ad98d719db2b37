"""Warnings that point at the user's line."""

from __future__ import annotations

import sys
import warnings

_PASSED_OVER = ("cyclade", "torch", "contextlib")


def warn_user(warning: Warning) -> None:
    """Warn of the nearest line outside of this package and torch that led here."""
    level, frame = 3, sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals.get("__name__", "").partition(".")[0] not in _PASSED_OVER:
            break
        level += 1
    warnings.warn(warning, stacklevel=level)
