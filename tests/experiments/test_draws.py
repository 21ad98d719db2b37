"""Which images each step sees."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cyclade.experiments.data import Coins, Draws, EpochShuffle, Split, distinct


def test_shuffled_epochs_see_every_image_once() -> None:
    sampling = EpochShuffle(50, 16, seed=0)
    assert sampling.steps == 4
    first, second = sampling.epoch(0), sampling.epoch(1)
    assert first.sizes == [16, 16, 16, 2]
    assert sorted(first.indices.tolist()) == list(range(50))
    assert first.indices.tolist() != second.indices.tolist()
    assert all(first.refresh)
    assert sampling.first() is None
    assert EpochShuffle(50_000, 512, seed=0).steps == 98  # as the paper's run times say


def test_an_epoch_of_coins_is_n_samples_on_average() -> None:
    sampling = Coins(50_000, 512, None, None, seed=0)
    assert (sampling.b_small, sampling.steps) == (22, 1185)
    sizes = [sum(sampling.epoch(e).sizes) for e in range(20)]
    assert np.mean(sizes) == pytest.approx(50_000, rel=0.05)
    first = sampling.first()
    assert first is not None
    assert first.sizes == [512]
    draws = sampling.epoch(3)
    assert {(s, r) for s, r in zip(draws.sizes, draws.refresh, strict=True)} == {
        (512, True),
        (22, False),
    }


def test_with_p_one_every_batch_is_large() -> None:
    draws = Coins(40, 8, 2, 1.0, seed=0).epoch(0)
    assert draws.sizes == [8] * 5
    assert all(draws.refresh)


@pytest.mark.parametrize("sampling", [EpochShuffle(50, 16, 3), Coins(50, 16, None, None, 3)])
def test_draws_depend_on_seed_and_epoch_alone(sampling: EpochShuffle | Coins) -> None:
    wanted = sampling.epoch(2)
    sampling.epoch(7)
    again = sampling.epoch(2)
    np.testing.assert_array_equal(wanted.indices, again.indices)
    assert (wanted.sizes, wanted.refresh) == (again.sizes, again.refresh)


@pytest.mark.parametrize(("n", "size"), [(6, 2), (6, 6), (100, 10), (100, 11)])
def test_rows_are_distinct_and_uniform(n: int, size: int) -> None:
    rows = distinct(np.random.default_rng(0), n, 3000, size)
    assert rows.shape == (3000, size)
    assert all(len(set(row)) == size for row in rows.tolist())
    counts = np.bincount(rows.reshape(-1), minlength=n)
    expected = 3000 * size / n
    spread = np.sqrt(3000 * (size / n) * (1 - size / n)) + 1e-9
    assert np.abs(counts - expected).max() < 5 * spread
    if (n, size) == (6, 2):  # every pair is as likely as every other
        pairs = np.bincount([min(a, b) * 6 + max(a, b) for a, b in rows.tolist()], minlength=36)
        assert np.abs(pairs[pairs > 0] - 200).max() < 5 * np.sqrt(200)
        assert (pairs > 0).sum() == 15
    assert distinct(np.random.default_rng(0), n, 0, size).shape == (0, size)


def test_batches_are_gathered() -> None:
    sizes = [300, 1, 300, 900, 2, 3]
    indices = np.random.default_rng(0).integers(100, size=sum(sizes))
    refresh = [True, False, True, True, False, False]
    split = Split(torch.arange(100.0).reshape(100, 1, 1, 1), torch.arange(100))
    found = list(Draws(indices, sizes, refresh).gathered(split))
    assert [len(y) for _, y, _ in found] == sizes
    assert [coin for _, _, coin in found] == refresh
    assert torch.cat([y for _, y, _ in found]).tolist() == indices.tolist()
    assert torch.cat([x for x, _, _ in found]).flatten().tolist() == indices.tolist()
