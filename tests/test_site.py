"""What checks the site sees what is wrong, and what it counts is right."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).parent.parent / "docs" / "_extensions"
GOOD = (
    '<!doctype html><html lang="en"><head><title>t</title></head><body>'
    '<a class="skip-link" href="#main">Skip</a>'
    '<main id="main"><h1>A page</h1>{}</main></body></html>'
)


@pytest.fixture(scope="module")
def tools() -> Iterator[Any]:
    sys.path.insert(0, str(TOOLS))
    yield importlib.import_module
    sys.path.remove(str(TOOLS))


def test_links_that_lead_nowhere_are_seen(tools: Any, tmp_path: Path) -> None:
    links = tools("links")
    (tmp_path / "b.html").write_text('<p id="there">x</p>')
    page = tmp_path / "a.html"
    page.write_text(
        '<a href="b.html#there">x</a><a href="b.html#gone">x</a><img src="none.png">'
        '<a href="https://example.org">x</a><a href="#me" id="me">x</a><a href="#you">x</a>'
    )
    assert links.broken(page, tmp_path) == ["#you", "b.html#gone", "none.png"]


def test_lines_of_code_are_counted_without_words(tools: Any) -> None:
    source = '"""Doc."""\n\nX = 1  # why\n\n\ndef f():\n    """Doc\n    goes on."""\n    return X\n'
    count = tools("line_count").count
    assert count(source) == 3
    assert count(source, "f") == 2
    with pytest.raises(ValueError, match="g is there 0 times"):
        count(source, "g")


def test_docstrings_keep_their_mathematics(tools: Any) -> None:
    plain = tools("plain_docstrings").plain
    assert plain(["|x| of coef_ and `|x|`"]) == ["\\|x\\| of coef\\_ and `|x|`"]
    assert plain([">>> abs(x_) | y", "", "    text"]) == [">>> abs(x_) | y", "", "    text"]


BAD = {
    '<div style="width:3000px">wide</div>': "scrolls sideways",
    '<p style="color:#999;background:#fff">pale</p>': "contrast 2.8",
    '<p style="font-size:8px">small</p>': "text of 8 px",
    '<img src="x.png">': "no alt",
    "<button></button>": "no name",
    "<h1>another</h1>": "2 top headings",
    "<main>more</main>": "2 main parts",
    "<h2>a</h2><h4>b</h4>": "h4 after h2",
    '<div style="overflow-x:auto;width:90px"><pre>a line longer than that</pre></div>': "without a",
}


def test_what_does_not_fit_or_read_is_seen(tools: Any, tmp_path: Path) -> None:
    pytest.importorskip("selenium")
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        pytest.skip("no browser: apt-get install chromium chromium-driver")
    look = tools("look")
    driver = look.browser(str(tmp_path / "profile"))
    page = tmp_path / "page.html"
    try:
        page.write_text(GOOD.format("<p>Black on white.</p>"))
        driver.get(page.as_uri())
        assert driver.execute_script(look.CHECK) == []
        for markup, finding in BAD.items():
            page.write_text(GOOD.format(markup))
            driver.get(page.as_uri())
            found = driver.execute_script(look.CHECK)
            assert any(finding in line for line in found), (markup, found)
        page.write_text(GOOD.format('<p style="color:#fff;background:#000">white on black</p>'))
        driver.get(page.as_uri())
        assert driver.execute_script(look.CHECK) == []
        assert "contrast 1.00" in driver.execute_script(look.CHECK, "white")[0]
    finally:
        driver.quit()
