"""NumPy and torch blocks alike: same numbers, same dtype and device, input untouched."""

import numpy as np
import pytest
import torch
from regulariser_cases import CASES, NAMES, anywhere, diagonal

from cyclade.regularisers import GroupL2, L2Ball

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


@pytest.mark.parametrize("kind", ["scalar", "diagonal"])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_torch_agrees_with_numpy(case, dtype, device, kind):
    rng = np.random.default_rng(5)
    tolerance = 2e-5 if dtype == "float32" else 1e-10
    u = anywhere(case, rng).astype(dtype)
    t = diagonal(rng, case.shape).astype(dtype) if kind == "diagonal" else 0.6
    tensor = torch.as_tensor(u, device=device)
    step = torch.as_tensor(t, device=device) if kind == "diagonal" else t
    z, z_tensor = case.reg.prox(u, t), case.reg.prox(tensor, step)
    assert isinstance(z, np.ndarray)
    assert isinstance(z_tensor, torch.Tensor)
    assert z.dtype == np.dtype(dtype)
    assert z_tensor.dtype == tensor.dtype
    assert z_tensor.device == tensor.device
    assert z.shape == tuple(z_tensor.shape) == case.shape
    np.testing.assert_allclose(z_tensor.cpu(), z, rtol=tolerance, atol=tolerance)
    assert case.reg.value(z) < np.inf
    assert case.reg.value(z_tensor) == pytest.approx(case.reg.value(z), rel=tolerance)

    v = rng.standard_normal(case.shape).astype(dtype)
    distance = case.reg.distance(z, v, t)
    assert isinstance(distance, float)
    same_point = torch.as_tensor(z, device=device)
    in_torch = case.reg.distance(same_point, torch.as_tensor(v, device=device), step)
    assert in_torch == pytest.approx(distance, rel=10 * tolerance)


@pytest.mark.parametrize("to", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_input_is_neither_changed_nor_shared(case, to):
    rng = np.random.default_rng(7)
    for original in (anywhere(case, rng), case.feasible(case, rng)):
        weights = diagonal(rng, case.shape)
        for t in (0.5, to(weights.copy())):
            u, v = to(original.copy()), to(original.copy())
            z = case.reg.prox(u, t)
            case.reg.value(u)
            case.reg.distance(z, v, t)
            np.testing.assert_array_equal(np.asarray(u), original)
            np.testing.assert_array_equal(np.asarray(v), original)
            if not isinstance(t, float):
                np.testing.assert_array_equal(np.asarray(t), weights)
            z += 1.0
            np.testing.assert_array_equal(np.asarray(u), original)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_scalar_steps_come_in_any_form_and_equal_a_constant_diagonal(case):
    u = anywhere(case, np.random.default_rng(8))
    z = case.reg.prox(u, 0.5)
    for t in (np.float64(0.5), np.float32(0.5), np.array(0.5)):
        np.testing.assert_array_equal(case.reg.prox(u, t), z)
        assert case.reg.prox(u.astype(np.float32), t).dtype == np.float32
    np.testing.assert_allclose(case.reg.prox(u, np.full(case.shape, 0.5)), z, atol=1e-12)
    v = anywhere(case, np.random.default_rng(9))
    in_full = case.reg.distance(z, v, np.full(case.shape, 0.5))
    assert in_full == pytest.approx(case.reg.distance(z, v, 0.5), rel=1e-12)
    zero_dimensional = torch.tensor(0.5)
    assert case.reg.prox(torch.as_tensor(u), zero_dimensional).dtype == torch.float64


def test_strided_blocks():
    u = np.arange(12.0).reshape(3, 4).T
    np.testing.assert_allclose(np.linalg.norm(L2Ball(1.0).prox(u, 1.0)), 1.0)
    z = GroupL2(1.0, groups=1).prox(u, np.full((4, 3), 2.0))
    np.testing.assert_allclose(z, GroupL2(1.0, groups=1).prox(u.copy(), 2.0))
