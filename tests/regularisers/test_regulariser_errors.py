"""Bad input gives an error that names the argument, what is wrong and what is accepted."""

import numpy as np
import pytest
import torch
from regulariser_cases import CASES, NAMES, NONCONVEX

from cyclade.regularisers import (
    L1,
    MCP,
    SCAD,
    Box,
    ElasticNet,
    Grid,
    GroupL2,
    L1Ball,
    NuclearNorm,
    PyProximal,
    Simplex,
    TotalVariation1D,
)

nan, inf = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: L1(-1.0), r"L1: lam must be a finite number >= 0, got -1\.0"),
        (lambda: L1([1.0, -1.0]), "L1: every entry of lam must be a finite number >= 0"),
        (lambda: ElasticNet(1.0, -2.0), r"ElasticNet: l2 must be a finite number >= 0, got -2\.0"),
        (lambda: ElasticNet(0.5), "ElasticNet: give l1 and l2, or lam and l1_ratio"),
        (lambda: ElasticNet(lam=1.0, l1_ratio=2.0), "ElasticNet: l1_ratio must be between 0 and 1"),
        (lambda: GroupL2(1, [[0], []]), r"groups\[1\] must be a non-empty list of indices"),
        (lambda: GroupL2(1, []), "GroupL2: groups must not be empty"),
        (lambda: GroupL2(1, [[0, 1], [1]]), "GroupL2: groups overlap: index 1 repeats"),
        (lambda: GroupL2(1, [[0.5]]), r"groups\[0\] must be a list of integers, got \[0.5\]"),
        (lambda: GroupL2(1, [[-1]]), r"GroupL2: groups\[0\] must hold indices >= 0, got -1"),
        (lambda: GroupL2(1, 0.5), "GroupL2: groups must be None, an integer axis or a list"),
        (lambda: GroupL2(1, 0, [-1.0]), "GroupL2: weights must be a list of finite numbers >= 0"),
        (lambda: GroupL2(1, [[0], [1]], [1.0]), "one entry for each of the 2 groups, got 1"),
        (lambda: Box(1.0, 0.0), r"Box: lower must be <= upper, got lower=1\.0, upper=0\.0"),
        (lambda: Box(nan, 0.0), "Box: lower and upper must not be NaN"),
        (lambda: Box(inf, inf), "Box: lower must be < inf"),
        (lambda: Box([0.0], [1.0, 2.0]), r"Box: lower has shape \(1,\) but upper has shape \(2,\)"),
        (lambda: Simplex(0.0), r"Simplex: radius must be a finite number > 0, got 0\.0"),
        (lambda: MCP(1.0, 0.0), "MCP: gamma must be a finite number > 0, got 0.0"),
        (lambda: SCAD(1.0, 1.0), "SCAD: gamma must be a finite number > 1, got 1.0"),
        (lambda: L1("a"), "L1: lam must be a number or an array of numbers, got 'a'"),
        (lambda: GroupL2(1.0, [[[0], [1, 2]]]), r"groups\[0\] must be a non-empty list of indices"),
        (lambda: GroupL2(1.0, None, "a"), "GroupL2: weights must be a number or an array of"),
        (lambda: Grid([]), "Grid: points must be one or more finite numbers"),
        (lambda: Grid("ab"), "Grid: points must be one or more finite numbers, got 'ab'"),
    ],
)
def test_parameters(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("reg", "shape", "message"),
    [
        (L1(np.ones(3)), (4,), r"reg\[0\]: L1: lam has shape \(3,\), but the block has shape"),
        (Box(np.zeros(3), 1.0), (4,), r"reg\[0\]: Box: lower or upper has shape \(3,\)"),
        (GroupL2(1.0, [[0], [2]]), (3,), r"reg\[0\]: GroupL2: groups miss index 1"),
        (GroupL2(1.0, [[0], [5]]), (2,), r"reg\[0\]: GroupL2: groups hold index 5, out of range"),
        (GroupL2(1.0, 2), (2, 2), r"reg\[0\]: GroupL2: axis 2 is out of range for a block of"),
        (GroupL2(1.0, 0, [1.0]), (2, 2), "weights must have one entry for each of the 2 groups"),
        (NuclearNorm(1.0), (3,), r"reg\[0\]: NuclearNorm acts on matrix \(2-D\) blocks, but"),
        (TotalVariation1D(1.0), (3, 3), r"reg\[0\]: TotalVariation1D acts on non-empty vector"),
    ],
)
def test_shapes(reg, shape, message):
    with pytest.raises(ValueError, match=message):
        reg.check(shape, "reg[0]")


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_steps_and_weights(case):
    u = case.reg.prox(np.ones(case.shape), 1.0)
    for bad in (0.0, -1.0, nan, inf, np.float64(-1.0), np.array(0.0)):
        with pytest.raises(ValueError, match="the prox step t must be positive and finite, got"):
            case.reg.prox(u, bad)
        with pytest.raises(ValueError, match="the weight w must be positive and finite, got"):
            case.reg.distance(u, u, bad)
    for entry in (0.0, -1.0, nan, inf):
        t = np.ones(case.shape)
        t.flat[0] = entry
        with pytest.raises(ValueError, match="every entry of the prox step t must be positive"):
            case.reg.prox(u, t)
    message = r"the prox step t must be a positive number or an array of the block's shape"
    for bad in (np.ones(17), [1.0], None, True, "1", 1j):
        with pytest.raises(ValueError, match=message):
            case.reg.prox(u, bad)
    with pytest.raises(TypeError, match="namespace"):
        case.reg.prox(u, torch.ones(case.shape))


def test_representations():
    shown = [repr(case.reg) for case in CASES]
    assert shown[:4] == ["Zero()", "L1(0.7)", "L1(array of shape (5,))", "SquaredL2(0.7)"]
    assert [repr(case.reg) for case in NONCONVEX] == [
        "MCP(0.7, gamma=1.5)", "SCAD(0.7, gamma=2.5)", "L0(0.7)", "LHalf(0.7)",
    ]  # fmt: skip
    assert repr(GroupL2(1.0, 0, [1.0])) == "GroupL2(1, groups=0, weights=array of shape (1,))"
    assert repr(GroupL2(1.0, [[0], [1]])) == "GroupL2(1, groups=<2 lists>)"
    assert repr(Box(0.0, 1.0)) == "Box(0, 1)"
    assert repr(L1Ball(1.5)) == "L1Ball(1.5)"


def test_adapter_takes_operators_only():
    with pytest.raises(TypeError, match="PyProximal: op must be a PyProximal operator"):
        PyProximal(3)
