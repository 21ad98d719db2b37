"""Every constant of the stochastic methods: its unit, what it trades, and how it was chosen."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Constants of `solve_rows` and `RowStream`."""

    batch: tuple[float, float, float] = (1.0, 2.0, 150.0)
    """b'/√b where steps are searched: the first number for small b, the second where √b is twice
    the third. Larger b' means less noise and fewer cycles an epoch. Epochs to 1e-4 with √b and 2√b:
    phishing (11,055 rows) 15 and 18, a9a (32,561) 8.5 and 9, w8a (49,749) 7 and 6.5, sparse of
    120,000 rows 9.5 and 6.6."""

    constant: float = 10.0
    """Weight of a constant column beside an intercept, which then takes most of their common way.
    Epochs to 1e-4 where a column is 5 (20): 80 (140) with 0, 50 (45) with 3, 35 (25) with 10."""

    heavy_tails: float = 100.0
    """n Σ a⁴ / (Σ a²)² of a column's entries from which a run that was not ended by its tolerance
    says that few rows hold it up. It is 3 for normal numbers, up to n where one row is all."""

    counted_rows: int = 1024
    """Rows whose entries are counted to cut the features into blocks."""

    blocks: int = 2
    """Blocks of features. More blocks take fewer epochs, and each evaluates the loss again. Beside
    saga's epochs and seconds, on the same lines: 1 (PAGE) 1.17 and 0.59, 2: 0.91 and 0.51, 3: 0.90
    and 0.62, 4 (with 3√b): 0.80 and 0.57."""

    early_refreshes: tuple[int, int] = (8, 64)
    """Cycles (from 1) that take a large sample whatever the coin says. The first cycles move far,
    and what they add to the error of the recursive gradient stays until the next refresh, which
    chance brings about √n cycles later. Costs two large batches. Without them VRO-CCD needs 1.3 to
    2.4 times the epochs to 1e-2 … 1e-4 on the same problem and two others, VR-CCD 1.4 to 2.4; PAGE
    needs 1.6 to 2.3 times on one, and up to a fifth fewer on two."""

    stream_batch: int = 512
    """Rows in a large batch of a stream: b of the paper's experiments."""

    stream_epoch: float = 64.0
    """Cycles after which η of SCCD and SGD has fallen by √2 on a stream, which has no epochs.
    After 60,000 rows, 16 nearly halves the error of 64 where noise limits it, and doubles it where
    steps do (SGD, logistic, correlated columns); 256 is 1.5 to 1.9 times worse on 6 of 8 lines."""

    gram_columns: int = 1024
    """Columns of a block up to which λ_max comes from its Gram matrix: O(n p_j²) flops and p_j²
    numbers, exactly. Wider blocks take power iteration, O(n p_j) each, from below."""

    power_iterations: int = 60
    """Iterations for wider blocks. The norm found from below is raised by `power_margin`."""

    power_margin: float = 1.02
    """Factor on a norm that power iteration found."""


TUNING = Tuning()
