"""Random good and bad calls of the parts of the core: a result, or a clear error."""

from __future__ import annotations

import inspect
import math
from itertools import islice
from typing import Any

import numpy as np
import pyproximal
import pytest
import torch
from calls import Call, Fresh, arguments, first_good, fuzzed, try_call, try_every_odd_value
from hypothesis import given
from hypothesis import strategies as st

from cyclade import (
    Backtracking,
    Backward,
    Curvature,
    FiniteSum,
    Fixed,
    Forward,
    Full,
    Greedy,
    Layout,
    Minibatch,
    Page,
    Random,
    Reflected,
    Rotated,
    Shuffled,
    Stream,
    regularisers,
    squared_distance,
    theory,
)
from cyclade.regularisers import (
    L0,
    L1,
    MCP,
    SCAD,
    Box,
    ElasticNet,
    Grid,
    GroupL2,
    L1Ball,
    L2Ball,
    LHalf,
    NonNegative,
    NuclearNorm,
    PerBlock,
    PyProximal,
    Simplex,
    SquaredL2,
    TotalVariation1D,
    Zero,
)
from cyclade.sampling.orders import as_order

WEIGHT: list[Any] = [0.5, 0, 2, np.float32(0.1), np.array(1.0), torch.tensor(0.3), 1e-300, 1e300]
RADIUS: list[Any] = [1.0, 2, np.float64(0.5), 1e-300, 1e300]
STEP: list[Any] = [0.5, 1, np.float32(2.0), 1e-12, 1e12]
GENERATOR = Fresh(lambda: np.random.default_rng(0))

REGULARISERS: dict[str, dict[str, list[Any]]] = {
    "L1": {"lam": [*WEIGHT, [0.0, 1.0], np.ones(3)]},
    "ElasticNet": {"l1": WEIGHT, "l2": WEIGHT},
    "Box": {"lower": [0, -1.0, -math.inf, [0.0, 1.0]], "upper": [1, 2.5, math.inf, np.ones(2)]},
    "NonNegative": {},
    "Zero": {},
    "GroupL2": {
        "lam": WEIGHT,
        "groups": [None, 0, -1, [[0, 2], [1]], [np.array([0]), (1, 2)]],
        "weights": [None, [1.0, 2.0], np.array([0.0, 1.0])],
    },
    **{name: {"radius": RADIUS} for name in ("L1Ball", "L2Ball", "Simplex")},
    **{name: {"lam": WEIGHT} for name in ("SquaredL2", "NuclearNorm", "L0", "LHalf")},
    "TotalVariation1D": {"lam": WEIGHT},
    "MCP": {"lam": WEIGHT, "gamma": [3, 0.5, 1e-300, 1e300]},
    "SCAD": {"lam": WEIGHT, "gamma": [3.7, 2, 1.001, 1e300]},
    "Grid": {"points": [[0.0], [-1, 0.5, 2.0], np.array([3.0, 1.0])]},
    "PyProximal": {"op": [pyproximal.L1(), pyproximal.Box(0, 1)]},
    "PerBlock": {"regs": [[L1(1.0), Zero()], (), [PyProximal(pyproximal.L1())]]},
    "per_block": {
        "reg": [None, L1(0.5), [None, L1(0.5)], {"a": L1(1.0)}, PerBlock([Zero(), L0(1.0)])],
        "m": [2, 1, np.int64(2)],
        "names": [["a", "b"], None],
        "shapes": [[(3,), (2, 2)], None],
    },
}  # fmt: skip
CONSTRUCTORS = [
    Call(name, getattr(regularisers, name), REGULARISERS[name])
    for name in regularisers.__all__
    if name not in ("Regulariser", "RegulariserLike")  # an abstract class and a type
]

VECTOR: list[Any] = [np.array([1.0, -2.0, 0.5]), [1, 0, 2], np.zeros(3, np.float32),
                     torch.tensor([1.0, 0.0, -3.0]), np.array([1, 0, 2])]  # fmt: skip
MATRIX: list[Any] = [np.array([[1.0, 2.0], [0.0, -1.0]]), [[1, 2], [3, 4]], torch.eye(2),
                     np.zeros((2, 2), np.float32), torch.eye(2, dtype=torch.float64)]  # fmt: skip
ON_VECTORS = [
    Zero(), L1(0.5), L1([0.5, 0.0, 1.0]), SquaredL2(1.0), ElasticNet(1.0, 0.5), NonNegative(),
    Box([0.0, -1.0, 0.0], 1.0), GroupL2(1.0), GroupL2(0.5, [[0, 2], [1]], [1.0, 2.0]), L1Ball(1.0),
    L2Ball(1.0), Simplex(), TotalVariation1D(0.5), MCP(0.5), SCAD(0.5), L0(0.5), LHalf(0.5),
    Grid([-1.0, 0.0, 0.5]),
    PyProximal(pyproximal.L1()),
]  # fmt: skip
ON_MATRICES = [NuclearNorm(0.5), GroupL2(0.5, 0), GroupL2(0.5, -1, [1.0, 2.0])]


def methods(reg: Any, blocks: list[Any]) -> list[Call]:
    steps = [*STEP, np.full(np.shape(blocks[0]), 0.5)]
    return [
        Call(f"{reg}.value", reg.value, {"u": blocks}),
        Call(f"{reg}.prox", reg.prox, {"u": blocks, "t": steps}),
        Call(f"{reg}.distance", reg.distance, {"u": blocks, "v": blocks, "w": steps}),
    ]


def of_blocks(reg: PerBlock) -> list[Call]:
    j = [0, 1, np.int64(1)]
    return [
        Call("PerBlock.value", reg.value, {"j": j, "u": VECTOR}),
        Call("PerBlock.prox", reg.prox, {"j": j, "u": VECTOR, "t": STEP}),
        Call("PerBlock.distance", reg.distance, {"j": j, "u": VECTOR, "v": VECTOR, "w": STEP}),
    ]


METHODS = [
    *(call for reg in ON_VECTORS for call in methods(reg, VECTOR)),
    *(call for reg in ON_MATRICES for call in methods(reg, MATRIX)),
    *of_blocks(PerBlock([L1(1.0), NonNegative()])),
]

SOURCE: list[Any] = [9, np.int64(100), FiniteSum(9), Fresh(lambda: Stream(iter([1.0] * 9)))]
SAMPLERS = [
    Call("FiniteSum", FiniteSum, {"n": [9, 1, np.int32(5), 2**63 - 1]}),
    Call("FiniteSum.take", FiniteSum(9).take, {"size": [2, 9, np.int64(1)], "rng": [GENERATOR]}),
    Call("Full", Full, {"n": [1, 5, np.int64(9)]}),
    Call("Full.size", Full(9).size, {"sample": [np.arange(3), [1, 2]]}),
    Call("Minibatch", Minibatch, {"source": SOURCE, "b": [3, 1, np.int64(2)]}),
    Call("Minibatch.draw", Minibatch(9, 3).draw, {"rng": [GENERATOR]}),
    Call("Page", Page, {"source": SOURCE, "b": [4, 9], "b_small": [None, 2], "p": [None, 0.5, 1]}),
    Call("Page.large", Page(9, 3).large, {"rng": [GENERATOR]}),
    Call(
        "Stream",
        Stream,
        {"source": [lambda rng, size: size, [1.0, 2.0], Fresh(lambda: iter([1.0]))],
         "collate": [None, np.stack]},
    ),
    Call(
        "Stream.take",
        Stream(lambda rng, size: size).take,
        {"size": [2, np.int64(1)], "rng": [GENERATOR]},
    ),
]  # fmt: skip

POSITIVE: list[Any] = [1.0, 2, np.float32(0.5), np.array(3.0), 1e-100, 1e100]
NON_NEGATIVE: list[Any] = [0.5, 0, 0.0, *POSITIVE]
TERMS: list[Any] = [100, 1, np.int64(1000)]
ONE_Q = [np.eye(3), torch.eye(3)]
ALL_Q = [np.stack([np.eye(3)] * 2), [np.eye(3)] * 2]
GOOD: dict[str, list[Any]] = {  # by the letters of the paper, whatever the function
    **dict.fromkeys(["L_hat", "mu", "eta"], POSITIVE),
    **dict.fromkeys(["L_tilde", "gap", "sigma2", "sigma2_x"], NON_NEGATIVE),
    **dict.fromkeys(["u_prev", "v", "v_prev"], NON_NEGATIVE),
    "n": [100, math.inf, np.int64(10**18)], "b": [50, 10, np.int8(100)], "b_small": [5, 1],
    "p": [0.5, 1, 1e-6], "K": [5, 1, 10**6, np.int64(3)], "epsilon": [0.1, 1, 1e-3],
    "F_prev": [1.0, -3, 1e300], "F": [0.5, -1e300], "j": [1, 2],
    "Lambda": [1.0, 2, [1.0, 2.0], np.array([1.0, 2.0, 3.0]), [[1.0], [2.0, 3.0]]],
    "sizes": [[1, 2], (2, 1), np.array([1, 1, 1]), [3]],
    "A": [np.eye(3), np.ones((4, 3, 3)), np.eye(3).tolist(), torch.eye(3)],
    "hvp": [lambda z, v: 2 * v, [lambda z, v: v, lambda z, v: 3 * v]],
    "x": [np.zeros(3), np.ones((2, 3)), [1, 2, 3]], "points": [1, 0], "radius": [1.0, 0],
    "rng": [0, GENERATOR], "iterations": [5, 1], "tol": [1e-3, 0],
}  # fmt: skip
OWN: dict[str, dict[str, list[Any]]] = {  # what some functions take in another way
    "pl_bound": {"K": [*GOOD["K"], 0]},
    "plan_finite_sum": {"n": TERMS},
    "plan_finite_sum_pl": {"n": TERMS, "mu": [0.1, 1]},
    "plan_infinite_sum": {"n": [math.inf, *TERMS]},
    "plan_infinite_sum_pl": {"n": [math.inf, *TERMS], "mu": [0.1, 1]},
    "q_hat": {"Q": ONE_Q}, "q_tilde": {"Q": ONE_Q}, "L_hat": {"Q": ALL_Q}, "L_tilde": {"Q": ALL_Q},
}  # fmt: skip


def of_theory(name: str) -> Call:
    function, good = getattr(theory, name), GOOD | OWN.get(name, {})
    return Call(name, function, {one: good[one] for one in inspect.signature(function).parameters})


THEORY = [of_theory(name) for name in theory.__all__]

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


TURN_CALLS = [
    *(
        turns(order)
        for order in (Forward(), Backward(), Shuffled(), Rotated(), Reflected(), Random(), Greedy())
    ),
    Call("as_order", as_order, {"order": ["forward", [2, 0, 1], Greedy()], "m": [3, np.int64(3)]}),
]

ETA: list[Any] = [1.0, 1, np.float32(0.5), lambda k: 0.1]
STEP_KINDS = [
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

CALLS = [
    *CONSTRUCTORS, *METHODS, *SAMPLERS, *THEORY, *LAYOUTS, *TURN_CALLS, *STEP_KINDS, *CERTIFICATE,
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=[call.name for call in CALLS])
def test_good_arguments_give_a_result(call: Call) -> None:
    assert try_call(call, first_good(call)) == "result"


@pytest.mark.parametrize("call", CALLS, ids=[call.name for call in CALLS])
def test_one_odd_argument(call: Call) -> None:
    for name in call.good:
        try_every_odd_value(call, name)


@pytest.mark.parametrize(
    "call", [call for call in CALLS if call.good], ids=[call.name for call in CALLS if call.good]
)
@fuzzed
@given(data=st.data())
def test_several_odd_arguments(call: Call, data: st.DataObject) -> None:
    try_call(call, data.draw(arguments(call)))
