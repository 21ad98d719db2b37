"""Penalties refuse bad arguments at once, and name them."""

import numpy as np
import pytest

from cyclade.linear import penalties
from cyclade.linear.penalties import (
    L1,
    MCP,
    SCAD,
    Box,
    ElasticNet,
    GroupL2,
    LogSum,
    Rows,
    SparseGroup,
    WeightedL1,
)

REFUSED = {
    "negative lam": (lambda: L1(-1.0), "L1: lam must be a finite number >= 0, got -1"),
    "nan lam": (lambda: ElasticNet(float("nan")), "ElasticNet: lam"),
    "text lam": (lambda: Rows("much"), "Rows: lam .* 'much'"),
    "l1_ratio": (lambda: ElasticNet(1.0, 1.5), "l1_ratio must be between 0 and 1, got 1.5"),
    "group l1_ratio": (lambda: SparseGroup(1.0, 2, 2), "SparseGroup: l1_ratio"),
    "weights": (lambda: WeightedL1(1.0, [1.0, -2.0]), "entry 1 is -2"),
    "infinite weights": (lambda: WeightedL1(1.0, [np.inf, 2.0]), "entry 0 is inf"),
    "number as weights": (lambda: WeightedL1(1.0, 3.0), "list of numbers"),
    "mcp lam": (lambda: MCP(0.0), "MCP: lam must be a finite number > 0"),
    "mcp gamma": (lambda: MCP(1.0, 1.0), "MCP: gamma must be a finite number > 1"),
    "scad lam": (lambda: SCAD(0.0), "SCAD: lam must be a finite number > 0"),
    "scad gamma": (lambda: SCAD(1.0, 2.0), "SCAD: gamma must be a finite number > 2"),
    "log sum lam": (lambda: LogSum(0.0), "LogSum: lam must be a finite number > 0"),
    "log sum eps": (lambda: LogSum(1.0, 0.0), "LogSum: eps must be a finite number > 0"),
    "box order": (lambda: Box(1.0, 0.0), "lower must be <= upper"),
    "box nan": (lambda: Box(np.nan, 0.0), "not be NaN"),
    "box lengths": (lambda: Box([0.0, 0.0], [1.0]), r"lower has shape \(2,\) but upper"),
    "box matrix": (lambda: Box(np.zeros((2, 2)), 1.0), "numbers or vectors"),
    "box infinite": (lambda: Box(np.inf, np.inf), "lower must be < inf"),
    "group size": (lambda: GroupL2(1.0, 0), "size must be >= 1, got 0"),
    "group text": (lambda: GroupL2(1.0, "all"), "list of index lists, got 'all'"),
    "group flag": (lambda: GroupL2(1.0, True), "list of index lists, got True"),
    "group none": (lambda: GroupL2(1.0, None), "list of index lists, got None"),
    "no groups": (lambda: GroupL2(1.0, []), "must not be empty"),
    "empty group": (lambda: GroupL2(1.0, [[0], []]), r"groups\[1\] must be a non-empty"),
    "float group": (lambda: GroupL2(1.0, [[0.5]]), r"groups\[0\] must be a list of integers"),
    "negative index": (lambda: GroupL2(1.0, [[0], [-1]]), r"groups\[1\] must hold indices >= 0"),
    "overlap": (lambda: GroupL2(1.0, [[0, 1], [1, 2]]), "overlap: feature 1"),
    "group weights": (lambda: GroupL2(1.0, [[0], [1]], [1.0, -1.0]), "entry 1 is -1"),
    "group weights number": (lambda: GroupL2(1.0, [[0], [1]], [1.0]), "each of the 2 groups"),
    "missing": (lambda: GroupL2(1.0, [[0], [2]]).partition(3), "miss feature 1 of 3"),
    "out of range": (lambda: GroupL2(1.0, [[0], [3]]).partition(3), "feature 3, out of range"),
    "not divisible": (lambda: GroupL2(1.0, 2).partition(3), "groups of 2 do not divide the 3"),
    "weights for a size": (
        lambda: GroupL2(1.0, 2, [1.0]).parameters(4), "each of the 2 groups, got 1",
    ),
    "columns": (lambda: WeightedL1(1.0, [1.0, 2.0]).parameters(3), "2 coordinates, but X has 3"),
    "unknown name": (lambda: penalties.get("l7", 1.0), "one of l1, elastic_net, .*got 'l7'"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    build, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        build()


def test_wrong_options_name_the_penalty():
    with pytest.raises(TypeError, match=r"penalty 'l1' .*gamma"):
        penalties.get("l1", 1.0, gamma=3.0)


def test_arguments_are_copied():
    weights = np.array([1.0, 2.0])
    penalty = WeightedL1(1.0, weights)
    weights[:] = 0.0
    assert penalty.weights.tolist() == [1.0, 2.0]
    assert penalty.value(1.0, 1) == 2.0
