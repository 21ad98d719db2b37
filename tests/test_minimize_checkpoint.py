"""`minimize(checkpoint=…)`: a run that dies goes on as if nothing had happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cyclade import L1, minimize
from small import squares

fun, jac = squares(60, 6)


class Died(Exception):
    pass


def dying(at: int) -> Any:
    def callback(report: Any) -> None:
        if report.cycle == at:
            raise Died

    return callback


def run(**options: Any) -> Any:
    given = {"blocks": 3, "reg": L1(0.01), "n": 60, "tol": None, "max_cycles": 30, "every": 4}
    given |= {"jac": jac, "seed": 3}
    function = options.pop("fun", fun)
    return minimize(function, options.pop("x0", np.zeros(6)), **given | options)


def killed(place: Path, at: int, **options: Any) -> None:
    with pytest.raises(Died):
        run(**options, checkpoint=place, callback=dying(at))


def same(found: Any, wanted: Any) -> None:
    np.testing.assert_array_equal(np.asarray(found.x), np.asarray(wanted.x))
    assert found.cycles == wanted.cycles
    assert found.samples == wanted.samples
    for name in ("cycle", "fun", "squared_distance", "dist"):
        np.testing.assert_array_equal(found.history[name], wanted.history[name])


@pytest.mark.parametrize("method", ["P-CCD", "SCCD", "VR-CCD", "VRO-CCD", "PAGE", "SGD"])
@pytest.mark.parametrize("order", ["forward", "shuffled", "greedy"])
@pytest.mark.parametrize("returns", ["last", "paper"])
def test_a_run_that_dies_twice_ends_in_the_same_bits(
    method: str, order: str, returns: str, tmp_path: Path
) -> None:
    if order == "greedy" and method in ("PAGE", "SGD"):
        order = "forward"
    options = {"method": method, "order": order, "returns": returns}
    if method == "P-CCD":
        options["accelerate"] = order == "forward"
    wanted = run(**options)
    for at in (7, 19):
        killed(tmp_path / "run", at, **options)
    found = run(**options, checkpoint=tmp_path / "run")
    same(found, wanted)
    assert found.cycles > 19
    again = run(**options, checkpoint=tmp_path / "run")
    same(again, wanted)


def test_a_run_that_died_past_its_limit_looks_where_it_stands(tmp_path: Path) -> None:
    options = {"method": "P-CCD", "accelerate": False, "every": 50}
    killed(tmp_path / "run", 8, **options)
    found = run(**options, checkpoint=tmp_path / "run", max_cycles=1)
    assert found.history["cycle"] == [0, found.cycles]
    assert found.fun < found.history["fun"][0]


def test_torch_and_structures(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    At = torch.tensor(np.random.default_rng(0).standard_normal((60, 7)))

    def net(x: Any, idx: Any) -> Any:
        rows = At[idx]
        return 0.5 * ((rows[:, :2] @ x["a"] + rows[:, 2:6] @ x["b"][0] - rows[:, 6]) ** 2).mean()

    x0 = {"a": torch.zeros(2, dtype=torch.float64), "b": [torch.zeros(4, dtype=torch.float64)]}
    options = {"fun": net, "x0": x0, "jac": None, "blocks": None, "method": "VRO-CCD"}
    wanted = run(**options)
    killed(tmp_path / "run", 9, **options)
    found = run(**options, checkpoint=tmp_path / "run")
    for one, two in ((found.x["a"], wanted.x["a"]), (found.x["b"][0], wanted.x["b"][0])):
        assert isinstance(one, torch.Tensor)
        assert torch.equal(one, two)


def test_a_stream_goes_on(tmp_path: Path) -> None:
    options = {
        "fun": lambda x, rows: 0.5 * np.mean((rows @ x - 1) ** 2),
        "jac": lambda x, rows: rows.T @ (rows @ x - 1) / len(rows),
        "stream": lambda rng, size: rng.standard_normal((size, 6)), "n": None, "b": 40, "L": 2.0,
    }  # fmt: skip
    wanted = run(**options)
    killed(tmp_path / "run", 9, **options)
    same(run(**options, checkpoint=tmp_path / "run"), wanted)


def test_limits_may_grow(tmp_path: Path) -> None:
    wanted = run(max_cycles=40, returns="last")
    run(max_cycles=10, returns="last", checkpoint=tmp_path / "run")
    found = run(max_cycles=40, returns="last", checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(found.x, wanted.x)


def test_a_damaged_file_is_skipped_for_the_one_before(tmp_path: Path) -> None:
    place = tmp_path / "run"
    wanted = run(returns="last")
    for at in (3, 9):  # each begins with a save
        killed(place, at, returns="last")
    content = bytearray(place.read_bytes())
    content[len(content) // 2] ^= 4
    place.write_bytes(content)
    with pytest.warns(UserWarning, match="is damaged and was skipped"):
        found = run(returns="last", checkpoint=place)
    same(found, wanted)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 4}, "belongs to other data or arguments"),
        ({"method": "SCCD"}, "belongs to other data or arguments"),
        ({"x0": np.ones(6)}, "belongs to other data or arguments"),
        *(
            ({k: v}, "belongs to other")
            for k, v in [("reg", L1(0.02)), ("L", 3.0), ("L", [2.0] * 3)]
        ),
        ({"resume": 3}, "give resume= or checkpoint=, not both"),
        ({"n": None, "stream": iter([])}, "an iterator cannot be wound forward"),
    ],
)
def test_what_does_not_fit_is_refused(change: Any, message: str, tmp_path: Path) -> None:
    run(checkpoint=tmp_path / "run", max_cycles=1)
    with pytest.raises(ValueError, match=message):
        run(checkpoint=tmp_path / "run", **change)
    with pytest.raises(TypeError, match="checkpoint must be None or a path"):
        run(checkpoint=3)
