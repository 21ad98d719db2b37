"""`minimize(checkpoint=…)`: a run that dies goes on as if nothing had happened."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cyclade import L1, minimize
from cyclade.files.objects import packed, unpacked

rng = np.random.default_rng(0)
A, y = rng.standard_normal((60, 6)), rng.standard_normal(60)


class Died(Exception):
    pass


def fun(x: Any, idx: Any) -> Any:
    return 0.5 * np.mean((A[idx] @ x - y[idx]) ** 2)


def jac(x: Any, idx: Any) -> Any:
    return A[idx].T @ (A[idx] @ x - y[idx]) / len(idx)


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
        with pytest.raises(Died):
            run(**options, checkpoint=tmp_path / "run", callback=dying(at))
    found = run(**options, checkpoint=tmp_path / "run")
    same(found, wanted)
    assert found.cycles > 19
    again = run(**options, checkpoint=tmp_path / "run")
    same(again, wanted)


def test_a_run_that_died_past_its_limit_looks_where_it_stands(tmp_path: Path) -> None:
    options = {"method": "P-CCD", "accelerate": False, "every": 50}
    with pytest.raises(Died):
        run(**options, checkpoint=tmp_path / "run", callback=dying(8))
    found = run(**options, checkpoint=tmp_path / "run", max_cycles=1)
    assert found.history["cycle"] == [0, found.cycles]
    assert found.fun < found.history["fun"][0]


def test_torch_and_structures(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    At, yt = torch.tensor(A), torch.tensor(y)

    def net(x: Any, idx: Any) -> Any:
        return 0.5 * ((At[idx, :2] @ x["a"] + At[idx, 2:] @ x["b"][0] - yt[idx]) ** 2).mean()

    x0 = {"a": torch.zeros(2, dtype=torch.float64), "b": [torch.zeros(4, dtype=torch.float64)]}
    options = {"fun": net, "x0": x0, "jac": None, "blocks": None, "method": "VRO-CCD"}
    wanted = run(**options)
    with pytest.raises(Died):
        run(**options, checkpoint=tmp_path / "run", callback=dying(9))
    found = run(**options, checkpoint=tmp_path / "run")
    for one, two in ((found.x["a"], wanted.x["a"]), (found.x["b"][0], wanted.x["b"][0])):
        assert isinstance(one, torch.Tensor)
        assert torch.equal(one, two)


def test_a_stream_goes_on(tmp_path: Path) -> None:
    def stream(rng: np.random.Generator, size: int) -> Any:
        rows = rng.standard_normal((size, 6))
        return rows, rows[:, 0]

    def loss(x: Any, batch: Any) -> Any:
        return 0.5 * np.mean((batch[0] @ x - batch[1]) ** 2)

    def slope(x: Any, batch: Any) -> Any:
        return batch[0].T @ (batch[0] @ x - batch[1]) / len(batch[1])

    options = {"fun": loss, "jac": slope, "n": None, "stream": stream, "b": 40, "L": 2.0}
    wanted = run(**options)
    with pytest.raises(Died):
        run(**options, checkpoint=tmp_path / "run", callback=dying(9))
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
        with pytest.raises(Died):
            run(returns="last", checkpoint=place, callback=dying(at))
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


class Bomb:
    def __reduce__(self) -> Any:
        return print, ("this must not run",)


def test_reading_runs_no_code(capsys: pytest.CaptureFixture[str]) -> None:
    state = run(max_cycles=3).state
    content = packed(state, state.state.x.layout)
    assert unpacked(content, state.state.x.layout).state.k == 3
    content["description"] = np.frombuffer(pickle.dumps(Bomb()), np.uint8)
    with pytest.raises(pickle.UnpicklingError, match="which is no state"):
        unpacked(content, state.state.x.layout)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("change", [{"reg": L1(0.02)}, {"L": 3.0}, {"L": [3.0, 2.0, 2.0]}])
def test_another_regulariser_or_step_is_another_run(change: Any, tmp_path: Path) -> None:
    run(checkpoint=tmp_path / "run", L=2.0)
    run(checkpoint=tmp_path / "run", L=2.0, reg=L1(0.01))
    with pytest.raises(ValueError, match="belongs to other data or arguments"):
        run(checkpoint=tmp_path / "run", **{"L": 2.0, **change})
