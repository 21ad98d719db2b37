"""The shared checks of arguments: what they return, and what they say."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from cyclade._checks import (
    choice,
    finite_number,
    generator,
    is_number,
    non_negative,
    positive,
    probability,
    real_array,
    sampling,
    shown,
    whole_number,
)
from cyclade.experiments import ConfigError, DataError, RunConfig
from cyclade.experiments.datasets import find
from cyclade.methods import as_method
from cyclade.sampling.orders import as_order

NUMBERS: list[Any] = [
    1, 1.0, np.float32(1), np.int8(1), np.array(1.0), torch.tensor(1), Fraction(1),
    torch.tensor(1.0, dtype=torch.bfloat16, requires_grad=True),
]  # fmt: skip
NOT_NUMBERS: list[Any] = [
    None, True, np.True_, np.array(True), "1", 1j, np.array(1j), [1.0], np.ones(1), {}, object(),
    np.array("a"), np.datetime64("2020-01-01"), torch.empty((), device="meta"), lambda: 1,
]  # fmt: skip


@pytest.mark.parametrize("check", [finite_number, positive, non_negative, probability])
def test_numbers_of_every_kind_become_floats(check: Any) -> None:
    for value in NUMBERS:
        assert type(check("p", value)) is float
        assert check("p", value) == 1.0
    for bad in [*NOT_NUMBERS, math.nan, math.inf, -math.inf, 10**400]:
        with pytest.raises(ValueError, match=r"^p must be a .*number.*, got "):
            check("p", bad)
    assert all(map(is_number, NUMBERS))
    assert not any(map(is_number, NOT_NUMBERS))


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), np.array(3), torch.tensor(3)])
def test_whole_numbers_become_ints(value: Any) -> None:
    assert type(whole_number("b", value, 1, 3)) is int
    assert whole_number("b", value) == 3
    with pytest.raises(ValueError, match=r"^b must be an integer between 4 and 9, got "):
        whole_number("b", value, 4, 9)
    for bad in [*NOT_NUMBERS, 3.0, math.nan, math.inf]:
        with pytest.raises(ValueError, match=r"^b must be an integer >= 4, got "):
            whole_number("b", bad, 4)


def test_seeds() -> None:
    rng = np.random.default_rng(3)
    assert generator("seed", rng) is rng
    assert generator("seed", 3).random() == np.random.default_rng(3).random()
    assert generator("seed", None) is not None
    for bad in (-1, 1.5, "a", True, np.nan, object(), 1j, [[1.5]], lambda: 3):
        with pytest.raises(ValueError, match="seed must be None, an integer >= 0, a sequence"):
            generator("seed", bad)


def test_arrays() -> None:
    for value in ([1, 2], (1.0, 2.0), np.array([1, 2], dtype="u1"), torch.tensor([1.0, 2.0])):
        array = real_array("A", value)
        assert array.dtype == np.float64
        assert array.tolist() == [1.0, 2.0]
    bad: list[Any] = [[[1], [1, 2]], "a", ["a"], [None], 1j, {}, {1}, [True], object(), [10**30]]
    for value in bad:
        with pytest.raises(ValueError, match="A must be an array of real numbers, got "):
            real_array("A", value)


def test_sampling() -> None:
    sampling(10, 5, 2, 0.5)
    sampling(math.inf, 10**30)
    for arguments, message in [
        ((0, 1), "n must be an integer >= 1 or math.inf, got 0"),
        (("a", 1), "n must be an integer >= 1 or math.inf, got 'a'"),
        ((3, 4), "b must be at most n=3, got 4"),
        ((3, 2, 3), "b_small must be at most b=2, got 3"),
        ((3, 2, 1, "a"), r"p must be a number in \(0, 1\], got 'a'"),
    ]:
        with pytest.raises(ValueError, match=message):
            sampling(*arguments)


def test_long_and_broken_values_are_shown_short() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    assert len(shown(10**4000)) < 100
    assert len(shown(np.arange(10**6))) < 300
    assert len(shown(list(range(10**5)))) < 100
    assert "Broken" in shown(Broken())
    assert shown(10**10000)


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: as_method("VROCD", True), "did you mean 'VRO-CCD'?"),
        (lambda: as_order("forwards", 3), "did you mean 'forward'?"),
        (lambda: RunConfig.from_dict({"epoch": 3}), "did you mean 'epochs'?"),
        (lambda: find("cifar"), "did you mean 'cifar10'?"),
        (lambda: choice("returns", "lst", ("best", "last")), "did you mean 'last'?"),
    ],
)
def test_an_unknown_name_comes_with_the_one_that_was_meant(
    call: Callable[[], Any], hint: str
) -> None:
    with pytest.raises((ValueError, ConfigError, DataError), match=re.escape(hint)):
        call()


def test_a_name_like_no_other_comes_without_advice() -> None:
    with pytest.raises(ValueError, match=r"greedy$"):
        as_order("zigzag", 3)
