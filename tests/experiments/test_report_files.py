"""What a report writes: whole files, the same every time, whatever the folders are called."""

from __future__ import annotations

import base64
import json
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_up_runs import fig1, make

from cyclade.experiments import ExperimentError, RunConfig, pack
from cyclade.experiments.report import report, summary

BASE = RunConfig(epochs=4, batch=64)
NASTY = "</script><script>alert(1)<!-- & {{js}}"


@pytest.fixture
def unprinted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page alone, which is quick."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


class Elements(HTMLParser):
    """Every element with its attributes, and the text of the page's data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_the_page_and_its_figures(tmp_path: Path) -> None:
    root = fig1(tmp_path / "fig1", seeds=2, epochs=3)
    path = report(root)
    assert path == root / "report.html"
    names = sorted(file.name for file in (root / "figures").iterdir())
    assert names == [
        f"fig1{axis}.{ending}"
        for axis in ("-by-multiply-adds", "-by-samples", "-by-seconds-alone", "")
        for ending in ("pdf", "png")
    ]
    assert (root / "figures" / "fig1.png").read_bytes().startswith(b"\x89PNG")
    assert (root / "figures" / "fig1.pdf").read_bytes().startswith(b"%PDF")
    text = path.read_text("utf-8")
    for said in (
        "Which one?", "SCCD beats SGD", "cyclade reproduce fig1", "a note {{js}}", "a device",
        "A &amp; B &lt;cpu&gt;", "weight_decay = 0.0005", "up to 4 runs side by side",
    ):  # fmt: skip
        assert said in text
    # Without JavaScript there is a picture.
    (picture,) = re.findall(r'<noscript><img [^>]*src="data:image/png;base64,([^"]+)"', text)
    assert base64.b64decode(picture).startswith(b"\x89PNG")


@pytest.mark.usefixtures("unprinted")
def test_nothing_is_asked_for_from_elsewhere(tmp_path: Path) -> None:
    elements = Elements(report(fig1(tmp_path, seeds=1, epochs=2)).read_text("utf-8")).found
    for tag, attributes in elements:
        for name in ("src", "href", "action", "srcset"):
            address = attributes.get(name)
            here = ("figures/", "data:", "#")
            assert address is None or address.startswith(here), (tag, address)
    policy = [a["content"] for t, a in elements if a.get("http-equiv")]
    assert policy[0] is not None
    assert "default-src 'none'" in policy[0]


def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    make(root / "a", BASE)
    make(root / "b", RunConfig(epochs=4, batch=64, seed=1))
    first = report(root, tmp_path / "a" / "page.html").parent
    second = report(root, tmp_path / "b" / "page.html").parent
    files = sorted(path.relative_to(first) for path in first.rglob("*") if path.is_file())
    assert len(files) == 9
    for file in files:
        assert (first / file).read_bytes() == (second / file).read_bytes(), file
    assert not list(tmp_path.rglob(".*"))  # no half-written file is left


def test_names_cannot_break_out_of_the_page(tmp_path: Path) -> None:
    make(tmp_path / NASTY.replace("/", "∕"), BASE)
    plan = {"name": NASTY, "title": NASTY, "command": NASTY, "notes": [NASTY]}
    plan |= {"panels": {"y": ["train_loss"]}}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    text = report(tmp_path).read_text("utf-8")
    plain = Elements(text).found
    assert [tag for tag, _ in plain].count("script") == 2
    assert "alert(1)<" not in text
    (data,) = re.findall(r'id="data">(.*?)</script>', text)
    assert json.loads(data)["columns"] == ["train_loss"]
    assert all(re.fullmatch(r"[\w.-]+", file.name) for file in (tmp_path / "figures").iterdir())


@pytest.mark.usefixtures("unprinted")
def test_one_run_alone_and_one_that_has_only_begun(tmp_path: Path) -> None:
    make(tmp_path / "run", RunConfig(method="SGD"), status="unfinished")
    (tmp_path / "run" / "history.csv").unlink()
    with pytest.raises(ExperimentError, match="1 run, which has not begun"):
        report(tmp_path)
    make(tmp_path / "whole", BASE)
    assert "unfinished: seed 0 at epoch 0" in report(tmp_path).read_text("utf-8")
    text = report(tmp_path / "whole").read_text("utf-8")
    assert "Runs in whole" in text
    assert "1 run<" in text
    assert "matplotlib is not installed: pip install" in text
    assert not list(tmp_path.rglob("figures"))


def test_results_to_keep_have_one_picture_whatever_matplotlib_is_set_to(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    kept = pack(fig1(tmp_path / "fig1", seeds=1, epochs=2), tmp_path / "packed")
    text = report(kept).read_text("utf-8")
    assert [file.name for file in (kept / "figures").iterdir()] == ["fig1.png"]
    assert re.findall(r'href="(figures/[^"]+)"', text) == ["figures/fig1.png"]
    with matplotlib.rc_context({"lines.linewidth": 9, "font.size": 20}):
        again = report(kept, tmp_path / "b" / "p.html").parent / "figures/fig1.png"
        assert matplotlib.rcParams["font.size"] == 20
    assert again.read_bytes() == (kept / "figures" / "fig1.png").read_bytes()


def timed(root: Path) -> Path:
    """A plan of times alone, with the runs that were timed."""
    make(root / "runs" / "a", BASE)
    make(root / "runs" / "b", RunConfig(method="SGD", epochs=4, batch=64))
    plan = {"name": "table1", "content": {"timed": [{}], "curves": [], "shows": {}}}
    (root / "plan.json").write_text(json.dumps(plan))
    times = {"method": "SGD", "batch": 64, "seconds_per_epoch": 1.0, "seconds_per_iteration": 0.1}
    (root / "timing.json").write_text(json.dumps({"rows": [times], "device": "a device"}))
    return root


def test_runs_that_were_timed_have_no_curves_and_no_best(tmp_path: Path) -> None:
    text = report(timed(tmp_path)).read_text("utf-8")
    elements = Elements(text).found
    assert not any(attributes.get("id") in ("grid", "data") for _, attributes in elements)
    assert not any("best" in (attributes.get("class") or "") for _, attributes in elements)
    assert "Where the runs ended" not in text
    assert "1 configuration timed" in text
    assert "A &amp; B &lt;cpu&gt;" in text  # where they ran is said
    assert not (tmp_path / "figures").exists()
    shutil.rmtree(tmp_path / "runs")
    assert "a device" in report(tmp_path).read_text("utf-8")


def test_ends_by_a_number_that_was_varied_are_the_first_figure(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for size in (32, 64, 128):
        make(tmp_path / str(size), RunConfig(epochs=2, batch=size))
    plan = {"name": "batch", "panels": {"split_by": "batch"}}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    packed = pack(tmp_path, tmp_path / "packed")
    assert "Where the runs ended, by batch" in report(packed).read_text("utf-8")
    names = sorted(file.name for file in (packed / "figures").iterdir())
    assert names == ["batch-by-epoch.png", "batch.png"]


# --------------------------------------------------------------------------------------- errors


def test_a_folder_without_runs(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match=r"nothing to report: .* holds no runs"):
        report(tmp_path)
    with pytest.raises(ExperimentError, match="is not a folder"):
        summary(tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []


def test_out_must_be_a_file_that_can_be_written(tmp_path: Path) -> None:
    make(tmp_path / "runs" / "run", BASE)
    with pytest.raises(ExperimentError, match="is a folder"):
        report(tmp_path, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ExperimentError, match="cannot be written"):
        report(tmp_path, tmp_path / "file" / "page.html")
    (tmp_path / "figures").write_text("in the way")
    with pytest.raises(ExperimentError, match="cannot be written"):
        report(tmp_path)
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("plan.json", "{", "plan.json cannot be read"),
        ("plan.json", "[]", "must hold an object, got list"),
        ("plan.json", '{"panels": {"split_by": "colour"}}', "split_by must be of .* got 'colour'"),
        ("plan.json", '{"panels": {"x": "hours"}}', "panels.x must be of epoch, .* got 'hours'"),
        ("plan.json", '{"panels": {"y": ["joy"]}}', "panels.y must be of train_loss, .* got 'joy'"),
        ("plan.json", '{"panels": {"y": []}}', "panels.y must be a list"),
        ("plan.json", '{"panels": {"y": "train_loss"}}', "panels.y must be a list"),
        ("plan.json", '{"paper": [1]}', "is not a plan"),
        ("timing.json", "{}", "holds no times"),
        ("timing.json", '{"rows": [{"method": "SGD"}]}', "holds no times"),
        ("tune/tuned.json", '{"tuned": [{}]}', "tuned.json cannot be read"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, file: str, content: str, message: str) -> None:
    make(tmp_path / "run", BASE)
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(content)
    with pytest.raises(ExperimentError, match=message):
        report(tmp_path)
    assert not (tmp_path / "report.html").exists()
