"""Random good and bad calls of `minimize`: a result, or a clear error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from calls import Call, Fresh, Passed, arguments, first_good, fuzzed, try_call, try_every_odd_value
from hypothesis import given
from hypothesis import strategies as st

from cyclade import L0, L1, Fixed, Greedy, NonNegative, minimize


class Patient:
    """Wraps the functions of a run: one that goes on and on, or whose function fails, may do so."""

    def __init__(self) -> None:
        self.calls = 0

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            self.calls += 1
            if self.calls > 500:
                raise Passed
            try:
                return function(*args)
            except Exception as error:
                raise Passed from error

        return counted


def value(x: Any, *_: Any) -> Any:
    return 0.5 * ((x - 1.0) ** 2).sum()


def gradient(x: Any, *_: Any) -> Any:
    return x - 1.0


def block_gradient(x: Any, j: int, *_: Any) -> Any:
    return x[2 * j : 2 * j + 2] - 1.0


def call_minimize(**given: Any) -> Any:
    patient = Patient()
    for name in ("fun", "jac", "block_jac", "callback", "stream", "eta"):
        if callable(given.get(name)):
            given[name] = patient.wrap(given[name])
    return minimize(**given)


# Every argument that the calls below share, and what each kind of problem adds.
COMMON: dict[str, list[Any]] = {
    "fun": [value],
    "x0": [np.zeros(4), [0, 0, 0, 0], np.ones(4, dtype=np.float32)],
    "blocks": [2, None, "coordinates", [1, 3], [[0, 3], [1, 2]]],
    "reg": [None, L1(0.1), NonNegative(), L0(0.1)],
    "args": [()],
    "eta": [None, 0.5, lambda k: 0.1],
    "order": ["forward", "shuffled", Greedy()],
    "tol": [1e-5, None, 1],
    "change_tol": [None, 0],
    "max_cycles": [3, 1],
    "max_samples": [None, 1000],
    "max_seconds": [5.0, 1],
    "returns": ["best", "last"],
    "every": [None, 1],
    "seed": [0, 7, None, Fresh(lambda: np.random.default_rng(0))],
    "callback": [None, lambda report: False],
    "progress": [False],
    "resume": [None],
}
CALLS = [
    Call(
        "deterministic",
        call_minimize,
        {**COMMON, "method": [None, "P-CCD"], "jac": [gradient], "L": [None, 2.0, "estimate"]},
    ),
    Call(
        "by blocks",
        call_minimize,
        {**COMMON, "blocks": [2, [2, 2]], "block_jac": [block_gradient], "jac": [None, gradient],
         "L": [2.0, [1.0, 2.0], Fixed([1.0, 1.0])]},
    ),
    Call(
        "value and gradient",
        call_minimize,
        {**COMMON, "fun": [lambda x: (value(x), gradient(x))], "jac": [True]},
    ),
    Call(
        "finite sum",
        call_minimize,
        {**COMMON, "jac": [gradient], "n": [9, np.int64(20)], "b": [None, 4],
         "b_small": [None, 2], "p": [None, 0.5],
         "method": [None, "VR-CCD", "VRO-CCD", "PAGE"], "L": [None, 2.0]},
    ),
    Call(
        "minibatches",
        call_minimize,
        {**COMMON, "jac": [gradient], "n": [9], "b": [None, 4], "method": ["SGD", "SCCD"],
         "L": [2.0]},
    ),
    Call(
        "stream",
        call_minimize,
        {**COMMON, "jac": [gradient], "stream": [lambda rng, size: rng.normal(size=size)],
         "b": [8], "L": [2.0], "tol": [None], "method": [None, "SCCD"]},
    ),
    Call("torch", call_minimize, {**COMMON, "x0": [torch.zeros(4), torch.ones(4).double()]}),
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=[call.name for call in CALLS])
def test_good_arguments_give_a_result(call: Call) -> None:
    assert try_call(call, first_good(call)) == "result"


@pytest.mark.parametrize("name", sorted({name for call in CALLS for name in call.good}))
def test_one_odd_argument(name: str) -> None:
    try_every_odd_value(next(call for call in CALLS if name in call.good), name)


@pytest.mark.parametrize("call", CALLS, ids=[call.name for call in CALLS])
@fuzzed
@given(data=st.data())
def test_several_odd_arguments(call: Call, data: st.DataObject) -> None:
    try_call(call, data.draw(arguments(call)))
