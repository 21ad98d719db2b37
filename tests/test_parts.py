"""Blocks, samplers, orders and steps, each alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from cyclade import Backtracking, FiniteSum, Fixed, Full, Layout, Minibatch, Page, Stream, minimize
from cyclade.sampling.orders import Forward, as_order
from cyclade.sampling.samplers import ALL, StreamEnded
from cyclade.steps import power_iteration


def test_a_block_once_read_does_not_change() -> None:
    layout = Layout.of(np.zeros(4), 2)
    point = layout.point(np.arange(4.0))
    block = point.get(0)
    point.set(0, np.array([9.0, 9.0]))
    np.testing.assert_array_equal(block, [0.0, 1.0])


def test_minibatches_are_without_replacement_and_full_batches_are_all() -> None:
    rng = np.random.default_rng(0)
    sampler = Minibatch(50, 49)
    for _ in range(20):
        sample, refresh = sampler.draw(rng)
        assert refresh
        assert len(set(sample.tolist())) == 49
        assert sampler.size(sample) == 49
    assert Minibatch(50, 50).draw(rng) == (ALL, True)


def test_streams_stack_tuples_dicts_and_tensors() -> None:
    rng = np.random.default_rng(0)
    pairs = Stream((np.ones(2), {"y": torch.zeros(3)}) for _ in range(5))
    x, rest = pairs.take(4, rng).data
    assert x.shape == (4, 2)
    assert rest["y"].shape == (4, 3)
    with pytest.raises(StreamEnded, match="4 samples were wanted, 1 came"):
        pairs.take(4, rng)


def test_a_stream_of_scalars_loses_no_sample_between_batches() -> None:
    stream = Stream(iter(np.arange(10.0)))
    rng = np.random.default_rng(0)
    taken = [stream.take(size, rng).data.tolist() for size in (3, 2, 5)]
    assert [value for batch in taken for value in batch] == list(range(10))


def test_orders() -> None:
    rng = np.random.default_rng(0)
    rotations = {tuple(as_order("rotated", 3).turns(3, rng, lambda: [])) for _ in range(100)}
    assert rotations == {(0, 1, 2), (1, 2, 0), (2, 0, 1)}
    both = {tuple(as_order("reflected", 3).turns(3, rng, lambda: [])) for _ in range(100)}
    assert both == {(0, 1, 2), (2, 1, 0)}
    assert list(as_order("greedy", 4).turns(4, rng, lambda: [0, 5, 2, 5])) == [1, 1, 1, 1]
    for listed in ([2, 0, 1], ["c", "a", "b"]):
        assert list(as_order(listed, 3, "abc").turns(3, rng, lambda: [])) == [2, 0, 1]
    many = {tuple(as_order("shuffled", 3).turns(3, rng, lambda: [])) for _ in range(100)}
    assert len(many) == 6


class Turns:
    """A user's order: what it is told to give."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def turns(self, m: int, rng: Any, score: Any) -> Any:
        return self.given


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ([0, 1], "order: Turns gave 2 turns, but a cycle of 3 blocks has 3"),
        ([], "order: Turns gave 0 turns"),
        ([0, 1, 2, 0], "order: Turns gave more than 3 turns"),
        ([0, 1, 3], r"order: Turns gave block 3, but the blocks are 0 … 2"),
        ([0, -1, 2], "order: Turns gave block -1"),
        ([0, 1.0, 2], "order: Turns must give block numbers, got 1.0"),
        ([0, "a", 2], "order: Turns must give block numbers, got 'a'"),
        (None, "order: turns of Turns must return block numbers, got NoneType"),
    ],
)
def test_a_users_order_is_checked(given: Any, error: str) -> None:
    order = as_order(Turns(given), 3)

    def two_cycles() -> None:
        for _ in range(2):
            taken = order.turns(3, np.random.default_rng(0), lambda: [])
            for _ in range(3):  # as the loop takes them: m and no more
                next(taken)

    with pytest.raises((ValueError, TypeError), match=error):
        two_cycles()


def test_a_users_order_runs_and_wrong_ones_do_not() -> None:
    options: dict[str, Any] = {"jac": lambda x: x, "blocks": 3, "L": 2.0, "max_cycles": 5}
    run = minimize(lambda x: 0.5 * x @ x, np.ones(3), order=Turns([2, 0, 1]), **options)
    plain = minimize(lambda x: 0.5 * x @ x, np.ones(3), order=[2, 0, 1], **options)
    np.testing.assert_array_equal(run.x, plain.x)
    with pytest.raises(ValueError, match="order: Turns gave block 7"):
        minimize(lambda x: 0.5 * x @ x, np.ones(3), order=Turns([0, 1, 7]), **options)


def test_power_iteration_finds_the_norm_also_of_indefinite_operators() -> None:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(8, 8))
    A = A + A.T
    norm, vector = power_iteration(lambda v: A @ v, rng.normal(size=8), 5000, tol=1e-14)
    assert norm == pytest.approx(np.linalg.norm(A, 2), rel=1e-5)
    assert np.linalg.norm(vector) == pytest.approx(1.0)
    assert power_iteration(lambda v: 0 * v, np.ones(3), 5)[0] == 0.0


RNG = np.random.default_rng(0)
NO_ORDERS: list[Any] = [[0, 1.5, 2], [[0, 1, 2]], ["a", 1, 2], [0, None, 2], [[0], [1, 2]]]
NO_ORDERS += [np.array(2), Forward, 3, None]
SOURCE = "source must be a number n of terms"
REFUSED: list[tuple[Any, str]] = [
    (lambda: Page("a", 2), SOURCE + " or a source"),
    (lambda: Minibatch(None, 2), SOURCE),
    (lambda: Page(True, 1), SOURCE),
    (lambda: Page(0, 1), "source must be .* n must be an integer >= 1, got 0"),
    (lambda: Page(10**30, 2), "source must be .* n must be an int"),
    (lambda: FiniteSum(10**30), "n must be an integer between 1 and 9"),
    (lambda: FiniteSum(2.5), "n must be an integer >= 1, got 2.5"),
    (lambda: Full(0), "n must be an integer >= 1, got 0"),
    (lambda: Full("a"), "n must be an integer >= 1, got 'a'"),
    (lambda: Minibatch(9, "a"), "b must be an integer, got 'a'"),
    (lambda: Minibatch(9, 2.5), "b must be an integer, got 2.5"),
    (lambda: Page(9, 10), "b must be between 1 and n = 9, got 10"),
    (lambda: Page(9, 4, 5), "b_small must be between 1 and b = 4, got 5"),
    (lambda: Page(9, 4, "a"), "b_small must be an integer, got 'a'"),
    *(
        (lambda p=p: Page(9, 4, p=p), r"p must be in \(0, 1\], got")
        for p in ("a", "0.5", 0.0, np.nan)
    ),
    (lambda: Stream("abc"), r"source\(rng, size\) -> batch, got str"),
    (lambda: Stream({}), r"source\(rng, size\) -> batch, got dict"),
    (lambda: Stream([], 3), "collate must be callable, got 3"),
    (lambda: FiniteSum(9).take(2, 3), "rng must be a numpy.random.Generator"),
    (lambda: Stream([1.0]).take(0, RNG), "size must be an integer >= 1"),
    (lambda: FiniteSum(9).take(10, RNG), "size must be between 1 and n = 9"),
    (lambda: Stream([np.ones(2), np.ones(3)]).take(2, RNG), "do not make a batch .* give collate="),
    (lambda: Full(3).size(3), "sample must be ALL, an array of indices or a batch"),
    *((lambda order=order: as_order(order, 3), "order") for order in NO_ORDERS),
    (lambda: Backtracking([1.0], grow=1.0), "grow must be a finite number > 1"),
    (lambda: Backtracking([1.0], shrink=0.0), r"shrink must be a number in \(0, 1\]"),
    (lambda: Backtracking([1.0], scaled=1), "scaled must be True or False"),
    (lambda: Fixed([1.0], eta=math.inf), "eta must be positive"),
    (lambda: Fixed([-1.0]), r"Lambda\[0\] must be positive"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_refused(call: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_an_own_collate_keeps_its_own_errors() -> None:
    def broken(items: list[Any]) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Stream([1.0], broken).take(1, np.random.default_rng(0))


def test_the_largest_sum_can_be_drawn_from() -> None:
    sample, refresh = Minibatch(2**63 - 1, 3).draw(np.random.default_rng(0))
    assert refresh
    assert len(set(sample.tolist())) == 3
