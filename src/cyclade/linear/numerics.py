"""Rounding: what counts as zero, in multiples of eps; for kernels too."""

from __future__ import annotations

import numpy as np

EPS = float(np.finfo(np.float64).eps)  # of numbers in double precision
TINY = float(np.finfo(np.float64).tiny)  # the least number with all its bits
SUM = 4 * EPS  # of a sum over rows: smaller parts of it are rounding
SOLVED = 2**9 * EPS  # of the terms of an equation: what may be left of it; ridge of a factor
FLAT = 2**12 * EPS  # of a curvature or weight: less is none, so that much is taken instead
ROOT = 2**-26  # √eps: of a move whose square is rounding; ridge where columns are dependent
PRODUCT = 2**13 * EPS  # of the norms of two long vectors: an error of their product, at most
