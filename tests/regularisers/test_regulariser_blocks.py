"""What a block may be: lists, integers, half precision, NaN; and what it may not."""

import math

import numpy as np
import pytest
import torch
from regulariser_cases import CASES, NAMES, anywhere

from cyclade.regularisers import L1, MCP, Box, ElasticNet

by_name = pytest.mark.parametrize("case", CASES, ids=NAMES)


@by_name
def test_lists_and_integers_become_double_precision(case):
    whole = np.arange(math.prod(case.shape)).reshape(case.shape) % 3
    expected = case.reg.prox(whole.astype(float), 0.5)
    for block in (whole, whole.tolist(), whole.astype(np.uint8)):
        z = case.reg.prox(block, 0.5)
        assert z.dtype == np.float64
        np.testing.assert_array_equal(z, expected)
        assert case.reg.value(z.tolist()) == case.reg.value(z)
        assert case.reg.distance(z.tolist(), block, 2) == case.reg.distance(z, whole * 1.0, 2.0)


@by_name
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(case, dtype):
    u = torch.as_tensor(anywhere(case, np.random.default_rng(0))).to(dtype)
    z = case.reg.prox(u, 0.5)
    assert z.dtype == dtype
    expected = case.reg.prox(u.double(), 0.5)
    torch.testing.assert_close(z.double(), expected, atol=0.05, rtol=0.05)
    assert isinstance(case.reg.distance(u, u), float)
    assert isinstance(case.reg.value(u), float)


@by_name
def test_numpys_other_precisions(case):
    for dtype in (np.float16, np.longdouble):
        u = anywhere(case, np.random.default_rng(0)).astype(dtype)
        z = case.reg.prox(u, 0.5)
        assert z.dtype == dtype
        np.testing.assert_allclose(z.astype(float), case.reg.prox(u.astype(float), 0.5), atol=0.01)


@by_name
@pytest.mark.parametrize("to", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_nan_gives_nan_and_no_error(case, to):
    """A run that diverges must be able to say so: the prox may not fail, nor hide the NaN."""
    u = np.ones(case.shape)
    u.flat[0] = np.nan
    for t in (0.5, to(np.full(case.shape, 0.5))):
        assert np.isnan(np.asarray(case.reg.prox(to(u), t))).any()
    assert isinstance(case.reg.distance(to(u), to(np.ones(case.shape))), float)
    assert not math.isfinite(case.reg.value(to(u))) or case.name == "zero"


@by_name
def test_what_is_no_block(case):
    good = np.ones(case.shape)
    for bad in (np.zeros((0, *case.shape[1:])), good + 0j, good > 0):
        for call in (case.reg.value, lambda u: case.reg.prox(u, 1.0)):
            with pytest.raises(ValueError, match=r"^u must be a"):
                call(bad)
        with pytest.raises(ValueError, match=r"^v must be a"):
            case.reg.distance(good, bad)
    with pytest.raises(TypeError, match=r"v must be of the array library .* of the block u, numpy"):
        case.reg.distance(good, torch.as_tensor(good))
    with pytest.raises(ValueError, match=r"v must have the shape .* of u, got \(1, 1, 1, 7\)"):
        case.reg.distance(good, np.ones((1, 1, 1, 7)))


@pytest.mark.parametrize("to", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_beyond_single_precision(to):
    u = to(np.array([1.0, -2.0], dtype=np.float32))
    assert not np.asarray(L1(1e300).prox(u, 1.0)).any()
    assert not np.asarray(L1(1.0).prox(u, 1e300)).any()
    assert not np.asarray(ElasticNet(1e300, 1.0).prox(u, 1.0)).any()
    np.testing.assert_array_equal(np.asarray(Box(-1e300, 1e300).prox(u, 1.0)), np.asarray(u))
    assert MCP(1.0, 1e300).value(u) == pytest.approx(3.0)
    assert L1(1e300).distance(0 * u, u) == 0.0
