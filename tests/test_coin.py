"""The coin of Algorithm 2, line 6: one function; the draws of its four users are spelled out."""

from __future__ import annotations

import numpy as np
import pytest

from cyclade.experiments.data import Coins
from cyclade.optim import PageBatchSampler
from cyclade.sampling.samplers import ALL, Page, coin, page_defaults


def _generator(seed: object = 5) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("p", [0.05, 0.5, 0.999, 1.0])
def test_the_coin_is_one_uniform_number_below_p_and_none_for_p_1(p: float) -> None:
    rng, twin = _generator(), _generator()
    tossed = [coin(rng, p) for _ in range(500)]
    assert tossed == ([True] * 500 if p == 1.0 else (twin.random(500) < p).tolist())
    assert all(type(fallen) is bool for fallen in tossed)
    assert rng.random() == twin.random()


def test_defaults_are_the_papers() -> None:
    assert page_defaults(512) == (22, 22 / 534)
    assert page_defaults(1) == (1, 0.5)
    assert page_defaults(512, 8) == (8, 8 / 520)
    assert page_defaults(512, p=0.25) == (22, 0.25)
    assert page_defaults(512, 8, 0.25) == (8, 0.25)


@pytest.mark.parametrize(("n", "p"), [(100, 0.3), (100, 1.0), (20, 0.5)])
def test_page_tosses_and_then_draws_unless_it_takes_everything(n: int, p: float) -> None:
    sampler, rng, twin = Page(n, 20, 4, p), _generator(), _generator()
    for _ in range(50):
        sample, refresh = sampler.draw(rng)
        assert refresh is (p == 1.0 or bool(twin.random() < p))
        if refresh and n == 20:
            assert sample is ALL
        else:
            expected = twin.choice(n, size=20 if refresh else 4, replace=False, shuffle=False)
            np.testing.assert_array_equal(sample, expected)


@pytest.mark.parametrize("p", [0.3, 1.0])
def test_batches_for_nets_are_functions_of_seed_and_number(p: float) -> None:
    sampler = PageBatchSampler(100, 20, 4, p, seed=3)
    for k in range(50):
        twin = _generator([3, k])
        large = k == 0 or p == 1.0 or twin.random() < p
        expected = twin.choice(100, size=20 if large else 4, replace=False, shuffle=False)
        assert sampler.draw(k) == expected.tolist()


@pytest.mark.parametrize("p", [0.3, 1.0])
def test_the_coins_of_an_epoch(p: float) -> None:
    sampling = Coins(100, 20, 4, p, seed=3)
    twin = _generator([3, 1, 7])  # the stream of coins of epoch 7
    assert sampling.epoch(7).refresh == (twin.random(sampling.steps) < p).tolist()
