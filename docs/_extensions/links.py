"""Every link of the built site that stays within it leads somewhere.

    python docs/_extensions/links.py docs/_build/html

Pages, anchors, pictures, style sheets and scripts are looked for in the built folder. Links to
other hosts are not followed; they are counted. Exit 1 if one leads nowhere.
"""

from __future__ import annotations

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Where a page leads, and the places in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note links and anchors."""
        found = dict(attrs)
        self.targets += [v for k in ("href", "src") if (v := found.get(k))]
        self.places |= {v for k in ("id", "name") if (v := found.get(k))}


@cache
def page(path: Path) -> Page:
    """A page, read once."""
    return Page(path)


def broken(path: Path, site: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    found = []
    for link in page(path).targets:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        name = unquote(parts.path)
        target = path if not name else (site / name[1:] if name[0] == "/" else path.parent / name)
        target = (target / "index.html" if target.is_dir() else target).resolve()
        anchor = unquote(parts.fragment)
        if not target.exists() or (
            anchor and target.suffix == ".html" and anchor not in page(target).places
        ):
            found.append(link)
    return sorted(set(found))


def main() -> None:
    """Check every page."""
    site = Path(sys.argv[1]).resolve()
    pages = [p for p in sorted(site.glob("**/*.html")) if not {"_files", "_static"} & set(p.parts)]
    wrong = {p: found for p in pages if (found := broken(p, site))}
    for path, found in wrong.items():
        print(f"{path.relative_to(site)}: {', '.join(found)}")
    others = {t for p in pages for t in page(p).targets if urlsplit(t).netloc}
    print(
        f"{len(pages)} pages, {len(others)} addresses elsewhere, {len(wrong)} pages with bad links"
    )
    sys.exit(1 if wrong or not pages else 0)


if __name__ == "__main__":
    main()
