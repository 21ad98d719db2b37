"""Every constant of the stochastic methods: its unit, what it trades, and how it was chosen."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Constants of `solve_rows` and `RowStream`."""

    blocks: int = 10
    """Blocks of features. More blocks use fresher gradients; each costs a turn in Python. Epochs of
    VRO-CCD to 1e-4 on correlated columns: 18.5 with 5, 11.7 with 10, 9.8 with 20; of VR-CCD, which
    draws rows for every block: 17.5, 13.5, 17.5. Medians of 5 seeds, l1 logistic, 4,000 x 60."""

    early_refreshes: tuple[int, ...] = (8, 64)
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
