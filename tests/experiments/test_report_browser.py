"""The page in a real browser: it draws what the statistics say, and its controls work."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from made_up_runs import fig1, make

from cyclade.experiments import RunConfig
from cyclade.experiments.report import report
from cyclade.experiments.report.board import read, value
from cyclade.experiments.report.groups import by_epoch

pytest.importorskip("selenium", reason="selenium is not installed")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="no browser: apt-get install chromium chromium-driver",
)

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--window-size=1200,900",
)  # fmt: skip
EPOCHS = 8


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in FLAGS:
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = Service(executable_path=DRIVER)  # a given path: nothing is looked for online
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fig1(tmp_path_factory.mktemp("fig1"), epochs=EPOCHS)


@pytest.fixture(autouse=True)
def unprinted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)


class Page:
    """A report in the browser."""

    def __init__(self, driver: Any, path: Path) -> None:
        self.driver = driver
        self.requests()  # of the page before
        driver.get_log("browser")
        driver.get(path.as_uri())

    def script(self, text: str, *arguments: Any) -> Any:
        return self.driver.execute_script(text, *arguments)

    def all(self, selector: str) -> list[Any]:
        return list(self.driver.find_elements("css selector", selector))

    def one(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def paths(self, selector: str = "path.line") -> list[list[str]]:
        """The outlines of such paths, figure by figure."""
        found: list[list[str]] = self.script(
            "return [...document.querySelectorAll('.plot svg')].map(s => "
            "[...s.querySelectorAll(arguments[0])].map(p => p.getAttribute('d')))",
            selector,
        )
        return found

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self.script(
            "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector
        )
        return found

    def choose(self, control: str, key: str) -> None:
        from selenium.webdriver.support.select import Select

        Select(self.one(f"#{control}")).select_by_value(key)

    def requests(self) -> list[str]:
        """What this page has asked for; the browser's own pages ask for things of theirs."""
        entries = (json.loads(e["message"]) for e in self.driver.get_log("performance"))
        return [
            e["message"]["params"]["request"]["url"]
            for e in entries
            if e["message"]["method"] == "Network.requestWillBeSent"
            and e["message"]["params"]["documentURL"] == self.driver.current_url
        ]

    def errors(self) -> list[Any]:
        return list(self.driver.get_log("browser"))

    def press(self, key: str) -> None:
        self.driver.switch_to.active_element.send_keys(key)

    @contextmanager
    def shown(self, *, width: int = 0, **media: Any) -> Iterator[None]:
        """On another kind of screen, or on paper."""
        if media:
            self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        if width:
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
            self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
            self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})

    def fits(self) -> None:
        """Nothing scrolls sideways."""
        inner, whole = self.script("return [innerWidth, document.documentElement.scrollWidth]")
        assert whole <= inner


Open = Callable[[Path], Page]


@pytest.fixture
def opened(chromium: Any) -> Iterator[Open]:
    """Makes the report of a folder and opens it; in the end there were no errors."""
    pages: list[Page] = []

    def open_page(root: Path) -> Page:
        pages.append(Page(chromium, report(root)))
        return pages[-1]

    yield open_page
    assert pages[-1].errors() == []


@pytest.fixture
def page(opened: Open, root: Path) -> Page:
    return opened(root)


def points(outline: str) -> Any:
    """The coordinates of a path; anything that is not a number is an error."""
    assert re.fullmatch(r"(?:[ML]-?[\d.]+,-?[\d.]+)+Z?", outline), outline
    return np.array(re.findall(r"(-?[\d.]+),(-?[\d.]+)", outline), dtype=float)


def test_it_loads_without_errors_and_asks_for_nothing(chromium: Any, root: Path) -> None:
    path = report(root)
    page = Page(chromium, path)
    assert page.errors() == []
    asked = page.requests()
    assert path.as_uri() in asked
    assert set(asked) <= {path.as_uri(), "data:,"}
    assert chromium.title == "Figure 1 & </script><b>more</b>"
    assert page.texts("h1") == [chromium.title]
    assert len(page.all("script")) == 2


def test_ticks_are_told_apart_however_close(opened: Open, tmp_path: Path) -> None:
    def close(epoch: int) -> dict[str, float]:
        return {"train_loss": 2.30451 + 1e-5 * epoch, "test_accuracy": 0.1}

    make(tmp_path / "a", RunConfig(epochs=3), changed=close)
    page = opened(tmp_path)
    for number in (1, 2):
        ticks = page.texts(f".plot:nth-of-type({number}) text:not(.axis)")
        heights = [tick for tick in ticks if "." in tick]
        assert len(set(heights)) == len(heights) >= 3


@pytest.mark.parametrize("x", ["epoch", "seconds", "samples"])
def test_lines_are_the_means_and_bands_the_ranges(page: Page, root: Path, x: str) -> None:
    page.choose("x", x)
    board = read(root)
    figures = [(panel, y) for panel in board.panels for y in board.columns]
    lines, bands = page.paths(), page.paths("path.band")
    for (panel, y), drawn, spreads in zip(figures, lines, bands, strict=True):
        wanted, given = [], []
        for (_, group), line, band in zip(panel.members, drawn, spreads, strict=True):
            at, known = (by_epoch(group.averaged, value(key)) for key in (x, y))
            placed, around = points(line), points(band)
            wanted += [(at[epoch].mean, one.mean) for epoch, one in known.items()]
            wanted += [(at[epoch].mean, one.high) for epoch, one in known.items()]
            wanted += [(at[epoch].mean, one.low) for epoch, one in reversed(known.items())]
            given += [*placed, *around]
        for axis in (0, 1):  # pixels are an affine image of the numbers, the same for all
            numbers = np.array([pair[axis] for pair in wanted], dtype=float)
            pixels = np.array([pair[axis] for pair in given])
            slope, start = np.polyfit(numbers, pixels, 1)
            assert np.abs(slope * numbers + start - pixels).max() < 0.05
            assert (slope > 0) == (axis == 0)


def test_the_legend_works_by_keyboard_and_may_hide_everything(page: Page) -> None:
    for key, button in zip("\ue00d\ue007\ue00d\ue007", page.all("#legend .entry"), strict=True):
        button.send_keys(key)  # space, enter
        assert button.get_attribute("aria-pressed") == "false"
    assert page.paths() == [[], [], [], []]
    assert page.texts("text.empty") == ["nothing to draw on these axes"] * 4
    page.one("#show-all").click()
    assert [len(figure) for figure in page.paths()] == [4, 4, 4, 4]
    assert not page.one("#show-all").is_displayed()


def test_axes_can_be_switched(page: Page) -> None:
    from selenium.webdriver.support.select import Select

    offered = [o.get_attribute("value") for o in Select(page.one("#x")).options]
    assert offered == [
        "epoch", "samples_paper", "samples", "multiply_adds", "seconds", "seconds_alone",
    ]  # fmt: skip
    labels, outlines = set(), set()
    for key in offered:
        page.choose("x", key)
        (label,) = set(page.texts("text.x-label"))
        labels.add(label)
        outlines.add(str(page.paths()[0]))
        assert all(np.isfinite(points(o)).all() for figure in page.paths() for o in figure)
    assert len(labels) == len(offered)
    # Epochs and the paper's samples are multiples of each other here, and so look alike.
    assert len(outlines) == len(offered) - 1
    page.choose("y1", "train_accuracy")
    assert page.texts("text.y-label") == ["train loss", "train accuracy"] * 2


def test_what_was_not_timed_is_said_to_be_missing(page: Page) -> None:
    page.choose("x", "seconds_alone")
    assert [len(figure) for figure in page.paths()] == [4, 4, 0, 0]
    assert page.texts("text.empty") == ["nothing to draw on these axes"] * 2
    note = page.one("#band-note").text
    assert "Not known on this axis: SGD (with spectral normalisation); SCCD (with" in note
    page.choose("x", "epoch")
    assert "Not known" not in page.one("#band-note").text


def test_the_loss_may_be_logarithmic(page: Page) -> None:
    before = page.paths()
    page.one("#log").click()
    after = page.paths()
    assert after[0] != before[0]
    assert after[1] == before[1]  # accuracies stay as they are
    placed = points(after[0][1])
    losses = [one.mean for one in _sccd(page)]
    slope, start = np.polyfit(np.log(losses), placed[:, 1], 1)
    assert np.abs(slope * np.log(losses) + start - placed[:, 1]).max() < 0.05


def _sccd(page: Page) -> Any:
    place = Path(page.driver.current_url.removeprefix("file://")).parent
    board = read(place)
    return [*by_epoch(board.panels[0].members[1][1].averaged, value("train_loss")).values()]


def test_the_spread_can_be_chosen_and_is_said(page: Page) -> None:
    assert "lowest to the highest seed" in page.one("#band-note").text
    ranges = page.paths("path.band")
    page.choose("band", "sd")
    assert "standard deviation" in page.one("#band-note").text
    assert page.paths("path.band") != ranges
    page.choose("band", "seeds")
    assert page.paths("path.band") == [[], [], [], []]
    assert [len(figure) for figure in page.paths("path.single")] == [12] * 4
    page.choose("band", "none")
    assert page.paths("path.single") == [[], [], [], []]


def test_pointing_reads_values(page: Page) -> None:
    from selenium.webdriver import ActionChains

    svg = page.one(".plot svg")
    box = page.script(
        "const b = document.querySelector('.plot path.line').getBoundingClientRect();"
        "const s = document.querySelector('.plot svg').getBoundingClientRect();"
        "return [b.right - s.left - s.width / 2]"
    )
    ActionChains(page.driver).move_to_element_with_offset(svg, int(box[0]), 0).perform()
    text = page.one("#readout").text
    end = _sccd(page)[-1]
    assert f"epoch {EPOCHS}" in text
    assert f"SCCD\n{end.mean:.4f} ± {end.sd:.4f}" in text.replace("SCCD ", "SCCD\n")
    assert "3 seeds" in text
    assert len(page.all(".pointer circle")) == 4
    ActionChains(page.driver).move_to_element(page.one("h1")).perform()
    assert not page.one("#readout").is_displayed()


def test_keys_read_values(page: Page) -> None:
    page.script("document.querySelector('.plot svg').focus()")
    page.press("\ue014")  # arrow right
    assert page.one("#readout").is_displayed()
    first = page.one("#readout").text
    page.press("\ue014" * 12)
    assert page.one("#readout").text != first
    page.press("\ue00c")  # escape
    assert not page.one("#readout").is_displayed()


def test_dragging_looks_closer_in_all_figures(page: Page) -> None:
    from selenium.webdriver import ActionChains

    before = page.paths()
    drag = ActionChains(page.driver).move_to_element(page.one(".plot svg"))
    drag.click_and_hold().move_by_offset(120, 0).release().perform()
    closer = page.paths()
    assert all(a != b for a, b in zip(before, closer, strict=True))
    page.one("#whole").click()
    assert page.paths() == before
    assert not page.one("#whole").is_displayed()


def test_a_figure_can_be_saved_by_itself(page: Page, root: Path) -> None:
    text = page.script("return Chart.standalone(document.querySelector('.plot svg'))")
    svg = ElementTree.fromstring(text)
    lines = [path for path in svg.iter("{http://www.w3.org/2000/svg}path") if path.get("fill")]
    inks = {channels(path.get("stroke", "")) for path in lines}
    assert {rgb(entry.style.light) for entry in read(root).entries} <= inks
    assert "var(" not in text


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(page: Page, root: Path, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    with page.shown(features=features):
        inks = page.script(
            "return [...document.querySelectorAll('.plot svg')].map(s => [...s.querySelectorAll("
            "'path.line')].map(p => getComputedStyle(p).stroke))"
        )
    styles = [entry.style for entry in read(root).entries]
    wanted = [rgb(style.dark if scheme == "dark" else style.light) for style in styles]
    assert [list(map(channels, figure)) for figure in inks] == [wanted] * 4


def rgb(colour: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(colour[1:]))


def channels(colour: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", colour)[:3])


@pytest.mark.parametrize("width", [1280, 390])
def test_how_runs_ended_is_seen_without_scrolling(opened: Open, tmp_path: Path, width: int) -> None:
    base = RunConfig(epochs=4, batch=64)
    make(tmp_path / "a", base)
    make(tmp_path / "b", replace(base, seed=1), epochs=3, status="diverged")
    make(tmp_path / "c", replace(base, method="SGD", spectral="step"))
    page = opened(tmp_path)
    with page.shown(width=width):
        page.driver.refresh()
        page.fits()
        cell = page.one("table.ends td.bad")
        assert "diverged: seed 1" in cell.text
        left, right = page.script(
            "const b = arguments[0].getBoundingClientRect(); return [b.left, b.right]", cell
        )
        assert 0 <= left < right <= width
        # The first column stays where the rest scrolls.
        before, after = page.script(
            "const s = document.querySelector('table.ends').parentElement, "
            "c = s.querySelector('tbody td'), x = () => c.getBoundingClientRect().left - "
            "s.getBoundingClientRect().left; const b = x(); s.scrollLeft = 80; return [b, x()]"
        )
        assert before == after == 0


def test_lines_are_named_at_their_ends(page: Page) -> None:
    names = page.script(
        "return [...document.querySelectorAll('.plot svg')].map(s => "
        "[...s.querySelectorAll('text.name')].map(t => [t.textContent, t.getBBox().y, t.getBBox().x"
        ", t.getBBox().width, s.viewBox.baseVal.width]))"
    )
    for figure in names:
        assert {name for name, *_ in figure} == {"SGD", "SCCD", "PAGE", "VRO-CCD"}
        heights = sorted(y for _, y, *_ in figure)
        assert min(b - a for a, b in pairwise(heights)) > 11
        assert all(x + width <= whole for _, _, x, width, whole in figure)
    assert not page.one("#legend .key").is_displayed()


def test_long_names_are_numbers_of_the_legend(opened: Open, tmp_path: Path) -> None:
    for spectral in (None, "step"):
        make(tmp_path / str(spectral), RunConfig(epochs=3, spectral=spectral))
    (tmp_path / "plan.json").write_text('{"panels": {"split_by": "method"}}')
    page = opened(tmp_path)
    with page.shown(width=390):
        page.driver.refresh()
        assert set(page.texts("text.name")) == {"1", "2"}
        assert [key.text for key in page.all("#legend .key")] == ["1", "2"]


def test_a_spike_is_marked_at_the_edge(opened: Open, tmp_path: Path) -> None:
    def spike(epoch: int) -> dict[str, float]:
        return {"train_loss": 20.0} if epoch == 20 else {}

    make(tmp_path / "a", RunConfig(epochs=40), changed=spike)
    page = opened(tmp_path)
    assert [len(figure) for figure in page.paths("path.beyond")] == [1, 0]
    assert "SCCD: up to 20 at epoch 20" in page.texts("path.beyond title")[0]
    assert "SCCD: up to 20 at epoch 20" in page.one("#beyond-note").text
    heights = points(page.paths()[0][0])[:, 1]
    calm = np.delete(heights, 20)
    assert np.ptp(calm) > 100  # the rest is not flat


def test_ends_by_batch_have_an_axis_of_their_own(opened: Open, tmp_path: Path) -> None:
    for size in (32, 64, 256):
        for seed in range(2):
            config = RunConfig(epochs=3, batch=size, seed=seed)
            make(tmp_path / config.slug(), config)
    (tmp_path / "plan.json").write_text('{"panels": {"split_by": "batch"}}')
    lost = RunConfig(epochs=3, batch=256, seed=2)
    make(tmp_path / "lost", lost, status="diverged")
    make(tmp_path / "kept", replace(lost, batch=32))
    make(tmp_path / "also kept", replace(lost, batch=64))
    page = opened(tmp_path)
    assert len(page.all("circle.open")) == 2  # of three runs at b = 256 one diverged
    assert page.texts("text.x-label") == ["b, images in a batch"] * 2 + ["epoch"] * 6
    ticks = page.texts(".plot:nth-of-type(1) text:not(.axis):not(.name)")
    assert {"32", "64", "256"} <= set(ticks)
    xs = [float(c.get_attribute("cx")) for c in page.all(".plot:nth-of-type(1) circle.dot")]
    assert (xs[2] - xs[1]) / (xs[1] - xs[0]) == pytest.approx(2, abs=0.01)  # by factors of 2
    page.choose("x", "seconds")
    assert page.texts("text.x-label")[:2] == ["b, images in a batch"] * 2
    page.script("document.querySelector('.plot svg').focus()")
    page.press("\ue014")
    assert "b, images in a batch" in page.one("#readout").text


def test_diverged_unfinished_and_single_runs(opened: Open, tmp_path: Path) -> None:
    base = RunConfig(epochs=6, batch=64)
    make(tmp_path / "</script><img src=x onerror=alert(1)>".replace("/", "∕"), base)
    make(tmp_path / "b", replace(base, seed=1), epochs=3, status="unfinished")
    make(tmp_path / "c", replace(base, seed=2), epochs=4, status="diverged")
    make(tmp_path / "d", replace(base, method="SGD"), epochs=4, status="diverged")
    make(tmp_path / "e", replace(base, method="PAGE", epochs=1))
    page = opened(tmp_path)
    # SCCD: a line to epoch 3 of two seeds, and a faded one on of the one that is left.
    whole, few = page.paths("path.line.e1")[0]
    assert (len(points(whole)), len(points(few))) == (4, 4)
    assert len(page.all(".plot path.few")) == 2
    assert [len(figure) for figure in page.paths("path.cross")] == [2, 2]
    assert [len(figure) for figure in page.paths("path.band")] == [1, 1]  # single seeds: no band
    # A run on its way to 1e30 does not set the scale.
    assert points(whole)[:, 1].max() - points(whole)[:, 1].min() > 50
    assert "diverged: seed 2 in epoch 4" in page.one("table.ends").text
