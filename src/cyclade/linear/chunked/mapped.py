"""A column of a table that is computed from others, chunk by chunk, where these lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Mapped:
    """function(*columns), row by row: y encoded, weights with a fold left out.

    Columns are of Dask, arrays, `Mapped` themselves, or None.
    """

    def __init__(self, function: Callable[..., Any], *columns: Any) -> None:
        self.function, self.columns = function, columns
