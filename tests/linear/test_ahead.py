"""Asking for columns ahead changes no number, wherever they lie and however long they are."""

import numpy as np
import pytest

from cyclade.linear.kernels import sparse


def columns(lengths, n, dtype, index, rng):
    """X by columns, (data, rows, starts), and filled in."""
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64)
    rows = np.concatenate([np.sort(rng.choice(n, k, replace=False)) for k in lengths]).astype(index)
    data, X = rng.standard_normal(rows.size).astype(dtype), np.zeros((n, len(lengths)))
    X[rows, np.repeat(np.arange(len(lengths)), lengths)] = data
    return (data, rows, starts), X


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index", [np.uint32, np.uint64])
@pytest.mark.parametrize(
    "chosen",
    [[], [0], [9], [0, 9], [9, 0, 4], [3, 4, 5, 6], list(range(10)), [0, 1, 2, 5, 7, 8, 9]],
    ids=str,
)
def test_chosen_columns_add_up(dtype, index, chosen):
    rng, lengths = np.random.default_rng(0), [3, 0, 200, 1, 40, 0, 8, 300, 16, 0]
    parts, X = columns(lengths, 300, dtype, index, rng)
    chosen, z = np.array(chosen, np.int64), np.zeros(300)
    x = rng.standard_normal(chosen.size)
    sparse.add_columns(*parts, chosen, x, z)
    np.testing.assert_allclose(z, X[:, chosen] @ x, rtol=0, atol=1e-12)
