"""Bad input: an error that names the argument and what is accepted, before any work starts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cyclade import L1, Fixed, NuclearNorm, minimize


def fun(x: Any, *idx: Any) -> float:
    return 0.5 * float(np.sum(np.asarray(x) ** 2))


def jac(x: Any, *idx: Any) -> Any:
    return x


ZEROS = np.zeros(4)

BAD: list[tuple[dict[str, Any], str]] = [
    ({"x0": np.array([0.0, np.nan])}, "x0 contains NaN or infinity"),
    ({"x0": {"w": np.array([np.inf])}}, r"x0\['w'\] contains NaN"),
    ({"x0": np.zeros(0)}, "x0 is empty"),
    ({"blocks": [1, 2]}, "add up to 3, but x0 has 4"),
    ({"blocks": []}, "blocks is empty"),
    ({"blocks": [[0, 0, 1], [2, 3]]}, "blocks overlap: indices 0 "),
    ({"blocks": [[0, 1], [3]]}, "blocks miss indices 2:"),
    ({"blocks": "layers"}, "blocks='layers' is unknown"),
    (
        {"x0": {"a": ZEROS, "b": ZEROS}, "blocks": ["a", "c"]},
        r"blocks names 'c', which x0 has not; it has \['a', 'b'\]",
    ),
    ({"x0": {"a": ZEROS, "b": ZEROS}, "blocks": ["a"]}, r"blocks miss \['b'\]"),
    ({"x0": {"a": ZEROS, "b": ZEROS}, "blocks": [["a", "b"], "b"]}, r"blocks overlap: \['b'\]"),
    ({"method": "Adam"}, "method='Adam' is unknown: use one of P-CCD, SCCD"),
    ({"method": 3}, "method must be one of"),
    ({"order": "sideways"}, "order='sideways' is unknown: use one of forward"),
    ({"order": [0, 0], "blocks": 2}, "each of the 2 blocks"),
    (
        {"x0": {"a": ZEROS, "b": ZEROS}, "order": ["a", "c"]},
        r"order must list each of the blocks \['a', 'b'\] once; 'c' is none of them",
    ),
    (
        {"x0": {"a": ZEROS, "b": ZEROS}, "order": ["a"]},
        r"order must list each of the blocks \['a', 'b'\] once, got \['a'\]",
    ),
    ({"L": 0.0}, r"L\[0\] must be positive and finite, got 0"),
    ({"L": 1e-310}, r"L\[0\] must be positive and finite"),
    ({"L": [1.0, -1.0], "blocks": 2}, r"L\[1\] must be positive and finite"),
    ({"L": [1.0], "blocks": 2}, "one entry for each of the 2 blocks"),
    ({"L": [np.ones(3)]}, r"L\[0\] must have the shape \(4,\)"),
    ({"L": [np.array([1.0, 0, 1, 1])]}, "positive and finite in every"),
    ({"L": "newton"}, "L='newton' is unknown"),
    ({"L": {"q": 1.0}}, "L must have the blocks' names"),
    ({"eta": 0.0}, "eta must be positive and finite"),
    ({"eta": "fast"}, "eta must be a positive number or a function"),
    ({"n": 9, "b": 10}, "b must be between 1 and n = 9, got 10"),
    ({"b": 3}, "b means nothing to P-CCD"),
    ({"n": 9, "method": "SGD", "p": 0.5}, "p means nothing to SGD"),
    ({"method": "VR-CCD"}, "method='VR-CCD' needs a sum"),
    ({"n": 0}, "n must be at least 1"),
    ({"n": 3.5}, "n must be a whole number"),
    ({"n": 3, "stream": iter([])}, "not both"),
    ({"stream": 3}, "stream must be an iterator"),
    ({"stream": iter([]), "method": "P-CCD"}, "needs a finite f"),
    ({"jac": None}, "a NumPy x0 needs the gradient of fun"),
    ({"jac": 3}, "jac must be callable"),
    ({"fun": 3}, "fun must be callable"),
    ({"jac": lambda x, idx: x}, r"called as jac\(x\).*missing.*'idx'"),
    (
        {"block_jac": lambda x: x},
        r"block_jac is called as block_jac\(x, j\), which it does not take",
    ),
    ({"stream": lambda: 0}, r"stream is called as stream\(rng, size\), which it does not take"),
    ({"jac": lambda x: np.zeros(3)}, r"shapes \[\(4,\)\], got an array of shape \(3,\)"),
    (
        {"jac": lambda x: np.append(x, 7.0), "blocks": 2},
        r"shapes \[\(4,\)\], got an array of shape \(5,\)",
    ),
    ({"x0": np.ones((2, 3)), "jac": lambda x: x.T, "blocks": 2}, "jac must return"),
    ({"jac": lambda x: x + 0j}, "jac must return real numbers, got dtype complex"),
    (
        {"fun": lambda x: x.detach().sum(), "x0": torch.ones(4), "jac": None},
        "not connected to x by torch operations",
    ),
    ({"L": Fixed([1.0, 1.0, 1.0]), "blocks": 2}, "for 3 blocks"),
    ({"jac": lambda x: None}, "jac must return the gradient"),
    ({"jac": lambda x: x * np.nan}, "gradient of fun at x0 has NaN"),
    (
        {"jac": None, "block_jac": lambda x, j: np.zeros(1), "blocks": 2},
        r"block_jac returned shape \(1,\)",
    ),
    ({"fun": lambda x: x}, r"fun must return a scalar, got an array of shape \(4,\)"),
    ({"fun": lambda x: np.nan}, r"fun\(x0\) is nan"),
    ({"fun": lambda x: "three"}, "fun must return a real number"),
    (
        {"fun": lambda x: x, "x0": torch.zeros(4), "jac": None},
        r"fun must return a scalar, got a tensor of shape \(4,\)",
    ),
    ({"fun": lambda x: 1.0, "x0": torch.zeros(4), "jac": None}, "scalar torch tensor"),
    ({"x0": torch.zeros(4)}, "jac and block_jac are for NumPy"),
    ({"fun": SimpleNamespace(sweep=print)}, "leave jac, block_jac and args out"),
    ({"args": [1]}, "args must be a tuple"),
    ({"tol": -1.0}, "tol must be at least 0"),
    ({"tol": "small"}, "tol must be a number"),
    (
        {"change_tol": 1e-3, "order": "random", "blocks": 2},
        "change_tol needs an order that visits every block",
    ),
    ({"tol": None, "max_cycles": None}, "nothing would stop the run"),
    ({"every": 0}, "every must be a whole number"),
    ({"returns": "first"}, "returns='first' is unknown"),
    ({"reg": 3.0}, "reg"),
    ({"reg": [L1(1.0), L1(1.0)]}, "reg has 2 entries for 1 blocks"),
    ({"reg": NuclearNorm(1.0)}, "reg"),
    ({"resume": 3}, "resume must be the `state` of a Result"),
    ({"L": b"x", "x0": np.zeros(1)}, "L must be 'backtracking'"),
    ({"L": {3.0, 1.0}, "blocks": 2}, "L must be 'backtracking'"),
    ({"L": np.ma.array([1.0, 2.0], mask=[0, 1]), "blocks": 2}, "L must be a plain"),
    ({"x0": np.ma.array([1.0, 2.0], mask=[0, 1])}, "x0 must be a plain array"),
    ({"jac": lambda x: np.ma.array(x, mask=True)}, "jac must be a plain array"),
    ({"fun": lambda x: np.ma.masked}, "the value of fun must be a plain array"),
    ({"fun": lambda x: "3"}, "fun must return a real number, got '3'"),
    ({"fun": lambda x: b"3"}, "fun must return a real number"),
    ({"fun": lambda x: np.array(1 + 2j)}, "fun must return a real number"),
    (
        {"stream": lambda rng, size: rng.normal(size=(3, 4)), "b": 10},
        r"stream\(rng, 10\) must return 10 samples along the first axis, got 3",
    ),
    (
        {"stream": lambda rng, size: (np.zeros((3, 2)), np.zeros(3)), "b": 10, "L": 1.0},
        "must return 10 samples along the first axis, got 3 and 3",
    ),
    (
        {"x0": 3.0, "fun": lambda x: x[0] ** 2, "jac": lambda x: 2 * x},
        "Give x0 as a list of one number",
    ),
    ({"L": type("Half", (), {"at": print})()}, "L: Half lacks begin"),
]


def test_functions_that_do_not_take_their_arguments_are_named() -> None:
    with pytest.raises(TypeError, match=r"fun is called as fun\(x, idx\), which it does not take"):
        minimize(lambda x: 0.0, ZEROS, jac=jac, n=9)
    with pytest.raises(TypeError, match=r"fun is called as fun\(x, args\[0\]\).*too many"):
        minimize(lambda x: 0.0, ZEROS, jac=jac, args=(3,))


@pytest.mark.parametrize(("options", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input(options: dict[str, Any], message: str) -> None:
    settings: dict[str, Any] = {"fun": fun, "x0": ZEROS, "jac": jac, **options}
    function, calls = settings["fun"], []

    def counted(*args: Any) -> Any:
        calls.append(args)
        return function(*args)

    if callable(function):
        settings["fun"] = counted
    with pytest.raises((ValueError, TypeError), match=message):
        minimize(**settings)
    assert len(calls) <= 2  # at most one look at x0: its value and its gradient


def test_a_fun_that_turns_nan() -> None:
    def log_barrier(x: Any) -> float:
        with np.errstate(invalid="ignore"):
            return float(-np.log(x).sum() + x.sum())

    res = minimize(log_barrier, np.full(2, 0.9), jac=lambda x: 1 - 1 / x, L=0.05, tol=1e-8, every=1)
    assert not res.success
    assert np.isfinite(res.fun)
    assert "not finite" in res.message


def test_resuming_another_problem_is_refused() -> None:
    res = minimize(fun, ZEROS + 1, jac=jac, tol=None, max_cycles=2)
    with pytest.raises(ValueError, match="resume has blocks of shapes"):
        minimize(fun, np.ones(3), jac=jac, resume=res.state)
    with pytest.raises(ValueError, match="resume is a state of P-CCD, not of SCCD"):
        minimize(fun, ZEROS, jac=jac, n=4, method="SCCD", resume=res.state)


def test_a_scalar_start_takes_a_gradient_of_one_entry() -> None:
    res = minimize(lambda x: float(x) ** 2, 3.0, jac=lambda x: np.array([2.0 * float(x)]))
    assert res.success
    assert res.x.shape == ()


def test_jax_arrays_are_refused_with_what_to_do() -> None:
    Array = type("ArrayImpl", (), {"__module__": "jaxlib._jax", "shape": (3,)})
    with pytest.raises(TypeError, match=r"JAX array: give numpy\.asarray\(x0\)"):
        minimize(lambda x: 0.0, Array(), jac=lambda x: x)
