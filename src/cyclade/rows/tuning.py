"""Every constant of the stochastic methods: its unit, what it trades, and how it was chosen."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Constants of `solve_rows` and `RowStream`."""

    batch: tuple[float, float, float] = (1.0, 2.0, 150.0)  # b'/√b where steps are searched: the
    # first number for small b, the second where √b is twice the third. Larger b' is less noise and
    # fewer cycles an epoch. Seconds to 1e-4 with 0.7, 1 and 1.5 times as much: a9a 20, 16, 21 ms;
    # w8a 27, 33, 27; sparse of 120,000 rows 87, 52, 60
    blocks: int = (
        2  # of features. More take fewer epochs, each dearer: with 1 (PAGE), 2, 3 an epoch
    )
    # of a9a takes 1.3, 1.6, 2.2 ms, and 1e-4 takes 10.2, 7.4, 6.8 epochs
    constant: float = 10.0  # weight of a constant column beside an intercept, which then takes most
    # of their way. Epochs to 1e-4 where a column is 5 (20): 80 (140) with 0, 35 (25) with 10
    heavy_tails: float = (
        100.0  # n Σ a⁴ / (Σ a²)² of a column from which a run that was not ended by
    )
    # its tolerance says that few rows hold it up. 3 for normal numbers, n where one row is all
    counted_rows: int = 1024  # whose entries are counted to cut the features into blocks
    early_refreshes: tuple[int, int] = (8, 64)  # cycles (from 1) that take a large sample for sure:
    # the first ones move far, and the error this adds to the recursive gradient stays until chance
    # refreshes it, about √n cycles later. Without them VRO-CCD needs 1.3 to 2.4 times the epochs
    stream_batch: int = 512  # rows in a large batch of a stream: b of the paper's experiments
    stream_epoch: float = 64.0  # cycles after which η of SCCD and SGD has fallen by √2 on a stream.
    # 16 nearly halves the error where noise limits it, and doubles it where steps do


TUNING = Tuning()
