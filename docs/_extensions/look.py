"""The built site in a headless browser: pictures of its pages, and what does not fit or read.

    python docs/_extensions/look.py docs/_build/html out/look [--all]

Pages are opened at 1280 and 390 pixels, in the light and in the dark theme, and printed to PDF from
the dark one. Reported are: a page that scrolls sideways, text with too little contrast (WCAG AA:
4.5, large text 3; on paper against white), pictures without words for those who cannot see them,
controls without a name, boxes that scroll and cannot be reached by the keyboard, levels of headings
that are left out, more than one or no top heading or main part, no skip link, and no language. Exit
1 if anything is found. Needs chromium, chromedriver. It takes any pages, also reports of runs:

    python docs/_extensions/look.py out out/look --page fig1/report.html
"""

from __future__ import annotations

import argparse
import base64
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
)  # fmt: skip
SOME = (
    "index.html", "start-linear.html", "methods.html", "choosing.html", "comparison.html",
    "when-not.html", "moving.html", "recipes.html", "extend/loss.html", "linear.html", "nets.html",
    "results.html", "benchmarks/linear.html", "gallery/index.html",
    "gallery/1_linear/plot_7_genes.html", "gallery/3_nets/plot_3_two_processes.html",
    "start-function.html", "releasing.html", "api/index.html", "api/linear.html", "api/core.html",
    "api/generated/cyclade.minimize.html", "design.html",
)  # fmt: skip
WIDTHS = {1280: 900, 390: 844}

CHECK = (Path(__file__).parent / "look.js").read_text("utf-8")


def main() -> None:
    """Look at the pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--all", action="store_true", help="every page, not only some")
    parser.add_argument("--page", nargs="+", default=SOME, metavar="NAME", help="these pages")
    options = parser.parse_args()
    site = options.site.resolve()
    pages = [site / name for name in options.page]
    if options.all:
        pages = [
            p for p in sorted(site.glob("**/*.html")) if not {"_files", "_static"} & set(p.parts)
        ]
    options.out.mkdir(parents=True, exist_ok=True)
    wrong = 0
    with tempfile.TemporaryDirectory() as profile:
        driver = browser(profile)
        try:
            for page in pages:
                for problem in look(driver, page, site, options.out, every=options.all):
                    print(problem)
                    wrong += 1
        finally:
            driver.quit()
    print(f"{len(pages)} pages looked at, {wrong} findings; pictures in {options.out}")
    sys.exit(1 if wrong else 0)


def browser(profile: str) -> Any:
    """Chromium, headless."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("chromium-browser") or ""
    driver = shutil.which("chromedriver")
    if not options.binary_location or driver is None:
        sys.exit("look: needs chromium and chromedriver (apt-get install chromium chromium-driver)")
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    return webdriver.Chrome(options=options, service=Service(executable_path=driver))


def look(driver: Any, page: Path, site: Path, out: Path, *, every: bool) -> list[str]:
    """What is wrong with a page; its pictures go to `out`, unless it is one of all."""
    name, problems = page.relative_to(site).as_posix(), []
    for theme in ("light", "dark"):
        for width, height in WIDTHS.items():
            driver.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride",
                {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
            )
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features(theme)})
            driver.get(page.as_uri())
            driver.execute_script(f"localStorage.setItem('mode', '{theme}');")
            driver.get(page.as_uri())
            where = f"{name} ({width} px, {theme})"
            problems += [f"{where}: {found}" for found in driver.execute_script(CHECK)]
            if not every:
                shot = out / f"{name.replace('/', '-')[:-5]}-{width}-{theme}.png"
                driver.save_screenshot(str(shot))
    # On paper: the dark theme is still on, as it is for a reader who prints from it.
    printing = {"media": "print", "features": features("dark")}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", printing)
    driver.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    problems += [f"{name} (print): {found}" for found in driver.execute_script(CHECK, "white")]
    if not every:
        driver.execute_script("window.dispatchEvent(new Event('afterprint'))")
        printed = driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": False})
        shot = out / f"{name.replace('/', '-')[:-5]}.pdf"
        shot.write_bytes(base64.b64decode(printed["data"]))
    return problems


def features(theme: str) -> list[dict[str, str]]:
    """What the reader prefers; without motion no colour is on its way when it is measured."""
    wanted = {"prefers-reduced-motion": "reduce", "prefers-color-scheme": theme}
    return [{"name": name, "value": value} for name, value in wanted.items()]


if __name__ == "__main__":
    main()
