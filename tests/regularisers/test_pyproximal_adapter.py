"""The adapter against regularisers that both libraries have."""

import numpy as np
import pyproximal
import pytest
import torch

from cyclade.regularisers import L1, Box, NuclearNorm, PyProximal, SquaredL2

PAIRS = [
    (PyProximal(pyproximal.L1(sigma=0.7)), L1(0.7), (6,)),
    (PyProximal(pyproximal.L2(sigma=0.7)), SquaredL2(0.7), (2, 3)),
    (PyProximal(pyproximal.Nuclear((4, 3), sigma=0.7)), NuclearNorm(0.7), (4, 3)),
    (PyProximal(pyproximal.Box(-1.0, 0.5)), Box(-1.0, 0.5), (6,)),
]
IDS = [repr(pair[0]) for pair in PAIRS]


@pytest.mark.parametrize(("adapted", "ours", "shape"), PAIRS, ids=IDS)
def test_value_and_prox_agree(adapted, ours, shape):
    rng = np.random.default_rng(0)
    for t in (0.1, 1.0, 4.0):
        u = rng.standard_normal(shape)
        original = u.copy()
        z = adapted.prox(u, t)
        np.testing.assert_allclose(z, ours.prox(u, t), atol=1e-12)
        np.testing.assert_array_equal(u, original)
        assert z.shape == shape
        assert adapted.value(z) == pytest.approx(ours.value(z))
    outside = np.full(shape, 9.0)
    assert adapted.value(outside) == pytest.approx(ours.value(outside))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("adapted", "ours", "shape"), PAIRS, ids=IDS)
def test_torch_blocks(adapted, ours, shape, dtype):
    u = torch.as_tensor(np.random.default_rng(1).standard_normal(shape), dtype=dtype)
    z = adapted.prox(u, 0.3)
    assert isinstance(z, torch.Tensor)
    assert z.dtype == dtype
    torch.testing.assert_close(z, ours.prox(u, 0.3))
    assert adapted.prox(u.numpy(), 0.3).dtype == u.numpy().dtype


@pytest.mark.parametrize(("adapted", "ours", "shape"), PAIRS, ids=IDS)
def test_distance_is_a_lower_bound_and_vanishes_at_stationary_points(adapted, ours, shape):
    rng = np.random.default_rng(2)
    assert not adapted.exact_distance
    assert ours.exact_distance
    for w in (0.2, 1.0, 3.0):
        u = rng.standard_normal(shape)
        z, v = ours.prox(u, 0.5), rng.standard_normal(shape)
        assert 0 < adapted.distance(z, v, w) <= ours.distance(z, v, w) + 1e-12
        assert adapted.distance(z, (z - u) / 0.5, w) < 1e-12
    assert PAIRS[3][0].distance(np.array([9.0]), np.array([0.0])) == np.inf


def test_diagonal_steps_are_refused():
    reg = PAIRS[0][0]
    with pytest.raises(ValueError, match="PyProximal operators take scalar steps only"):
        reg.prox(np.ones(6), np.ones(6))
    with pytest.raises(ValueError, match="PyProximal operators take scalar steps only"):
        reg.distance(np.ones(6), np.ones(6), np.ones(6))
