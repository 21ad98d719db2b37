"""Random good and bad calls of layouts, points, orders, steps and the certificate."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from calls import Call, Fresh, arguments, first_good, fuzzed, try_call, try_every_odd_value
from hypothesis import given
from hypothesis import strategies as st

from cyclade import (
    Backtracking,
    Backward,
    Curvature,
    Fixed,
    Forward,
    Greedy,
    Layout,
    Random,
    Reflected,
    Rotated,
    Shuffled,
    squared_distance,
)
from cyclade.regularisers import L1, PerBlock
from cyclade.sampling.orders import as_order

X0: list[Any] = [
    np.zeros(4), [1.0, 2.0, 3.0, 4.0], torch.ones(4), np.ones((2, 2)), np.arange(4),
    {"a": np.zeros(2), "b": np.ones((2, 2))}, [np.zeros(2), np.zeros(3)], (torch.zeros(2),),
]  # fmt: skip
BLOCKS: list[Any] = [
    None, "each", "coordinates", 2, [1, 3], [[0, 3], [1, 2]], ["a", "b"], [["a", "b"]], [0, 1],
]  # fmt: skip
LAYOUT = Layout.of(np.zeros(4), [1, 3])
NAMED = Layout.of({"a": np.zeros(2), "b": np.zeros(3)})
LAYOUTS = [
    Call("Layout.of", Layout.of, {"x0": X0, "blocks": BLOCKS}),
    Call("Layout.point", LAYOUT.point, {"x": [np.ones(4), [1, 2, 3, 4]]}),
    Call("Layout.point of a dict", NAMED.point, {"x": [{"a": np.ones(2), "b": np.ones(3)}]}),
    Call("Layout.split", LAYOUT.split, {"x": [np.ones(4)]}),
]

TURNS: dict[str, list[Any]] = {
    "m": [3, 1, np.int64(2)],
    "rng": [Fresh(lambda: np.random.default_rng(0))],
    "score": [lambda: [0.0, 1.0, 2.0]],
}


def turns(order: Any) -> Call:
    def first_turns(**arguments: Any) -> list[int]:
        return list(islice(order.turns(**arguments), 5))

    return Call(f"{type(order).__name__}.turns", first_turns, TURNS)


ORDERS = [
    *(
        turns(order)
        for order in (Forward(), Backward(), Shuffled(), Rotated(), Reflected(), Random(), Greedy())
    ),
    Call("as_order", as_order, {"order": ["forward", [2, 0, 1], Greedy()], "m": [3, np.int64(3)]}),
]

ETA: list[Any] = [1.0, 1, np.float32(0.5), lambda k: 0.1]
STEPS = [
    Call("Fixed", Fixed, {"Lambda": [[1.0, 2.0], (np.ones(3), 2), [torch.ones(2)]], "eta": ETA}),
    Call(
        "Backtracking",
        Backtracking,
        {"L": [[1.0, 2], [np.nan, 1.0]], "eta": ETA, "grow": [2.0, 3], "shrink": [0.8, 1]},
    ),
    Call(
        "Curvature",
        Curvature,
        {"m": [2, np.int64(1)], "eta": ETA, "every": [None, 3], "iterations": [20, 1],
         "safety": [1.0, 2], "seed": [0, 7]},
    ),
]  # fmt: skip

CERTIFICATE = [
    Call(
        "squared_distance",
        squared_distance,
        {
            "x": [[np.ones(2), np.zeros(3)]],
            "gradient": [[np.ones(2), np.zeros(3)], [np.zeros(2), np.ones(3)]],
            "reg": [PerBlock([L1(1.0), L1(0.5)])],
            "metric": [lambda j: 2.0, lambda j: 1],
        },
    )
]

CALLS = [*LAYOUTS, *ORDERS, *STEPS, *CERTIFICATE]


@pytest.mark.parametrize("call", CALLS, ids=[call.name for call in CALLS])
def test_good_arguments_give_a_result(call: Call) -> None:
    assert try_call(call, first_good(call)) == "result"


@pytest.mark.parametrize("call", CALLS, ids=[call.name for call in CALLS])
def test_one_odd_argument(call: Call) -> None:
    for name in call.good:
        try_every_odd_value(call, name)


@pytest.mark.parametrize("call", CALLS, ids=[call.name for call in CALLS])
@fuzzed
@given(data=st.data())
def test_several_odd_arguments(call: Call, data: st.DataObject) -> None:
    try_call(call, data.draw(arguments(call)))
