"""Regularisers for all blocks, from every accepted form."""

import numpy as np
import pyproximal
import pytest

from cyclade.linear import penalties as linear_penalties
from cyclade.regularisers import L1, NonNegative, NuclearNorm, PerBlock, PyProximal, Zero, per_block


@pytest.mark.parametrize(
    ("reg", "shown"),
    [
        (None, "[Zero(), Zero()]"),
        (L1(0.5), "[L1(0.5), L1(0.5)]"),
        ([None, L1(0.5)], "[Zero(), L1(0.5)]"),
        ((NonNegative(), L1(0.5)), "[NonNegative(), L1(0.5)]"),
        ({"b": L1(0.5)}, "[Zero(), L1(0.5)]"),
        ({"a": NonNegative(), "b": None}, "[NonNegative(), Zero()]"),
        (PerBlock([Zero(), L1(2.0)]), "[Zero(), L1(2)]"),
    ],
)
def test_accepted_forms(reg, shown):
    blocks = per_block(reg, 2, names=["a", "b"], shapes=[(3,), (2, 2)])
    assert repr(blocks) == f"PerBlock({shown})"
    assert len(blocks) == 2


def test_methods_reach_the_right_block():
    blocks = per_block([L1(0.5), NonNegative()], 2)
    u, v = np.array([-1.0, 2.0]), np.array([3.0, -4.0])
    np.testing.assert_array_equal(blocks.prox(0, u, 1.0), [-0.5, 1.5])
    np.testing.assert_array_equal(blocks.prox(1, u, 1.0), [0.0, 2.0])
    assert blocks.value(0, u) == 1.5
    assert blocks.value(1, u) == np.inf
    assert blocks.distance(0, u, v) == pytest.approx(np.hypot(2.5, 3.5))
    assert blocks.distance(1, abs(u), v, np.array([1.0, 4.0])) == pytest.approx(np.hypot(3, 8))


def test_exact_distance_needs_every_block():
    assert per_block(L1(1.0), 2).exact_distance
    assert not per_block([L1(1.0), PyProximal(pyproximal.L1())], 2).exact_distance


@pytest.mark.parametrize(
    ("reg", "error", "message"),
    [
        (3.0, TypeError, "reg must be None, one Regulariser for all .* L1.* got float"),
        ("l1", TypeError, "reg must be None, .* got str"),
        (pyproximal.L1(), TypeError, r"got L1; wrap a PyProximal operator as PyProximal\(op\)"),
        (linear_penalties.L1(1.0), TypeError, "got L1 of cyclade.linear; take one of cyclade.reg"),
        ([L1(1.0)], ValueError, "reg has 1 entries for 2 blocks; give one per block"),
        ([L1(1.0), 2.0], TypeError, r"reg\['b'\] must be a Regulariser, got float"),
        ({"c": L1(1.0)}, ValueError, r"reg names unknown blocks \['c'\]; the blocks are"),
        ({"a": 1}, TypeError, r"reg\['a'\] must be a Regulariser, got int"),
        ([NuclearNorm(1.0), None], ValueError, r"reg\['a'\]: NuclearNorm acts on matrix"),
        (NuclearNorm(1.0), ValueError, r"reg \(for block 0\): NuclearNorm acts on matrix"),
        (PerBlock([Zero()]), ValueError, "reg has 1 entries for 2 blocks"),
    ],
)
def test_bad_forms(reg, error, message):
    with pytest.raises(error, match=message):
        per_block(reg, 2, names=["a", "b"], shapes=[(3,), (2, 2)])


def test_a_dict_needs_names_and_the_class_regularisers():
    with pytest.raises(ValueError, match="reg is a dict, but the blocks have no names"):
        per_block({"a": L1(1.0)}, 1)
    with pytest.raises(TypeError, match=r"regs\[1\] must be a Regulariser, got NoneType"):
        PerBlock([Zero(), None])
