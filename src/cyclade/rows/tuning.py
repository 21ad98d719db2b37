"""Every constant of the stochastic methods: its unit, what it trades, and how it was chosen."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Constants of `solve_rows` and `RowStream`."""

    # b'/√b where steps are searched: the first number for small b, the second where √b is twice the
    # third. Seconds to 1e-4 with 0.7, 1 and 1.5 times as much: a9a 20, 16, 21 ms; w8a 27, 33, 27.
    batch: tuple[float, float, float] = (1.0, 2.0, 150.0)
    # Of features. More take fewer epochs, each dearer: to 1e-4 on a9a 10.2, 7.4, 6.8 with 1, 2, 3.
    blocks: int = 2
    # Weight of a constant column beside an intercept, which then takes most of their way. Epochs to
    # 1e-4 where a column is 5 (20): 80 (140) with 0, 35 (25) with 10.
    constant: float = 10.0
    # n Σ a⁴ / (Σ a²)² of a column, from which a message says that few rows may hold a run up.
    heavy_tails: float = 100.0
    # Cycles (from 1) that take a large sample for sure: the first move far, and leave an error in
    # the recursive gradient. Without them VRO-CCD needs 1.3 to 2.4 times the epochs.
    early_refreshes: tuple[int, int] = (8, 64)
    stream_batch: int = 512  # rows in a large batch of a stream: b of the paper's experiments
    stream_epoch: float = 64.0  # cycles after which η of SCCD and SGD has fallen by √2 on a stream


TUNING = Tuning()
