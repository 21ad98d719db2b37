"""Every parser of files, on texts and on good files of which a value, a line or a bit is another.

The outcome is a value, or a `UserError` that names what is wrong: no other error, and no code run.
"""

from __future__ import annotations

import copy
import io
import json
import pickle
import shutil
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cyclade.experiments import RunConfig, archive
from cyclade.experiments.config import value_of
from cyclade.experiments.folder import ABOUT, CONFIG, DONE, HISTORY, Row, RunFolder
from cyclade.experiments.plans import PAPER, Settings
from cyclade.experiments.report.files import read_plan, read_searches, read_timing
from cyclade.experiments.reproduce import _check_folder
from cyclade.files import objects, sealed
from cyclade.files.checkpoint import Kept
from cyclade.files.disk import as_json, as_toml, is_plain, write, write_json
from cyclade.files.errors import UserError, printable

fuzzed = settings(
    max_examples=settings.default.max_examples // 2,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TEXT = st.one_of(
    st.text(max_size=40),
    st.sampled_from(["", "..", "/x", "a/b", "\x1b[31m", "NaN", "1e999", "9" * 5000, "none", "con"]),
)
PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), TEXT,
    st.sampled_from([10**400, -(10**400), 2**63, float("inf"), float("nan"), -0.0, 5e-324]),
)  # fmt: skip
VALUES = st.recursive(
    PLAIN, lambda one: st.lists(one, max_size=4) | st.dictionaries(TEXT, one, max_size=4)
)


@st.composite
def changed(draw: Any, good: Any) -> Any:
    """A document of which something is another: a value, a key that is gone, or a new one."""
    document = copy.deepcopy(good)
    for _ in range(draw(st.integers(1, 3))):
        place: Any = document
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(place[key], dict | list) and draw(st.booleans()):
                place = place[key]
                continue
            how = draw(st.sampled_from(["change", "remove", "add"]))
            if how == "remove":
                del place[key]
            elif how == "add" and isinstance(place, dict):
                place[draw(TEXT)] = draw(VALUES)
            else:
                place[key] = draw(VALUES)
            break
    return document


def named(call: Callable[[], Any]) -> Any:
    """What comes out; None if it is refused by name."""
    try:
        return call()
    except UserError as error:
        said = str(error)
    assert said == printable(said)
    return None


@fuzzed
@given(TEXT | st.binary(max_size=60) | VALUES.map(json.dumps))
def test_json_and_toml(text: Any) -> None:
    with suppress(ValueError):
        as_json(text)
    if isinstance(text, str):
        with suppress(ValueError):
            as_toml(text)
        value_of(text)
        named(lambda: RunConfig.from_toml(text))


GOOD = RunConfig(dataset="digits", epochs=2, lr=0.1, device="cpu")


@fuzzed
@given(changed({k: v for k, v in asdict(GOOD).items() if v is not None}))
def test_configs(values: dict[str, Any]) -> None:
    config = named(lambda: RunConfig.from_dict(values))
    if config is not None:
        assert RunConfig.from_toml(config.to_toml()) == config


ROWS = [Row(k, k, k, k, 1.5 * k, 0.5 * k, 0.1, None if k == 0 else 2.0, 2.0, 0.5, None, 0.5)
        for k in range(3)]  # fmt: skip


@st.composite
def cut(draw: Any, good: str) -> str:
    """A text of which a piece is gone, is another, or stands twice."""
    a, b = sorted(draw(st.tuples(*[st.integers(0, len(good))] * 2)))
    new = draw(st.sampled_from(["", good[a:b] * 2, "\0", '"', "\n", "é"]) | TEXT)
    return good[:a] + new + good[b:]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has ended, and its pack."""
    root = tmp_path_factory.mktemp("made")
    place = RunFolder(root / "runs" / "one")
    place.claim(GOOD)
    place.add_start({"time": "2024-01-01T00:00:00+00:00", "versions": {"cyclade": "0"}})
    place.write_history(ROWS)
    place.finish("finished", 2)
    archive.pack(root / "runs", root / "pack")
    return root


def looked_at(place: Path) -> None:
    """All that is read of a run folder."""
    folder = RunFolder(place)
    folder.problem()
    for look in (folder.result, folder.history, folder.done, folder.config):
        named(look)
    for run in named(lambda: archive.find_runs(place)) or []:
        assert all(isinstance(start, dict) for start in run.starts)
    named(lambda: list(archive._records(place)))


@pytest.mark.parametrize("name", [CONFIG, HISTORY, ABOUT, DONE])
@fuzzed
@given(data=st.data())
def test_files_of_runs(name: str, data: Any, made: Path, tmp_path_factory: Any) -> None:
    place = tmp_path_factory.mktemp("run") / "one"
    shutil.copytree(made / "runs" / "one", place)
    good = (place / name).read_text()
    if name in (CONFIG, HISTORY) or data.draw(st.booleans()):
        write(place / name, data.draw(cut(good)).encode("utf-8", "surrogatepass"))
    else:
        content = json.loads(good)
        del content["sha256"]
        content = data.draw(changed(content) | VALUES)
        if isinstance(content, dict) and data.draw(st.booleans()):
            write_json(place / name, content)  # with a digest that fits
        else:
            write(place / name, json.dumps(content).encode())
    looked_at(place)


@fuzzed
@given(data=st.data())
def test_packs(data: Any, made: Path, tmp_path_factory: Any) -> None:
    """Whatever a pack says, nothing is written beside the folder it is unpacked into."""
    root = tmp_path_factory.mktemp("pack")
    shutil.copytree(made / "pack", root / "pack")
    file = root / "pack" / data.draw(st.sampled_from(["runs.jsonl", "histories.csv"]))
    if file.suffix == ".jsonl" and data.draw(st.booleans()):
        content = data.draw(changed(json.loads(file.read_text())) | VALUES)
        text = json.dumps(content)
    else:
        text = data.draw(cut(file.read_text()))
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    for run in named(lambda: archive.find_runs(root / "pack")) or []:
        assert all(isinstance(start, dict) for start in run.starts)
    named(lambda: archive.unpack(root / "pack", root / "target"))
    assert {path.name for path in root.iterdir()} <= {"pack", "target"}
    for path in (root / "target").rglob("*"):
        assert is_plain(path.relative_to(root / "target").as_posix())


PLAN = PAPER["fig1"](Settings(quick=True))


@fuzzed
@given(data=st.data())
def test_plans_times_and_searches(data: Any, tmp_path_factory: Any) -> None:
    root = tmp_path_factory.mktemp("plan")
    found = {"config": asdict(GOOD), "at_edge": False, "tried": [{"lr": 0.1, "status": "finished"}]}
    files = {
        "plan.json": json.loads(json.dumps(PLAN.described("cyclade reproduce fig1"))),
        "timing.json": {
            "rows": [{"method": "SGD", "seconds_per_epoch": 1.0, "seconds_per_iteration": 0.1}],
            "device": "cpu", "paper": {"SGD": [1.0, 2.0]},
        },
        "tune/tuned.json": {"tuned": [found]},
    }  # fmt: skip
    name = data.draw(st.sampled_from(list(files)))
    write_json(root / name, data.draw(changed(files[name])))
    for reader in (read_plan, read_timing, read_searches):
        named(lambda reader=reader: reader(root))
    if name == "plan.json":
        named(lambda: _check_folder(PLAN, root))


# ------------------------------------------------------------------------------- checkpoints


@st.composite
def flipped(draw: Any, good: bytes) -> bytes:
    """A file of which a piece is gone or a byte is another."""
    a, b = sorted(draw(st.tuples(*[st.integers(0, len(good))] * 2)))
    return draw(
        st.sampled_from([good[:a], good[a:], good[:a] + good[b:], good[:a] + b"\0" + good[a + 1 :]])
    )


def archive_of(**arrays: Any) -> bytes:
    made = io.BytesIO()
    np.savez(made, **arrays)
    return made.getvalue()


NPZ = archive_of(x=np.arange(40.0), k=np.array(3))


@fuzzed
@given(content=flipped(NPZ) | st.binary(max_size=200), seal=st.booleans())
def test_checkpoints_of_arrays(content: bytes, seal: bool, tmp_path_factory: Any) -> None:
    """Whoever can write the file can make its digest fit: even then it is arrays or an error."""
    kept = Kept(tmp_path_factory.mktemp("kept") / "fit", "run")
    if seal:
        with suppress(ValueError):  # it is no archive
            content = sealed.sealed(content, sealed.Label(sealed.FORMAT, kept.run, 0))
    kept.path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, said = None, str(kept.path)
        try:
            found = kept.load()
        except ValueError as error:
            said = str(error)
    assert str(kept.path) in said
    assert found is None or all(isinstance(a, np.ndarray) for a in found.values())


def saved(state: Any) -> bytes:
    made = io.BytesIO()
    torch.save(state, made)
    return made.getvalue()


STATE = saved({"epoch": 1, "states": {"w": torch.arange(6.0)}, "values": {}})


@fuzzed
@given(content=flipped(STATE) | st.binary(max_size=200), seal=st.booleans())
def test_checkpoints_of_nets(content: bytes, seal: bool, tmp_path_factory: Any) -> None:
    path = tmp_path_factory.mktemp("net") / "checkpoint.pt"
    if seal:
        with suppress(ValueError):
            content = sealed.sealed(content, sealed.Label(sealed.FORMAT, "run", 0))
    path.write_bytes(content)
    found = named(lambda: sealed.unpacked(path, "run", "cpu"))
    assert found is None or isinstance(found, dict)


@fuzzed
@given(flipped(pickle.dumps({"a": [1, 2.5, "x"], "b": (None, True)}, 4)) | st.binary(max_size=80))
def test_descriptions_of_runs(text: bytes) -> None:
    """Of a pickle only what is marked as part of a state is ever made."""
    reader = objects._Unpickler(text, [np.zeros(2)], None)
    plain = reader.find_class
    asked: list[Any] = []

    def find_class(module: str, name: str) -> Any:
        asked.append((module, name))
        return plain(module, name)

    reader.find_class = find_class  # type: ignore[method-assign]
    with suppress(Exception):
        reader.load()
    with pytest.raises(pickle.UnpicklingError, match="which is no state"):
        reader.find_class("os", "system")
