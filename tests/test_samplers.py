"""Samplers refuse what they cannot draw from, and say what they accept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cyclade import FiniteSum, Full, Minibatch, Page, Stream
from cyclade.sampling.samplers import ALL

REFUSED: dict[str, tuple[Any, str]] = {
    "text as a source": (lambda: Page("a", 2), "source must be a number n of terms or a source"),
    "no source": (lambda: Minibatch(None, 2), "source must be a number n of terms"),
    "a flag as a source": (lambda: Page(True, 1), "source must be a number n of terms"),
    "no terms": (lambda: Page(0, 1), "source must be .* n must be an integer >= 1, got 0"),
    "more terms than NumPy counts": (lambda: Page(10**30, 2), "source must be .* n must be an int"),
    "a sum of too many": (lambda: FiniteSum(10**30), "n must be an integer between 1 and 9"),
    "a sum of a fraction": (lambda: FiniteSum(2.5), "n must be an integer >= 1, got 2.5"),
    "full of nothing": (lambda: Full(0), "n must be an integer >= 1, got 0"),
    "full of text": (lambda: Full("a"), "n must be an integer >= 1, got 'a'"),
    "b as text": (lambda: Minibatch(9, "a"), "b must be an integer, got 'a'"),
    "b a fraction": (lambda: Minibatch(9, 2.5), "b must be an integer, got 2.5"),
    "b too large": (lambda: Page(9, 10), "b must be between 1 and n = 9, got 10"),
    "b' too large": (lambda: Page(9, 4, 5), "b_small must be between 1 and b = 4, got 5"),
    "b' as text": (lambda: Page(9, 4, "a"), "b_small must be an integer, got 'a'"),
    "p as text": (lambda: Page(9, 4, p="a"), r"p must be in \(0, 1\], got 'a'"),
    "p as digits": (lambda: Page(9, 4, p="0.5"), r"p must be in \(0, 1\], got '0.5'"),
    "p of zero": (lambda: Page(9, 4, p=0.0), r"p must be in \(0, 1\], got 0.0"),
    "p NaN": (lambda: Page(9, 4, p=np.nan), r"p must be in \(0, 1\], got nan"),
    "a stream of text": (lambda: Stream("abc"), r"source\(rng, size\) -> batch, got str"),
    "a stream of a dict": (lambda: Stream({}), r"source\(rng, size\) -> batch, got dict"),
    "collate": (lambda: Stream([], 3), "collate must be callable, got 3"),
    "no generator": (lambda: FiniteSum(9).take(2, 3), "rng must be a numpy.random.Generator"),
    "no samples": (
        lambda: Stream([1.0]).take(0, np.random.default_rng(0)), "size must be an integer >= 1",
    ),
    "too many indices": (
        lambda: FiniteSum(9).take(10, np.random.default_rng(0)), "size must be between 1 and n = 9",
    ),
    "samples of two shapes": (
        lambda: Stream([np.ones(2), np.ones(3)]).take(2, np.random.default_rng(0)),
        "the samples of the stream's source do not make a batch .* give collate=",
    ),
    "no sample": (lambda: Full(3).size(3), "sample must be ALL, an array of indices or a batch"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    call, message = REFUSED[case]
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_sizes_may_be_numpys() -> None:
    page = Page(np.int64(9), np.int32(4), np.array(2), np.float32(0.5))
    assert repr(page) == "Page(n=9, b=4, b_small=2, p=0.5)"
    assert type(page.p) is float
    assert Full(np.int64(3)).size(ALL) == 3


def test_an_own_collate_keeps_its_own_errors() -> None:
    def broken(items: list[Any]) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Stream([1.0], broken).take(1, np.random.default_rng(0))


def test_the_largest_sum_can_be_drawn_from() -> None:
    sample, refresh = Minibatch(2**63 - 1, 3).draw(np.random.default_rng(0))
    assert refresh
    assert len(set(sample.tolist())) == 3
