"""Layouts and points: nested structures, cuts inside arrays, odd arrays, and what is remembered."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from cyclade import L1, Layout, minimize


class Layer(NamedTuple):
    W: Any
    b: Any


def nested(library: str = "numpy") -> Any:
    x = {
        "enc": Layer(np.arange(6.0).reshape(2, 3), np.array(7.0)),
        "dec": [np.arange(2.0), (np.full(3, 9.0),)],
    }
    if library == "torch":
        return {
            "enc": Layer(*map(torch.as_tensor, x["enc"])),
            "dec": [torch.as_tensor(x["dec"][0]), (torch.as_tensor(x["dec"][1][0]),)],
        }
    return x


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize(
    ("blocks", "names"),
    [
        (None, ("enc.W", "enc.b", "dec.0", "dec.1.0")),
        (["enc", "dec"], ("enc.W+enc.b", "dec.0+dec.1.0")),
        ([["dec.0", "enc.b"], "enc.W", "dec.1"], ("dec.0+enc.b", "enc.W", "dec.1.0")),
        ({"enc.W": 2}, ("enc.W[0]", "enc.W[1]", "enc.b", "dec.0", "dec.1.0")),
        (
            {"enc": {"W": [[5, 0], [1, 2, 3, 4]], "b": "each"}, "dec": "coordinates"},
            ("enc.W[0]", "enc.W[1]", "enc.b", "dec.0[0]", "dec.0[1]", "dec.1.0[0]", "dec.1.0[1]",
             "dec.1.0[2]"),
        ),
    ],
)  # fmt: skip
def test_nested_structures(blocks: Any, names: tuple[str, ...], library: str) -> None:
    x = nested(library)
    layout = Layout.of(x, blocks)
    assert layout.names == names
    assert sum(layout.sizes) == layout.d == 12
    point = layout.point(x)
    for whole in (point.whole(), point.view()):
        assert isinstance(whole["enc"], Layer)
        assert isinstance(whole["dec"], list)
        assert isinstance(whole["dec"][1], tuple)
        np.testing.assert_array_equal(whole["enc"].W, x["enc"].W)
        assert whole["enc"].b.shape == ()
        np.testing.assert_array_equal(whole["dec"][1][0], x["dec"][1][0])
    flat = np.concatenate([np.asarray(a).ravel() for a in layout.arrays(x)])
    for j, index in enumerate(layout.flat_index()):
        np.testing.assert_array_equal(np.asarray(point.get(j)).ravel(), flat[index].ravel())
        assert tuple(point.get(j).shape) == layout.block_shapes[j]
        point.set(j, 2 * point.get(j))
    np.testing.assert_array_equal(
        np.concatenate([np.asarray(a).ravel() for a in layout.arrays(point.whole())]), 2 * flat
    )
    parts = layout.split(x)
    assert [tuple(part.shape) for part in parts] == layout.block_shapes
    again = pickle.loads(pickle.dumps(point))
    np.testing.assert_array_equal(again.whole()["enc"].W, 2 * x["enc"].W)


def test_a_namedtuple_comes_back_and_other_mappings_become_dicts() -> None:
    fun = lambda x: 0.5 * float(np.sum((x.W - 1) ** 2) + np.sum(x.b**2))  # noqa: E731
    res = minimize(fun, Layer(np.zeros(2), np.ones(1)), jac=lambda x: Layer(x.W - 1, x.b))
    assert isinstance(res.x, Layer)
    np.testing.assert_allclose(res.x.W, 1, atol=1e-4)
    ordered = Layout.of(OrderedDict(a=np.ones(2)), None).point(OrderedDict(a=np.ones(2)))
    assert ordered.whole().keys() == {"a"}


@pytest.mark.parametrize(
    ("x0", "blocks", "error"),
    [
        ({"a": {"b": np.ones(1)}, "a.b": np.ones(1)}, None, "more than one array named 'a.b'"),
        ({"a": np.ones(3)}, {"c": 2}, "blocks names 'c', which x0 has not"),
        ({"a": np.ones(3)}, {"a": 5}, r"blocks\['a'\]=5: a number of blocks must be between"),
        ({"a": np.ones(3)}, {"a": [1, 1]}, r"blocks\['a'\]: the sizes \[1, 1\] add up to 2"),
        ({"a": np.ones(3)}, {"a": [[0, 1], [1, 2]]}, r"blocks\['a'\] overlap: indices 1"),
        ({"a": np.ones(3)}, {"a": 1.5}, r"blocks\['a'\] must be 'each'"),
        (np.ones(3), [0, 3], "every size must be at least 1"),
        (np.ones(3), [[0, 1, 2, 4]], r"blocks\[0\] has indices outside 0 … 2"),
        (np.ones(3), {"a": 1}, "blocks must be"),
        (np.ones(3), np.array(2.5), "blocks must be"),
        (np.ones(3), [[0], [[1], [2, 3]]], r"blocks\[1\] must be a non-empty list"),
        ({"a": np.ones(3), "b": np.ones(2)}, 2, "for several arrays, blocks lists the names"),
        ({}, None, "x0 holds no arrays"),
        ({"a": {}}, None, "x0 holds no arrays"),
        ({"a": np.ones(2), "b": "text"}, None, r"x0\['b'\] must be an array of real numbers"),
        (np.ones(2, np.float16), None, "x0 has dtype float16, too coarse"),
        (torch.ones(2, dtype=torch.float16), None, "x0 has dtype torch.float16, too coarse"),
        (torch.ones(2, dtype=torch.bfloat16), None, "x0 has dtype torch.bfloat16, too coarse"),
        ({"w": torch.ones(2, dtype=torch.bfloat16)}, None, r"x0\['w'\] has dtype torch.bfloat16"),
        (np.ones(2, complex), None, "x0 must be an array of real numbers, got dtype complex128"),
        (np.array(["a"]), None, "x0 must be an array of real numbers, got dtype <U1"),
        (np.array([None]), None, "x0 must be an array of real numbers, got dtype object"),
        (np.array(["2020-01-01"], "M8[D]"), None, "x0 must be an array of real numbers"),
        (torch.ones(2, dtype=torch.int64), None, "x0 must be a real floating tensor"),
        (torch.ones(2).to_sparse(), None, "x0 must be a dense tensor"),
        ([np.ones(2), torch.ones(2)], None, "x0 mixes array libraries"),
    ],
    ids=str,
)
def test_what_cannot_be_cut_and_arrays_of_odd_dtypes_are_refused_by_name(
    x0: Any, blocks: Any, error: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=error):
        Layout.of(x0, blocks)


def test_arrays_in_one_block_need_one_dtype() -> None:
    x0 = {"a": np.ones(2), "b": np.ones(2, np.float32)}
    assert Layout.of(x0).m == 2
    with pytest.raises(TypeError, match="dtype float32 and float64 in one block"):
        Layout.of(x0, [["a", "b"]])


@pytest.mark.parametrize("x0", [np.array(3.0), 3.0, np.float32(3), torch.tensor(3.0)], ids=repr)
@pytest.mark.parametrize("method", ["P-CCD", "VRO-CCD"])
def test_a_number_is_a_point(x0: Any, method: str) -> None:
    jac = None if isinstance(x0, torch.Tensor) else (lambda x, idx=None: x - 1)
    n = None if method == "P-CCD" else 4
    res = minimize(
        lambda x, idx=None: 0.5 * (x - 1) ** 2, x0, jac=jac, n=n, method=method, reg=L1(0.25),
        L=1.0, eta=1.0, tol=1e-5,
    )  # fmt: skip
    assert res.success
    assert res.x.shape == ()
    assert float(res.x) == pytest.approx(0.75)
    block = minimize(
        lambda x: 0.5 * (x - 1) ** 2, np.array(3.0), block_jac=lambda x, j: x - 1, tol=1e-5
    )
    assert float(block.x) == pytest.approx(1.0, abs=1e-4)


def test_views_show_the_point_and_cannot_be_written() -> None:
    layout = Layout.of({"a": np.zeros(2), "b": np.zeros((2, 2))}, {"b": 2})
    x = layout.point({"a": np.zeros(2), "b": np.zeros((2, 2))})
    x.view()
    x.set(0, np.ones(2))
    x.set(2, np.full(2, 3.0))
    np.testing.assert_array_equal(x.view()["a"], 1)
    np.testing.assert_array_equal(x.view()["b"], [[0, 0], [3, 3]])
    with pytest.raises(ValueError, match="read-only"):
        x.view()["b"][0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        x.view()["a"][0] = 1.0
    tensor = Layout.of(torch.zeros(4), 2).point(torch.zeros(4))
    tensor.view()
    tensor.set(1, torch.ones(2))
    assert tensor.view().tolist() == [0, 0, 1, 1]


def test_long_layouts_print_short() -> None:
    assert len(repr(Layout.of(np.zeros(1000), "coordinates"))) < 200
